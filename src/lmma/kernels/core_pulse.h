/* What pulse learns from a ranked population, block by block of columns; twin_pulse.py has the formulas. */

#define BLOCK (SINGLE ? 480 : 240) /* columns, a multiple of MIX_COLS; 48 rows and all axes fit the caches */

/* Bring the next block of a row into the cache, if this one is whole, while there is work to do on this one: rows of many
   columns lie far apart, and the processor sees no pattern in it. */
INLINE void NAME(fetch_next)(const REAL *row, ptrdiff_t count) {
    const char *next = (const char *)(row + count);
    if (count < BLOCK) return;
    for (size_t byte = 0; byte < BLOCK * sizeof(REAL); byte += 64) PREFETCH(next + byte, 0);
}

/* `count` numbers of a row, then zeros up to `width`. */
INLINE void NAME(pack_row)(const REAL *row, ptrdiff_t count, ptrdiff_t width, REAL *out) {
    NAME(fetch_next)(row, count);
    memcpy(out, row, (size_t)count * sizeof(REAL));
    if (count < width) memset(out + count, 0, (size_t)(width - count) * sizeof(REAL));
}

/* out += coefficients (R x p) times x (p x width), R rows and three vectors of columns. */
INLINE void NAME(product_tile)(const int R, const REAL *coefficients, ptrdiff_t stride, ptrdiff_t p, const REAL *x,
                               ptrdiff_t width, REAL *out) {
    Vec acc[MIX_ROWS][3];
    UNROLL for (int i = 0; i < R; i++)
        UNROLL for (int j = 0; j < 3; j++) acc[i][j] = NAME(load)(out + i * width + j * LANES);
    for (ptrdiff_t k = 0; k < p; k++, x += width) {
        Vec b[3];
        UNROLL for (int j = 0; j < 3; j++) b[j] = NAME(load)(x + j * LANES);
        UNROLL for (int i = 0; i < R; i++) {
            Vec a = SPREAD(coefficients[i * stride + k]);
            UNROLL for (int j = 0; j < 3; j++) acc[i][j] = FMA(a, b[j], acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < R; i++)
        UNROLL for (int j = 0; j < 3; j++) NAME(store)(out + i * width + j * LANES, acc[i][j]);
}

/* The same for `rows` rows; width is a multiple of MIX_COLS, rows of x and of out follow one another. */
static void NAME(add_products)(ptrdiff_t rows, const REAL *coefficients, ptrdiff_t stride, ptrdiff_t p,
                               const REAL *x, ptrdiff_t width, REAL *out) {
    if (p == 0) return;
    for (ptrdiff_t j = 0; j < width; j += MIX_COLS)
        for (ptrdiff_t i = 0; i < rows; i += MIX_ROWS) {
            const REAL *c = coefficients + i * stride;
            REAL *to = out + i * width + j;
            switch (rows - i) {
            case 1: NAME(product_tile)(1, c, stride, p, x + j, width, to); break;
            case 2: NAME(product_tile)(2, c, stride, p, x + j, width, to); break;
            case 3: NAME(product_tile)(3, c, stride, p, x + j, width, to); break;
            default: NAME(product_tile)(4, c, stride, p, x + j, width, to); break;
            }
        }
}

INLINE ptrdiff_t NAME(padded)(ptrdiff_t count) { return (count + MIX_COLS - 1) / MIX_COLS * MIX_COLS; }

/* Row i of z, then of the paths, then of the axes: as they are (0), or as A (1) or A^-T (2) shows them; A shows B L z
   instead of z. */
INLINE const REAL *NAME(row_of)(const Pulse *job, int side, ptrdiff_t i) {
    const Turned *shown = side && job->images.rows ? side == 1 ? &job->images : &job->duals : NULL;
    if (shown && i < job->count) return (const REAL *)shown->rows + i * shown->stride;
    if (i < job->count) return (const REAL *)job->z + i * job->z_stride;
    i -= job->count;
    if (shown) /* p_A is not among the few */
        return (const REAL *)shown->few + (i < job->paths ? i : i - job->paths + 2) * shown->few_stride;
    if (i < 2) return (const REAL *)job->path + i * job->path_stride;
    if (i < job->paths) return job->third;
    return (const REAL *)job->axes + (i - job->paths) * job->axes_stride;
}

/* Columns of the axes that L or B uses, one row after another. */
static void NAME(pack_active)(const Pulse *job, int side, ptrdiff_t column, ptrdiff_t count, ptrdiff_t width,
                              REAL *out) {
    const ptrdiff_t first = job->count + job->paths;
    for (ptrdiff_t i = 0; i < job->active; i++, out += width)
        NAME(pack_row)(NAME(row_of)(job, side, first + job->pick[i]) + column, count, width, out);
}

/* Products of z and the paths with all axes, and of U with V; the sum of log D. */
static void NAME(pulse_project)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Pulse *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), k = job->longs + job->shorts;
    const ptrdiff_t rows = job->count + job->paths;
    double *sums = job->partial + unit * job->partial_size, *cross = sums + rows * k;
    memset(sums, 0, (size_t)job->partial_size * sizeof(double));
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *axes = (REAL *)scratch, *x = axes + k * width;
        for (ptrdiff_t i = 0; i < k; i++)
            NAME(pack_row)((const REAL *)job->axes + i * job->axes_stride + start, count, width, axes + i * width);
        NAME(dots)(axes, width, job->longs, axes + job->longs * width, job->shorts, width, cross);
        for (ptrdiff_t top = 0; top < rows; top += ROWS) {
            const ptrdiff_t tall = smaller(ROWS, rows - top);
            for (ptrdiff_t i = 0; i < tall; i++)
                NAME(pack_row)(NAME(row_of)(job, 0, top + i) + start, count, width, x + i * width);
            NAME(dots)(x, width, tall, axes, k, width, sums + top * k);
        }
        const REAL *scales = (const REAL *)job->scales + start;
        double *logs = cross + job->longs * job->shorts, *lengths2 = logs + 1;
        for (ptrdiff_t i = 0; job->images.rows && i < job->count; i++) {
            const REAL *row = NAME(row_of)(job, 0, i) + start;
            double sum = 0.0, next = 0.0;
            for (ptrdiff_t j = 0; j + 1 < count; j += 2) {
                sum += (double)row[j] * (double)row[j];
                next += (double)row[j + 1] * (double)row[j + 1];
            }
            if (count % 2) sum += (double)row[count - 1] * (double)row[count - 1];
            lengths2[i] += sum + next;
        }
        for (ptrdiff_t j = 0; j < count; j++) *logs += job->excess[start + j] = log((double)scales[j]);
    }
}

