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
