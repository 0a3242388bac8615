/* Vectors and normal numbers for one number type and one instruction set. Included once for each pair of them, with
     REAL, WORD      float64 and uint64_t, or float32 and uint32_t
     SINGLE          1 for float32
     AVX2            1 where 256-bit intrinsics may be used
     NAME(x)         x with a suffix that makes it unique
   Elsewhere vectors are those of GCC and Clang, which lower them to whatever the machine has, or single
   numbers (LANES = 1) for other compilers: every operator used below works on either. */

#define PAIR_LANES (SINGLE ? 8 : 4) /* granularity of half rows: part of the meaning, same on all machines */

#if HAVE_VECTORS
#define LANES PAIR_LANES
typedef REAL NAME(Vec) __attribute__((vector_size(32)));
typedef WORD NAME(Bits) __attribute__((vector_size(32)));
#define AS_BITS(v) ((NAME(Bits))(v))
#define AS_REAL(b) ((NAME(Vec))(b))
#else
#define LANES 1
typedef REAL NAME(Vec);
typedef WORD NAME(Bits);
INLINE WORD NAME(as_bits)(REAL v) { WORD b; memcpy(&b, &v, sizeof b); return b; }
INLINE REAL NAME(as_real)(WORD b) { REAL v; memcpy(&v, &b, sizeof v); return v; }
#define AS_BITS(v) NAME(as_bits)(v)
#define AS_REAL(b) NAME(as_real)(b)
#endif
#define Vec NAME(Vec)
#define Bits NAME(Bits)

INLINE Vec NAME(load)(const REAL *p) { Vec v; memcpy(&v, p, sizeof v); return v; }
INLINE void NAME(store)(REAL *p, Vec v) { memcpy(p, &v, sizeof v); }
INLINE Bits NAME(load_bits)(const WORD *p) { Bits v; memcpy(&v, p, sizeof v); return v; }

#if AVX2 && SINGLE
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define SQRT(a) _mm256_sqrt_ps(a)
#define SPREAD(x) _mm256_set1_ps(x)
#define AS_NUMBER(b) _mm256_cvtepi32_ps((__m256i)(b))
#elif AVX2
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define SQRT(a) _mm256_sqrt_pd(a)
#define SPREAD(x) _mm256_set1_pd(x)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#define SPREAD(x) ((Vec){0} + (REAL)(x))
#define SQRT(a) NAME(root)(a)
#define AS_NUMBER(b) NAME(number)(b)
INLINE Vec NAME(root)(Vec v) {
    REAL x[LANES];
    memcpy(x, &v, sizeof v);
    for (int i = 0; i < LANES; i++) x[i] = SINGLE ? (REAL)sqrtf((float)x[i]) : (REAL)sqrt(x[i]);
    memcpy(&v, x, sizeof v);
    return v;
}
INLINE Vec NAME(number)(Bits b) {
    WORD w[LANES];
    REAL x[LANES];
    Vec v;
    memcpy(w, &b, sizeof b);
    for (int i = 0; i < LANES; i++) x[i] = (REAL)(int32_t)w[i];
    memcpy(&v, x, sizeof v);
    return v;
}
#endif

/* The sums over lanes of four vectors, each in the same fixed order. */
INLINE void NAME(totals)(const Vec *v, double *sums) {
#if AVX2 && SINGLE
    __m128 half[4];
    UNROLL for (int i = 0; i < 4; i++)
        half[i] = _mm_add_ps(_mm256_castps256_ps128(v[i]), _mm256_extractf128_ps(v[i], 1));
    _MM_TRANSPOSE4_PS(half[0], half[1], half[2], half[3]);
    const __m128 sum = _mm_add_ps(_mm_add_ps(half[0], half[1]), _mm_add_ps(half[2], half[3]));
    _mm256_storeu_pd(sums, _mm256_cvtps_pd(sum));
#elif AVX2
    const __m256d low = _mm256_hadd_pd(v[0], v[1]), high = _mm256_hadd_pd(v[2], v[3]);
    const __m256d across = _mm256_permute2f128_pd(low, high, 0x21), beside = _mm256_blend_pd(low, high, 0xC);
    _mm256_storeu_pd(sums, _mm256_add_pd(beside, across));
#else
    for (int i = 0; i < 4; i++) {
        REAL x[LANES];
        memcpy(x, &v[i], sizeof x);
        sums[i] = 0.0;
        for (int lane = 0; lane < LANES; lane++) sums[i] += (double)x[lane];
    }
#endif
}

/* ---- Normal numbers ------------------------------------------------------------------------------ */

/* benchmarks/normal_coefficients.py computes the polynomials below by Remez's algorithm, and what error the
   numbers here leave: below half a unit in the last place of float64 and of float32. */

