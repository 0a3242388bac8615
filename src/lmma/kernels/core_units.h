/* What one thread does at a time: all rows of one unit of columns; see core_normal.h. */

/* Fill rows of `z` with normal numbers: pairs [start, stop) of every candidate. */
static void NAME(normals_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Sample *job = shared;
    uint64_t *words = (uint64_t *)scratch;
    REAL *buffer = (REAL *)(words + WORDS_SCRATCH);
    const ptrdiff_t stop = unit_start(job->h, PAIRS, job->units, unit + 1);
    for (ptrdiff_t start = unit_start(job->h, PAIRS, job->units, unit); start < stop; start += PAIRS) {
        const ptrdiff_t count = smaller(PAIRS, stop - start);
        const ptrdiff_t low = smaller(count, job->n - start);
        const ptrdiff_t high = smaller(count, job->n - job->h - start);
        for (ptrdiff_t i = 0; i < job->rows; i++) {
            REAL *z = (REAL *)job->z + i * job->z_stride + start;
            const uint64_t candidate = job->first + (uint64_t)i;
            if (low == count && high == count) {
                NAME(draw)(&job->stream, candidate, job->h, start, count, words, z, z + job->h, NULL, NULL);
            } else {
                NAME(draw)(&job->stream, candidate, job->h, start, count, words, buffer, buffer + count,
                           NULL, NULL);
                if (low > 0) memcpy(z, buffer, (size_t)low * sizeof(REAL));
                if (high > 0) memcpy(z + job->h, buffer + count, (size_t)high * sizeof(REAL));
            }
        }
    }
}

/* Bring the direction vectors up to date if an update waits, and pack `count` columns of them. */
static void NAME(pack_vectors)(const Sample *job, ptrdiff_t column, ptrdiff_t count, ptrdiff_t width, REAL *v) {
    REAL *rows = (REAL *)job->vectors + column;
    if (job->pick) {
        for (ptrdiff_t i = 0; i < job->m; i++)
            NAME(pack)(rows + job->pick[i] * job->v_stride, 0, 1, larger(0, count), width, 0, v + i * width);
        return;
    }
    if (!job->keep || count <= 0) {
        NAME(pack)(rows, job->v_stride, job->m, count, width, width, v);
        return;
    }
    const REAL *mean = (const REAL *)job->z_mean + column;
    for (ptrdiff_t i = 0; i < job->m; i++, rows += job->v_stride, v += width) {
        NAME(renew)(rows, count, (REAL)job->keep[i], (REAL)job->gain[i], mean, v);
        if (count < width) memset(v + count, 0, (size_t)(width - count) * sizeof(REAL));
    }
}

/* Draw z and sum up its products with every direction vector. */
static void NAME(project_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Sample *job = shared;
    uint64_t *words = (uint64_t *)scratch;
    REAL *v = (REAL *)(words + WORDS_SCRATCH);
    REAL *z = v + job->m * 2 * smaller(PAIRS, job->h);
    double *sums = job->partial + unit * job->rows * job->m;
    memset(sums, 0, (size_t)(job->rows * job->m) * sizeof(double));
    const ptrdiff_t stop = unit_start(job->h, PAIRS, job->units, unit + 1);
    for (ptrdiff_t start = unit_start(job->h, PAIRS, job->units, unit); start < stop; start += PAIRS) {
        const ptrdiff_t count = smaller(PAIRS, stop - start), width = 2 * count;
        const ptrdiff_t low = larger(0, smaller(count, job->n - start));
        const ptrdiff_t high = larger(0, smaller(count, job->n - job->h - start));
        const REAL *vectors = (const REAL *)job->vectors + start;
        const int whole = low == count && high == count;
        REAL *v_high = v + job->m * count;
        NAME(pack_vectors)(job, start, low, count, v);
        NAME(pack_vectors)(job, start + job->h, high, count, v_high);
        for (ptrdiff_t top = 0; top < job->rows; top += ROWS) {
            const ptrdiff_t rows = smaller(ROWS, job->rows - top);
            for (ptrdiff_t i = 0; i < rows; i++) {
                const uint64_t candidate = job->first + (uint64_t)(top + i);
                REAL *numbers = z + i * width;
                REAL *out = job->z ? (REAL *)job->z + (top + i) * job->z_stride + start : NULL;
                const int more = top + i < job->m && start + 2 * PAIRS <= job->h;
                const REAL *ahead = more ? vectors + (top + i) * job->v_stride + PAIRS : NULL;
                NAME(draw)(&job->stream, candidate, job->h, start, count, words, numbers, numbers + count,
                           whole ? out : NULL, ahead);
                if (out && !whole) {
                    memcpy(out, numbers, (size_t)low * sizeof(REAL));
                    memcpy(out + job->h, numbers + count, (size_t)high * sizeof(REAL));
                }
            }
            NAME(dots)(z, width, rows, v, job->m, count, sums + top * job->m);
            NAME(dots)(z + count, width, rows, v_high, job->m, count, sums + top * job->m);
        }
    }
}

