/* Exact evaluation of a decision forest on flat nodes; lmma_lab/attack/forest.py documents the arrays.

   A tree is stored in preorder: the child for "x <= threshold" directly follows its parent, the other child
   is `offset` nodes after the parent. A leaf has offset 0 and holds a class (or a row number of the table of
   values) instead of the threshold. A node has two words of 32 bits (feature and offset share the second), or
   three if feature and offset do not fit.

   Up to 32 rows are processed together as the bits of a mask. One comparison evaluates a node for all of them,
   so similar rows, such as the candidates of an attack, cost little more than a single row. Many trees are
   traversed at once: a list of (node, mask) pairs advances by one level per pass. The only branch is the test
   for a leaf, so memory latencies overlap.

   The constructor checks every node. Afterwards indices can only increase and cannot leave their tree, so the
   traversal ends for every input. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#if HAVE_THREADS
#include <sys/mman.h>
#endif
#if defined(__GNUC__)
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p) ((void)0)
#endif

#define LANES 32  /* rows per mask */
#ifndef BLOCK
#define BLOCK 64  /* trees traversed together, few enough to keep the work lists in the L1 cache */
#endif
#ifndef BAND
#define BAND 8    /* groups of rows that share one pass over a block of trees */
#endif
#define FLIGHT 16 /* trees pruned in alternation */
#define FLUSH 255 /* most trees that a one-byte counter can count */

typedef struct {
    PyObject_HEAD
    uint32_t *words;    /* n_nodes * stride */
    uint64_t *roots;    /* n_trees + 1, first node of each tree */
    uint32_t *used;     /* n_used, column of X for each feature number */
    double *values;     /* n_values * n_classes, or NULL if every leaf holds a single class */
    double *base;       /* n_classes, votes of trees that pruning made constant */
    float *low, *high;  /* n_features: bounds of the valid region, or NULL if unbounded */
    uint64_t n_nodes, n_trees, n_used, n_features, n_classes, n_values;
    uint64_t longest, depth; /* most nodes in a tree, most steps from a root to a leaf */
    int stride, bits;
} Forest;

/* ------------------------------------------------------------------------------------ one group */

typedef struct {
    uint64_t *list, *next;          /* (mask << 32) | node */
    uint32_t *list_tree, *next_tree; /* tree number within the block, for leaves with values */
    uint32_t *leaf;                 /* BLOCK * LANES, payload of the leaf reached by each row */
    float *columns;                 /* BAND groups of n_used * LANES numbers */
    uint8_t *votes;                 /* BAND groups of n_classes * LANES bytes */
} Work;