/* From those products, every coefficient. */
static void NAME(pulse_coefficients)(void *shared) {
    Pulse *job = shared;
    const ptrdiff_t K = job->longs, M = job->shorts, k = K + M, R = job->count, rows = R + job->paths;
    const ptrdiff_t active = job->active, longs = job->active_longs;
    double *total = job->partial;
    for (ptrdiff_t unit = 1; unit < job->units; unit++)
        for (ptrdiff_t i = 0; i < job->partial_size; i++) total[i] += job->partial[unit * job->partial_size + i];
    const double *u = total, *cross = total + rows * k, t = (double)job->generations;
    job->mean_log = cross[K * M] / (double)job->n;
    double across = 0.0; /* axes that contract across coordinates */
    for (ptrdiff_t i = 0; i < M; i++) {
        const double part = job->gains[K + i] / (1.0 + job->gains[K + i]);
        across += part * part / job->concentration[i];
    }
    const double theta = 1.0 / (1.0 + CALMING * across);
    job->scale *= theta;
    job->far = (1.0 - theta) * (1.0 - theta);
    double *more = job->more, *less = job->less;
    for (ptrdiff_t i = 0; i < k; i++) {
        const double root = sqrt(1.0 + job->gains[i]);
        more[i] = root - 1.0;
        less[i] = 1.0 / root - 1.0;
    }
    for (ptrdiff_t i = 0; i < R; i++) {
        const double v = job->ranks[i], length2 = cross[K * M + 1 + i];
        job->part[i] = sqrt(job->c_mu * (v < 0 ? -v * job->against / (length2 > 1e-30 ? length2 : 1e-30) : v));
    }
    job->part[rows - 1] = sqrt(job->c_1);
    for (ptrdiff_t i = 0; i < k; i++) job->part[rows + i] = sqrt(job->fade * job->gains[i] / (1.0 + job->gains[i]));
    double *a = job->of_a, *b = job->of_b, *d = job->of_d; /* (rows, active) */
    const int turns = job->images.rows != NULL;
    REAL *real_a = job->real_a, *of_image = job->of_image, *new_long = job->new_long, *new_short = job->new_short;
    ptrdiff_t better = 0, worse = 0;
    for (ptrdiff_t i = 0; i < rows; i++, a += active, b += active, d += active) {
        const double *products = u + i * k;
        for (ptrdiff_t j = 0; j < longs; j++) {
            const double on = products[job->pick[j]];
            a[j] = b[j] = on * less[job->pick[j]];
            d[j] = on * more[job->pick[j]];
        }
        for (ptrdiff_t j = longs; j < active; j++) {
            const ptrdiff_t at = job->pick[j];
            double e = products[at], f = products[at];
            for (ptrdiff_t l = 0; l < longs; l++) {
                const double on = cross[job->pick[l] * M + at - K];
                e += a[l] * on;
                f += d[l] * on;
            }
            a[j] = e * less[at];
            b[j] = e * more[at];
            d[j] = f * less[at];
        }
        for (ptrdiff_t j = 0; j < active; j++) {
            real_a[i * active + j] = (REAL)a[j];
            of_image[i * active + j] = (REAL)(turns && i < R ? a[j] - d[j] : a[j]);
        }
        if (i == R + 1) /* B of the path, which has not been through L again */
            for (ptrdiff_t j = 0; j < active; j++)
                ((REAL *)job->of_path)[j] = j < longs ? (REAL)0 : (REAL)(products[job->pick[j]] * less[job->pick[j]]);
        if (i < R && job->weights[i] > 0)
            for (ptrdiff_t j = 0; j < active; j++, new_long++) *new_long = (REAL)d[j];
        if (i < R && job->ranks[i] < 0)
            for (ptrdiff_t j = 0; j < active; j++, new_short++) *new_short = (REAL)b[j];
    }
    /* Rows of U after B, and what stays of F: own U_i + mixed d, the latter over those selected against */
    const double c = job->c_mu_long, c_short = job->c_short;
    for (ptrdiff_t i = 0; i < K; i++) {
        const double kept = sqrt(pow(1.0 - job->c_1_long - c, t) * job->sizes[i]);
        REAL *turned = (REAL *)job->of_long + i * active;
        double *stay = job->stay;
        job->own[i] = kept * (1.0 + t * c / 2.0);
        for (ptrdiff_t j = 0; j < active; j++) {
            const double along = j < longs ? 0.0 : cross[i * M + job->pick[j] - K] * less[job->pick[j]];
            turned[j] = (REAL)along;
            stay[j] = job->own[i] * along;
        }
        worse = 0;
        for (ptrdiff_t r = 0; r < R; r++) {
            if (!(job->ranks[r] < 0)) continue;
            const double mixed = c / 2.0 * kept * (1.0 + less[i]) * job->ranks[r] * u[r * k + i];
            const double *of_d = job->of_d + r * active;
            ((REAL *)job->mix_long)[i * job->worse + worse++] = (REAL)mixed;
            for (ptrdiff_t j = 0; j < active && !turns; j++) stay[j] += mixed * of_d[j];
        }
        for (ptrdiff_t j = 0; j < active; j++) ((REAL *)job->stay_long)[i * active + j] = (REAL)stay[j];
    }
    for (ptrdiff_t i = 0; i < M; i++) {
        const double kept = sqrt(pow(1.0 - c_short, t) * job->sizes[K + i]);
        double *stay = job->stay;
        job->own[K + i] = kept * (1.0 + t * c_short / 2.0);
        memset(stay, 0, (size_t)active * sizeof(double));
        better = 0;
        for (ptrdiff_t r = 0; r < R; r++) {
            if (!(job->weights[r] > 0)) continue;
            double e = u[r * k + K + i];
            for (ptrdiff_t l = 0; l < longs; l++) e += job->of_a[r * active + l] * cross[job->pick[l] * M + i];
            const double mixed = -c_short / 2.0 * kept * (1.0 + less[K + i]) * job->weights[r] * e;
            const double *of_b = job->of_b + r * active;
            ((REAL *)job->mix_short)[i * job->better + better++] = (REAL)mixed;
            for (ptrdiff_t j = 0; j < active; j++) stay[j] += mixed * of_b[j];
        }
        for (ptrdiff_t j = 0; j < active; j++) ((REAL *)job->stay_short)[i * active + j] = (REAL)stay[j];
    }
}

