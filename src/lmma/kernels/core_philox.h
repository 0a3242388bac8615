/* Philox4x64-10 exactly as NumPy's: counter-based uniform words.

   A block of four 64-bit words is a function of (key, counter). Of the counter's four words only the
   first changes within one generation, the second is the generation, the others are zero. Therefore
   the first two of the ten rounds need one product each instead of two: see open_stream. */

#define PHILOX_M0 UINT64_C(0xD2E7470EE14C6C93)
#define PHILOX_M1 UINT64_C(0xCA5A826395121157)
#define PHILOX_W0 UINT64_C(0x9E3779B97F4A7C15) /* golden ratio: step of the first key word */
#define PHILOX_W1 UINT64_C(0xBB67AE8584CAA73B) /* root of 3 - 1: step of the second */

typedef struct {
    uint64_t keys[20];  /* the two key words of each round */
    uint64_t second_hi; /* round 2: product of M0 with (generation ^ key), same for every block */
    uint64_t second_lo;
} Stream;

#if defined(__SIZEOF_INT128__)
INLINE uint64_t multiply(uint64_t a, uint64_t b, uint64_t *hi) {
    unsigned __int128 product = (unsigned __int128)a * b;
    *hi = (uint64_t)(product >> 64);
    return (uint64_t)product;
}
#else
INLINE uint64_t multiply(uint64_t a, uint64_t b, uint64_t *hi) {
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), cross = a0 * b1 + (uint32_t)middle;
    *hi = a1 * b1 + (middle >> 32) + (cross >> 32);
    return a * b;
}
#endif

static void open_stream(Stream *stream, uint64_t key0, uint64_t key1, uint64_t generation) {
    for (int round = 0; round < 10; round++) {
        stream->keys[2 * round] = key0 + (uint64_t)round * PHILOX_W0;
        stream->keys[2 * round + 1] = key1 + (uint64_t)round * PHILOX_W1;
    }
    stream->second_lo = multiply(PHILOX_M0, generation ^ key0, &stream->second_hi);
}

/* Rounds 1 and 2 of the block at `counter`. */
INLINE void philox_start(const Stream *stream, uint64_t counter, uint64_t *c) {
    uint64_t hi, lo = multiply(PHILOX_M0, counter, &hi);
    c[1] = multiply(PHILOX_M1, hi ^ stream->keys[1], &c[0]);
    c[0] ^= stream->keys[2];
    c[2] = stream->second_hi ^ lo ^ stream->keys[3];
    c[3] = stream->second_lo;
}

INLINE void philox_round(const Stream *stream, int round, uint64_t *c) {
    uint64_t hi0, lo0 = multiply(PHILOX_M0, c[0], &hi0);
    uint64_t hi1, lo1 = multiply(PHILOX_M1, c[2], &hi1);
    c[0] = hi1 ^ c[1] ^ stream->keys[2 * round];
    c[1] = lo1;
    c[2] = hi0 ^ c[3] ^ stream->keys[2 * round + 1];
    c[3] = lo0;
}

/* Write the words of `blocks` blocks from number `first` on. Block b has counter b + 1, because NumPy increments
   the counter before use. */
static void fill_portable(const Stream *stream, uint64_t first, ptrdiff_t blocks, uint64_t *words) {
    for (ptrdiff_t b = 0; b < blocks; b++, words += 4) {
        uint64_t c[4];
        philox_start(stream, first + (uint64_t)b + 1, c);
        for (int round = 2; round < 10; round++) philox_round(stream, round, c);
        memcpy(words, c, sizeof c);
    }
}

#if HAVE_AVX2
BEGIN_AVX2
typedef struct {
    __m256i c[4]; /* word w of four consecutive blocks */
} Quad;

INLINE __m256i spread(uint64_t word) { return _mm256_set1_epi64x((long long)word); }

/* 64 x 64 -> 128 bits in each lane, from four products of 32 bits. */
INLINE __m256i multiply_avx2(__m256i a, uint64_t constant, __m256i *hi) {
    const __m256i b0 = spread(constant), b1 = spread(constant >> 32), zero = _mm256_setzero_si256();
    __m256i a1 = _mm256_srli_epi64(a, 32);
    __m256i low = _mm256_mul_epu32(a, b0);
    __m256i middle = _mm256_add_epi64(_mm256_mul_epu32(a1, b0), _mm256_srli_epi64(low, 32));
    __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(a, b1), _mm256_blend_epi32(middle, zero, 0xAA));
    *hi = _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epu32(a1, b1), _mm256_srli_epi64(middle, 32)),
                           _mm256_srli_epi64(cross, 32));
    return _mm256_blend_epi32(_mm256_slli_epi64(cross, 32), low, 0x55);
}

