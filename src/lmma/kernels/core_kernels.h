/* Every kernel for every number type and instruction set, and the choice among them. */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the order of 32-bit words within 64-bit words would differ from NumPy's: use the NumPy twin"
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#pragma clang diagnostic ignored "-Wpsabi" /* vectors never cross a call that is not inlined */
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#pragma GCC diagnostic ignored "-Wpsabi"
#else
#define UNROLL
#endif

#define BEGIN_AVX2 BEGIN_TARGET("avx2,fma,bmi2")

#if defined(__GNUC__)
#define PREFETCH(p, write) __builtin_prefetch(p, write, 2) /* to the second-level cache */
#else
#define PREFETCH(p, write) ((void)0)
#endif

#if defined(__GNUC__) && !defined(LMMA_NO_VECTORS)
#define HAVE_VECTORS 1
#else
#define HAVE_VECTORS 0
#endif

#include "core_philox.h"
#include "core_team.h"

#define PAIRS_OF(single) ((single) ? 384 : 192) /* pairs of columns in a block, 48 rows of which ... */
#define PAIRS PAIRS_OF(SINGLE)
#define ROWS 48           /* ... of z and of V fit the second-level cache */
#define MIX_ROWS 4        /* rows of the tile of the second product, see core_products.h */
#define UNITS 64          /* at most so many sums are kept before they are added up */
#define STRIP 1024        /* columns of a row handled together by recombine and update */
#define WORDS_SCRATCH 384 /* 64-bit words of a row of a block */
#define FAR (1 << 22)     /* bytes; larger arrays are fetched ahead of use */
#define WORTH_A_THREAD 65536 /* numbers; below this starting a thread costs more than it saves */
#define LIGHTER 16        /* sums of rows take so much less time a number than drawing and products */

typedef struct {
    Stream stream;
    uint64_t first;            /* number of the candidate in row 0 */
    ptrdiff_t rows, n, h, m, active, units;
    void *vectors;
    const void *mean, *steps;  /* steps: one step for each column, or NULL */
    void *z, *out;             /* z: NULL where it need not be kept */
    ptrdiff_t v_stride, z_stride, out_stride, gram_stride;
    const double *keep, *gain; /* V becomes keep V + gain z_mean first; NULL where it stays as it is */
    const void *z_mean;
    const double *gram, *c_d;
    double alpha, step;
    double *partial;           /* (units, rows, m) products of z with V in each unit */
    double *projections;       /* (rows, m) their sums */
    double *chain;             /* (active, rows) and active more: work space of fold */
    void *mix;                 /* (rows, active) in tiles of MIX_ROWS rows, transposed */
    const ptrdiff_t *pick;     /* of pulse: the vectors' places among the rows; else NULL */
    const double *stretch;     /* (m,) what each of pulse's axes adds to what lies along it */
    const double *cross;       /* (m, longs) the products of those after the first `longs` with these */
    ptrdiff_t longs;
} Sample;

typedef struct {
    ptrdiff_t n, stride, count, width;
    const double *weights;
    const ptrdiff_t *order;
    const void *rows, *base; /* base: one more row, with weight `share`; NULL if none */
    double share, rate;
    void *out;
} Recombine;

typedef struct {
    ptrdiff_t n, m, stride, width;
    const double *keep, *gain;
    const void *z_mean;
    void *vectors;
} Update;

typedef struct {
    const void *rows; /* those of z */
    ptrdiff_t stride;
    const void *few; /* two paths and the axes */
    ptrdiff_t few_stride;
} Turned;

typedef struct {
    ptrdiff_t n, width, units, count, paths, longs, shorts, generations; /* count: rows of z */
    ptrdiff_t better, worse;                    /* rows selected, and selected against */
    const void *z, *path, *axes;
    ptrdiff_t z_stride, path_stride, axes_stride;
    Turned images, duals;                       /* without rows where there is no matrix */
    const void *third, *damping;                /* p_A; both NULL where there is no matrix */
    const double *concentration;
    const double *ranks, *weights, *sizes, *gains;
    double scale, share, pull, reach, far, c_1_long, c_mu_long, c_short, c_mu, c_1, against, fade;
    void *scales, *long_rows, *short_rows, *turned;
    ptrdiff_t long_stride, short_stride, turned_stride;
    ptrdiff_t *pick, active, active_longs;      /* axes with a gain: their numbers, and how many */
    ptrdiff_t partial_size;
    double *partial;                            /* (units, partial_size) */
    double *of_a, *of_b, *of_d;                 /* (rows, active) coefficients, see twin_pulse.py */
    double *part;                               /* (rows + axes,) square roots of what each counts for in G */
    double *more, *less;                        /* (axes,) sqrt(1 + gain) - 1, and its inverse - 1 */
    double *own, *stay, *excess, *sums, mean_log, mean_excess;
    void *real_a, *of_image, *new_long, *new_short, *of_path, *of_long, *stay_long, *mix_long, *stay_short, *mix_short;
} Pulse;