/* g, guarded and pulled back, times the rate of D, in place of log D; and its sum. */
static void NAME(pulse_excess)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Pulse *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), active = job->active, R = job->count;
    const ptrdiff_t longs = job->active_longs;
    const int turns = job->images.rows != NULL;
    double sum = 0.0;
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *axes = (REAL *)scratch, *images = axes + active * width, *duals = images + active * width;
        REAL *x = duals + active * width, *y = x + ROWS * width, *g = y + ROWS * width;
        REAL *grown = g + width, *shrunk = grown + width;
        NAME(pack_active)(job, 0, start, count, width, axes);
        if (turns) {
            NAME(pack_active)(job, 1, start, count, width, images);
            NAME(pack_active)(job, 2, start, count, width, duals);
        } else {
            images = duals = axes;
            y = x;
        }
        memset(g, 0, 3 * (size_t)width * sizeof(REAL));
        for (ptrdiff_t top = 0; top <= R; top += ROWS) { /* p_sigma follows z */
            const ptrdiff_t tall = smaller(ROWS, R + 1 - top);
            for (int side = 1; side <= 1 + turns; side++) {
                const REAL *of_a = (const REAL *)(side == 1 ? job->of_image : job->real_a) + top * active;
                REAL *rows = side == 1 ? x : y;
                for (ptrdiff_t i = 0; i < tall; i++)
                    NAME(pack_row)(NAME(row_of)(job, side, top + i) + start, count, width, rows + i * width);
                NAME(add_products)(tall, of_a, active, active, side == 1 ? images : duals, width, rows);
            }
            for (ptrdiff_t i = 0; i < tall; i++) {
                const REAL weight = (REAL)(top + i < R ? job->ranks[top + i] : job->share);
                const REAL *image = x + i * width, *dual = y + i * width;
                for (ptrdiff_t j = 0; j < width; j++) g[j] += weight * (image[j] * dual[j]);
            }
        }
        for (ptrdiff_t i = 0; i < active; i++) {
            const double gain = job->gains[job->pick[i]];
            const REAL part = (REAL)(gain / (1.0 + gain)), share = part * (REAL)job->share;
            const REAL *image = images + i * width, *dual = duals + i * width, *axis = axes + i * width;
            REAL *taken = i < longs ? shrunk : grown;
            if (i < longs) { /* U after B */
                const REAL *of_long = (const REAL *)job->of_long + job->pick[i] * active;
                memcpy(x, image, (size_t)width * sizeof(REAL));
                NAME(add_products)(1, of_long, active, active, images, width, x);
                if (turns) {
                    memcpy(y, dual, (size_t)width * sizeof(REAL));
                    NAME(add_products)(1, of_long, active, active, duals, width, y);
                }
                image = x, dual = y;
            }
            for (ptrdiff_t j = 0; j < width; j++) {
                g[j] += share * (image[j] * dual[j]);
                taken[j] += part * (axis[j] * axis[j]);
            }
        }
        const REAL *damping = turns ? (const REAL *)job->damping + start : NULL;
        for (ptrdiff_t j = 0; j < count; j++) {
            const double raw = (double)(g[j] - (REAL)job->share) * (damping ? (double)damping[j] : 1.0);
            const double taken = 1.0 - 2.0 * (double)(raw > 0 ? grown[j] : shrunk[j]);
            const double logs = job->excess[start + j] - job->mean_log;
            const double beyond = logs > job->reach ? logs - job->reach : logs < -job->reach ? logs + job->reach : 0.0;
            const double back = job->pull * logs + job->far * beyond;
            const double step = job->scale * (raw * (taken > 0 ? taken : 0.0) - (double)job->generations * back);
            job->excess[start + j] = step;
            sum += step;
        }
    }
    job->sums[unit] = sum;
}