static inline float as_float(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

typedef void (*walker)(const Forest *, const float *, uint8_t *, uint32_t, uint64_t, uint64_t, Work *);

#define AVX2 0
#define NAME(x) portable_##x
#include "_forest_walk.h"
#undef AVX2
#undef NAME
#if HAVE_AVX2
BEGIN_TARGET("avx2,bmi,bmi2")
#define AVX2 1
#define NAME(x) avx2_##x
#include "_forest_walk.h"
#undef AVX2
#undef NAME
END_TARGET
#endif

/* State per module object, because each interpreter has its own. */
typedef struct {
    int use_avx2;
} State;

static int has_avx2(void)
{
#if HAVE_AVX2
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
    return 0;
#endif
}

/* ------------------------------------------------------------------------------------ all groups */

enum { FINE = 0, NOT_FINITE = 1, OUTSIDE = 2, NO_MEMORY = 3 };

typedef struct {
    const Forest *f;
    const void *rows;
    char kind; /* 'f' float32, 'd' float64, 'B' uint8 */
    double *out;
    uint64_t n_rows, group, n_groups, per_run;
    uint64_t trees; /* number of trees to evaluate */
    uint64_t next; /* first group that no thread has taken yet */
    int use_avx2, status;
} Job;

INLINE float number(const Job *job, uint64_t index)
{
    if (job->kind == 'f') return ((const float *)job->rows)[index];
    if (job->kind == 'd') return (float)((const double *)job->rows)[index]; /* nearest, as NumPy casts */
    return (float)((const uint8_t *)job->rows)[index];
}

/* Rows of group g: a run of `group` rows is split into pieces of at most LANES. */
static void extent(const Job *job, uint64_t g, uint64_t *start, uint64_t *count)
{
    const uint64_t run = g / job->per_run, piece = g % job->per_run;
    uint64_t end = (run + 1) * job->group;
    if (end > job->n_rows) end = job->n_rows;
    *start = run * job->group + piece * LANES;
    *count = *start >= end ? 0 : end - *start < LANES ? end - *start : LANES;
}

static int transpose(const Job *job, uint64_t start, uint64_t count, int width, float *columns)
{
    const Forest *f = job->f;
    const uint64_t n = f->n_features;
    int bad = 0, outside = 0;
    for (uint64_t r = 0; r < count; r++) {
        const uint64_t at = (start + r) * n;
        if (job->kind == 'd')
            for (uint64_t j = 0; j < n; j++)
                bad |= !(fabsf((float)((const double *)job->rows)[at + j]) <= FLT_MAX);
        else if (job->kind == 'f')
            for (uint64_t j = 0; j < n; j++) bad |= !(fabsf(((const float *)job->rows)[at + j]) <= FLT_MAX);
        if (f->low)
            for (uint64_t j = 0; j < n; j++) {
                const float x = number(job, at + j);
                outside |= x < f->low[j] || x > f->high[j];
            }
    }
    if (bad) return NOT_FINITE;
    if (outside) return OUTSIDE;
    for (uint64_t u = 0; u < f->n_used; u++) {
        float *column = columns + u * (uint64_t)width;
        const uint64_t at = start * n + f->used[u];
        for (uint64_t r = 0; r < count; r++) column[r] = number(job, at + r * n);
        for (uint64_t r = count; r < (uint64_t)width; r++) column[r] = 0.0f;
    }
    return FINE;
}

static void flush(const Forest *f, uint8_t *votes, double *out, uint64_t count)
{
    for (uint64_t r = 0; r < count; r++)
        for (uint64_t c = 0; c < f->n_classes; c++) out[r * f->n_classes + c] += votes[c * LANES + r];
    memset(votes, 0, f->n_classes * LANES);
}

static void add_values(const Forest *f, const uint32_t *leaf, uint64_t trees, double *out, uint64_t count)
{
    for (uint64_t t = 0; t < trees; t++) /* in tree order, so that sums round like scikit-learn's */
        for (uint64_t r = 0; r < count; r++) {
            const double *value = f->values + (uint64_t)leaf[t * LANES + r] * f->n_classes;
            for (uint64_t c = 0; c < f->n_classes; c++) out[r * f->n_classes + c] += value[c];
        }
}

static int evaluate_band(const Job *job, uint64_t g0, uint64_t g1, Work *work)
{
    const Forest *f = job->f;
    const int pure = f->values == NULL;
    uint64_t start[BAND], count[BAND];
    int width[BAND];
    memset(work->votes, 0, BAND * f->n_classes * LANES);
    for (uint64_t g = g0; g < g1; g++) {
        const uint64_t k = g - g0;
        extent(job, g, &start[k], &count[k]);
        width[k] = (int)((count[k] + 7) / 8 * 8);
        const int status = transpose(job, start[k], count[k], width[k], work->columns + k * f->n_used * LANES);
        if (status != FINE) return status;
        for (uint64_t r = start[k]; r < start[k] + count[k]; r++)
            memcpy(job->out + r * f->n_classes, f->base, f->n_classes * sizeof(double));
    }
    uint64_t unflushed = 0;
    for (uint64_t first = 0; first < job->trees; first += BLOCK) {
        const uint64_t last = first + BLOCK < job->trees ? first + BLOCK : job->trees;
        const int full = unflushed + (last - first) > FLUSH;
        for (uint64_t k = 0; k < g1 - g0; k++) {
            if (count[k] == 0) continue;
            uint8_t *votes = work->votes + k * f->n_classes * LANES;
            double *out = job->out + start[k] * f->n_classes;
            if (pure && full) flush(f, votes, out, count[k]);
            const walker *table = portable_table[f->stride - 2][pure];
#if HAVE_AVX2
            if (job->use_avx2) table = avx2_table[f->stride - 2][pure];
#endif
            table[width[k] / 8 - 1](f, work->columns + k * f->n_used * LANES, votes,
                                    (uint32_t)(((uint64_t)1 << count[k]) - 1), first, last, work);
            if (!pure) add_values(f, work->leaf, last - first, out, count[k]);
        }
        unflushed = (full ? 0 : unflushed) + (last - first);
    }
    if (pure)
        for (uint64_t k = 0; k < g1 - g0; k++)
            flush(f, work->votes + k * f->n_classes * LANES, job->out + start[k] * f->n_classes, count[k]);
    return FINE;
}

/* Memory for `count` items; NULL if there is not enough or the size overflows. */
static void *allocate(uint64_t count, size_t item)
{
    return count > SIZE_MAX / item ? NULL : malloc(count ? (size_t)count * item : 1);
}

static void *run_job(void *argument)
{
    Job *job = argument;
    const Forest *f = job->f;
    const size_t slots = BLOCK * LANES + 2; /* a step writes up to two entries before it counts them */
    Work work;
    work.list = malloc(slots * sizeof(uint64_t));
    work.next = malloc(slots * sizeof(uint64_t));
    work.list_tree = malloc(slots * sizeof(uint32_t));
    work.next_tree = malloc(slots * sizeof(uint32_t));
    work.leaf = calloc(BLOCK * LANES, sizeof(uint32_t));
    work.columns = allocate(f->n_used, BAND * LANES * sizeof(float));
    work.votes = allocate(f->n_classes, BAND * LANES);
    int status = NO_MEMORY;
    if (work.list && work.next && work.list_tree && work.next_tree && work.leaf && work.columns &&
        work.votes) {
        status = FINE;
        while (status == FINE) {
#if HAVE_THREADS
            const uint64_t g0 = __atomic_fetch_add(&job->next, BAND, __ATOMIC_RELAXED);
#else
            const uint64_t g0 = job->next;
            job->next += BAND;
#endif
            if (g0 >= job->n_groups) break;
            status = evaluate_band(job, g0, g0 + BAND < job->n_groups ? g0 + BAND : job->n_groups, &work);
        }
    }
    if (status != FINE) {
#if HAVE_THREADS
        __atomic_store_n(&job->status, status, __ATOMIC_RELAXED);
#else
        job->status = status;
#endif
    }
    free(work.list);
    free(work.next);
    free(work.list_tree);
    free(work.next_tree);
    free(work.leaf);
    free(work.columns);
    free(work.votes);
    return NULL;
}

#define MAX_THREADS 256

static void run_threads(Job *job, int threads)
{
#if HAVE_THREADS
    pthread_t ids[MAX_THREADS];
    int started = 0;
    const uint64_t bands = (job->n_groups + BAND - 1) / BAND;
    if ((uint64_t)threads > bands) threads = (int)bands;
    for (; started < threads - 1; started++)
        if (pthread_create(&ids[started], NULL, run_job, job) != 0) break; /* continue with fewer threads */
    run_job(job);
    for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
#else
    (void)threads;
    run_job(job);
#endif
}

/* --------------------------------------------------------------------------- construction, checks */

static void forest_free(Forest *f)
{
    free(f->words);
    free(f->roots);
    free(f->used);
    free(f->values);
    free(f->base);
    free(f->low);
    free(f->high);
}

static void forest_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    forest_free((Forest *)self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static Forest *forest_alloc(PyTypeObject *type)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return (Forest *)alloc(type, 0); /* zeroed */
}

static void *copied(const void *source, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    if (copy && bytes) memcpy(copy, source, bytes);
    return copy;
}

/* The traversal accesses the whole array at random; with pages of 4 KiB most accesses would miss the TLB. */
static void *copied_to_large_pages(const void *source, size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    const size_t page = (size_t)1 << 21;
    void *copy = NULL;
    if (bytes < page) return copied(source, bytes);
    if (posix_memalign(&copy, page, (bytes + page - 1) / page * page) != 0) return NULL;
    madvise(copy, (bytes + page - 1) / page * page, MADV_HUGEPAGE); /* failure only costs speed */
    memcpy(copy, source, bytes);
    return copy;
#else
    return copied(source, bytes);
#endif
}

/* Return the fault of a forest, or NULL if every tree is one complete preorder sequence within its slice. */
static const char *fault_of(Forest *f)
{
    const uint32_t low = f->stride == 2 ? (uint32_t)(((uint64_t)1 << f->bits) - 1) : 0;
    const uint64_t payloads = f->values ? f->n_values : f->n_classes;
    uint64_t longest = 1, deepest = 0;
    const char *fault = NULL;
    if (f->roots[0] != 0 || f->roots[f->n_trees] != f->n_nodes) return "roots do not span the nodes";
    for (uint64_t t = 0; t < f->n_trees; t++) {
        if (f->roots[t] >= f->roots[t + 1] || f->roots[t + 1] > f->n_nodes) return "roots do not increase";
        if (f->roots[t + 1] - f->roots[t] > longest) longest = f->roots[t + 1] - f->roots[t];
    }
    for (uint64_t u = 0; u < f->n_used; u++)
        if (f->used[u] >= f->n_features) return "a feature lies outside the input";
    uint64_t *pending = malloc(2 * longest * sizeof(uint64_t)); /* pending right children, their levels */
    if (!pending) return "not enough memory";
    uint64_t *levels = pending + longest;
    for (uint64_t t = 0; t < f->n_trees && !fault; t++) {
        const uint64_t end = f->roots[t + 1];
        uint64_t depth = 0, level = 0;
        for (uint64_t i = f->roots[t]; i < end && !fault; i++) {
            const uint32_t *word = f->words + i * (uint64_t)f->stride;
            const uint64_t offset = f->stride == 2 ? word[1] & low : word[2];
            const uint64_t feature = f->stride == 2 ? word[1] >> f->bits : word[1];
            if (offset == 0) {
                uint64_t expected = end;
                if (depth) {
                    expected = pending[--depth];
                    level = levels[depth];
                }
                if (word[0] >= payloads) fault = "a leaf names a class that does not exist";
                if (expected != i + 1) fault = "children do not follow their parents";
            } else {
                if (feature >= f->n_used) fault = "a node uses a feature that does not exist";
                if (i + offset >= end || offset < 2) fault = "a child lies outside its tree";
                levels[depth] = ++level;
                pending[depth++] = i + offset; /* depth < nodes seen <= longest */
                if (level > deepest) deepest = level;
            }
        }
        if (!fault && depth) fault = "a tree ends before its last child";
    }
    free(pending);
    f->longest = longest;
    f->depth = deepest;
    return fault;
}

/* Get a contiguous buffer of one of the number types in `types`; return its type (see number_type), or -1. */
static int get_buffer(PyObject *object, Py_buffer *view, const char *name, const char *types, int flags)
{
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) return -1;
    const char type = number_type(view);
    if (!type || !strchr(types, type)) {
        PyErr_Format(PyExc_TypeError, "%s: number type %s of %zd bytes is not among %s", name,
                     view->format ? view->format : "B", view->itemsize, types);
    } else if (!is_aligned(view)) {
        PyErr_Format(PyExc_ValueError, "%s: the data must be aligned", name);
    } else {
        return type;
    }
    PyBuffer_Release(view);
    return -1;
}

