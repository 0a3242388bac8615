/* Functions for Python: leading axes, rows stretched along axes, pulse_renew, sums of squares, and grow. See also
   core_pulse_calls.h. */

static void axes_space(Axes *job, Space_of_call *space, size_t size) {
    const double m = (double)job->size, found = (double)job->found, units = (double)job->units;
    const double wide = (double)quads(job->size);
    space->used = 0;
    job->place = piece(space, m + 1, sizeof(ptrdiff_t));
    job->partial = piece(space, units * m * m, sizeof(double));
    job->gram = piece(space, m * wide, sizeof(double));
    job->vectors = piece(space, m * wide, sizeof(double));
    job->values = piece(space, m, sizeof(double));
    job->work = piece(space, 6 * wide, sizeof(double));
    job->rotations = piece(space, 2 * m, sizeof(Rotation));
    job->fourths = piece(space, units * found, sizeof(double));
    job->coefficients = piece(space, found * m, size);
}

/* Set the arrays and sizes of a job. */
static void rows_to(Axes *job, const Py_buffer *rows, char *axes, const Py_buffer *all, ptrdiff_t wanted,
                    double *sizes) {
    job->n = columns(rows);
    job->count = rows->shape[0];
    job->size = smaller(job->count, job->n);
    job->found = smaller(wanted, job->size);
    job->width = job->count > job->n ? larger(1, job->n) : unit_width(job->n);
    job->units = larger(1, (job->n + job->width - 1) / job->width);
    job->rows = rows->buf;
    job->stride = row_stride(rows);
    job->axes = axes;
    job->axes_stride = row_stride(all);
    job->sizes = sizes;
}

static int fits(const Py_buffer *rows, const char *name) {
    if (smaller(rows->shape[0], columns(rows)) <= MOST_ROWS) return 1;
    PyErr_Format(PyExc_ValueError, "%s must have at most %d rows or columns, got shape (%zd, %zd)", name, MOST_ROWS,
                 rows->shape[0], columns(rows));
    return 0;
}

/* The leading axes of a job, `wanted` of them, and the sums of their fourth powers; -1 if there is no memory. */
static int lead(Axes *job, const Kernels *kernels, ptrdiff_t wanted, double *fourths, size_t size, int threads) {
    const size_t block = BLOCK_OF(size == sizeof(float));
    const size_t wide = (size_t)(job->size + job->found) * block,
                 tall = (2 * ROWS + (size_t)job->size) * (MOST_ROWS + MOST_MIX_COLS);
    Space_of_call space = {NULL, 0};
    for (ptrdiff_t i = job->found; i < wanted; i++) {
        memset((char *)job->axes + (size_t)(i * job->axes_stride) * size, 0, (size_t)job->n * size);
        job->sizes[i] = fourths[i] = 0.0;
    }
    if (!job->found) return 0;
    axes_space(job, &space, size);
    char *borrowed = borrow(space.used + ALIGNMENT);
    if (!borrowed) return -1;
    space.memory = borrowed + (ALIGNMENT - (uintptr_t)borrowed % ALIGNMENT);
    axes_space(job, &space, size);
    Team team = {.work = {kernels->axes_gram, kernels->axes_combine},
                 .between = kernels->axes_eigen,
                 .phases = 2,
                 .job = job,
                 .units = job->units,
                 .scratch = (wide > tall ? wide : tall) * size};
    const int status = run_team(threads, &team);
    for (ptrdiff_t i = 0; status == 0 && i < job->found; i++) {
        fourths[i] = 0.0;
        for (ptrdiff_t unit = 0; unit < job->units; unit++) fourths[i] += job->fourths[unit * job->found + i];
    }
    give_back(borrowed);
    return status;
}

/* Limits below which eigenvalues count as 0: (SMALLEST, LOST) of reference_pulse.py. */
static int kept_of(PyObject *object, Axes *job) {
    double *const limit[] = {&job->smallest, &job->lost};
    return reals_of(object, "constants", COUNT_OF(limit), limit);
}

