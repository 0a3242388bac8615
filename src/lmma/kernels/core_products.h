/* The two matrix products of a generation, on blocks that stay in the cache; see core_normal.h. */

/* Rows of a block lie one after another: rows of the arrays may be a power of two apart, where they
   would drive one another out of the cache. `out` gets `count` columns, then zeros up to `width`. */
static void NAME(pack)(const REAL *rows, ptrdiff_t stride, ptrdiff_t height, ptrdiff_t count,
                       ptrdiff_t width, ptrdiff_t out_stride, REAL *out) {
    for (ptrdiff_t i = 0; i < height; i++, rows += stride, out += out_stride) {
        memcpy(out, rows, (size_t)count * sizeof(REAL));
        if (count < width) memset(out + count, 0, (size_t)(width - count) * sizeof(REAL));
    }
}

/* row = keep * row + gain * mean, and a copy of it in `copy`, which may be `row` itself. All updates of
   direction vectors come here: the same bits whether they ride in the next sampling or not. */
NOINLINE static void NAME(renew)(REAL *row, ptrdiff_t count, REAL keep, REAL gain, const REAL *mean,
                                 REAL *copy) {
    const Vec keeps = SPREAD(keep), gains = SPREAD(gain);
    const ptrdiff_t whole = count / LANES * LANES;
    for (ptrdiff_t j = 0; j < whole; j += LANES) {
        const Vec renewed = FMA(keeps, NAME(load)(row + j), gains * NAME(load)(mean + j));
        NAME(store)(row + j, renewed);
        NAME(store)(copy + j, renewed);
    }
    if (whole < count) { /* the last numbers in a vector of their own: rounded as all the others */
        const size_t bytes = (size_t)(count - whole) * sizeof(REAL);
        Vec old = SPREAD(0), step = SPREAD(0);
        memcpy(&old, row + whole, bytes);
        memcpy(&step, mean + whole, bytes);
        const Vec renewed = FMA(keeps, old, gains * step);
        memcpy(row + whole, &renewed, bytes);
        memcpy(copy + whole, &renewed, bytes);
    }
}

/* sums[i][j] += the product of row i of `z` with row j of `v`, both `width` long, for R x C of them. */
#define DOT_ROWS 3
#define DOT_COLS 4
INLINE void NAME(dot_tile)(const int R, const int C, const REAL *z, ptrdiff_t z_stride, const REAL *v,
                           ptrdiff_t width, double *sums, ptrdiff_t stride) {
    Vec acc[DOT_ROWS][DOT_COLS];
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int j = 0; j < DOT_COLS; j++) acc[i][j] = SPREAD(0);
    for (ptrdiff_t k = 0; k < width; k += LANES) {
        Vec a[DOT_ROWS];
        UNROLL for (int i = 0; i < R; i++) a[i] = NAME(load)(z + i * z_stride + k);
        UNROLL for (int j = 0; j < C; j++) {
            Vec b = NAME(load)(v + j * width + k);
            UNROLL for (int i = 0; i < R; i++) acc[i][j] = FMA(a[i], b, acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < R; i++) {
        double total[DOT_COLS];
        NAME(totals)(acc[i], total);
        UNROLL for (int j = 0; j < C; j++) sums[i * stride + j] += total[j];
    }
}

#define DOT_CASES(R)                                                                       \
    switch (cols) {                                                                        \
    case 1: NAME(dot_tile)(R, 1, z, z_stride, v, width, sums, m); break;                   \
    case 2: NAME(dot_tile)(R, 2, z, z_stride, v, width, sums, m); break;                   \
    case 3: NAME(dot_tile)(R, 3, z, z_stride, v, width, sums, m); break;                   \
    default: NAME(dot_tile)(R, 4, z, z_stride, v, width, sums, m); break;                  \
    }

/* all_sums[i][j] += the products of `rows` rows of `z` with `m` rows of `v`, `width` columns of each. */
static void NAME(dots)(const REAL *z, ptrdiff_t z_stride, ptrdiff_t rows, const REAL *v_rows, ptrdiff_t m,
                       ptrdiff_t width, double *all_sums) {
    for (ptrdiff_t i = 0; i < rows; i += DOT_ROWS, z += DOT_ROWS * z_stride, all_sums += DOT_ROWS * m) {
        const REAL *v = v_rows;
        double *sums = all_sums;
        for (ptrdiff_t j = 0; j < m; j += DOT_COLS, v += DOT_COLS * width, sums += DOT_COLS) {
            const ptrdiff_t cols = m - j;
            switch (rows - i) {
            case 1: DOT_CASES(1) break;
            case 2: DOT_CASES(2) break;
            default: DOT_CASES(3) break;
            }
        }
    }
}

/* x = mean + step * (alpha z + mix V) for R rows and three vectors of columns. */
#define MIX_COLS (3 * LANES)
INLINE void NAME(mix_tile)(const int R, const REAL *mix, ptrdiff_t active, REAL alpha, const REAL *v,
                           ptrdiff_t v_stride, const REAL *mean, const REAL *step, const REAL *z,
                           ptrdiff_t z_stride, REAL *x, ptrdiff_t x_stride) {
    Vec acc[MIX_ROWS][3];
    UNROLL for (int i = 0; i < R; i++)
        UNROLL for (int j = 0; j < 3; j++)
            acc[i][j] = SPREAD(alpha) * NAME(load)(z + i * z_stride + j * LANES);
    for (ptrdiff_t k = 0; k < active; k++, v += v_stride, mix += MIX_ROWS) {
        Vec b[3];
        UNROLL for (int j = 0; j < 3; j++) b[j] = NAME(load)(v + j * LANES);
        UNROLL for (int i = 0; i < R; i++) {
            Vec a = SPREAD(mix[i]);
            UNROLL for (int j = 0; j < 3; j++) acc[i][j] = FMA(a, b[j], acc[i][j]);
        }
    }
    UNROLL for (int j = 0; j < 3; j++) {
        Vec centre = NAME(load)(mean + j * LANES), scale = NAME(load)(step + j * LANES);
        UNROLL for (int i = 0; i < R; i++)
            NAME(store)(x + i * x_stride + j * LANES, FMA(scale, acc[i][j], centre));
    }
}

/* Bring such a tile into the cache. */
INLINE void NAME(fetch_tile)(const REAL *rows, ptrdiff_t stride, const int write) {
    UNROLL for (int i = 0; i < MIX_ROWS; i++) {
        const char *row = (const char *)(rows + i * stride); /* 96 bytes touch two lines or three */
        if (write) {
            PREFETCH(row, 1);
            PREFETCH(row + 64, 1);
        } else {
            PREFETCH(row, 0);
            PREFETCH(row + 64, 0);
        }
    }
}
