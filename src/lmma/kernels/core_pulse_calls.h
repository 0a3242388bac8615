/* Functions for Python: pulse_sample and pulse_learn; see reference_pulse.py for the formulas. */

/* Workspace for one call: pieces of one allocation. */
typedef struct {
    char *memory;
    size_t used;
} Space_of_call;

static void *piece(Space_of_call *space, double numbers, size_t size) {
    const size_t start = (space->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    space->used = start + (size_t)numbers * size;
    return space->memory ? space->memory + start : NULL;
}

/* Set `pick` to the indices of the axes with a gain, and `active_longs` to the number of those below `longs`; return
   the number of all. */
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

/* Items of the named tuples of reference_pulse.py, in their order. */
enum { SCALES, AXES, LONGS, SIZES, GAINS, CONCENTRATION, METRIC_ITEMS };
enum { RANKS, WEIGHTS, BETTER, WORSE, GENERATIONS, RANKS_ITEMS };
enum { IMAGES, DUALS, OTHER_IMAGES, OTHER_DUALS, PATH, DAMPING, THROUGH_CORE_ITEMS };
enum { LONG_ROWS, SHORT_ROWS, CORE_ROWS, LEARNED_ITEMS };

/* The parts of a Metric that every call uses. */
typedef struct {
    PyObject *item[METRIC_ITEMS];
    Py_buffer *axes, *gains;
    ptrdiff_t count, longs, shorts; /* axes: all of them, those of U, those of V */
} Metric;

static int metric_of(Views *views, PyObject *object, const Py_buffer *like, int writable, Metric *metric) {
    uint64_t longs;
    if (items_of(object, "metric", METRIC_ITEMS, metric->item) ||
        !(metric->axes = array_like(views, metric->item[AXES], "axes", 2, like, writable)) ||
        !has_shape(metric->axes, "axes", metric->axes->shape[0], columns(like)) ||
        whole(metric->item[LONGS], "longs", &longs) ||
        !(metric->gains = array(views, metric->item[GAINS], "gains", 1, "d", writable)) ||
        !has_shape(metric->gains, "gains", 1, metric->axes->shape[0]))
        return -1;
    metric->count = metric->axes->shape[0];
    if (longs > (uint64_t)metric->count) {
        PyErr_Format(PyExc_ValueError, "longs=%llu exceeds the %zd axes", (unsigned long long)longs, metric->count);
        return -1;
    }
    metric->longs = (ptrdiff_t)longs;
    metric->shorts = metric->count - metric->longs;
    return 0;
}

/* pulse_sample(key0, key1, generation, first, metric, cross, mean, steps, z, out, threads) */
static PyObject *pulse_sample(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Sample job = {.units = 0};
    Metric metric;
    Py_buffer *out, *cross, *mean, *steps, *z;
    int threads, status = -1;
    if (expect("pulse_sample", count, 11)) return NULL;
    if (!(out = array(&views, args[9], "out", 2, "df", 1)) || set_stream(&job, args, out) ||
        metric_of(&views, args[4], out, 0, &metric) || !(cross = array(&views, args[5], "cross", 2, "d", 0)) ||
        !has_shape(cross, "cross", metric.shorts, metric.longs) ||
        !(mean = array_like(&views, args[6], "mean", 1, out, 0)) || !has_shape(mean, "mean", 1, job.n) ||
        !(steps = array_like(&views, args[7], "steps", 1, out, 0)) || !has_shape(steps, "steps", 1, job.n) ||
        !(z = array_like(&views, args[8], "z", 2, out, 1)) || !has_shape(z, "z", job.rows, job.n) ||
        (threads = thread_count(args[10], job.rows * job.n)) < 0) {
        release(&views);
        return NULL;
    }
    const ptrdiff_t k = metric.count, longs = metric.longs;
    ptrdiff_t *pick = malloc((size_t)(k + 1) * sizeof(ptrdiff_t));
    double *stretch = malloc((size_t)(k + 1) * (size_t)(k + 1) * sizeof(double));
    double *between = stretch ? stretch + k : NULL;
    if (pick && stretch) {
        const double *gain = metric.gains->buf;
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
        job.vectors = metric.axes->buf;
        job.v_stride = row_stride(metric.axes);
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

/* Assign the work space of a job; if `space` has no memory, only measure it. */
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
    const double k = (double)(job->longs + job->shorts), block = BLOCK_OF(size == sizeof(float));
    const double needed = (3 * k + 2 * ROWS + 4 + (double)job->longs + (double)job->shorts) * block * (double)size;
    if ((double)(job->count + job->paths) * k * 8 * (double)job->units > (double)(PTRDIFF_MAX / 16)) return -1;
    pulse_space(job, &space, size);
    if (!(space.memory = borrow(space.used + 1))) return -1;
    pulse_space(job, &space, size);
    job->active = pick_active(job->gains, job->longs + job->shorts, job->longs, job->pick, &job->active_longs);
    Team first = {.work = {kernels->pulse_project, kernels->pulse_excess},
                  .between = kernels->pulse_coefficients,
                  .phases = 2,
                  .job = job,
                  .units = job->units,
                  .scratch = (size_t)needed};
    Team second = {
        .work = {kernels->pulse_rows}, .phases = 1, .job = job, .units = job->units, .scratch = (size_t)needed};
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

/* Ranks from Python, copied; counts the selected rows. */
static int ranks_of(Views *views, PyObject *object, Pulse *job) {
    PyObject *item[RANKS_ITEMS];
    uint64_t generations;
    if (items_of(object, "ranked", RANKS_ITEMS, item) ||
        !(job->ranks = numbers_of(views, item[RANKS], "ranks", job->count)) ||
        !(job->weights = numbers_of(views, item[WEIGHTS], "weights", job->count)) ||
        whole(item[GENERATIONS], "generations", &generations))
        return -1;
    job->generations = (ptrdiff_t)generations;
    for (ptrdiff_t i = 0; i < job->count; i++) {
        job->better += job->weights[i] > 0;
        job->worse += job->ranks[i] < 0;
    }
    return 0;
}

/* The Metric to update; the numbers of each axis are copied. */
static int learned_metric_of(Views *views, PyObject *object, const Py_buffer *z, Pulse *job) {
    Metric metric;
    Py_buffer *scales;
    if (metric_of(views, object, z, 0, &metric) || !(job->gains = copy_of(views, metric.gains)) ||
        !(scales = array_like(views, metric.item[SCALES], "scales", 1, z, 1)) ||
        !has_shape(scales, "scales", 1, job->n) ||
        !(job->sizes = numbers_of(views, metric.item[SIZES], "sizes", metric.count)) ||
        !(job->concentration = numbers_of(views, metric.item[CONCENTRATION], "concentration", metric.shorts)))
        return -1;
    job->longs = metric.longs;
    job->shorts = metric.shorts;
    job->axes = metric.axes->buf;
    job->axes_stride = row_stride(metric.axes);
    job->scales = scales->buf;
    return 0;
}

/* Rows multiplied by A or A^-T: those of z, then those of two paths and of the axes. */
static int product_of(Views *views, PyObject *rows, PyObject *paths_and_axes, const Py_buffer *z, const Pulse *job,
                      ThroughCore *shown) {
    Py_buffer *many, *others;
    if (!(many = array_like(views, rows, "images and duals", 2, z, 0)) ||
        !has_shape(many, "images and duals", job->count, job->n) ||
        !(others = array_like(views, paths_and_axes, "paths_and_axes_images and paths_and_axes_duals", 2, z, 0)) ||
        !has_shape(others, "paths_and_axes_images and paths_and_axes_duals", 2 + job->longs + job->shorts, job->n))
        return -1;
    *shown = (ThroughCore){
        .rows = many->buf, .stride = row_stride(many), .others = others->buf, .others_stride = row_stride(others)};
    return 0;
}

/* ThroughCore from Python, or None: then the job has two paths and no matrix. */
static int through_core_of(Views *views, PyObject *object, const Py_buffer *z, Pulse *job) {
    PyObject *item[THROUGH_CORE_ITEMS];
    Py_buffer *third, *damping;
    job->paths = object == Py_None ? 2 : 3;
    if (object == Py_None) return 0;
    if (items_of(object, "through_core", THROUGH_CORE_ITEMS, item) ||
        product_of(views, item[IMAGES], item[OTHER_IMAGES], z, job, &job->images) ||
        product_of(views, item[DUALS], item[OTHER_DUALS], z, job, &job->duals) ||
        !(third = array_like(views, item[PATH], "path", 1, z, 0)) || !has_shape(third, "path", 1, job->n) ||
        !(damping = array_like(views, item[DAMPING], "damping", 1, z, 0)) || !has_shape(damping, "damping", 1, job->n))
        return -1;
    job->third = third->buf;
    job->damping = damping->buf;
    return 0;
}

/* The output rows, whose shapes follow from the other arguments. */
static int learned_of(Views *views, PyObject *object, const Py_buffer *z, Pulse *job) {
    const Py_ssize_t all = job->count + 1 + job->longs + job->shorts;
    PyObject *item[LEARNED_ITEMS];
    Py_buffer *long_rows, *short_rows, *core_rows;
    if (items_of(object, "learned", LEARNED_ITEMS, item) ||
        !(long_rows = array_like(views, item[LONG_ROWS], "long_rows", 2, z, 1)) ||
        !has_shape(long_rows, "long_rows", job->longs + 1 + job->better, job->n) ||
        !(short_rows = array_like(views, item[SHORT_ROWS], "short_rows", 2, z, 1)) ||
        !has_shape(short_rows, "short_rows", job->shorts + job->worse, job->n))
        return -1;
    job->long_rows = long_rows->buf;
    job->long_stride = row_stride(long_rows);
    job->short_rows = short_rows->buf;
    job->short_stride = row_stride(short_rows);
    if (!job->images.rows) return 0;
    if (!(core_rows = array_like(views, item[CORE_ROWS], "core_rows", 2, z, 1)) ||
        !has_shape(core_rows, "core_rows", all, job->n))
        return -1;
    job->core_rows = core_rows->buf;
    job->core_stride = row_stride(core_rows);
    return 0;
}

static int rates_of(PyObject *rates, PyObject *constants, Pulse *job) {
    double *const rate[] = {&job->scale,   &job->share, &job->pull, &job->reach,   &job->c_1_long, &job->c_mu_long,
                            &job->c_short, &job->c_mu,  &job->c_1,  &job->against, &job->fade};
    double *const constant[] = {&job->calming, &job->shortest};
    return reals_of(rates, "rates", COUNT_OF(rate), rate) ||
           reals_of(constants, "constants", COUNT_OF(constant), constant);
}

/* pulse_learn(z, paths, ranked, metric, rates, constants, through_core, learned, threads): the tuples of
   reference_pulse.py; through_core may be None, constants are (CALMING, SHORTEST). */
static PyObject *pulse_learn(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Pulse job = {.units = 0};
    Py_buffer *z, *paths;
    int threads, status;
    if (expect("pulse_learn", count, 9)) return NULL;
    if (!(z = array(&views, args[0], "z", 2, "df", 0)) || !(paths = array_like(&views, args[1], "paths", 2, z, 0)) ||
        !has_shape(paths, "paths", 2, columns(z)))
        goto fail;
    job.n = columns(z);
    job.count = z->shape[0];
    job.z = z->buf;
    job.z_stride = row_stride(z);
    job.path = paths->buf;
    job.path_stride = row_stride(paths);
    job.width = unit_width(job.n);
    job.units = larger(1, (job.n + job.width - 1) / job.width);
    if (ranks_of(&views, args[2], &job) || learned_metric_of(&views, args[3], z, &job) ||
        rates_of(args[4], args[5], &job) || through_core_of(&views, args[6], z, &job) ||
        learned_of(&views, args[7], z, &job) || (threads = thread_count(args[8], job.count * job.n)) < 0)
        goto fail;
    const Kernels *kernels = kernels_for(self, z);
    Py_BEGIN_ALLOW_THREADS
    status = learn_all(&job, kernels, (size_t)z->itemsize, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}