/* Candidates in `count` columns from `column` on; z lies at `z`. Where arrays are too large for the cache,
   `ahead` points to the next block of V: it is fetched meanwhile, and so are the next rows of z and x. */
static void NAME(mix_block)(const Sample *job, ptrdiff_t top, ptrdiff_t rows, ptrdiff_t column,
                            ptrdiff_t count, const REAL *v, const REAL *mean, const REAL *step,
                            const REAL *z, ptrdiff_t z_stride, const REAL *ahead) {
    const ptrdiff_t v_stride = PAIRS;
    REAL padded_z[MIX_ROWS * MIX_COLS] = {0}, padded_x[MIX_ROWS * MIX_COLS];
    for (ptrdiff_t i = 0; i < rows; i += MIX_ROWS) {
        const ptrdiff_t tall = smaller(MIX_ROWS, rows - i);
        const REAL *mix = (const REAL *)job->mix + (top + i) * job->active;
        REAL *x = (REAL *)job->out + (top + i) * job->out_stride + column;
        for (ptrdiff_t j = 0; j < count; j += MIX_COLS) {
            const ptrdiff_t wide = smaller(MIX_COLS, count - j);
            const REAL *zs = z + i * z_stride + j;
            if (ahead && i + 2 * MIX_ROWS <= rows) {
                NAME(fetch_tile)(zs + MIX_ROWS * z_stride, z_stride, 0);
                NAME(fetch_tile)(x + MIX_ROWS * job->out_stride + j, job->out_stride, 1);
            }
            if (ahead && i + MIX_ROWS <= job->active)
                NAME(fetch_tile)(ahead + i * job->v_stride + j, job->v_stride, 0);
            ptrdiff_t zs_stride = z_stride, xs_stride = job->out_stride;
            REAL *xs = x + j;
            if (wide < MIX_COLS) { /* the last columns: by way of a buffer of full width */
                for (ptrdiff_t r = 0; r < tall; r++)
                    memcpy(padded_z + r * MIX_COLS, zs + r * z_stride, (size_t)wide * sizeof(REAL));
                zs = padded_z, xs = padded_x, zs_stride = xs_stride = MIX_COLS;
            }
#define MIX(R)                                                                                     \
    NAME(mix_tile)(R, mix, job->active, (REAL)job->alpha, v + j, v_stride, mean + j, step + j, zs, \
                   zs_stride, xs, xs_stride)
            switch (tall) {
            case 1: MIX(1); break;
            case 2: MIX(2); break;
            case 3: MIX(3); break;
            default: MIX(4); break;
            }
#undef MIX
            if (wide < MIX_COLS)
                for (ptrdiff_t r = 0; r < tall; r++)
                    memcpy(x + j + r * job->out_stride, padded_x + r * MIX_COLS,
                           (size_t)wide * sizeof(REAL));
        }
    }
}

/* Direction vectors, mean and step of `count` columns, padded with zeros to whole tiles. */
static void NAME(pack_mix)(const Sample *job, ptrdiff_t column, ptrdiff_t count, REAL *v, REAL *mean,
                           REAL *step) {
    const ptrdiff_t width = (count + MIX_COLS - 1) / MIX_COLS * MIX_COLS;
    if (job->pick)
        for (ptrdiff_t i = 0; i < job->active; i++)
            NAME(pack)((const REAL *)job->vectors + job->pick[i] * job->v_stride + column, 0, 1, count, width, 0,
                       v + i * PAIRS);
    else
        NAME(pack)((const REAL *)job->vectors + column, job->v_stride, job->active, count, width,
                   PAIRS, v);
    NAME(pack)((const REAL *)job->mean + column, 0, 1, count, width, 0, mean);
    if (job->steps) {
        NAME(pack)((const REAL *)job->steps + column, 0, 1, count, width, 0, step);
    } else {
        for (ptrdiff_t j = 0; j < width; j++) step[j] = (REAL)job->step;
    }
}

/* Algorithm 1's chain of factors d <- a_j d + c_j (m_j . d) m_j, j = 1 ... active, needs of d only its
   products s_j = m_j . d_{j-1}: with d = alpha z + sum of e_i s_i m_i so far, s_j follows from z V^T and
   V V^T. Sums up z V^T over units, then sets alpha and mix = e * s; `chain` holds s. */
