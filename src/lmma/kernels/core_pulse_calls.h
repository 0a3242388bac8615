/* The calls of pulse: arguments in, one team of threads for each pair of phases; see twin_pulse.py. */

/* Work space of a call, given out piece by piece from one allocation. */
typedef struct {
    char *memory;
    size_t used;
} Space_of_call;

static void *piece(Space_of_call *space, double numbers, size_t size) {
    const size_t start = (space->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    space->used = start + (size_t)numbers * size;
    return space->memory ? space->memory + start : NULL;
}

/* The numbers of the axes that have a gain, in order; how many of the first `longs` among them. */
static ptrdiff_t pick_active(const double *gains, ptrdiff_t count, ptrdiff_t longs, ptrdiff_t *pick,
                             ptrdiff_t *active_longs) {
    ptrdiff_t active = 0;
    *active_longs = 0;
    for (ptrdiff_t i = 0; i < count; i++)
        if (gains[i] > 0) {
            *active_longs += i < longs;
            pick[active++] = i;
        }
    return active;
}

/* Metric from Python: axes, longs, gains (args[0] to args[2]). */
static int metric_of(Views *views, PyObject *const *args, const Py_buffer *like, Py_buffer **axes, ptrdiff_t *longs,
                     Py_buffer **gains) {
    uint64_t count;
    if (!(*axes = array_like(views, args[0], "axes", 2, like, 0)) ||
        !has_shape(*axes, "axes", (*axes)->shape[0], columns(like)) || whole(args[1], "longs", &count) ||
        !(*gains = array(views, args[2], "gains", 1, "d", 0)) || !has_shape(*gains, "gains", 1, (*axes)->shape[0]))
        return -1;
    if (count > (uint64_t)(*axes)->shape[0]) {
        PyErr_Format(PyExc_ValueError, "longs=%llu exceeds the %zd axes", (unsigned long long)count, (*axes)->shape[0]);
        return -1;
    }
    *longs = (ptrdiff_t)count;
    return 0;
}

/* pulse_sample(key0, key1, generation, first, axes, longs, gains, cross, mean, steps, z, out, threads) */
static PyObject *pulse_sample(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Sample job = {.units = 0};
    Py_buffer *out, *axes, *gains, *cross, *mean, *steps, *z;
    ptrdiff_t longs;
    int threads, status = -1;
    if (expect("pulse_sample", count, 13)) return NULL;
    if (!(out = array(&views, args[11], "out", 2, "df", 1)) || set_stream(&job, args, out) ||
        metric_of(&views, args + 4, out, &axes, &longs, &gains) ||
        !(cross = array(&views, args[7], "cross", 2, "d", 0)) ||
        !has_shape(cross, "cross", axes->shape[0] - longs, longs) ||
        !(mean = array_like(&views, args[8], "mean", 1, out, 0)) || !has_shape(mean, "mean", 1, job.n) ||
        !(steps = array_like(&views, args[9], "steps", 1, out, 0)) || !has_shape(steps, "steps", 1, job.n) ||
        !(z = array_like(&views, args[10], "z", 2, out, 1)) || !has_shape(z, "z", job.rows, job.n) ||
        (threads = thread_count(args[12], job.rows * job.n)) < 0) {
        release(&views);
        return NULL;
    }
    const ptrdiff_t k = axes->shape[0];
    ptrdiff_t *pick = malloc((size_t)(k + 1) * sizeof(ptrdiff_t));
    double *stretch = malloc((size_t)(k + 1) * (size_t)(k + 1) * sizeof(double)), *between = stretch ? stretch + k : NULL;
    if (pick && stretch) {
        const double *gain = gains->buf;
        job.m = job.active = pick_active(gain, k, longs, pick, &job.longs);
        for (ptrdiff_t j = 0; j < job.m; j++) {
            const double root = sqrt(1.0 + gain[pick[j]]);
            stretch[j] = j < job.longs ? root - 1.0 : 1.0 / root - 1.0;
            for (ptrdiff_t l = 0; j >= job.longs && l < job.longs; l++)
                between[j * job.longs + l] =
                    ((const double *)cross->buf)[(pick[j] - longs) * row_stride(cross) + pick[l]];
        }
        job.pick = pick;
        job.stretch = stretch;
        job.cross = between;
        job.vectors = axes->buf;
        job.v_stride = row_stride(axes);
        job.mean = mean->buf;
        job.steps = steps->buf;
        job.z = z->buf;
        job.z_stride = row_stride(z);
        job.out = out->buf;
        job.out_stride = row_stride(out);
        Kernels kernels = *kernels_for(self, out);
        kernels.fold = kernels.pulse_fold;
        Py_BEGIN_ALLOW_THREADS
        status = sample_all(&job, &kernels, (size_t)out->itemsize, threads);
        Py_END_ALLOW_THREADS
    }
    free(pick);
    free(stretch);
    return finish(&views, status);
}

/* Give the job its work space; with no memory in `space` this only measures it. */
static void pulse_space(Pulse *job, Space_of_call *space, size_t size) {
    const double k = (double)(job->longs + job->shorts), rows = (double)(job->count + job->paths);
    const double R = (double)job->count, n = (double)job->n;
    job->partial_size = (ptrdiff_t)(rows * k) + job->longs * job->shorts + 1 + job->count;
    space->used = 0;
    job->pick = piece(space, k + 1, sizeof(ptrdiff_t));
    job->partial = piece(space, (double)job->units * (double)job->partial_size, sizeof(double));
    job->of_a = piece(space, rows * k, sizeof(double));
    job->of_b = piece(space, rows * k, sizeof(double));
    job->of_d = piece(space, rows * k, sizeof(double));
    job->part = piece(space, rows + k, sizeof(double));
    job->more = piece(space, k, sizeof(double));
    job->less = piece(space, k, sizeof(double));
    job->own = piece(space, k, sizeof(double));
    job->stay = piece(space, k, sizeof(double));
    job->excess = piece(space, n, sizeof(double));
    job->sums = piece(space, (double)job->units, sizeof(double));
    job->real_a = piece(space, rows * k, size);
    job->of_image = piece(space, rows * k, size);
    job->new_long = piece(space, R * k, size);
    job->new_short = piece(space, R * k, size);
    job->of_path = piece(space, k, size);
    job->of_long = piece(space, k * k, size);
    job->stay_long = piece(space, k * k, size);
    job->mix_long = piece(space, R * k, size);
    job->stay_short = piece(space, k * k, size);
    job->mix_short = piece(space, R * k, size);
}

static int learn_all(Pulse *job, const Kernels *kernels, size_t size, int threads) {
    Space_of_call space = {NULL, 0};
    const double k = (double)(job->longs + job->shorts), block = size == sizeof(float) ? 480 : 240;
    const double needed = (3 * k + 2 * ROWS + 4 + (double)job->longs + (double)job->shorts) * block * (double)size;
    if ((double)(job->count + job->paths) * k * 8 * (double)job->units > (double)(PTRDIFF_MAX / 16)) return -1;
    pulse_space(job, &space, size);
    if (!(space.memory = borrow(space.used + 1))) return -1;
    pulse_space(job, &space, size);
    job->active = pick_active(job->gains, job->longs + job->shorts, job->longs, job->pick, &job->active_longs);
    Team first = {.work = {kernels->pulse_project, kernels->pulse_excess}, .between = kernels->pulse_coefficients,
                  .phases = 2, .job = job, .units = job->units, .scratch = (size_t)needed};
    Team second = {.work = {kernels->pulse_rows}, .phases = 1, .job = job, .units = job->units,
                   .scratch = (size_t)needed};
    int status = run_team(threads, &first);
    if (status == 0) {
        double sum = 0.0;
        for (ptrdiff_t unit = 0; unit < job->units; unit++) sum += job->sums[unit];
        job->mean_excess = sum / (double)job->n;
        status = run_team(threads, &second);
    }
    give_back(space.memory);
    return status;
}

/* Rows as A or A^-T shows them: those of z, then the few of two paths and the axes. */
static int turned_of(Views *views, PyObject *rows, PyObject *few, const Py_buffer *z, Py_ssize_t axes, Turned *shown) {
    Py_buffer *many, *others;
    if (!(many = array_like(views, rows, "images and duals", 2, z, 0)) ||
        !has_shape(many, "images and duals", z->shape[0], columns(z)) ||
        !(others = array_like(views, few, "few_images and few_duals", 2, z, 0)) ||
        !has_shape(others, "few_images and few_duals", 2 + axes, columns(z)))
        return -1;
    *shown = (Turned){many->buf, row_stride(many), others->buf, row_stride(others)};
    return 0;
}

/* pulse_learn(z, paths, ranks, weights, generations, scales, axes, longs, gains, sizes, concentration, rates, images,
               duals, few_images, few_duals, path, damping, long_rows, short_rows, turned, threads); images and the next five: arrays or None */
static PyObject *pulse_learn(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Pulse job = {.units = 0};
    Py_buffer *z, *paths, *ranks, *weights, *scales, *axes, *gains, *sizes, *concentration, *rates, *third, *damping;
    Py_buffer *long_rows, *short_rows, *turned;
    uint64_t generations;
    int threads, status;
    if (expect("pulse_learn", count, 22)) return NULL;
    const int turns = args[12] != Py_None;
    if (!(z = array(&views, args[0], "z", 2, "df", 0)) ||
        !(paths = array_like(&views, args[1], "paths", 2, z, 0)) ||
        !has_shape(paths, "paths", 2, columns(z)) ||
        !(ranks = array(&views, args[2], "ranks", 1, "d", 0)) || !has_shape(ranks, "ranks", 1, z->shape[0]) ||
        !(weights = array(&views, args[3], "weights", 1, "d", 0)) ||
        !has_shape(weights, "weights", 1, z->shape[0]) || whole(args[4], "generations", &generations) ||
        !(scales = array_like(&views, args[5], "scales", 1, z, 1)) || !has_shape(scales, "scales", 1, columns(z)) ||
        metric_of(&views, args + 6, z, &axes, &job.longs, &gains) ||
        !(sizes = array(&views, args[9], "sizes", 1, "d", 0)) || !has_shape(sizes, "sizes", 1, axes->shape[0]) ||
        !(concentration = array(&views, args[10], "concentration", 1, "d", 0)) ||
        !has_shape(concentration, "concentration", 1, axes->shape[0] - job.longs) ||
        !(rates = array(&views, args[11], "rates", 1, "d", 0)) || !has_shape(rates, "rates", 1, 11))
        goto fail;
    job.n = columns(z);
    job.count = z->shape[0];
    job.paths = 2 + turns;
    job.concentration = concentration->buf;
    job.shorts = axes->shape[0] - job.longs;
    job.ranks = ranks->buf;
    job.weights = weights->buf;
    for (ptrdiff_t i = 0; i < job.count; i++) {
        job.better += job.weights[i] > 0;
        job.worse += job.ranks[i] < 0;
    }
    const Py_ssize_t all = job.count + job.paths + axes->shape[0];
    if (turns) {
        if (turned_of(&views, args[12], args[14], z, axes->shape[0], &job.images) ||
            turned_of(&views, args[13], args[15], z, axes->shape[0], &job.duals) ||
            !(third = array_like(&views, args[16], "path", 1, z, 0)) || !has_shape(third, "path", 1, job.n) ||
            !(damping = array_like(&views, args[17], "damping", 1, z, 0)) || !has_shape(damping, "damping", 1, job.n) ||
            !(turned = array_like(&views, args[20], "turned", 2, z, 1)) || !has_shape(turned, "turned", all - 2, job.n))
            goto fail;
        job.third = third->buf;
        job.damping = damping->buf;
        job.turned = turned->buf;
        job.turned_stride = row_stride(turned);
    }
    if (!(long_rows = array_like(&views, args[18], "long_rows", 2, z, 1)) ||
        !has_shape(long_rows, "long_rows", job.longs + 1 + job.better, job.n) ||
        !(short_rows = array_like(&views, args[19], "short_rows", 2, z, 1)) ||
        !has_shape(short_rows, "short_rows", job.shorts + job.worse, job.n) ||
        (threads = thread_count(args[21], job.count * job.n)) < 0)
        goto fail;
    job.generations = (ptrdiff_t)generations;
    job.z = z->buf;
    job.z_stride = row_stride(z);
    job.path = paths->buf;
    job.path_stride = row_stride(paths);
    job.axes = axes->buf;
    job.axes_stride = row_stride(axes);
    job.gains = gains->buf;
    job.sizes = sizes->buf;
    job.scales = scales->buf;
    job.long_rows = long_rows->buf;
    job.long_stride = row_stride(long_rows);
    job.short_rows = short_rows->buf;
    job.short_stride = row_stride(short_rows);
    const double *rate = rates->buf;
    job.scale = rate[0], job.share = rate[1], job.pull = rate[2], job.reach = rate[3];
    job.c_1_long = rate[4], job.c_mu_long = rate[5], job.c_short = rate[6];
    job.c_mu = rate[7], job.c_1 = rate[8], job.against = rate[9], job.fade = rate[10];
    job.width = unit_width(job.n);
    job.units = larger(1, (job.n + job.width - 1) / job.width);
    const Kernels *kernels = kernels_for(self, z);
    Py_BEGIN_ALLOW_THREADS
    status = learn_all(&job, kernels, (size_t)z->itemsize, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

static void axes_space(Axes *job, Space_of_call *space, size_t size) {
    const double m = (double)job->size, found = (double)job->found, units = (double)job->units;
    space->used = 0;
    job->place = piece(space, m + 1, sizeof(ptrdiff_t));
    job->partial = piece(space, units * m * m, sizeof(double));
    job->vectors = piece(space, m * m, sizeof(double));
    job->values = piece(space, m, sizeof(double));
    job->work = piece(space, 4 * m, sizeof(double));
    job->fourths = piece(space, units * found, sizeof(double));
    job->coefficients = piece(space, found * m, size);
}

/* Arrays of rows, as kernels see them. */
static void rows_to(Axes *job, const Py_buffer *rows, char *axes, const Py_buffer *all, ptrdiff_t wanted, double *sizes) {
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

/* The leading axes of a job, `wanted` of them, and the sums of their fourth powers; -1 where there is no memory. */
static int lead(Axes *job, const Kernels *kernels, ptrdiff_t wanted, double *fourths, size_t size, int threads) {
    const size_t block = size == sizeof(float) ? 480 : 240;
    const size_t wide = (size_t)(job->size + job->found) * block, tall = (2 * ROWS + (size_t)job->size) * (MOST_ROWS + 24);
    Space_of_call space = {NULL, 0};
    for (ptrdiff_t i = job->found; i < wanted; i++) {
        memset((char *)job->axes + (size_t)(i * job->axes_stride) * size, 0, (size_t)job->n * size);
        job->sizes[i] = fourths[i] = 0.0;
    }
    if (!job->found) return 0;
    axes_space(job, &space, size);
    if (!(space.memory = borrow(space.used + 1))) return -1;
    axes_space(job, &space, size);
    Team team = {.work = {kernels->axes_gram, kernels->axes_combine}, .between = kernels->axes_eigen, .phases = 2,
                 .job = job, .units = job->units, .scratch = (wide > tall ? wide : tall) * size};
    const int status = run_team(threads, &team);
    for (ptrdiff_t i = 0; status == 0 && i < job->found; i++) {
        fourths[i] = 0.0;
        for (ptrdiff_t unit = 0; unit < job->units; unit++) fourths[i] += job->fourths[unit * job->found + i];
    }
    give_back(space.memory);
    return status;
}

/* leading_axes(rows, axes, sizes, fourths, threads) */
static PyObject *leading_axes(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Axes job = {.units = 0};
    Py_buffer *rows, *axes, *sizes, *fourths;
    int threads, status;
    if (expect("leading_axes", count, 5)) return NULL;
    if (!(rows = array(&views, args[0], "rows", 2, "df", 0)) ||
        !(axes = array_like(&views, args[1], "axes", 2, rows, 1)) ||
        !has_shape(axes, "axes", axes->shape[0], columns(rows)) ||
        !(sizes = array(&views, args[2], "sizes", 1, "d", 1)) || !has_shape(sizes, "sizes", 1, axes->shape[0]) ||
        !(fourths = array(&views, args[3], "fourths", 1, "d", 1)) || !has_shape(fourths, "fourths", 1, axes->shape[0]) ||
        (threads = thread_count(args[4], rows->shape[0] * columns(rows))) < 0 || !fits(rows, "rows")) {
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

/* Stretch the rows of a job along `k` axes; -1 where there is no memory. */
static int stretch_all(Stretch *job, const Kernels *kernels, ptrdiff_t k, size_t size, int threads) {
    const size_t block = size == sizeof(float) ? 480 : 240;
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
        for (ptrdiff_t i = 0; i < job->active; i++) job->factors[i] = pow(1.0 + job->gains[job->pick[i]], job->power) - 1.0;
        Team team = {.work = {kernels->stretch_project, kernels->stretch_mix}, .between = kernels->stretch_fold,
                     .phases = 2, .job = job, .units = job->units, .scratch = ((size_t)job->active + ROWS) * block * size};
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
    Py_buffer *rows, *axes, *gains, *out;
    int threads, status;
    if (expect("stretched", count, 6)) return NULL;
    if (!(rows = array(&views, args[0], "rows", 2, "df", 0)) ||
        !(axes = array_like(&views, args[1], "axes", 2, rows, 0)) ||
        !has_shape(axes, "axes", axes->shape[0], columns(rows)) ||
        !(gains = array(&views, args[2], "gains", 1, "d", 0)) || !has_shape(gains, "gains", 1, axes->shape[0]) ||
        real(args[3], "power", &job.power) || !(out = array_like(&views, args[4], "out", 2, rows, 1)) ||
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
    job.gains = gains->buf;
    const Kernels *kernels = kernels_for(self, rows);
    Py_BEGIN_ALLOW_THREADS
    status = stretch_all(&job, kernels, axes->shape[0], (size_t)rows->itemsize, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* pulse_renew(long_rows, short_rows, axes, longs, gains, sizes, concentration, path, limits, threads) */
static PyObject *pulse_renew(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Axes shorts = {.units = 0}, longs = {.units = 0};
    Stretch turn = {.units = 0, .power = 0.5};
    Py_buffer *long_rows, *short_rows, *axes, *gains, *sizes, *concentration, *path, *limits;
    ptrdiff_t K;
    int threads, status = -1;
    if (expect("pulse_renew", count, 10)) return NULL;
    if (!(long_rows = array(&views, args[0], "long_rows", 2, "df", 1)) ||
        !(short_rows = array_like(&views, args[1], "short_rows", 2, long_rows, 0)) ||
        !has_shape(short_rows, "short_rows", short_rows->shape[0], columns(long_rows)) ||
        metric_of(&views, args + 2, long_rows, &axes, &K, &gains) || gains->readonly || axes->readonly ||
        !(sizes = array(&views, args[5], "sizes", 1, "d", 1)) || !has_shape(sizes, "sizes", 1, axes->shape[0]) ||
        !(concentration = array(&views, args[6], "concentration", 1, "d", 1)) ||
        !has_shape(concentration, "concentration", 1, axes->shape[0] - K) ||
        !(path = array_like(&views, args[7], "path", 1, long_rows, 1)) || !has_shape(path, "path", 1, columns(long_rows)) ||
        !(limits = array(&views, args[8], "limits", 1, "d", 0)) || !has_shape(limits, "limits", 1, 4) ||
        (threads = thread_count(args[9], long_rows->shape[0] * columns(long_rows))) < 0 ||
        !fits(long_rows, "long_rows") || !fits(short_rows, "short_rows"))
        goto fail;
    if (long_rows->shape[0] <= K) {
        PyErr_Format(PyExc_ValueError, "long_rows must have more than %zd rows, got %zd", K, long_rows->shape[0]);
        goto fail;
    }
    const size_t size = (size_t)long_rows->itemsize;
    const ptrdiff_t k = axes->shape[0], M = k - K;
    const double *limit = limits->buf; /* tau_F, tau_H, span, what the path is multiplied by */
    double *gain = gains->buf, *kept = sizes->buf, *rho = concentration->buf, *h = gain + K;
    char *short_axes = (char *)axes->buf + (size_t)(K * row_stride(axes)) * size;
    char *row = (char *)long_rows->buf + (size_t)(K * row_stride(long_rows)) * size;
    double *fourths = malloc((size_t)(k + 1) * sizeof(double));
    const Kernels *kernels = kernels_for(self, long_rows);
    rows_to(&shorts, short_rows, short_axes, axes, M, kept + K);
    rows_to(&longs, long_rows, axes->buf, axes, K, kept);
    turn.n = longs.n;
    turn.count = longs.count;
    turn.rows = turn.out = long_rows->buf;
    turn.stride = turn.out_stride = longs.stride;
    turn.axes = short_axes;
    turn.axes_stride = row_stride(axes);
    turn.gains = h;
    if (fourths) {
        Py_BEGIN_ALLOW_THREADS
        status = lead(&shorts, kernels, M, fourths, size, threads);
        for (ptrdiff_t i = 0; status == 0 && i < M; i++) {
            const double wide = limit[2] * fourths[i] > 1.0 ? limit[2] * fourths[i] : 1.0;
            rho[i] = wide * wide * wide;
            h[i] = kept[K + i] > limit[1] * rho[i] ? kept[K + i] - limit[1] * rho[i] : 0.0;
        }
        if (status == 0) status = stretch_all(&turn, kernels, M, size, threads);
        if (status == 0) {
            memcpy(path->buf, row, (size_t)longs.n * size);
            for (ptrdiff_t j = 0; j < longs.n; j++) {
                if (size == sizeof(float)) ((float *)(void *)row)[j] *= (float)limit[3];
                else ((double *)(void *)row)[j] *= limit[3];
            }
            status = lead(&longs, kernels, K, fourths, size, threads);
        }
        for (ptrdiff_t i = 0; status == 0 && i < K; i++) gain[i] = kept[i] > limit[0] ? kept[i] - limit[0] : 0.0;
        Py_END_ALLOW_THREADS
    }
    free(fourths);
    return finish(&views, status);
fail:
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "axes and gains must be writeable");
    release(&views);
    return NULL;
}