#if SINGLE
/* -2 ln u for u in (0, 1]: u = 2^k (1 + f) with 1 + f in [1/sqrt 2, sqrt 2). */
INLINE Vec NAME(minus_two_log)(Vec u) {
    const WORD root_half = 0x3F3504F3u;
    Bits t = AS_BITS(u) - (root_half - (64u << 23)); /* biased by 64: stays positive */
    Vec k = AS_NUMBER(t >> 23) - (REAL)64;
    Vec f = AS_REAL((t & 0x7FFFFFu) + root_half) - (REAL)1;
    Vec p = FMA(f, SPREAD(-0.07859615582366473f), SPREAD(0.12881629489930885f));
    p = FMA(f, p, SPREAD(-0.13128743610848648f));
    p = FMA(f, p, SPREAD(0.14181194403518174f));
    p = FMA(f, p, SPREAD(-0.16624555752366768f));
    p = FMA(f, p, SPREAD(0.20002286182174242f));
    p = FMA(f, p, SPREAD(-0.25000810340520624f));
    p = FMA(f, p, SPREAD(0.33333316727177636f));
    p = FMA(f, p, SPREAD(-0.5f));
    p = FMA(f * f, p, f);
    return FMA(k, SPREAD(-1.3862943611198906f), (REAL)-2 * p);
}

/* Box-Muller's radius from one word, ... */
INLINE Vec NAME(radius)(Bits word) {
    return SQRT(NAME(minus_two_log)((AS_NUMBER(word >> 1) + (REAL)0.5) * (REAL)4.656612873077393e-10)); /* 2^-31 */
}

/* ... and the two normal numbers from the radius and another word: its lowest bit is their common sign, the
   upper ones are x in [-1/2, 1/2), the angle in units of 180 degrees. sin and cos of half the angle are
   minimax series in x^2; doubling the angle is well conditioned. */
INLINE void NAME(rotate)(Vec r, Bits word, Vec *cosine, Vec *sine) {
    Vec x = AS_REAL((word >> 9) | 0x3F800000u) - (REAL)1.5;
    Vec y = x * x;
    Vec s = FMA(y, SPREAD(-0.0046016578931506f), SPREAD(0.07968003278013285f));
    s = FMA(y, s, SPREAD(-0.6459634602357697f));
    s = FMA(y, s, SPREAD(1.5707963217084375f)) * x;
    Vec c = FMA(y, SPREAD(0.0009036317033323827f), SPREAD(-0.02086007131893305f));
    c = FMA(y, c, SPREAD(0.2536692039393227f));
    c = FMA(y, c, SPREAD(-1.2337005406473758f));
    c = FMA(y, c, SPREAD(1.0f));
    Vec twice = s + s;
    r = AS_REAL(AS_BITS(r) | (word << 31));
    *cosine = r * FMA(-twice, s, SPREAD(1.0f));
    *sine = r * (twice * c);
}
#else
/* -2 ln u for u in (0, 1]: u = 2^k (1 + f) with 1 + f in [1/sqrt 2, sqrt 2), and with s = f / (2 + f)
   ln(1 + f) = 2 artanh s = f - s (f - s^2 P(s^2)), of full relative accuracy also next to u = 1. */
INLINE Vec NAME(minus_two_log)(Vec u) {
    const WORD root_half = UINT64_C(0x3FE6A09E667F3BCD), bias = UINT64_C(64) << 52;
    Bits t = AS_BITS(u) - (root_half - bias); /* biased by 64: stays positive */
    Vec k = AS_REAL((t >> 52) | UINT64_C(0x4330000000000000)) - 4503599627370560.0; /* 2^52 + 64 */
    Vec f = AS_REAL((t & UINT64_C(0xFFFFFFFFFFFFF)) + root_half) - 1.0;
    Vec s = f / (f + 2.0);
    Vec z = s * s;
    Vec p = FMA(z, SPREAD(0.14750967499376866), SPREAD(0.1531880868794061));
    p = FMA(z, p, SPREAD(0.18183365796317585));
    p = FMA(z, p, SPREAD(0.22222202698258622));
    p = FMA(z, p, SPREAD(0.2857142869826693));
    p = FMA(z, p, SPREAD(0.39999999999637875));
    p = FMA(z, p, SPREAD(0.6666666666666695));
    p = FMA(-s, FMA(-z, p, f), f);
    return FMA(k, SPREAD(-1.3862943611198906), -2.0 * p);
}

/* Box-Muller's radius from one word, ... */
INLINE Vec NAME(radius)(Bits word) {
    return SQRT(NAME(minus_two_log)(2.0 - AS_REAL((word >> 12) | UINT64_C(0x3FF0000000000000))));
}