INLINE void quad_start(const Stream *stream, uint64_t counter, Quad *q) {
    __m256i counters = _mm256_add_epi64(spread(counter), _mm256_set_epi64x(3, 2, 1, 0));
    __m256i hi, lo = multiply_avx2(counters, PHILOX_M0, &hi);
    q->c[1] = multiply_avx2(_mm256_xor_si256(hi, spread(stream->keys[1])), PHILOX_M1, &q->c[0]);
    q->c[0] = _mm256_xor_si256(q->c[0], spread(stream->keys[2]));
    q->c[2] = _mm256_xor_si256(lo, spread(stream->second_hi ^ stream->keys[3]));
    q->c[3] = spread(stream->second_lo);
}

INLINE void quad_round(const Stream *stream, int round, Quad *q) {
    __m256i hi0, lo0 = multiply_avx2(q->c[0], PHILOX_M0, &hi0);
    __m256i hi1, lo1 = multiply_avx2(q->c[2], PHILOX_M1, &hi1);
    q->c[0] = _mm256_xor_si256(_mm256_xor_si256(hi1, q->c[1]), spread(stream->keys[2 * round]));
    q->c[1] = lo1;
    q->c[2] = _mm256_xor_si256(_mm256_xor_si256(hi0, q->c[3]), spread(stream->keys[2 * round + 1]));
    q->c[3] = lo0;
}

/* Transpose 4 x 4: the four blocks are in lanes but are stored consecutively. */
INLINE void quad_store(const Quad *q, uint64_t *words) {
    __m256i a = _mm256_unpacklo_epi64(q->c[0], q->c[1]), b = _mm256_unpackhi_epi64(q->c[0], q->c[1]);
    __m256i c = _mm256_unpacklo_epi64(q->c[2], q->c[3]), d = _mm256_unpackhi_epi64(q->c[2], q->c[3]);
    _mm256_storeu_si256((__m256i *)words + 0, _mm256_permute2x128_si256(a, c, 0x20));
    _mm256_storeu_si256((__m256i *)words + 1, _mm256_permute2x128_si256(b, d, 0x20));
    _mm256_storeu_si256((__m256i *)words + 2, _mm256_permute2x128_si256(a, c, 0x31));
    _mm256_storeu_si256((__m256i *)words + 3, _mm256_permute2x128_si256(b, d, 0x31));
}

/* Twelve blocks at a time: eight in vector registers, four in integer registers, so that the
   integer multiplier and the vector units work in parallel. */
static void fill_avx2(const Stream *stream, uint64_t first, ptrdiff_t blocks, uint64_t *words) {
    uint64_t counter = first + 1;
    for (; blocks >= 12; blocks -= 12, counter += 12, words += 48) {
        Quad q[2];
        uint64_t c[4][4];
        quad_start(stream, counter, &q[0]);
        quad_start(stream, counter + 4, &q[1]);
        EACH(i, 4) philox_start(stream, counter + 8 + (uint64_t)i, c[i]);
        UNROLL for (int round = 2; round < 10; round++) {
            quad_round(stream, round, &q[0]);
            quad_round(stream, round, &q[1]);
            EACH(i, 4) philox_round(stream, round, c[i]);
        }
        quad_store(&q[0], words);
        quad_store(&q[1], words + 16);
        memcpy(words + 32, c, sizeof c);
    }
    for (; blocks >= 8; blocks -= 8, counter += 8, words += 32) {
        Quad q[2];
        quad_start(stream, counter, &q[0]);
        quad_start(stream, counter + 4, &q[1]);
        UNROLL for (int round = 2; round < 10; round++) {
            quad_round(stream, round, &q[0]);
            quad_round(stream, round, &q[1]);
        }
        quad_store(&q[0], words);
        quad_store(&q[1], words + 16);
    }
    for (; blocks >= 4; blocks -= 4, counter += 4, words += 16) {
        Quad q;
        quad_start(stream, counter, &q);
        UNROLL for (int round = 2; round < 10; round++) quad_round(stream, round, &q);
        quad_store(&q, words);
    }
    fill_portable(stream, counter - 1, blocks, words);
}
END_TARGET
#endif
