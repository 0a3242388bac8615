/* Work space that is reused by later calls. free() returns large blocks to the system, which must clear every page of
   the next block: at n = 100 this took 10% of the time per generation. */

#define SHELVES 4
#define LARGEST_KEPT ((size_t)4 << 20) /* bytes */
#define HEADER 64                      /* bytes before the space, which store its size */

#if defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
static char *shelves[SHELVES]; /* shared by all threads and interpreters */

_Static_assert(HEADER >= sizeof(size_t) && HEADER % _Alignof(max_align_t) == 0,
               "the space has the alignment of malloc");

static size_t size_of(const char *block) { return *(const size_t *)(const void *)block; }

static void *borrow(size_t size) {
    char *block = NULL;
    for (int i = 0; i < SHELVES; i++) {
        block = __atomic_exchange_n(&shelves[i], NULL, __ATOMIC_ACQ_REL);
        if (block && size_of(block) >= size) return block + HEADER;
        free(block); /* too small: replaced by a larger one */
    }
    if (size > SIZE_MAX - HEADER || !(block = malloc(HEADER + size))) return NULL;
    *(size_t *)(void *)block = size;
    return block + HEADER;
}

static void give_back(void *space) {
    char *block = space ? (char *)space - HEADER : NULL;
    for (int i = 0; i < SHELVES && block && size_of(block) <= LARGEST_KEPT; i++) {
        char *there = NULL;
        if (__atomic_compare_exchange_n(&shelves[i], &there, block, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
    }
    free(block);
}
#else
static void *borrow(size_t size) { return malloc(size); }
static void give_back(void *space) { free(space); }
#endif
