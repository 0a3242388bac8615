/* Functions for Python: round the integer coordinates of candidates, and keep integers mutable between generations. See
   reference_integers.py for the formulas. */

#define TOGETHER 256 /* integer coordinates per block */

static double number_at(const void *numbers, int single, ptrdiff_t i) {
    return single ? (double)((const float *)numbers)[i] : ((const double *)numbers)[i];
}

static void set_number(void *numbers, int single, ptrdiff_t i, double value) {
    if (single)
        ((float *)numbers)[i] = (float)value;
    else
        ((double *)numbers)[i] = value;
}

/* The nearest integer, ties to even: nearbyint without a function call. */
static double nearest(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: its last bit is worth 1 */
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

/* The quantile of the normal distribution at p in (0, 1), by Wichura's algorithm AS 241: sixteen digits. */
static double normal_quantile(double p) {
    static const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
    static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    const double r = sqrt(-log(q < 0 ? p : 1.0 - p));
    const double size =
        r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -size : size;
}

static double normal_below(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

/* Coordinates that are integers, copied, and the lower and upper bound of each. */
typedef struct {
    const ptrdiff_t *columns;
    const double *lower, *upper;
    ptrdiff_t count;
} Grid;

/* columns, lower, upper: args[0] to args[2] */
static int grid_of(Views *views, PyObject *const *args, Py_ssize_t n, Grid *grid) {
    Py_buffer *where, *lower, *upper;
    if (!(where = array(views, args[0], "columns", 1, INDEX_TYPE, 0)) ||
        !(lower = array(views, args[1], "lower", 1, "d", 0)) || !has_shape(lower, "lower", 1, columns(where)) ||
        !(upper = array(views, args[2], "upper", 1, "d", 0)) || !has_shape(upper, "upper", 1, columns(where)))
        return -1;
    *grid = (Grid){.lower = lower->buf, .upper = upper->buf, .count = columns(where)};
    grid->columns = indices_of(views, where, "columns", n);
    return grid->columns ? 0 : -1;
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
            const ptrdiff_t at = grid.columns[k];
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

/* The ranked candidates of a generation and their weights. */
typedef struct {
    const Py_buffer *values, *unrounded;
    Weighted rows;
    double total; /* of the weights */
} Better;

/* A block of integers: their rounded mean when candidates were drawn, the step that centring adds to the mean, and 1 if
   a better candidate changed the integer, else 0. `by` and `other` refer to one candidate at a time. */
typedef struct {
    double here[TOGETHER], move[TOGETHER], succeeded[TOGETHER];
    double bias[TOGETHER], room[TOGETHER], by[TOGETHER], other[TOGETHER];
} Centring;

/* Set `by` to the change by rounding the integers of better candidate i, from index `first` on, and `other` to 1 where
   its integer differs from `here`. */
static void load_candidate(const Better *better, ptrdiff_t i, ptrdiff_t first, ptrdiff_t count, Centring *c) {
    const char *values = (const char *)better->values->buf + better->rows.order[i] * stride(better->values, 0);
    const char *unrounded = (const char *)better->unrounded->buf + better->rows.order[i] * stride(better->unrounded, 0);
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
    for (ptrdiff_t i = 0; i < better->rows.count; i++) {
        load_candidate(better, i, first, count, c);
        for (ptrdiff_t k = 0; k < count; k++) c->bias[k] += c->other[k] * c->by[k];
        for (ptrdiff_t k = 0; k < count; k++) c->succeeded[k] = c->other[k] > 0 ? 1 : c->succeeded[k];
    }
    for (ptrdiff_t k = 0; k < count; k++) any += c->succeeded[k];
    if (any == 0) return;
    for (ptrdiff_t i = 0; i < better->rows.count; i++) {
        load_candidate(better, i, first, count, c);
        for (ptrdiff_t k = 0; k < count; k++) /* omit steps that add to the bias */
            c->room[k] += c->bias[k] * c->by[k] < 0 ? (1 - c->other[k]) * c->by[k] : 0;
    }
    for (ptrdiff_t k = 0; k < count; k++) /* from here on the share that compensates for the bias */
        c->room[k] = c->room[k] != 0 ? between(-INFINITY, -c->bias[k] / c->room[k], 1.0) : 0;
    for (ptrdiff_t i = 0; i < better->rows.count; i++) {
        const double weight = better->rows.weights[i] / better->total;
        load_candidate(better, i, first, count, c);
        for (ptrdiff_t k = 0; k < count; k++) {
            const double back = c->bias[k] * c->by[k] < 0 ? (1 - c->other[k]) * c->room[k] : 0;
            c->move[k] += weight * (c->other[k] + back) * c->by[k];
        }
    }
}

/* Change mean and standard deviation of one integer such that its mutation probability stays within its bounds; `reach`
   is the probability of the last generation, then the new one. `least` is the smallest probability that differs from 0
   and from a half in arithmetic. */
static void keep_bounds(double lower, double upper, double alpha, double least, int succeeded, double *mean,
                        double *deviation, double *reach) {
    const double half = 0.5 - least, here = between(lower, nearest(*mean), upper);
    const double below = here - 0.5, above = here + 0.5;
    double low = normal_below((below - *mean) / *deviation), up = normal_below((*mean - above) / *deviation);
    const double cap = succeeded ? half : *reach > alpha ? *reach : alpha;
    if (here <= lower || here >= upper) { /* it can change in one direction only */
        const double p = between(least, between(alpha, here <= lower ? up : low, cap), half);
        const double narrowest = -0.5 / normal_quantile(alpha);
        if (*deviation < narrowest) *deviation = narrowest;
        const double away = *deviation * normal_quantile(p);
        *mean = here <= lower ? above + away : below - away;
        *reach = p;
        return;
    }
    double mid = 1 - low - up;
    /* Lower limit on the probability of no change. Long steps that succeed stay long. */
    const double resting = succeeded ? (mid < alpha / 2 ? mid : alpha / 2) : 1 - cap;
    if (low < alpha / 2 || up < alpha / 2 || mid < resting || low > half || up > half) {
        mid = mid > resting ? mid : resting;
        low = low > alpha / 2 ? low : alpha / 2;
        up = up > alpha / 2 ? up : alpha / 2;
        const double total = low + mid + up, spare = total - alpha - resting;
        const double too_much = between(-INFINITY, (total - 1) / (spare > least ? spare : least), 1.0);
        low = between(least, low - too_much * (low - alpha / 2), half);
        up = between(least, up - too_much * (up - alpha / 2), half);
        const double left = -normal_quantile(low), right = -normal_quantile(up);
        *mean = (below * right + above * left) / (left + right);
        *deviation = 1 / (left + right);
    }
    *reach = low + up;
}

/* recentre_integers(mean, scale, columns, lower, upper, values, unrounded, weights, order, old, deviation, alpha,
   reach, least) */
static PyObject *recentre_integers(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *mean, *scale, *values, *unrounded, *old, *deviation, *reach;
    Better better = {.total = 0};
    Centring centring;
    Grid grid;
    double alpha, least;
    (void)self;
    if (expect("recentre_integers", count, 14) || real(args[11], "alpha", &alpha) || real(args[13], "least", &least))
        return NULL;
    if (!(mean = array(&views, args[0], "mean", 1, "df", 1)) ||
        !(scale = array_like(&views, args[1], "scale", 1, mean, 1)) || !has_shape(scale, "scale", 1, columns(mean)) ||
        grid_of(&views, args + 2, columns(mean), &grid) ||
        !(values = array_like(&views, args[5], "values", 2, mean, 0)) ||
        !has_shape(values, "values", values->shape[0], grid.count) ||
        !(unrounded = array_like(&views, args[6], "unrounded", 2, mean, 0)) ||
        !has_shape(unrounded, "unrounded", values->shape[0], grid.count) ||
        weighted_of(&views, args + 7, values, &better.rows) ||
        !(old = array_like(&views, args[9], "old", 1, mean, 0)) || !has_shape(old, "old", 1, grid.count) ||
        !(deviation = array(&views, args[10], "deviation", 1, "d", 0)) ||
        !has_shape(deviation, "deviation", 1, grid.count) || !(reach = array(&views, args[12], "reach", 1, "d", 1)) ||
        !has_shape(reach, "reach", 1, grid.count)) {
        release(&views);
        return NULL;
    }
    const int single = is_single(mean);
    better.values = values;
    better.unrounded = unrounded;
    Py_BEGIN_ALLOW_THREADS
    for (ptrdiff_t i = 0; i < better.rows.count; i++) better.total += better.rows.weights[i];
    for (ptrdiff_t first = 0; first < grid.count; first += TOGETHER) {
        const ptrdiff_t block = smaller(TOGETHER, grid.count - first);
        for (ptrdiff_t k = 0; k < block; k++)
            centring.here[k] =
                between(grid.lower[first + k], nearest(number_at(old->buf, single, first + k)), grid.upper[first + k]);
        centre_block(&better, first, block, &centring);
        for (ptrdiff_t k = first; k < first + block; k++) {
            const ptrdiff_t at = grid.columns[k];
            const double given = ((const double *)deviation->buf)[k];
            const int succeeded = centring.succeeded[k - first] > 0;
            double wanted = given;
            set_number(mean->buf, single, at, number_at(mean->buf, single, at) + centring.move[k - first]);
            double centre = number_at(mean->buf, single, at);
            keep_bounds(grid.lower[k], grid.upper[k], alpha, least, succeeded, &centre, &wanted,
                        (double *)reach->buf + k);
            set_number(mean->buf, single, at, centre);
            if (wanted != given)
                set_number(scale->buf, single, at, number_at(scale->buf, single, at) * (wanted / given));
        }
    }
    Py_END_ALLOW_THREADS
    return finish(&views, 0);
}
