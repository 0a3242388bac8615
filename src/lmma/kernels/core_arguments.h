/* Arguments from Python: whatever is wrong with them becomes an exception, never a crash. */

typedef struct {
    Py_buffer view[12];
    int count;
} Views;

static void release(Views *views) {
    while (views->count) PyBuffer_Release(&views->view[--views->count]);
}

static Py_ssize_t columns(const Py_buffer *view) { return view->shape[view->ndim - 1]; }

static ptrdiff_t row_stride(const Py_buffer *view) { return view->strides[0] / view->itemsize; }

static int is_single(const Py_buffer *view) { return view->format[0] == 'f'; }

/* The array `object` with `ndim` dimensions, each row without gaps, of one of the number types in `types`
   (d: float64, f: float32, q: intp, L and I: unsigned, of 64 and 32 bits); NULL and an exception otherwise. */
static Py_buffer *array(Views *views, PyObject *object, const char *name, int ndim, const char *types,
                        int writable) {
    Py_buffer *view = &views->view[views->count];
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)))
        return NULL;
    views->count++;
    char type = view->format && view->format[1] == 0 ? view->format[0] : '?';
    if (type == 'l' && view->itemsize == (Py_ssize_t)sizeof(ptrdiff_t)) type = 'q';
    if (type == 'Q' || (type == 'L' && view->itemsize == 8)) type = 'L';
    if (type == '?' || !strchr(types, type) || (type == 'q' && view->itemsize != sizeof(ptrdiff_t))) {
        PyErr_Format(PyExc_TypeError, "%s: number type %s is not among %s", name, view->format, types);
        return NULL;
    }
    if (view->ndim != ndim) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions, got %d", name, ndim, view->ndim);
        return NULL;
    }
    if ((columns(view) > 1 && view->strides[ndim - 1] != view->itemsize) ||
        (ndim == 2 && view->strides[0] % view->itemsize) ||
        (uintptr_t)view->buf % (uintptr_t)view->itemsize) {
        PyErr_Format(PyExc_ValueError, "%s: the numbers of a row must lie side by side", name);
        return NULL;
    }
    return view;
}

/* An array that must have the number type of `like`. */
static Py_buffer *array_like(Views *views, PyObject *object, const char *name, int ndim,
                             const Py_buffer *like, int writable) {
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

static int word(PyObject *object, uint64_t *value) {
    PyObject *number = PyNumber_Index(object);
    if (!number) return -1;
    *value = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

static int expect(const char *function, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", function, wanted, given);
    return -1;
}

/* Key, generation and first candidate (args[0] to args[3]) for rows of `n` numbers. */
static int set_stream(Sample *job, PyObject *const *args, const Py_buffer *rows) {
    uint64_t key0, key1, generation;
    if (word(args[0], &key0) || word(args[1], &key1) || word(args[2], &generation) ||
        word(args[3], &job->first))
        return -1;
    const ptrdiff_t lanes = is_single(rows) ? 8 : 4;
    job->rows = rows->shape[0];
    job->n = columns(rows);
    job->h = (job->n + 2 * lanes - 1) / (2 * lanes) * lanes;
    const ptrdiff_t pairs = PAIRS_OF(is_single(rows));
    job->units = smaller(UNITS, (job->h + pairs - 1) / pairs);
    const uint64_t blocks = 2 * (uint64_t)(job->h / lanes); /* of the counter, for a candidate */
    if (blocks && job->first >= UINT64_MAX / blocks - (uint64_t)job->rows) {
        PyErr_Format(PyExc_ValueError, "first=%llu lies beyond the last candidate of a generation",
                     (unsigned long long)job->first);
        return -1;
    }
    open_stream(&job->stream, key0, key1, generation);
    return 0;
}

static int thread_count(PyObject *object, ptrdiff_t numbers) {
    const long asked = PyLong_AsLong(object);
    if (asked == -1 && PyErr_Occurred()) return -1;
    if (asked < 1) {
        PyErr_Format(PyExc_ValueError, "threads must be at least 1, got %ld", asked);
        return -1;
    }
    return (int)smaller(smaller(asked, MAX_THREADS), 1 + numbers / WORTH_A_THREAD);
}

static PyObject *finish(Views *views, int status) {
    release(views);
    if (status) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