#define MOST_ROWS 128   /* for leading axes: matrices beyond this size are LAPACK's */
#define CALMING 0.3     /* how much less D moves for each axis that contracts across coordinates */
#define SMALLEST 1e-12  /* eigenvalues below it are taken for 0 */

/* Of rows `row` and `row + 1` of a matrix. */
typedef struct {
    double c, s;
    ptrdiff_t row;
} Rotation;

typedef struct {
    ptrdiff_t n, width, units, count, size, found, stride, axes_stride, *place;
    const void *rows;
    void *axes, *coefficients;                  /* (found, size) */
    double *gram, *vectors;                     /* (size, quads(size)) */
    double *partial, *values, *work, *sizes, *fourths; /* fourths: (units, found) */
    Rotation *turns;
} Axes;

typedef struct {
    ptrdiff_t n, width, units, count, active, stride, axes_stride, out_stride, *pick;
    const void *rows, *axes;
    const double *gains;
    double power, *partial, *factors;
    void *coefficients, *out;
} Stretch;

#define SQUARE_COLS 24 /* columns of a unit of a sum of squares, a multiple of MIX_COLS */

typedef struct {
    ptrdiff_t n, count, against, stride, total_stride; /* rows, and how many of them, the last ones, are subtracted */
    const void *rows;
    void *turned, *total; /* turned: (n, count) */
    double fade;
} Squares;

#define MOST_GROWN 64 /* columns: larger matrices are LAPACK's */

typedef struct {
    ptrdiff_t n, change_stride, columns_stride, inverse_stride;
    void *change, *columns, *inverse; /* G, of which the lower triangle is read; A by columns; A^-1 */
} Growth;

typedef struct {
    Work normals, project, mix, recombine, squares, rescale, update;
    Work pulse_project, pulse_excess, pulse_rows, axes_gram, axes_combine, stretch_project, stretch_mix, turn_columns, square_columns;
    void (*fold)(void *job), (*pulse_fold)(void *job), (*pulse_coefficients)(void *job), (*axes_eigen)(void *job),
        (*stretch_fold)(void *job);
    int (*grow)(const Growth *job, void *space);
    void (*pairs)(const void *radii, const void *angles, ptrdiff_t count, void *low, void *high);
} Kernels;

INLINE ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

#define QUAD 4 /* numbers of a row of a small matrix that are handled together */
INLINE ptrdiff_t quads(ptrdiff_t m) { return (m + QUAD - 1) / QUAD * QUAD; }

/* The first pair of columns of a unit; units are whole blocks. */
INLINE ptrdiff_t unit_start(ptrdiff_t h, ptrdiff_t pairs, ptrdiff_t units, ptrdiff_t unit) {
    const ptrdiff_t blocks = (h + pairs - 1) / pairs;
    return smaller(h, blocks * unit / units * pairs);
}

#define AVX2 0
#define FILL fill_portable
#define REAL double
#define WORD uint64_t
#define SINGLE 0
#define NAME(x) x##_f64
#include "core_instance.h"
#define REAL float
#define WORD uint32_t
#define SINGLE 1
#define NAME(x) x##_f32
#include "core_instance.h"
#undef AVX2
#undef FILL

#if HAVE_AVX2
BEGIN_AVX2
#define AVX2 1
#define FILL fill_avx2
#define REAL double
#define WORD uint64_t
#define SINGLE 0
#define NAME(x) x##_f64_avx2
#include "core_instance.h"
#define REAL float
#define WORD uint32_t
#define SINGLE 1
#define NAME(x) x##_f32_avx2
#include "core_instance.h"
END_TARGET
#endif

typedef struct {
    const char *name;
    const Kernels *kernels[2]; /* float64, float32 */
} Instructions;

static const Instructions portable = {"portable", {&kernels_f64, &kernels_f32}};
#if HAVE_AVX2
static const Instructions avx2 = {"avx2", {&kernels_f64_avx2, &kernels_f32_avx2}};
#endif

/* The named instruction set, or NULL where this machine lacks it. */
static const Instructions *present(const char *name) {
#if HAVE_AVX2
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return &avx2;
#endif
    return strcmp(name, "portable") == 0 ? &portable : NULL;
}