static PyObject *forest_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"words", "stride", "bits", "roots", "used", "values", "n_features", "n_classes", NULL};
    PyObject *words, *roots, *used, *values, *features, *classes;
    int stride, bits;
    uint64_t n_features, n_classes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OiiOOOOO", names, &words, &stride, &bits, &roots, &used,
                                     &values, &features, &classes))
        return NULL;
    if (whole(features, "n_features", &n_features) || whole(classes, "n_classes", &n_classes)) return NULL;
    if ((stride != 2 && stride != 3) || bits < 1 || bits > 31 || n_classes < 1 || n_classes > 1u << 24 ||
        n_features < 1 || n_features > 1u << 30) {
        PyErr_SetString(PyExc_ValueError, "forest: stride, bits, n_features or n_classes out of range");
        return NULL;
    }
    Py_buffer w, r, u, v;
    Forest *f = NULL;
    if (get_buffer(words, &w, "words", "I", 0) < 0) return NULL;
    if (get_buffer(roots, &r, "roots", "Q", 0) < 0) goto fail_w;
    if (get_buffer(used, &u, "used", "I", 0) < 0) goto fail_r;
    if (get_buffer(values, &v, "values", "d", 0) < 0) goto fail_u;
    if (w.len % (4 * stride) || r.len < 16 || (uint64_t)v.len % (8 * n_classes) || (uint64_t)w.len / (4 * (uint64_t)stride) >= UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "forest: arrays of the wrong size");
        goto done;
    }
    f = forest_alloc(type);
    if (!f) goto done;
    f->stride = stride;
    f->bits = bits;
    f->n_features = n_features;
    f->n_classes = n_classes;
    f->n_nodes = (uint64_t)w.len / (4 * (uint64_t)stride);
    f->n_trees = (uint64_t)r.len / 8 - 1;
    f->n_used = (uint64_t)u.len / 4;
    f->n_values = (uint64_t)v.len / (8 * n_classes);
    f->words = copied_to_large_pages(w.buf, (size_t)w.len);
    f->roots = copied(r.buf, (size_t)r.len);
    f->used = copied(u.buf, (size_t)u.len);
    f->base = calloc(n_classes, sizeof(double));
    f->values = v.len ? copied(v.buf, (size_t)v.len) : NULL;
    if (!f->words || !f->roots || !f->used || !f->base || (v.len && !f->values)) {
        PyErr_NoMemory();
        Py_CLEAR(f);
        goto done;
    }
    const char *fault = fault_of(f);
    if (fault) {
        PyErr_Format(PyExc_ValueError, "forest: damaged nodes (%s)", fault);
        Py_CLEAR(f);
    }
