/* All kernels for all number types and instruction sets, and their selection. */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the order of 32-bit words within 64-bit words would differ from NumPy's: use the reference implementation"
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#pragma clang diagnostic ignored "-Wpsabi" /* functions with vector arguments are inlined */
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#pragma GCC diagnostic ignored "-Wpsabi"
#else
#define UNROLL
#endif

#define EACH(i, count) UNROLL for (int i = 0; i < (count); i++) /* an unrolled loop */

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

/* Sizes of tiles and blocks; core_products.inc checks the assumptions of the kernels. */
#define LANES_OF(single) ((single) ? 8 : 4) /* numbers in 32 bytes */
#define TILE_VECTORS 3                      /* vectors of a row of a tile of a product */
#define MOST_MIX_COLS (TILE_VECTORS * LANES_OF(1))
#define PAIRS_OF(single) ((single) ? 384 : 192) /* pairs of columns per block when sampling ... */
#define PAIRS PAIRS_OF(SINGLE)
#define ROWS 48                                 /* ... this many rows of z and of V fit the second-level cache */
#define BLOCK_OF(single) ((single) ? 480 : 240) /* columns of a block of pulse: ROWS rows and all axes fit caches */
#define BLOCK BLOCK_OF(SINGLE)
#define MIX_ROWS 4           /* rows of the tile of the second product, see core_products.inc */
#define SQUARE_COLS 24       /* columns of a unit of a sum of squares */
#define UNITS 64             /* upper limit on the number of partial sums */
#define STRIP 1024           /* columns of a row handled together by recombine and update */
#define WORDS_SCRATCH 384    /* 64-bit words of a row of a block */
#define FAR (1 << 22)        /* bytes; larger arrays are prefetched */
#define WORTH_A_THREAD 65536 /* numbers per thread below which starting it costs more than it saves */
#define LIGHTER 16           /* sums of rows are this many times faster per number than drawing and products */

/* Sizes up to which the core handles matrices itself; Python reads them from the module and uses LAPACK above. */
#define MOST_ROWS 128 /* of leading axes */
#define MOST_GROWN 64 /* columns in grow */

#define COUNT_OF(array) ((Py_ssize_t)(sizeof(array) / sizeof((array)[0])))

typedef struct {
    Stream stream;
    uint64_t first; /* number of the candidate in row 0 */
    ptrdiff_t rows, n, h, m, active, units;
    void *vectors;
    const void *mean, *steps; /* steps: one step for each column, or NULL */
    void *z, *out;            /* z: NULL if it is not kept */
    ptrdiff_t v_stride, z_stride, out_stride, gram_stride;
    const double *keep, *gain; /* V becomes keep V + gain z_mean first; NULL if V does not change */
    const void *z_mean;
    const double *gram, *c_d;
    double alpha, step;
    double *partial;       /* (units, rows, m) products of z with V in each unit */
    double *projections;   /* (rows, m) their sums */
    double *chain;         /* (active, rows) and active more: work space of fold */
    void *mix;             /* (rows, active) in tiles of MIX_ROWS rows, transposed */
    const ptrdiff_t *pick; /* pulse: rows of `vectors` to use; else NULL */
    const double *stretch; /* pulse: (m,) factor along each axis, less 1 */
    const double *cross;   /* pulse: (m, longs) products of the other axes with the first `longs` */
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
    const void *others; /* two paths and the axes */
    ptrdiff_t others_stride;
} ThroughCore;