/* leading_axes(rows, axes, sizes, fourths, constants, threads) */
static PyObject *leading_axes(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Axes job = {.units = 0};
    Py_buffer *rows, *axes, *sizes, *fourths;
    int threads, status;
    if (expect("leading_axes", count, 6)) return NULL;
    if (!(rows = array(&views, args[0], "rows", 2, "df", 0)) ||
        !(axes = array_like(&views, args[1], "axes", 2, rows, 1)) ||
        !has_shape(axes, "axes", axes->shape[0], columns(rows)) ||
        !(sizes = array(&views, args[2], "sizes", 1, "d", 1)) || !has_shape(sizes, "sizes", 1, axes->shape[0]) ||
        !(fourths = array(&views, args[3], "fourths", 1, "d", 1)) ||
        !has_shape(fourths, "fourths", 1, axes->shape[0]) || kept_of(args[4], &job) ||
        (threads = thread_count(args[5], rows->shape[0] * columns(rows))) < 0 || !fits(rows, "rows")) {
        release(&views);
        return NULL;
    }
    rows_to(&job, rows, axes->buf, axes, axes->shape[0], sizes->buf);
    const Kernels *kernels = kernels_for(self, rows);
    Py_BEGIN_ALLOW_THREADS
    status = lead(&job, kernels, axes->shape[0], fourths->buf, (size_t)rows->itemsize, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* Stretch the rows of a job along `k` axes; return -1 if there is no memory. */
static int stretch_all(Stretch *job, const Kernels *kernels, ptrdiff_t k, size_t size, int threads) {
    const size_t block = BLOCK_OF(size == sizeof(float));
    ptrdiff_t longs;
    int status = -1;
    job->width = unit_width(job->n);
    job->units = larger(1, (job->n + job->width - 1) / job->width);
    job->pick = malloc((size_t)(k + 1) * sizeof(ptrdiff_t));
    if (job->pick) job->active = pick_active(job->gains, k, k, job->pick, &longs);
    job->partial = malloc((size_t)(job->units * job->count * job->active + k + 1) * sizeof(double));
    job->coefficients = malloc((size_t)(job->count * job->active + 1) * size);
    if (job->pick && job->partial && job->coefficients) {
        job->factors = job->partial + job->units * job->count * job->active;
        for (ptrdiff_t i = 0; i < job->active; i++)
            job->factors[i] = pow(1.0 + job->gains[job->pick[i]], job->power) - 1.0;
        Team team = {.work = {kernels->stretch_project, kernels->stretch_mix},
                     .between = kernels->stretch_fold,
                     .phases = 2,
                     .job = job,
                     .units = job->units,
                     .scratch = ((size_t)job->active + ROWS) * block * size};
        status = run_team(threads, &team);
    }
    free(job->pick);
    free(job->partial);
    free(job->coefficients);
    return status;
}

/* stretched(rows, axes, gains, power, out, threads) */
static PyObject *stretched(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Stretch job = {.units = 0};
    Py_buffer *rows, *axes, *out;
    int threads, status;
    if (expect("stretched", count, 6)) return NULL;
    if (!(rows = array(&views, args[0], "rows", 2, "df", 0)) ||
        !(axes = array_like(&views, args[1], "axes", 2, rows, 0)) ||
        !has_shape(axes, "axes", axes->shape[0], columns(rows)) ||
        !(job.gains = numbers_of(&views, args[2], "gains", axes->shape[0])) || real(args[3], "power", &job.power) ||
        !(out = array_like(&views, args[4], "out", 2, rows, 1)) ||
        !has_shape(out, "out", rows->shape[0], columns(rows)) ||
        (threads = thread_count(args[5], rows->shape[0] * columns(rows) / LIGHTER)) < 0) {
        release(&views);
        return NULL;
    }
    job.n = columns(rows);
    job.count = rows->shape[0];
    job.rows = rows->buf;
    job.stride = row_stride(rows);
    job.axes = axes->buf;
    job.axes_stride = row_stride(axes);
    job.out = out->buf;
    job.out_stride = row_stride(out);
    const Kernels *kernels = kernels_for(self, rows);
    Py_BEGIN_ALLOW_THREADS
    status = stretch_all(&job, kernels, axes->shape[0], (size_t)rows->itemsize, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* pulse_renew(long_rows, short_rows, metric, path, limits, constants, threads): the tuples of reference_pulse.py */
static PyObject *pulse_renew(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Axes shorts = {.units = 0}, longs = {.units = 0};
    Stretch stretch = {.units = 0, .power = 0.5};
    Metric metric;
    Py_buffer *long_rows, *short_rows, *sizes, *concentration, *path;
    double tau_long, tau_short, span, path_gain;
    double *const limit[] = {&tau_long, &tau_short, &span, &path_gain};
    int threads, status = -1;
    if (expect("pulse_renew", count, 7)) return NULL;
    if (!(long_rows = array(&views, args[0], "long_rows", 2, "df", 1)) ||
        !(short_rows = array_like(&views, args[1], "short_rows", 2, long_rows, 0)) ||
        !has_shape(short_rows, "short_rows", short_rows->shape[0], columns(long_rows)) ||
        metric_of(&views, args[2], long_rows, 1, &metric) ||
        !(sizes = array(&views, metric.item[SIZES], "sizes", 1, "d", 1)) ||
        !has_shape(sizes, "sizes", 1, metric.count) ||
        !(concentration = array(&views, metric.item[CONCENTRATION], "concentration", 1, "d", 1)) ||
        !has_shape(concentration, "concentration", 1, metric.shorts) ||
        !(path = array_like(&views, args[3], "path", 1, long_rows, 1)) ||
        !has_shape(path, "path", 1, columns(long_rows)) || reals_of(args[4], "limits", COUNT_OF(limit), limit) ||
        kept_of(args[5], &shorts) || kept_of(args[5], &longs) ||
        (threads = thread_count(args[6], long_rows->shape[0] * columns(long_rows))) < 0 ||
        !fits(long_rows, "long_rows") || !fits(short_rows, "short_rows"))
        goto fail;
    const ptrdiff_t K = metric.longs, M = metric.shorts;
    if (long_rows->shape[0] <= K) {
        PyErr_Format(PyExc_ValueError, "long_rows must have more than %zd rows, got %zd", K, long_rows->shape[0]);
        goto fail;
    }
    const size_t size = (size_t)long_rows->itemsize;
    const Py_buffer *axes = metric.axes;
    double *gain = metric.gains->buf, *kept = sizes->buf, *rho = concentration->buf, *h = gain + K;
    char *short_axes = (char *)axes->buf + (size_t)(K * row_stride(axes)) * size;
    char *row = (char *)long_rows->buf + (size_t)(K * row_stride(long_rows)) * size;
    double *fourths = malloc((size_t)(metric.count + 1) * sizeof(double));
    const Kernels *kernels = kernels_for(self, long_rows);
    rows_to(&shorts, short_rows, short_axes, axes, M, kept + K);
    rows_to(&longs, long_rows, axes->buf, axes, K, kept);
    stretch.n = longs.n;
    stretch.count = longs.count;
    stretch.rows = stretch.out = long_rows->buf;
    stretch.stride = stretch.out_stride = longs.stride;
    stretch.axes = short_axes;
    stretch.axes_stride = row_stride(axes);
    stretch.gains = h;
    if (fourths) {
        Py_BEGIN_ALLOW_THREADS
        status = lead(&shorts, kernels, M, fourths, size, threads);
        for (ptrdiff_t i = 0; status == 0 && i < M; i++) {
            const double wide = span * fourths[i] > 1.0 ? span * fourths[i] : 1.0;
            rho[i] = wide * wide * wide;
            h[i] = kept[K + i] > tau_short * rho[i] ? kept[K + i] - tau_short * rho[i] : 0.0;
        }
        if (status == 0) status = stretch_all(&stretch, kernels, M, size, threads);
        if (status == 0) {
            memcpy(path->buf, row, (size_t)longs.n * size);
            for (ptrdiff_t j = 0; j < longs.n; j++) {
                if (size == sizeof(float))
                    ((float *)(void *)row)[j] *= (float)path_gain;
                else
                    ((double *)(void *)row)[j] *= path_gain;
            }
            status = lead(&longs, kernels, K, fourths, size, threads);
        }
        for (ptrdiff_t i = 0; status == 0 && i < K; i++) gain[i] = kept[i] > tau_long ? kept[i] - tau_long : 0.0;
        Py_END_ALLOW_THREADS
    }
    free(fourths);
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

static void nothing_between(void *job) { (void)job; }

/* add_squares(rows, against, fade, total, threads) */
static PyObject *add_squares(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Squares job = {.count = 0};
    Py_buffer *rows, *total;
    uint64_t against;
    int threads, status = -1;
    if (expect("add_squares", count, 5)) return NULL;
    if (!(rows = array(&views, args[0], "rows", 2, "df", 0)) || whole(args[1], "against", &against) ||
        real(args[2], "fade", &job.fade) || !(total = array_like(&views, args[3], "total", 2, rows, 1)) ||
        !has_shape(total, "total", columns(rows), columns(rows)) ||
        (threads = thread_count(args[4], rows->shape[0] * columns(rows) / LIGHTER * columns(rows))) < 0)
        goto fail;
    if (against > (uint64_t)rows->shape[0]) {
        PyErr_Format(PyExc_ValueError, "against=%llu exceeds the %zd rows", (unsigned long long)against,
                     rows->shape[0]);
        goto fail;
    }
    const size_t size = (size_t)rows->itemsize;
    job.n = columns(rows);
    job.count = rows->shape[0];
    job.against = (ptrdiff_t)against;
    job.rows = rows->buf;
    job.stride = row_stride(rows);
    job.total = total->buf;
    job.total_stride = row_stride(total);
    const Kernels *kernels = kernels_for(self, rows);
    Py_BEGIN_ALLOW_THREADS
    if ((job.transposed = borrow(((size_t)job.n * (size_t)job.count + 1) * size))) {
        Team team = {.work = {kernels->transpose_columns, kernels->square_columns},
                     .between = nothing_between,
                     .phases = 2,
                     .job = &job,
                     .units = (job.n + SQUARE_COLS - 1) / SQUARE_COLS,
                     .scratch = (size_t)(job.n + job.count) * SQUARE_COLS * size};
        status = run_team(threads, &team);
    }
    give_back(job.transposed);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

/* grow(change, columns, inverse): True; or False, with nothing changed, if I + G/2 is not positive definite */
static PyObject *grow(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *change, *columns_of, *inverse;
    if (expect("grow", count, 3)) return NULL;
    if (!(change = array(&views, args[0], "change", 2, "df", 1)) ||
        !has_shape(change, "change", columns(change), columns(change)) ||
        !(columns_of = array_like(&views, args[1], "columns", 2, change, 1)) ||
        !has_shape(columns_of, "columns", columns(change), columns(change)) ||
        !(inverse = array_like(&views, args[2], "inverse", 2, change, 1)) ||
        !has_shape(inverse, "inverse", columns(change), columns(change)))
        goto fail;
    if (columns(change) > MOST_GROWN) {
        PyErr_Format(PyExc_ValueError, "change must have at most %d columns, got %zd", MOST_GROWN, columns(change));
        goto fail;
    }
    const Growth job = {.n = columns(change),
                        .change = change->buf,
                        .change_stride = row_stride(change),
                        .columns = columns_of->buf,
                        .columns_stride = row_stride(columns_of),
                        .inverse = inverse->buf,
                        .inverse_stride = row_stride(inverse)};
    const size_t rows = (size_t)job.n;
    void *space = borrow((rows * (2 * rows + 2 * (rows + MOST_MIX_COLS)) + 1) * (size_t)change->itemsize);
    const int done = space ? kernels_for(self, change)->grow(&job, space) : 0;
    give_back(space);
    release(&views);
    return space ? PyBool_FromLong(done) : PyErr_NoMemory();
fail:
    release(&views);
    return NULL;
}