done:
    PyBuffer_Release(&v);
fail_u:
    PyBuffer_Release(&u);
fail_r:
    PyBuffer_Release(&r);
fail_w:
    PyBuffer_Release(&w);
    return PyErr_Occurred() ? NULL : (PyObject *)f;
}

/* --------------------------------------------------------------------------------------- methods */

static PyObject *forest_evaluate(PyObject *self, PyObject *args)
{
    const Forest *f = (const Forest *)self;
    const State *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *rows, *out, *groups, *most, *limit;
    uint64_t group, trees;
    int threads;
    if (!state || !PyArg_ParseTuple(args, "OOOOO", &rows, &out, &groups, &most, &limit)) return NULL;
    if (whole(groups, "group", &group) || whole(limit, "trees", &trees) ||
        !(threads = thread_limit(most, MAX_THREADS)))
        return NULL;
    Py_buffer x, o;
    const int kind = get_buffer(rows, &x, "rows", "fdB", 0);
    if (kind < 0) return NULL;
    if (get_buffer(out, &o, "out", "d", PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&x);
        return NULL;
    }
    if (x.ndim != 2 || (uint64_t)x.shape[1] != f->n_features || o.ndim != 2 || o.shape[0] != x.shape[0] ||
        (uint64_t)o.shape[1] != f->n_classes || group < 1) {
        PyErr_SetString(PyExc_ValueError, "evaluate: shapes or group do not fit the forest");
    } else {
        Job job = {.f = f, .rows = x.buf, .kind = (char)kind, .out = o.buf, .n_rows = (uint64_t)x.shape[0],
                   .use_avx2 = state->use_avx2};
        job.trees = trees < f->n_trees ? trees : f->n_trees;
        job.group = group < job.n_rows ? group : (job.n_rows ? job.n_rows : 1);
        job.per_run = (job.group + LANES - 1) / LANES;
        job.n_groups = (job.n_rows + job.group - 1) / job.group * job.per_run;
        Py_BEGIN_ALLOW_THREADS
        run_threads(&job, threads);
        Py_END_ALLOW_THREADS
        if (job.status == NO_MEMORY) PyErr_NoMemory();
        if (job.status == NOT_FINITE) PyErr_SetString(PyExc_ValueError, "not finite");
        if (job.status == OUTSIDE) PyErr_SetString(PyExc_IndexError, "outside the box");
    }
    PyBuffer_Release(&o);
    PyBuffer_Release(&x);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

typedef struct {
    uint64_t slot, other, middle; /* the kept node, its right child, and the child's new index (0: not yet) */
} Open;

typedef struct { /* state of a tree being pruned */
    uint64_t node, at, depth;
    uint32_t *out;
    Open *open;
} Cut;

/* Process one node of a tree and keep it if rows between low and high can take either branch; return 1 if the
   tree is complete. Steps of several trees alternate, so that the next node of each is prefetched meanwhile. */
static int cut_step(const Forest *f, const float *low, const float *high, Cut *cut)
{
    const int stride = f->stride;
    const uint32_t ones = stride == 2 ? (uint32_t)(((uint64_t)1 << f->bits) - 1) : 0;
    const uint32_t *word = f->words + cut->node * (uint64_t)stride;
    const uint32_t offset = stride == 2 ? word[1] & ones : word[2];
    uint32_t *kept = cut->out + cut->at * (uint64_t)stride;
    if (offset) {
        const uint32_t column = f->used[stride == 2 ? word[1] >> f->bits : word[1]];
        const float limit = as_float(word[0]);
        if (high[column] <= limit) {
            cut->node += 1;
        } else if (!(low[column] <= limit)) {
            cut->node += offset;
            PREFETCH(f->words + cut->node * (uint64_t)stride);
        } else {
            memcpy(kept, word, (size_t)stride * 4);
            cut->open[cut->depth++] = (Open){cut->at++, cut->node + offset, 0};
            PREFETCH(word + offset * (uint64_t)stride);
            cut->node += 1;
        }
        return 0;
    }
    memcpy(kept, word, (size_t)stride * 4);
    cut->at++;
    while (cut->depth && cut->open[cut->depth - 1].middle) { /* a right subtree is complete: close its parent */
        const Open o = cut->open[--cut->depth];
        uint32_t *parent = cut->out + o.slot * (uint64_t)stride, *left = parent + stride;
        uint32_t *right = cut->out + o.middle * (uint64_t)stride;
        if (stride == 2)
            parent[1] = (parent[1] & ~ones) | (uint32_t)(o.middle - o.slot);
        else
            parent[2] = (uint32_t)(o.middle - o.slot);
        if (cut->at == o.slot + 3 && left[0] == right[0]) { /* two equal leaves */
            memcpy(parent, left, (size_t)stride * 4);
            cut->at = o.slot + 1;
        }
    }
    if (!cut->depth) return 1;
    cut->open[cut->depth - 1].middle = cut->at;
    cut->node = cut->open[cut->depth - 1].other;
    return 0;
}

/* Fill the nodes of g with those of f that matter within g's bounds; return 0 if memory runs out. */
static int prune_all(const Forest *f, Forest *g)
{
    const uint64_t width = (uint64_t)f->stride * 4;
    uint64_t flight = ((uint64_t)1 << 22) / f->longest; /* bounds the scratch memory for huge trees */
    flight = flight < 1 ? 1 : flight > FLIGHT ? FLIGHT : flight;
    uint64_t room = 128 * f->n_trees + f->longest;
    Cut cuts[FLIGHT];
    uint32_t *out = malloc(flight * f->longest * width);
    Open *open = malloc(flight * (f->depth + 1) * sizeof(Open));
    g->words = malloc(room * width);
    int enough = out && open && g->words;
    for (uint64_t first = 0; first < f->n_trees && enough; first += flight) {
        const uint64_t count = first + flight < f->n_trees ? flight : f->n_trees - first;
        Cut *going[FLIGHT];
        uint64_t left = count;
        for (uint64_t k = 0; k < count; k++) {
            cuts[k] = (Cut){f->roots[first + k], 0, 0, out + k * f->longest * (uint64_t)f->stride,
                            open + k * (f->depth + 1)};
            going[k] = &cuts[k];
            PREFETCH(f->words + cuts[k].node * (uint64_t)f->stride);
        }
        while (left)
            for (uint64_t k = 0; k < left;)
                if (cut_step(f, g->low, g->high, going[k]))
                    going[k] = going[--left];
                else
                    k++;
        for (uint64_t k = 0; k < count && enough; k++) {
            const uint64_t nodes = cuts[k].at;
            if (nodes == 1 && !f->values) {
                g->base[cuts[k].out[0]] += 1.0; /* a tree of one leaf; integer sums do not depend on the order */
                continue;
            }
            if (g->n_nodes + nodes > room) {
                room = 2 * room + nodes;
                uint32_t *more = realloc(g->words, room * width);
                if (!more) {
                    enough = 0;
                    break;
                }
                g->words = more;
            }
            memcpy(g->words + g->n_nodes * (uint64_t)f->stride, cuts[k].out, nodes * width);
            g->roots[g->n_trees++] = g->n_nodes;
            g->n_nodes += nodes;
            if (nodes > g->longest) g->longest = nodes;
        }
    }
    g->roots[g->n_trees] = g->n_nodes;
    free(out);
    free(open);
    return enough;
}

static PyObject *forest_prune(PyObject *self, PyObject *args)
{
    const Forest *f = (const Forest *)self;
    PyObject *low_object, *high_object;
    if (!PyArg_ParseTuple(args, "OO", &low_object, &high_object)) return NULL;
    Py_buffer low, high;
    if (get_buffer(low_object, &low, "low", "f", 0) < 0) return NULL;
    if (get_buffer(high_object, &high, "high", "f", 0) < 0) {
        PyBuffer_Release(&low);
        return NULL;
    }
    Forest *g = NULL;
    if ((uint64_t)low.len != f->n_features * 4 || high.len != low.len) {
        PyErr_SetString(PyExc_ValueError, "prune: low and high must hold one number for each feature");
        goto done;
    }
    g = forest_alloc(Py_TYPE(self));
    if (!g) goto done;
    g->stride = f->stride;
    g->bits = f->bits;
    g->n_features = f->n_features;
    g->n_classes = f->n_classes;
    g->n_used = f->n_used;
    g->n_values = f->n_values;
    g->longest = 1;
    g->depth = f->depth;
    g->roots = malloc((f->n_trees + 1) * sizeof(uint64_t));
    g->used = copied(f->used, f->n_used * sizeof(uint32_t));
    g->values = f->values ? copied(f->values, f->n_values * f->n_classes * sizeof(double)) : NULL;
    g->base = copied(f->base, f->n_classes * sizeof(double));
    g->low = copied(low.buf, (size_t)low.len);
    g->high = copied(high.buf, (size_t)high.len);
    int enough = g->roots && g->used && g->base && g->low && g->high && (!f->values || g->values);
    if (enough) {
        Py_BEGIN_ALLOW_THREADS
        enough = prune_all(f, g);
        Py_END_ALLOW_THREADS
    }
    if (!enough) {
        PyErr_NoMemory();
        Py_CLEAR(g);
    }
done:
    PyBuffer_Release(&high);
    PyBuffer_Release(&low);
    return PyErr_Occurred() ? NULL : (PyObject *)g;
}

static PyObject *forest_sizes(PyObject *self, PyObject *ignored)
{
    const Forest *f = (const Forest *)self;
    (void)ignored;
    return Py_BuildValue("KK", (unsigned long long)f->n_trees, (unsigned long long)f->n_nodes);
}

static PyMethodDef forest_methods[] = {
    {"evaluate", forest_evaluate, METH_VARARGS,
     "evaluate(rows, out, group, threads, trees): fill out with the sums over the first trees."},
    {"prune", forest_prune, METH_VARARGS, "prune(low, high): return the forest restricted to that box."},
    {"sizes", forest_sizes, METH_NOARGS, "sizes(): return (non-constant trees, nodes)."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot forest_slots[] = {{Py_tp_new, (void *)forest_new},
                                     {Py_tp_dealloc, (void *)forest_dealloc},
                                     {Py_tp_methods, forest_methods},
                                     {Py_tp_doc, "A checked, flat decision forest."},
                                     {0, NULL}};

static PyType_Spec forest_spec = {"lmma_lab.attack._forest.Forest", sizeof(Forest), 0, Py_TPFLAGS_DEFAULT,
                                  forest_slots};

static PyObject *simd(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    int wanted = -1;
    if (!PyArg_ParseTuple(args, "|i", &wanted)) return NULL;
    if (wanted >= 0) state->use_avx2 = wanted && has_avx2();
    return PyBool_FromLong(state->use_avx2);
}

static PyMethodDef module_methods[] = {
    {"simd", simd, METH_VARARGS, "simd([wanted]): switch AVX2 on or off if supported; return True if it is on."},
    {NULL, NULL, 0, NULL}};

static int prepare(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->use_avx2 = has_avx2();
    PyObject *type = PyType_FromModuleAndSpec(module, &forest_spec, NULL);
    const int status = type ? PyModule_AddObjectRef(module, "Forest", type) : -1;
    Py_XDECREF(type);
    return status;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_forest", "Exact, fast decision forests.", sizeof(State), module_methods, slots, NULL,
    NULL,                  NULL};

PyMODINIT_FUNC PyInit__forest(void) { return PyModuleDef_Init(&definition); }