/* Write rows of a block to row `to` of an array and on, times factors for each row and column, if given. */
static void NAME(write_rows)(const REAL *rows, ptrdiff_t tall, ptrdiff_t width, ptrdiff_t count, const REAL *gains,
                             const REAL *factors, REAL *to, ptrdiff_t stride) {
    for (ptrdiff_t i = 0; i < tall; i++, rows += width, to += stride) {
        if (gains)
            for (ptrdiff_t j = 0; j < count; j++) to[j] = gains[i] * rows[j] * factors[j];
        else if (factors)
            for (ptrdiff_t j = 0; j < count; j++) to[j] = rows[j] * factors[j];
        else
            memcpy(to, rows, (size_t)count * sizeof(REAL));
    }
}

/* The rows of F as A shows them (or of H as A^-T does), in `count` columns from `start` on: what stays, then what is new. */
static void NAME(pulse_side)(const Pulse *job, int is_short, ptrdiff_t start, ptrdiff_t count, ptrdiff_t width,
                             const REAL *shown, const REAL *factors, REAL *x, REAL *stay) {
    const int through = !is_short && job->images.rows; /* the images have been through B L */
    const int side = is_short ? 2 : 1;
    const ptrdiff_t active = job->active, R = job->count, first = R + job->paths;
    const ptrdiff_t kept = is_short ? job->shorts : job->longs, offset = is_short ? job->longs : 0;
    const ptrdiff_t mixed = is_short ? job->better : job->worse, path = is_short ? 0 : 1;
    const REAL *mix = is_short ? job->mix_short : job->mix_long, *coefficients = is_short ? job->new_short : job->new_long;
    const ptrdiff_t stride = is_short ? job->short_stride : job->long_stride;
    REAL *out = (REAL *)(is_short ? job->short_rows : job->long_rows) + start;
    const double c = is_short ? job->c_short : job->c_mu_long;
    for (ptrdiff_t i = 0; i < kept; i++) {
        const REAL *axis = NAME(row_of)(job, side, first + offset + i) + start, size = (REAL)job->own[offset + i];
        REAL *row = stay + i * width;
        for (ptrdiff_t j = 0; j < count; j++) row[j] = size * axis[j];
        for (ptrdiff_t j = count; j < width; j++) row[j] = 0;
    }
    if (path) NAME(pack_row)(NAME(row_of)(job, 1, R + 1) + start, count, width, stay + kept * width);
    NAME(add_products)(kept, is_short ? job->stay_short : job->stay_long, active, active, shown, width, stay);
    if (path) NAME(add_products)(1, job->of_path, active, active, shown, width, stay + kept * width);
    ptrdiff_t taken = 0, tall = 0;
    REAL gains[ROWS];
    for (ptrdiff_t i = 0; i < R; i++) {
        if (is_short ? job->weights[i] > 0 : job->ranks[i] < 0)
            NAME(pack_row)(NAME(row_of)(job, side, i) + start, count, width, x + tall++ * width);
        if (tall == ROWS || (i == R - 1 && tall)) {
            NAME(add_products)(kept, mix + taken, mixed, tall, x, width, stay);
            taken += tall;
            tall = 0;
        }
    }
    NAME(write_rows)(stay, kept + path, width, count, NULL, factors, out, stride);
    out += (kept + path) * stride;
    for (ptrdiff_t i = 0; i < R; i++) {
        const double weight = is_short ? -job->ranks[i] : job->weights[i];
        if (weight > 0) {
            gains[tall] = (REAL)sqrt(c * weight);
            NAME(pack_row)(NAME(row_of)(job, side, i) + start, count, width, x + tall++ * width);
        }
        if (tall == ROWS || (i == R - 1 && tall)) {
            if (!through) NAME(add_products)(tall, coefficients, active, active, shown, width, x);
            coefficients += tall * active;
            NAME(write_rows)(x, tall, width, count, gains, factors, out, stride);
            out += tall * stride;
            tall = 0;
        }
    }
}

