/* Traversal of a block of trees. _forest.c includes this file once per instruction set, with AVX2 set to 0 or 1
   and NAME(x) naming the copy. Compilers inline intrinsics only into functions of the same target, so a shared
   function with a switch is not possible. */

static inline uint32_t NAME(not_above)(const float *column, int width, uint32_t word)
{
    uint32_t mask = 0;
#if AVX2
    const __m256 limit = _mm256_set1_ps(as_float(word));
    for (int k = 0; k < width; k += 8) {
        const __m256 le = _mm256_cmp_ps(_mm256_loadu_ps(column + k), limit, _CMP_LE_OQ);
        mask |= (uint32_t)_mm256_movemask_ps(le) << k;
    }
#else
    const float limit = as_float(word);
    for (int k = 0; k < width; k++) mask |= (uint32_t)(column[k] <= limit) << k;
#endif
    return mask;
}

static inline void NAME(vote)(uint8_t *counter, uint32_t mask)
{
#if AVX2 /* spread the 32 bits over 32 bytes, and subtract -1 for every set bit */
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2,
                                            2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ULL);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), spread);
    bytes = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
    const __m256i old = _mm256_loadu_si256((const __m256i *)counter);
    _mm256_storeu_si256((__m256i *)counter, _mm256_sub_epi8(old, bytes));
#else
    for (int k = 0; k < LANES; k++) counter[k] = (uint8_t)(counter[k] + (mask >> k & 1));
#endif
}

/* Take the rows in the mask `full` through the trees [first, last) to their leaves. */

INLINE void NAME(walk)(const Forest *f, const float *columns, uint8_t *votes, uint32_t full, uint64_t first,
                 uint64_t last, Work *work, int width, int stride, int pure)
{
    const uint32_t *words = f->words;
    const int bits = f->bits;
    const uint32_t low = stride == 2 ? ((uint32_t)1 << bits) - 1 : 0;
    uint64_t *list = work->list, *next = work->next;
    uint32_t *list_tree = work->list_tree, *next_tree = work->next_tree;
    size_t size = 0;
    for (uint64_t t = first; t < last; t++) {
        if (!pure) list_tree[size] = (uint32_t)(t - first);
        list[size++] = f->roots[t] | (uint64_t)full << 32;
    }
    while (size) {
        size_t kept = 0;
        for (size_t i = 0; i < size; i++) {
            const uint32_t node = (uint32_t)list[i], mask = (uint32_t)(list[i] >> 32);
            const uint32_t *word = words + (size_t)node * (size_t)stride;
            const uint32_t offset = stride == 2 ? word[1] & low : word[2];
            if (offset == 0) {
                if (pure) {
                    NAME(vote)(votes + (size_t)word[0] * LANES, mask);
                } else {
                    uint32_t *leaf = work->leaf + (size_t)list_tree[i] * LANES;
                    for (int k = 0; k < width; k++) leaf[k] = mask >> k & 1 ? word[0] : leaf[k];
                }
                continue;
            }
            const size_t feature = stride == 2 ? word[1] >> bits : word[1];
            const uint32_t le = mask & NAME(not_above)(columns + feature * (size_t)width, width, word[0]);
            const uint32_t gt = mask ^ le;
            if (!pure) next_tree[kept] = list_tree[i];
            next[kept] = (uint64_t)(node + 1) | (uint64_t)le << 32;
            kept += le != 0;
            if (!pure) next_tree[kept] = list_tree[i];
            next[kept] = (uint64_t)(node + offset) | (uint64_t)gt << 32;
            kept += gt != 0;
            PREFETCH(words + (size_t)(uint32_t)next[kept - 1] * (size_t)stride);
        }
        uint64_t *swap = list;
        list = next;
        next = swap;
        uint32_t *swap_tree = list_tree;
        list_tree = next_tree;
        next_tree = swap_tree;
        size = kept;
    }
}

#define WALK(label, width, stride, pure)                                                               \
    static void NAME(label)(const Forest *f, const float *columns, uint8_t *votes, uint32_t full,      \
                            uint64_t first, uint64_t last, Work *work)                                 \
    {                                                                                                  \
        NAME(walk)(f, columns, votes, full, first, last, work, width, stride, pure);                   \
    }
#define WIDTHS(label, stride, pure)                                                                    \
    WALK(label##_8, 8, stride, pure)                                                                   \
    WALK(label##_16, 16, stride, pure)                                                                 \
    WALK(label##_24, 24, stride, pure)                                                                 \
    WALK(label##_32, 32, stride, pure)
#define ROW(label) {NAME(label##_8), NAME(label##_16), NAME(label##_24), NAME(label##_32)}

WIDTHS(values_2, 2, 0)
WIDTHS(votes_2, 2, 1)
WIDTHS(values_3, 3, 0)
WIDTHS(votes_3, 3, 1)

static const walker NAME(table)[2][2][4] = {{ROW(values_2), ROW(votes_2)}, {ROW(values_3), ROW(votes_3)}};

#undef WALK
#undef WIDTHS
#undef ROW
