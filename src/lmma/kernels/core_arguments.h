/* Conversion of arguments from Python. An invalid argument raises an exception and never crashes the process.

   Python code can run while a call is in progress: in other threads once the GIL is released, and in the conversion of
   a later argument (__index__, __float__). Memory stays valid meanwhile because buffers are held. Small arrays that
   decide which memory is read or written, and those that several threads must see alike, are copied before they are
   checked: indices, weights, ranks, rates and gains. Large arrays are used in place: changing them during a call gives
   wrong numbers, but no access outside of them. */

#ifndef MOST_VIEWS
#define MOST_VIEWS 24 /* buffers that a call holds */
#endif
#define MOST_COPIES 8

/* Buffers and copies that a call holds while it runs. */
typedef struct {
    Py_buffer view[MOST_VIEWS];
    void *copy[MOST_COPIES];
    int count, copies;
} Views;

static void release(Views *views) {
    while (views->count) PyBuffer_Release(&views->view[--views->count]);
    while (views->copies) free(views->copy[--views->copies]);
}

static Py_ssize_t columns(const Py_buffer *view) { return view->shape[view->ndim - 1]; }

static ptrdiff_t row_stride(const Py_buffer *view) { return stride(view, 0) / view->itemsize; }

/* True if an array that `array` has accepted as float32 or float64 is float32. */
static int is_single(const Py_buffer *view) { return view->itemsize == sizeof(float); }

/* The array `object` with `ndim` dimensions, contiguous rows, and one of the number types in `types` (see number_type);
   NULL with an exception set otherwise. */
static Py_buffer *array(Views *views, PyObject *object, const char *name, int ndim, const char *types, int writable) {
    if (views->count == MOST_VIEWS) {
        PyErr_Format(PyExc_SystemError, "%s: a call cannot hold more than %d arrays", name, MOST_VIEWS);
        return NULL;
    }
    Py_buffer *view = &views->view[views->count];
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0))) return NULL;
    views->count++;
    const char type = number_type(view);
    if (!type || !strchr(types, type)) {
        PyErr_Format(PyExc_TypeError, "%s has number type %s of %zd bytes, expected one of %s", name,
                     view->format ? view->format : "B", view->itemsize, types);
        return NULL;
    }
    if (view->ndim != ndim) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions, got %d", name, ndim, view->ndim);
        return NULL;
    }
    if ((columns(view) > 1 && stride(view, ndim - 1) != view->itemsize) || !is_aligned(view)) {
        PyErr_Format(PyExc_ValueError, "%s must have contiguous, aligned rows", name);
        return NULL;
    }
    return view;
}

/* An array that must have the number type of `like`. */
static Py_buffer *array_like(Views *views, PyObject *object, const char *name, int ndim, const Py_buffer *like,
                             int writable) {
    return array(views, object, name, ndim, is_single(like) ? "f" : "d", writable);
}

static int has_shape(const Py_buffer *view, const char *name, Py_ssize_t rows, Py_ssize_t cols) {
    if (columns(view) == cols && (view->ndim == 1 || view->shape[0] == rows)) return 1;
    if (view->ndim == 1)
        PyErr_Format(PyExc_ValueError, "%s must have length %zd, got %zd", name, cols, columns(view));
    else
        PyErr_Format(PyExc_ValueError, "%s must have shape (%zd, %zd), got (%zd, %zd)", name, rows, cols,
                     view->shape[0], columns(view));
    return 0;
}

/* A copy of a one-dimensional array; NULL with an exception set if there is no memory. */
static void *copy_of(Views *views, const Py_buffer *view) {
    if (views->copies == MOST_COPIES) {
        PyErr_Format(PyExc_SystemError, "a call cannot hold more than %d copies", MOST_COPIES);
        return NULL;
    }
    const size_t bytes = (size_t)columns(view) * (size_t)view->itemsize;
    void *copy = malloc(bytes + 1);
    if (!copy) return PyErr_NoMemory();
    memcpy(copy, view->buf, bytes);
    views->copy[views->copies++] = copy;
    return copy;
}

/* A copy of `count` float64 numbers; NULL with an exception set otherwise. */
static const double *numbers_of(Views *views, PyObject *object, const char *name, Py_ssize_t count) {
    const Py_buffer *view = array(views, object, name, 1, "d", 0);
    return view && has_shape(view, name, 1, count) ? copy_of(views, view) : NULL;
}