/* Rows x, whose numbers are in `which`, as B and L^-1 leave them, each times its part in G. */
static void NAME(turn_rows)(const Pulse *job, const ptrdiff_t *which, ptrdiff_t tall, ptrdiff_t start,
                            ptrdiff_t count, ptrdiff_t width, const REAL *axes, REAL *x, REAL *out) {
    const ptrdiff_t active = job->active, first = job->count + job->paths, stride = job->turned_stride;
    for (ptrdiff_t i = 0; i < tall; i++) {
        const ptrdiff_t row = which[i];
        const REAL part = (REAL)job->part[row];
        REAL *to = x + i % MIX_ROWS * width;
        NAME(pack_row)(NAME(row_of)(job, 0, row) + start, count, width, to);
        if (row < first + job->longs)
            NAME(add_products)(1, (const REAL *)(row < first ? job->real_a : job->of_long) +
                               (row < first ? row : row - first) * active, active, active, axes, width, to);
        for (ptrdiff_t j = 0; j < count; j++) out[i * stride + j] = part * to[j];
    }
}

/* G: a of the rows that add to it and of the last path, B U and V as far as they have a gain; then a of the rows that
   take away. */
static void NAME(pulse_turned)(const Pulse *job, ptrdiff_t start, ptrdiff_t count, ptrdiff_t width,
                               const REAL *axes, REAL *x) {
    const ptrdiff_t R = job->count, all = R + job->paths + job->longs + job->shorts;
    REAL *out = (REAL *)job->turned + start;
    for (int against = 0; against < 2; against++)
        for (ptrdiff_t i = 0; i < all; i++) {
            if (i == R || i == R + 1) continue; /* p_sigma and p_c have no part in A */
            if (i >= R + job->paths && !(job->gains[i - R - job->paths] > 0)) continue; /* nor have axes at rest */
            if ((i < R && job->ranks[i] < 0) != against) continue;
            NAME(turn_rows)(job, &i, 1, start, count, width, axes, x, out);
            out += job->turned_stride;
        }
}

/* D moves; the rows of F and H follow. */
static void NAME(pulse_rows)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Pulse *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), active = job->active;
    const int turns = job->images.rows != NULL;
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *axes = (REAL *)scratch, *shown = axes + active * width, *x = shown + active * width;
        REAL *factors = x + ROWS * width, *stay = factors + width;
        REAL *scales = (REAL *)job->scales + start;
        NAME(pack_active)(job, 0, start, count, width, axes);
        for (ptrdiff_t j = 0; j < count; j++) {
            const double step = job->excess[start + j];
            scales[j] *= (REAL)exp(step);
            factors[j] = (REAL)exp(job->mean_excess - step);
        }
        if (turns) NAME(pack_active)(job, 1, start, count, width, shown);
        NAME(pulse_side)(job, 0, start, count, width, turns ? shown : axes, factors, x, stay);
        for (ptrdiff_t j = 0; j < count; j++) factors[j] = (REAL)exp(job->excess[start + j] - job->mean_excess);
        if (turns) NAME(pack_active)(job, 2, start, count, width, shown);
        NAME(pulse_side)(job, 1, start, count, width, turns ? shown : axes, factors, x, stay);
        if (turns) NAME(pulse_turned)(job, start, count, width, axes, x);
    }
}
