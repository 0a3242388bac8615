/* A sum of squares q q^T of a few rows, some of them subtracted: what a matrix learns. */

/* Columns as rows, those of rows that are subtracted with their sign turned. */
static void NAME(turn_columns)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Squares *job = shared;
    const ptrdiff_t count = job->count, more = count - job->against;
    const ptrdiff_t stop = smaller(job->n, (unit + 1) * SQUARE_COLS);
    (void)scratch;
    for (ptrdiff_t j = unit * SQUARE_COLS; j < stop; j++) {
        REAL *turned = (REAL *)job->turned + j * count;
        const REAL *column = (const REAL *)job->rows + j;
        for (ptrdiff_t i = 0; i < more; i++) turned[i] = column[i * job->stride];
        for (ptrdiff_t i = more; i < count; i++) turned[i] = -column[i * job->stride];
    }
}

/* The lower triangle of the total, in the columns of a unit. */
static void NAME(square_columns)(const void *shared, ptrdiff_t unit, char *scratch) {
    const Squares *job = shared;
    const ptrdiff_t start = unit * SQUARE_COLS, wide = smaller(SQUARE_COLS, job->n - start), count = job->count;
    REAL *x = (REAL *)scratch, *sums = x + count * SQUARE_COLS;
    for (ptrdiff_t i = 0; i < count; i++)
        NAME(pack_row)((const REAL *)job->rows + i * job->stride + start, wide, SQUARE_COLS, x + i * SQUARE_COLS);
    memset(sums, 0, (size_t)((job->n - start) * SQUARE_COLS) * sizeof(REAL));
    NAME(add_products)(job->n - start, (const REAL *)job->turned + start * count, count, count, x, SQUARE_COLS, sums);
    for (ptrdiff_t i = start; i < job->n; i++) {
        REAL *total = (REAL *)job->total + i * job->total_stride + start;
        const REAL *sum = sums + (i - start) * SQUARE_COLS;
        const ptrdiff_t some = smaller(wide, i - start + 1);
        for (ptrdiff_t j = 0; j < some; j++) total[j] += sum[j];
        if (i - start < wide) total[i - start] -= (REAL)job->fade;
    }
}
