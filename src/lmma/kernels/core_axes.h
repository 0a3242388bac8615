/* Leading axes of a few rows, and rows stretched along a few axes; see twin_pulse.py and core_pulse.h. */

/* rows rows^T, the lower triangle; where there are more rows than columns, all of rows^T rows. */
static void NAME(axes_gram)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Axes *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), m = job->count, size = job->size;
    double *sums = job->partial + unit * size * size;
    memset(sums, 0, (size_t)(size * size) * sizeof(double));
    if (m > job->n) {
        const ptrdiff_t width = NAME(padded)(job->n);
        REAL *x = (REAL *)scratch, *turned = x + ROWS * width, *total = turned + ROWS * job->n;
        memset(total, 0, (size_t)(job->n * width) * sizeof(REAL));
        for (ptrdiff_t top = 0; top < m; top += ROWS) {
            const ptrdiff_t tall = smaller(ROWS, m - top);
            for (ptrdiff_t i = 0; i < tall; i++) {
                const REAL *row = (const REAL *)job->rows + (top + i) * job->stride;
                NAME(pack_row)(row, job->n, width, x + i * width);
                for (ptrdiff_t j = 0; j < job->n; j++) turned[j * ROWS + i] = row[j];
            }
            NAME(add_products)(job->n, turned, ROWS, tall, x, width, total);
        }
        for (ptrdiff_t i = 0; i < size; i++)
            for (ptrdiff_t j = 0; j < size; j++) sums[i * size + j] = (double)total[i * width + j];
        return;
    }
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *x = (REAL *)scratch;
        double products[DOT_ROWS * MOST_ROWS];
        for (ptrdiff_t i = 0; i < m; i++)
            NAME(pack_row)((const REAL *)job->rows + i * job->stride + start, count, width, x + i * width);
        for (ptrdiff_t i = 0; i < m; i += DOT_ROWS) {
            const ptrdiff_t tall = smaller(DOT_ROWS, m - i), wide = i + tall;
            memset(products, 0, (size_t)(tall * wide) * sizeof(double));
            NAME(dots)(x + i * width, width, tall, x, wide, width, products);
            for (ptrdiff_t r = 0; r < tall; r++)
                for (ptrdiff_t j = 0; j < wide; j++) sums[(i + r) * size + j] += products[r * wide + j];
        }
    }
}

/* Its eigenvalues, and the coefficients of the axes. */
static void NAME(axes_eigen)(void *shared) {
    Axes *job = shared;
    const ptrdiff_t size = job->size, wide = quads(size);
    double *sums = job->partial, *gram = job->gram;
    for (ptrdiff_t unit = 1; unit < job->units; unit++)
        for (ptrdiff_t i = 0; i < size * size; i++) sums[i] += job->partial[unit * size * size + i];
    for (ptrdiff_t i = 0; i < size; i++) {
        for (ptrdiff_t j = 0; j <= i; j++) gram[j * wide + i] = gram[i * wide + j] = sums[i * size + j];
        for (ptrdiff_t j = size; j < wide; j++) gram[i * wide + j] = 0.0;
    }
    NAME(eigen)(gram, size, job->values, job->vectors, job->place, job->work, job->turns);
    const double lost = 100.0 * (SINGLE ? 1.1920928955078125e-07 : 2.220446049250313e-16) * job->values[0];
    REAL *coefficients = job->coefficients;
    for (ptrdiff_t i = 0; i < job->found; i++) {
        const double value = job->values[i], *vector = job->vectors + job->place[i] * wide;
        const int kept = value > SMALLEST && value > lost;
        const double scale = !kept ? 0.0 : job->count > job->n ? 1.0 : 1.0 / sqrt(value);
        job->sizes[i] = kept ? value : 0.0;
        for (ptrdiff_t j = 0; j < size; j++) coefficients[i * size + j] = kept ? (REAL)(scale * vector[j]) : (REAL)0;
    }
}

