/* Arguments from Python: whatever is wrong with them becomes an exception, never a crash. */

/* What a call holds while it runs. */
typedef struct {
    Py_buffer view[24];
    int count;
    ptrdiff_t *indices; /* a copy, see indices_of */
} Views;

static void release(Views *views) {
    while (views->count) PyBuffer_Release(&views->view[--views->count]);
    free(views->indices);
    views->indices = NULL;
}

static Py_ssize_t columns(const Py_buffer *view) { return view->shape[view->ndim - 1]; }

static ptrdiff_t row_stride(const Py_buffer *view) { return stride(view, 0) / view->itemsize; }

/* Of an array that `array` has let in: float32, and not float64? */
static int is_single(const Py_buffer *view) { return view->itemsize == sizeof(float); }

/* The array `object` with `ndim` dimensions, each row without gaps, of one of the number types in `types`
   (see number_type); NULL and an exception otherwise. */
static Py_buffer *array(Views *views, PyObject *object, const char *name, int ndim, const char *types,
                        int writable) {
    Py_buffer *view = &views->view[views->count];
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)))
        return NULL;
    views->count++;
    const char type = number_type(view);
    if (!type || !strchr(types, type)) {
        PyErr_Format(PyExc_TypeError, "%s: number type %s of %zd bytes is not among %s", name,
                     view->format ? view->format : "B", view->itemsize, types);
        return NULL;
    }
    if (view->ndim != ndim) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions, got %d", name, ndim, view->ndim);
        return NULL;
    }
    if ((columns(view) > 1 && stride(view, ndim - 1) != view->itemsize) || !is_aligned(view)) {
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

/* As `whole`, for any number. */
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

static int expect(const char *function, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", function, wanted, given);
    return -1;
}

/* The measures of a job on `rows` rows of `n` numbers. */
static void set_shape(Sample *job, ptrdiff_t rows, ptrdiff_t n, int single) {
    const ptrdiff_t lanes = single ? 8 : 4, pairs = PAIRS_OF(single);
    job->rows = rows;
    job->n = n;
    job->h = (n + 2 * lanes - 1) / (2 * lanes) * lanes;
    job->units = smaller(UNITS, (job->h + pairs - 1) / pairs);
}

/* Key, generation and first candidate (args[0] to args[3]) for the rows of an array. */
static int set_stream(Sample *job, PyObject *const *args, const Py_buffer *rows) {
    uint64_t key0, key1, generation;
    if (whole(args[0], "key[0]", &key0) || whole(args[1], "key[1]", &key1) ||
        whole(args[2], "generation", &generation) || whole(args[3], "first", &job->first))
        return -1;
    set_shape(job, rows->shape[0], columns(rows), is_single(rows));
    const uint64_t blocks = 2 * (uint64_t)(job->h / (is_single(rows) ? 8 : 4)); /* of the counter, a candidate */
    const uint64_t candidates = blocks ? UINT64_MAX / blocks : UINT64_MAX, count = (uint64_t)job->rows;
    if (count >= candidates || job->first >= candidates - count) {
        PyErr_Format(PyExc_ValueError, "first=%llu lies beyond the last candidate of a generation",
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