/* A copy of the indices `view`, each of which must be less than `stop`; NULL with an exception set otherwise. */
static const ptrdiff_t *indices_of(Views *views, const Py_buffer *view, const char *name, Py_ssize_t stop) {
    const ptrdiff_t *indices = copy_of(views, view);
    for (Py_ssize_t i = 0; indices && i < columns(view); i++)
        if (indices[i] < 0 || indices[i] >= stop) {
            PyErr_Format(PyExc_IndexError, "%s[%zd]=%zd must be at least 0 and less than %zd", name, i, indices[i],
                         stop);
            return NULL;
        }
    return indices;
}

#define INDEX_TYPE (sizeof(ptrdiff_t) == 8 ? "q" : "i")

/* Weights and the rows that they belong to, copied. */
typedef struct {
    const double *weights;
    const ptrdiff_t *order;
    Py_ssize_t count;
} Weighted;

/* weights, order: args[0] and args[1]; the latter are indices of rows of `rows`. */
static int weighted_of(Views *views, PyObject *const *args, const Py_buffer *rows, Weighted *weighted) {
    Py_buffer *weights, *order;
    if (!(weights = array(views, args[0], "weights", 1, "d", 0)) ||
        !(order = array(views, args[1], "order", 1, INDEX_TYPE, 0)) || !has_shape(order, "order", 1, columns(weights)))
        return -1;
    weighted->count = columns(weights);
    weighted->weights = copy_of(views, weights);
    weighted->order = weighted->weights ? indices_of(views, order, "order", rows->shape[0]) : NULL;
    return weighted->order ? 0 : -1;
}

/* As `whole`, for a float. */
static int real(PyObject *object, const char *name, double *value) {
    const double converted = PyFloat_AsDouble(object);
    if (converted == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(PyExc_OverflowError, "%s is too large for a float64", name);
        return -1;
    }
    *value = converted;
    return 0;
}

/* The `count` items of a tuple, borrowed from it; -1 with an exception set otherwise. */
static int items_of(PyObject *object, const char *name, Py_ssize_t count, PyObject **items) {
    if (!PyTuple_Check(object) || PyTuple_Size(object) != count) {
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of %zd items", name, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) items[i] = PyTuple_GetItem(object, i);
    return 0;
}

/* Write the `count` numbers of a tuple to `fields`. */
static int reals_of(PyObject *object, const char *name, Py_ssize_t count, double *const *fields) {
    if (!PyTuple_Check(object) || PyTuple_Size(object) != count) {
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of %zd numbers", name, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (real(PyTuple_GetItem(object, i), name, fields[i])) return -1;
    return 0;
}

static int expect(const char *function, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", function, wanted, given);
    return -1;
}

/* Set the sizes of a job on `rows` rows of `n` numbers. */
static void set_shape(Sample *job, ptrdiff_t rows, ptrdiff_t n, int single) {
    const ptrdiff_t lanes = LANES_OF(single), pairs = PAIRS_OF(single);
    job->rows = rows;
    job->n = n;
    job->h = (n + 2 * lanes - 1) / (2 * lanes) * lanes;
    job->units = smaller(UNITS, (job->h + pairs - 1) / pairs);
}

/* Set key, generation and first candidate (args[0] to args[3]) for the rows of an array. */
static int set_stream(Sample *job, PyObject *const *args, const Py_buffer *rows) {
    uint64_t key0, key1, generation;
    if (whole(args[0], "key[0]", &key0) || whole(args[1], "key[1]", &key1) ||
        whole(args[2], "generation", &generation) || whole(args[3], "first", &job->first))
        return -1;
    set_shape(job, rows->shape[0], columns(rows), is_single(rows));
    const uint64_t blocks = 2 * (uint64_t)(job->h / LANES_OF(is_single(rows))); /* of the counter, per candidate */
    const uint64_t candidates = blocks ? UINT64_MAX / blocks : UINT64_MAX, count = (uint64_t)job->rows;
    if (count >= candidates || job->first >= candidates - count) {
        PyErr_Format(PyExc_ValueError, "first=%llu exceeds the number of candidates that a generation can have",
                     (unsigned long long)job->first);
        return -1;
    }
    open_stream(&job->stream, key0, key1, generation);
    return 0;
}

static int thread_count(PyObject *object, ptrdiff_t numbers) {
    const int most = thread_limit(object, MAX_THREADS);
    return most ? (int)smaller(most, 1 + numbers / WORTH_A_THREAD) : -1;
}

static PyObject *finish(Views *views, int status) {
    release(views);
    if (status) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
