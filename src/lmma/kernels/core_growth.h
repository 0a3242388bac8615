/* A becomes A (I + G/2) and its inverse follows, for matrices so small that a call of LAPACK costs more than its work. */

/* The lower triangle of m becomes the L of L L^T = m, with the inverses of its diagonal; 0 where there is none. */
static int NAME(factored)(REAL *m, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        REAL *row = m + i * n, left;
        for (ptrdiff_t j = 0; j < i; j++) {
            const REAL *other = m + j * n;
            REAL sum = row[j];
            for (ptrdiff_t k = 0; k < j; k++) sum -= row[k] * other[k];
            row[j] = sum * other[j];
        }
        left = row[i];
        for (ptrdiff_t k = 0; k < i; k++) left -= row[k] * row[k];
        if (!(left > 0)) return 0;
        row[i] = (REAL)(1.0 / sqrt((double)left));
    }
    return 1;
}

INLINE void NAME(subtract_row)(REAL factor, const REAL *from, ptrdiff_t n, REAL *to) {
    for (ptrdiff_t j = 0; j < n; j++) to[j] -= factor * from[j];
}

/* Rows x become those of (L L^T)^-1 x. */
static void NAME(solved_rows)(const REAL *factor, ptrdiff_t n, ptrdiff_t stride, REAL *x) {
    for (ptrdiff_t i = 0; i < n; i++) {
        for (ptrdiff_t k = 0; k < i; k++) NAME(subtract_row)(factor[i * n + k], x + k * stride, n, x + i * stride);
        for (ptrdiff_t j = 0; j < n; j++) x[i * stride + j] *= factor[i * n + i];
    }
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        for (ptrdiff_t k = i + 1; k < n; k++) NAME(subtract_row)(factor[k * n + i], x + k * stride, n, x + i * stride);
        for (ptrdiff_t j = 0; j < n; j++) x[i * stride + j] *= factor[i * n + i];
    }
}

/* Space: two (n, n) arrays and two of n rows of padded width. Returns 0, with nothing changed, where I + G/2 is not positive
   definite. */
static int NAME(grow)(const Growth *job, void *space) {
    const ptrdiff_t n = job->n, width = NAME(padded)(n);
    REAL *half = space, *factor = half + n * n, *old = factor + n * n, *grown = old + n * width;
    REAL *change = job->change;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j <= i; j++)
            factor[i * n + j] = half[i * n + j] = half[j * n + i] = change[i * job->change_stride + j] / 2;
    for (ptrdiff_t i = 0; i < n; i++) factor[i * n + i] += 1;
    if (!NAME(factored)(factor, n)) return 0;
    for (ptrdiff_t i = 0; i < n; i++)
        NAME(pack_row)((const REAL *)job->columns + i * job->columns_stride, n, width, old + i * width);
    memcpy(grown, old, (size_t)(n * width) * sizeof(REAL));
    NAME(add_products)(n, half, n, n, old, width, grown);
    for (ptrdiff_t i = 0; i < n; i++) {
        memcpy((REAL *)job->columns + i * job->columns_stride, grown + i * width, (size_t)n * sizeof(REAL));
        memset(change + i * job->change_stride, 0, (size_t)n * sizeof(REAL));
    }
    NAME(solved_rows)(factor, n, job->inverse_stride, job->inverse);
    return 1;
}