static void NAME(fold)(void *shared) {
    Sample *job = shared;
    const ptrdiff_t rows = job->rows, active = job->active;
    const double *gram = job->gram, *c_d = job->c_d, *projections = job->projections;
    double *chain = job->chain, *e = chain + active * rows;
    REAL *mix = job->mix;
    for (ptrdiff_t i = 0; i < rows * job->m; i++) {
        double sum = 0.0;
        for (ptrdiff_t unit = 0; unit < job->units; unit++) sum += job->partial[unit * rows * job->m + i];
        job->projections[i] = sum;
    }
    job->alpha = 1.0;
    for (ptrdiff_t j = 0; j < active; j++) {
        double *s = chain + j * rows;
        for (ptrdiff_t k = 0; k < rows; k++) s[k] = job->alpha * projections[k * job->m + j];
        for (ptrdiff_t i = 0; i < j; i++) {
            const double weight = e[i] * gram[j * job->gram_stride + i], *earlier = chain + i * rows;
            for (ptrdiff_t k = 0; k < rows; k++) s[k] += weight * earlier[k];
        }
        for (ptrdiff_t i = 0; i < j; i++) e[i] *= 1.0 - c_d[j];
        e[j] = c_d[j];
        job->alpha *= 1.0 - c_d[j];
    }
    for (ptrdiff_t k = 0; k < rows; k++)
        for (ptrdiff_t j = 0; j < active; j++)
            mix[(k / MIX_ROWS * active + j) * MIX_ROWS + k % MIX_ROWS] = (REAL)(e[j] * chain[j * rows + k]);
}

/* The same for pulse: of z along each axis, what L adds along the first, and then B along the others. */
static void NAME(pulse_fold)(void *shared) {
    Sample *job = shared;
    const ptrdiff_t rows = job->rows, m = job->m, longs = job->longs;
    double *total = job->partial;
    REAL *mix = job->mix;
    job->alpha = 1.0;
    for (ptrdiff_t k = 0; k < rows; k++) {
        double *on = total + k * m;
        for (ptrdiff_t unit = 1; unit < job->units; unit++)
            for (ptrdiff_t j = 0; j < m; j++) on[j] += job->partial[(unit * rows + k) * m + j];
        for (ptrdiff_t j = 0; j < m; j++) {
            for (ptrdiff_t l = 0; j >= longs && l < longs; l++) on[j] += on[l] * job->cross[j * longs + l];
            on[j] *= job->stretch[j];
            mix[(k / MIX_ROWS * m + j) * MIX_ROWS + k % MIX_ROWS] = (REAL)on[j];
        }
    }
}

/* Turn z into candidates; where z was not kept, draw it again. */
static void NAME(mix_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Sample *job = shared;
    uint64_t *words = (uint64_t *)scratch;
    REAL *mean = (REAL *)(words + WORDS_SCRATCH), *step = mean + 2 * PAIRS, *z = step + 2 * PAIRS;
    REAL *v[2] = {z + MIX_ROWS * 2 * PAIRS, z + (MIX_ROWS * 2 + job->active) * PAIRS};
    const ptrdiff_t stop = unit_start(job->h, PAIRS, job->units, unit + 1);
    for (ptrdiff_t start = unit_start(job->h, PAIRS, job->units, unit); start < stop; start += PAIRS) {
        const ptrdiff_t count = smaller(PAIRS, stop - start), columns[2] = {start, start + job->h};
        const int far_away = job->rows * job->n * (ptrdiff_t)sizeof(REAL) > FAR && start + 2 * PAIRS <= job->h;
        const ptrdiff_t valid[2] = {smaller(count, job->n - columns[0]), smaller(count, job->n - columns[1])};
        for (int side = 0; side < 2; side++) {
            if (valid[side] <= 0) continue;
            NAME(pack_mix)(job, columns[side], valid[side], v[side], mean + side * PAIRS, step + side * PAIRS);
            if (job->z)
                NAME(mix_block)(job, 0, job->rows, columns[side], valid[side], v[side], mean + side * PAIRS,
                                step + side * PAIRS, (const REAL *)job->z + columns[side], job->z_stride,
                                far_away ? (const REAL *)job->vectors + columns[side] + PAIRS : NULL);
        }
        for (ptrdiff_t top = 0; !job->z && top < job->rows; top += MIX_ROWS) {
            const ptrdiff_t rows = smaller(MIX_ROWS, job->rows - top);
            for (ptrdiff_t i = 0; i < rows; i++) {
                REAL *numbers = z + i * 2 * PAIRS;
                NAME(draw)(&job->stream, job->first + (uint64_t)(top + i), job->h, start, count, words,
                           numbers, numbers + PAIRS, NULL, NULL);
            }
            for (int side = 0; side < 2; side++)
                NAME(mix_block)(job, top, rows, columns[side], valid[side], v[side], mean + side * PAIRS,
                                step + side * PAIRS, z + side * PAIRS, 2 * PAIRS, NULL);
        }
    }
}