/* The axes, and the sums of their fourth powers. */
static void NAME(axes_combine)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Axes *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), found = job->found;
    const REAL *coefficients = job->coefficients;
    double *fourths = job->fourths + unit * found;
    for (ptrdiff_t i = 0; i < found; i++) fourths[i] = 0.0;
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *x = (REAL *)scratch, *axes = x + job->count * width;
        if (job->count > job->n) {
            axes = x;
            for (ptrdiff_t i = 0; i < found; i++)
                NAME(pack_row)(coefficients + i * job->size + start, count, width, axes + i * width);
        } else {
            for (ptrdiff_t i = 0; i < job->count; i++)
                NAME(pack_row)((const REAL *)job->rows + i * job->stride + start, count, width, x + i * width);
            memset(axes, 0, (size_t)(found * width) * sizeof(REAL));
            NAME(add_products)(found, coefficients, job->size, job->size, x, width, axes);
        }
        for (ptrdiff_t i = 0; i < found; i++) {
            const REAL *axis = axes + i * width;
            double sum[4] = {0};
            for (ptrdiff_t j = 0; j < width; j += 4) /* a multiple of MIX_COLS, zeros at the end */
                for (int part = 0; part < 4 && j + part < width; part++) {
                    const double square = (double)axis[j + part] * (double)axis[j + part];
                    sum[part] += square * square;
                }
            fourths[i] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
            memcpy((REAL *)job->axes + i * job->axes_stride + start, axis, (size_t)count * sizeof(REAL));
        }
    }
}

/* rows times the axes. */
static void NAME(stretch_project)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Stretch *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), m = job->active;
    double *sums = job->partial + unit * job->count * m;
    memset(sums, 0, (size_t)(job->count * m) * sizeof(double));
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *axes = (REAL *)scratch, *x = axes + m * width;
        for (ptrdiff_t i = 0; i < m; i++)
            NAME(pack_row)((const REAL *)job->axes + job->pick[i] * job->axes_stride + start, count, width, axes + i * width);
        for (ptrdiff_t top = 0; top < job->count; top += ROWS) {
            const ptrdiff_t tall = smaller(ROWS, job->count - top);
            for (ptrdiff_t i = 0; i < tall; i++)
                NAME(pack_row)((const REAL *)job->rows + (top + i) * job->stride + start, count, width, x + i * width);
            NAME(dots)(x, width, tall, axes, m, width, sums + top * m);
        }
    }
}

static void NAME(stretch_fold)(void *shared) {
    Stretch *job = shared;
    const ptrdiff_t m = job->active, all = job->count * m;
    for (ptrdiff_t unit = 1; unit < job->units; unit++)
        for (ptrdiff_t i = 0; i < all; i++) job->partial[i] += job->partial[unit * all + i];
    for (ptrdiff_t i = 0; i < job->count; i++)
        for (ptrdiff_t j = 0; j < m; j++)
            ((REAL *)job->coefficients)[i * m + j] = (REAL)(job->partial[i * m + j] * job->factors[j]);
}

static void NAME(stretch_mix)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Stretch *job = shared;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * job->width), m = job->active;
    for (ptrdiff_t start = unit * job->width; start < stop; start += BLOCK) {
        const ptrdiff_t count = smaller(BLOCK, stop - start), width = NAME(padded)(count);
        REAL *axes = (REAL *)scratch, *x = axes + m * width;
        for (ptrdiff_t i = 0; i < m; i++)
            NAME(pack_row)((const REAL *)job->axes + job->pick[i] * job->axes_stride + start, count, width, axes + i * width);
        for (ptrdiff_t top = 0; top < job->count; top += ROWS) {
            const ptrdiff_t tall = smaller(ROWS, job->count - top);
            for (ptrdiff_t i = 0; i < tall; i++)
                NAME(pack_row)((const REAL *)job->rows + (top + i) * job->stride + start, count, width, x + i * width);
            NAME(add_products)(tall, (const REAL *)job->coefficients + top * m, m, m, axes, width, x);
            NAME(write_rows)(x, tall, width, count, NULL, NULL, (REAL *)job->out + top * job->out_stride + start,
                             job->out_stride);
        }
    }
}