typedef struct {
    ptrdiff_t n, width, units, count, paths, longs, shorts, generations; /* count: rows of z */
    ptrdiff_t better, worse;                                             /* rows selected, and selected against */
    const void *z, *path, *axes;
    ptrdiff_t z_stride, path_stride, axes_stride;
    ThroughCore images, duals;   /* without rows if there is no matrix */
    const void *third, *damping; /* third: p_A; both NULL if there is no matrix */
    const double *concentration;
    const double *ranks, *weights, *sizes, *gains;
    double scale, share, pull, reach, far, c_1_long, c_mu_long, c_short, c_mu, c_1, against, fade;
    double calming, shortest; /* CALMING and SHORTEST of reference_pulse.py */
    void *scales, *long_rows, *short_rows, *core_rows;
    ptrdiff_t long_stride, short_stride, core_stride;
    ptrdiff_t *pick, active, active_longs; /* indices of axes with a gain, and their number */
    ptrdiff_t partial_size;
    double *partial;            /* (units, partial_size) */
    double *of_a, *of_b, *of_d; /* (rows, active) coefficients, see reference_pulse.py */
    double *part;               /* (rows + axes,) square roots of the weights in G */
    double *more, *less;        /* (axes,) sqrt(1 + gain) - 1, and its inverse - 1 */
    double *own, *stay, *excess, *sums, mean_log, mean_excess;
    void *real_a, *of_image, *new_long, *new_short, *of_path, *of_long, *stay_long, *mix_long, *stay_short, *mix_short;
} Pulse;

/* A rotation of rows `row` and `row + 1` of a matrix. */
typedef struct {
    double c, s;
    ptrdiff_t row;
} Rotation;

typedef struct {
    ptrdiff_t n, width, units, count, size, found, stride, axes_stride, *place;
    const void *rows;
    void *axes, *coefficients;                         /* (found, size) */
    double *gram, *vectors;                            /* (size, quads(size)) */
    double *partial, *values, *work, *sizes, *fourths; /* fourths: (units, found) */
    Rotation *rotations;
    double smallest, lost; /* SMALLEST and LOST of reference_pulse.py */
} Axes;

typedef struct {
    ptrdiff_t n, width, units, count, active, stride, axes_stride, out_stride, *pick;
    const void *rows, *axes;
    const double *gains;
    double power, *partial, *factors;
    void *coefficients, *out;
} Stretch;

typedef struct {
    ptrdiff_t n, count, against, stride, total_stride; /* the last `against` of `count` rows are subtracted */
    const void *rows;
    void *transposed, *total; /* transposed: (n, count) */
    double fade;
} Squares;

typedef struct {
    ptrdiff_t n, change_stride, columns_stride, inverse_stride;
    void *change, *columns, *inverse; /* G, of which the lower triangle is read; A by columns; A^-1 */
} Growth;

typedef struct {
    Work normals, project, mix, recombine, squares, rescale, update;
    Work pulse_project, pulse_excess, pulse_rows, axes_gram, axes_combine, stretch_project, stretch_mix,
        transpose_columns, square_columns;
    void (*fold)(void *job), (*pulse_fold)(void *job), (*pulse_coefficients)(void *job), (*axes_eigen)(void *job),
        (*stretch_fold)(void *job);
    int (*grow)(const Growth *job, void *space);
    void (*pairs)(const void *radii, const void *angles, ptrdiff_t count, void *low, void *high);
} Kernels;

INLINE ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

#define QUAD 4 /* rows of small matrices are padded to a multiple of it */
INLINE ptrdiff_t quads(ptrdiff_t m) { return (m + QUAD - 1) / QUAD * QUAD; }

/* The first pair of columns of a unit; units consist of whole blocks. */
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
#include "core_instance.inc"
#define REAL float
#define WORD uint32_t
#define SINGLE 1
#define NAME(x) x##_f32
#include "core_instance.inc"
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
#include "core_instance.inc"
#define REAL float
#define WORD uint32_t
#define SINGLE 1
#define NAME(x) x##_f32_avx2
#include "core_instance.inc"
END_TARGET
#endif

typedef struct {
    const char *name;
    const Kernels *kernels[2]; /* float64, float32 */
} Instructions;

static const Instructions portable = {.name = "portable", .kernels = {&kernels_f64, &kernels_f32}};
#if HAVE_AVX2
static const Instructions avx2 = {.name = "avx2", .kernels = {&kernels_f64_avx2, &kernels_f32_avx2}};
#endif

/* The named instruction set, or NULL if this machine does not have it. */
static const Instructions *present(const char *name) {
#if HAVE_AVX2
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return &avx2;
#endif
    return strcmp(name, "portable") == 0 ? &portable : NULL;
}