/* out = share * base + the sum of weight[i] * rows[order[i]], four rows at a time. */
static void NAME(recombine_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Recombine *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width);
    (void)scratch;
    for (ptrdiff_t start = unit * job->width; start < stop; start += STRIP) {
        const ptrdiff_t count = smaller(STRIP, stop - start);
        REAL *out = (REAL *)job->out + start;
        if (job->base) {
            const REAL *base = (const REAL *)job->base + start, share = (REAL)job->share;
            for (ptrdiff_t j = 0; j < count; j++) out[j] = share * base[j];
        } else {
            memset(out, 0, (size_t)count * sizeof(REAL));
        }
        for (ptrdiff_t i = 0; i < job->count; i += 4) {
            const REAL *row[4];
            REAL weight[4];
            for (int k = 0; k < 4; k++) { /* missing rows: any row, with weight zero, is not read */
                const ptrdiff_t at = smaller(i + k, job->count - 1);
                row[k] = (const REAL *)job->rows + job->order[at] * job->stride + start;
                weight[k] = (REAL)job->weights[at];
            }
            switch (job->count - i) {
            case 1:
                for (ptrdiff_t j = 0; j < count; j++) out[j] += weight[0] * row[0][j];
                break;
            case 2:
                for (ptrdiff_t j = 0; j < count; j++)
                    out[j] += weight[0] * row[0][j] + weight[1] * row[1][j];
                break;
            case 3:
                for (ptrdiff_t j = 0; j < count; j++)
                    out[j] += weight[0] * row[0][j] + weight[1] * row[1][j] + weight[2] * row[2][j];
                break;
            default:
                for (ptrdiff_t j = 0; j < count; j++)
                    out[j] += (weight[0] * row[0][j] + weight[1] * row[1][j]) +
                              (weight[2] * row[2][j] + weight[3] * row[3][j]);
            }
        }
    }
}

/* The sum of weight[i] * rows[order[i]]^2 in `count` columns from `start` on. */
static void NAME(add_squares)(const Recombine *job, ptrdiff_t start, ptrdiff_t count, REAL *sum) {
    memset(sum, 0, (size_t)count * sizeof(REAL));
    for (ptrdiff_t i = 0; i < job->count; i++) {
        const REAL *row = (const REAL *)job->rows + job->order[i] * job->stride + start;
        const REAL weight = (REAL)job->weights[i];
        for (ptrdiff_t j = 0; j < count; j++) sum[j] += weight * (row[j] * row[j]);
    }
}

static void NAME(squares_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Recombine *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width);
    (void)scratch;
    for (ptrdiff_t start = unit * job->width; start < stop; start += STRIP)
        NAME(add_squares)(job, start, smaller(STRIP, stop - start), (REAL *)job->out + start);
}

/* out *= exp(rate * (those squares + share * (base^2 - 1))). */
static void NAME(rescale_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Recombine *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width);
    const REAL share = (REAL)job->share, rate = (REAL)job->rate;
    REAL excess[STRIP];
    (void)scratch;
    for (ptrdiff_t start = unit * job->width; start < stop; start += STRIP) {
        const ptrdiff_t count = smaller(STRIP, stop - start);
        const REAL *base = (const REAL *)job->base + start;
        REAL *out = (REAL *)job->out + start;
        NAME(add_squares)(job, start, count, excess);
        for (ptrdiff_t j = 0; j < count; j++) {
            const REAL exponent = rate * (excess[j] + share * (base[j] * base[j] - 1));
            out[j] *= SINGLE ? (REAL)expf((float)exponent) : (REAL)exp(exponent);
        }
    }
}

/* Row i of the direction vectors becomes keep[i] * row + gain[i] * z_mean. */
static void NAME(update_unit)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Update *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width);
    (void)scratch;
    for (ptrdiff_t start = unit * job->width; start < stop; start += STRIP) {
        const ptrdiff_t count = smaller(STRIP, stop - start);
        const REAL *mean = (const REAL *)job->z_mean + start;
        for (ptrdiff_t i = 0; i < job->m; i++) {
            REAL *row = (REAL *)job->vectors + i * job->stride + start;
            NAME(renew)(row, count, (REAL)job->keep[i], (REAL)job->gain[i], mean, row);
        }
    }
}
