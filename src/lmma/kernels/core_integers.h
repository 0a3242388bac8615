/* Integer coordinates of candidates: rounded when they are drawn, kept searching after each generation; see
   twin_integers.py, which has the formulas. */

#define BLOCK 256          /* integers looked at together */
#define LEAST_CHANCE 1e-16 /* a probability that arithmetic can still tell from 0, and from a half */

static double number_at(const void *numbers, int single, ptrdiff_t i) {
    return single ? (double)((const float *)numbers)[i] : ((const double *)numbers)[i];
}

static void set_number(void *numbers, int single, ptrdiff_t i, double value) {
    if (single)
        ((float *)numbers)[i] = (float)value;
    else
        ((double *)numbers)[i] = value;
}

/* The nearest whole number, the even one of two: what nearbyint gives, where that would be a call. */
static double nearest(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: its last digit is 1 */
    return fabs(x) < 2251799813685248.0 ? (x + shift) - shift : x;
}

static double between(double low, double value, double high) {
    value = value > low ? value : low;
    return value < high ? value : high;
}

/* c[0] + c[1] x + ... + c[7] x^7 */
static double polynomial(const double *c, double x) {
    double sum = c[7];
    for (int i = 6; i >= 0; i--) sum = sum * x + c[i];
    return sum;
}