/* ... and the two normal numbers from the radius and another word: its lowest bit is their common sign, the
   upper ones are x in [-1/2, 1/2), the angle in units of 180 degrees. sin and cos of half the angle are
   minimax series in x^2; doubling the angle is well conditioned. */
INLINE void NAME(rotate)(Vec r, Bits word, Vec *cosine, Vec *sine) {
    Vec x = AS_REAL((word >> 12) | UINT64_C(0x3FF0000000000000)) - 1.5;
    Vec y = x * x;
    Vec s = FMA(y, SPREAD(5.633720856452633e-08), SPREAD(-3.5986417534099325e-06));
    Vec c = FMA(y, SPREAD(4.6553012844640495e-07), SPREAD(-2.520013564665259e-05));
    s = FMA(y, s, SPREAD(0.00016044115029141055));
    c = FMA(y, c, SPREAD(0.0009192599501492171));
    s = FMA(y, s, SPREAD(-0.004681754132282397));
    c = FMA(y, c, SPREAD(-0.020863480734960516));
    s = FMA(y, s, SPREAD(0.07969262624603957));
    c = FMA(y, c, SPREAD(0.25366950789986553));
    s = FMA(y, s, SPREAD(-0.6459640975062443));
    c = FMA(y, c, SPREAD(-1.2337005501361513));
    s = FMA(y, s, SPREAD(1.5707963267948966)) * x;
    c = FMA(y, c, SPREAD(1.0));
    Vec twice = s + s;
    r = AS_REAL(AS_BITS(r) | (word << 63));
    *cosine = r * FMA(-twice, s, SPREAD(1.0));
    *sine = r * (twice * c);
}
#endif

/* Normal numbers for `count` pairs of words go to `low` and `high`, and if `copied` also to copy[0 ...] and
   copy[h ...]. Meanwhile ahead[0 ...] and ahead[gap ...] come into the cache. */
INLINE void NAME(convert)(const WORD *radii, const WORD *angles, ptrdiff_t count, REAL *low, REAL *high,
                          const int copied, REAL *copy, ptrdiff_t h, const REAL *ahead, ptrdiff_t gap) {
    for (ptrdiff_t i = 0; i < count; i += LANES) { /* two loops: shorter chains, so more of them in flight */
        NAME(store)(low + i, NAME(radius)(NAME(load_bits)(radii + i)));
        if (copied) {
            PREFETCH(copy + i, 1);
            PREFETCH(copy + h + i, 1);
        }
    }
    for (ptrdiff_t i = 0; i < count; i += LANES) {
        Vec cosine, sine;
        NAME(rotate)(NAME(load)(low + i), NAME(load_bits)(angles + i), &cosine, &sine);
        NAME(store)(low + i, cosine);
        NAME(store)(high + i, sine);
        PREFETCH(ahead + i, 0);
        PREFETCH(ahead + gap + i, 0);
        if (copied) {
            NAME(store)(copy + i, cosine);
            NAME(store)(copy + h + i, sine);
        }
    }
}

/* Coordinates [start, start + count) of one candidate go to `low`, [h + start, h + start + count) to `high`,
   and both to `copy` if it is given; `ahead` as above. */
static void NAME(draw)(const Stream *stream, uint64_t candidate, ptrdiff_t h, ptrdiff_t start,
                       ptrdiff_t count, uint64_t *words, REAL *low, REAL *high, REAL *copy,
                       const REAL *ahead) {
    const ptrdiff_t half = h / PAIR_LANES, blocks = count / PAIR_LANES; /* blocks of four 64-bit words */
    const uint64_t first = candidate * 2 * (uint64_t)half;
    const WORD *radii = (const WORD *)words, *angles = (const WORD *)(words + 4 * blocks);
    const ptrdiff_t gap = ahead ? h : 0;
    if (blocks == half) { /* the whole candidate: its radii and angles follow one another */
        FILL(stream, first, 2 * blocks, words);
    } else {
        const uint64_t offset = (uint64_t)(start / PAIR_LANES);
        FILL(stream, first + offset, blocks, words);
        FILL(stream, first + (uint64_t)half + offset, blocks, words + 4 * blocks);
    }
    if (!ahead) ahead = low;
    if (copy)
        NAME(convert)(radii, angles, count, low, high, 1, copy, h, ahead, gap);
    else
        NAME(convert)(radii, angles, count, low, high, 0, NULL, h, ahead, gap);
}

/* The bare transformation, for tests of its accuracy. */
static void NAME(pairs)(const void *radii, const void *angles, ptrdiff_t count, void *low, void *high) {
    NAME(convert)(radii, angles, count, low, high, 0, NULL, 0, low, 0);
}