/* The normal distribution's quantile of p in (0, 1), by Wichura's algorithm AS 241: sixteen digits. */
static double normal_quantile(double p) {
    static const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                                2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
    static const double c[8] = {1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,
                                3.64784832476320460504e0, 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                                1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                                7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    const double r = sqrt(-log(q < 0 ? p : 1.0 - p));
    const double size = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -size : size;
}

static double normal_below(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

/* What both calls are given: the coordinates that are integers, and the least and the largest value of each. */
typedef struct {
    const ptrdiff_t *columns;
    const double *lower, *upper;
    ptrdiff_t count, n;
} Grid;

/* Where integer k lies among n coordinates; -1 if nowhere, as another thread may alter the array meanwhile. */
static ptrdiff_t place_of(const Grid *grid, ptrdiff_t k) {
    const ptrdiff_t at = ((const volatile ptrdiff_t *)grid->columns)[k];
    return at >= 0 && at < grid->n ? at : -1;
}

/* columns, lower, upper: args[0] to args[2] */
static int grid_of(Views *views, PyObject *const *args, Py_ssize_t n, Grid *grid) {
    Py_buffer *where, *lower, *upper;
    if (!(where = array(views, args[0], "columns", 1, sizeof(ptrdiff_t) == 8 ? "q" : "i", 0)) ||
        !(lower = array(views, args[1], "lower", 1, "d", 0)) || !has_shape(lower, "lower", 1, columns(where)) ||
        !(upper = array(views, args[2], "upper", 1, "d", 0)) || !has_shape(upper, "upper", 1, columns(where)))
        return -1;
    *grid = (Grid){.columns = where->buf, .lower = lower->buf, .upper = upper->buf, .count = columns(where), .n = n};
    for (ptrdiff_t k = 0; k < grid->count; k++)
        if (place_of(grid, k) < 0) {
            PyErr_Format(PyExc_IndexError, "columns[%zd]=%zd is not one of %zd coordinates", k, grid->columns[k], n);
            return -1;
        }
    return 0;
}

/* round_integers(candidates, columns, lower, upper, values, unrounded) */
static PyObject *round_integers(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *candidates, *values, *unrounded;
    Grid grid;
    (void)self;
    if (expect("round_integers", count, 6)) return NULL;
    if (!(candidates = array(&views, args[0], "candidates", 2, "df", 1)) ||
        grid_of(&views, args + 1, columns(candidates), &grid) ||
        !(values = array_like(&views, args[4], "values", 2, candidates, 1)) ||
        !has_shape(values, "values", candidates->shape[0], grid.count) ||
        !(unrounded = array_like(&views, args[5], "unrounded", 2, candidates, 1)) ||
        !has_shape(unrounded, "unrounded", candidates->shape[0], grid.count)) {
        release(&views);
        return NULL;
    }
    const int single = is_single(candidates);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t row = 0; row < candidates->shape[0]; row++) {
        char *x = (char *)candidates->buf + row * stride(candidates, 0);
        char *whole_numbers = (char *)values->buf + row * stride(values, 0);
        char *before = (char *)unrounded->buf + row * stride(unrounded, 0);
        for (ptrdiff_t k = 0; k < grid.count; k++) {
            const ptrdiff_t at = place_of(&grid, k);
            if (at < 0) continue;
            const double given = number_at(x, single, at);
            const double rounded = between(grid.lower[k], nearest(given), grid.upper[k]);
            set_number(before, single, k, given);
            set_number(whole_numbers, single, k, rounded);
            set_number(x, single, at, rounded);
        }
    }
    Py_END_ALLOW_THREADS
    return finish(&views, 0);
}

/* The ranked candidates of a generation, in one integer coordinate. */
typedef struct {
    const Py_buffer *values, *unrounded;
    const ptrdiff_t *order;
    const double *weights;
    ptrdiff_t count;
    double total; /* of the weights */
} Better;

/* A block of integers: where they were drawn around, what centring adds to their means, and where any better
   candidate was another integer (1, else 0). `by` and `other` are those of one candidate at a time. */
typedef struct {
    double here[BLOCK], move[BLOCK], succeeded[BLOCK];
    double bias[BLOCK], room[BLOCK], by[BLOCK], other[BLOCK];
} Centring;

/* By how much rounding moved the integers from number `first` on of better candidate i, and which became others. */
static void look_at(const Better *better, ptrdiff_t i, ptrdiff_t first, ptrdiff_t count, Centring *c) {
    const char *values = (const char *)better->values->buf + better->order[i] * stride(better->values, 0);
    const char *unrounded = (const char *)better->unrounded->buf + better->order[i] * stride(better->unrounded, 0);
    if (is_single(better->values)) {
        const float *v = (const float *)values + first, *u = (const float *)unrounded + first;
        for (ptrdiff_t k = 0; k < count; k++) c->other[k] = v[k] != c->here[k] ? 1 : 0;
        for (ptrdiff_t k = 0; k < count; k++) c->by[k] = (double)v[k] - u[k];
    } else {
        const double *v = (const double *)values + first, *u = (const double *)unrounded + first;
        for (ptrdiff_t k = 0; k < count; k++) c->other[k] = v[k] != c->here[k] ? 1 : 0;
        for (ptrdiff_t k = 0; k < count; k++) c->by[k] = v[k] - u[k];
    }
}

static void centre_block(const Better *better, ptrdiff_t first, ptrdiff_t count, Centring *c) {
    double any = 0;
    for (ptrdiff_t k = 0; k < count; k++) c->bias[k] = c->room[k] = c->move[k] = c->succeeded[k] = 0;
    for (ptrdiff_t i = 0; i < better->count; i++) {
        look_at(better, i, first, count, c);
        for (ptrdiff_t k = 0; k < count; k++) c->bias[k] += c->other[k] * c->by[k];
        for (ptrdiff_t k = 0; k < count; k++) c->succeeded[k] = c->other[k] > 0 ? 1 : c->succeeded[k];
    }
    for (ptrdiff_t k = 0; k < count; k++) any += c->succeeded[k];
    if (any == 0) return;
    for (ptrdiff_t i = 0; i < better->count; i++) {
        look_at(better, i, first, count, c);
        for (ptrdiff_t k = 0; k < count; k++) /* what would add to the bias stays where it is */
            c->room[k] += c->bias[k] * c->by[k] < 0 ? (1 - c->other[k]) * c->by[k] : 0;
    }
    for (ptrdiff_t k = 0; k < count; k++) /* from here on the share of it that makes up for the bias */
        c->room[k] = c->room[k] != 0 ? between(-INFINITY, -c->bias[k] / c->room[k], 1.0) : 0;
    for (ptrdiff_t i = 0; i < better->count; i++) {
        const double weight = better->weights[i] / better->total;
        look_at(better, i, first, count, c);
        for (ptrdiff_t k = 0; k < count; k++) {
            const double back = c->bias[k] * c->by[k] < 0 ? (1 - c->other[k]) * c->room[k] : 0;
            c->move[k] += weight * (c->other[k] + back) * c->by[k];
        }
    }
}

/* Mean and standard deviation of one integer, changed such that its mutation probability keeps its bounds; `reach` is
   the probability of before, then the new one. */
static void keep_bounds(double lower, double upper, double alpha, int succeeded, double *mean, double *deviation,
                        double *reach) {
    const double half = 0.5 - LEAST_CHANCE, here = between(lower, nearest(*mean), upper);
    const double below = here - 0.5, above = here + 0.5;
    double low = normal_below((below - *mean) / *deviation), up = normal_below((*mean - above) / *deviation);
    const double cap = succeeded ? half : *reach > alpha ? *reach : alpha;
    if (here <= lower || here >= upper) { /* left on one side alone: the mean goes where it is as often as it may */
        const double p = between(LEAST_CHANCE, between(alpha, here <= lower ? up : low, cap), half);
        const double least = -0.5 / normal_quantile(alpha);
        if (*deviation < least) *deviation = least;
        const double away = *deviation * normal_quantile(p);
        *mean = here <= lower ? above + away : below - away;
        *reach = p;
        return;
    }
    const double resting = succeeded ? alpha / 2 : 1 - cap; /* the least probability of staying */
    double mid = 1 - low - up;
    if (low < alpha / 2 || up < alpha / 2 || mid < resting || low > half || up > half) {
        mid = mid > resting ? mid : resting;
        low = low > alpha / 2 ? low : alpha / 2;
        up = up > alpha / 2 ? up : alpha / 2;
        const double total = low + mid + up, spare = total - alpha - resting;
        const double too_much = between(-INFINITY, (total - 1) / (spare > LEAST_CHANCE ? spare : LEAST_CHANCE), 1.0);
        low = between(LEAST_CHANCE, low - too_much * (low - alpha / 2), half);
        up = between(LEAST_CHANCE, up - too_much * (up - alpha / 2), half);
        const double left = -normal_quantile(low), right = -normal_quantile(up);
        *mean = (below * right + above * left) / (left + right);
        *deviation = 1 / (left + right);
    }
    *reach = low + up;
}

/* settle_integers(mean, scale, columns, lower, upper, values, unrounded, weights, order, old, deviation, alpha, reach) */
static PyObject *settle_integers(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *mean, *scale, *values, *unrounded, *weights, *old, *deviation, *reach;
    Better better = {.total = 0};
    Centring centring;
    Grid grid;
    double alpha;
    (void)self;
    if (expect("settle_integers", count, 13) || real(args[11], "alpha", &alpha)) return NULL;
    if (!(mean = array(&views, args[0], "mean", 1, "df", 1)) ||
        !(scale = array_like(&views, args[1], "scale", 1, mean, 1)) || !has_shape(scale, "scale", 1, columns(mean)) ||
        grid_of(&views, args + 2, columns(mean), &grid) ||
        !(values = array_like(&views, args[5], "values", 2, mean, 0)) ||
        !has_shape(values, "values", values->shape[0], grid.count) ||
        !(unrounded = array_like(&views, args[6], "unrounded", 2, mean, 0)) ||
        !has_shape(unrounded, "unrounded", values->shape[0], grid.count) ||
        !(weights = array(&views, args[7], "weights", 1, "d", 0)) ||
        !(better.order = indices_of(&views, args[8], columns(weights), values)) ||
        !(old = array_like(&views, args[9], "old", 1, mean, 0)) || !has_shape(old, "old", 1, grid.count) ||
        !(deviation = array(&views, args[10], "deviation", 1, "d", 0)) ||
        !has_shape(deviation, "deviation", 1, grid.count) ||
        !(reach = array(&views, args[12], "reach", 1, "d", 1)) || !has_shape(reach, "reach", 1, grid.count)) {
        release(&views);
        return NULL;
    }
    const int single = is_single(mean);
    better.values = values;
    better.unrounded = unrounded;
    better.weights = weights->buf;
    better.count = columns(weights);
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t i = 0; i < better.count; i++) better.total += better.weights[i];
    for (ptrdiff_t first = 0; first < grid.count; first += BLOCK) {
        const ptrdiff_t block = smaller(BLOCK, grid.count - first);
        for (ptrdiff_t k = 0; k < block; k++)
            centring.here[k] = between(grid.lower[first + k], nearest(number_at(old->buf, single, first + k)),
                                       grid.upper[first + k]);
        centre_block(&better, first, block, &centring);
        for (ptrdiff_t k = first; k < first + block; k++) {
            const ptrdiff_t at = place_of(&grid, k);
            if (at < 0) continue;
            const double given = ((const double *)deviation->buf)[k];
            const int succeeded = centring.succeeded[k - first] > 0;
            double wanted = given;
            set_number(mean->buf, single, at, number_at(mean->buf, single, at) + centring.move[k - first]);
            double centre = number_at(mean->buf, single, at);
            keep_bounds(grid.lower[k], grid.upper[k], alpha, succeeded, &centre, &wanted, (double *)reach->buf + k);
            set_number(mean->buf, single, at, centre);
            if (wanted != given)
                set_number(scale->buf, single, at, number_at(scale->buf, single, at) * (wanted / given));
        }
    }
    Py_END_ALLOW_THREADS
    return finish(&views, 0);
}
