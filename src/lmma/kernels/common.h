/* Shared by the compiled modules of lmma and lmma-lab: differences between compilers, and arguments from Python. */

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#else
#define INLINE static __inline
#define NOINLINE
#endif

#if defined(__GNUC__) && defined(__x86_64__) && !defined(LMMA_NO_VECTORS)
#define HAVE_AVX2 1
#include <immintrin.h>
#else
#define HAVE_AVX2 0
#endif

/* Functions between BEGIN_TARGET and END_TARGET may use the named instructions. Clang ignores GCC's pragma and
   then reports an error, so each compiler has its own. */
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define BEGIN_TARGET(names) PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define END_TARGET PRAGMA(clang attribute pop)
#else
#define BEGIN_TARGET(names) PRAGMA(GCC push_options) PRAGMA(GCC target(names))
#define END_TARGET PRAGMA(GCC pop_options)
#endif

#if defined(_WIN32)
#define HAVE_THREADS 0
#else
#define HAVE_THREADS 1
#include <pthread.h>
#endif

/* The number type of a buffer: d float64, f float32, B uint8, I uint32, Q uint64, i int32, q int64; 0 for all others.
   It depends on format and item size, because the width of 'l' and 'L' differs between platforms. */
static char number_type(const Py_buffer *view) {
    const char *format = view->format ? view->format : "B";                  /* the protocol's default */
    if (*format && strchr(PY_BIG_ENDIAN ? "@=>" : "@=<", *format)) format++; /* native byte order */
    if (format[0] == 0 || format[1] != 0) return 0;
    if (*format == 'd') return view->itemsize == sizeof(double) ? 'd' : 0;
    if (*format == 'f') return view->itemsize == sizeof(float) ? 'f' : 0;
    if (*format == 'B') return view->itemsize == 1 ? 'B' : 0;
    if (strchr("ilqn", *format)) return view->itemsize == 8 ? 'q' : view->itemsize == 4 ? 'i' : 0;
    if (strchr("ILQN", *format)) return view->itemsize == 8 ? 'Q' : view->itemsize == 4 ? 'I' : 0;
    return 0;
}

/* Bytes between consecutive indices; exporters of contiguous memory, such as ctypes, may omit strides. */
static Py_ssize_t stride(const Py_buffer *view, int axis) {
    if (view->strides) return view->strides[axis];
    Py_ssize_t bytes = view->itemsize;
    while (++axis < view->ndim) bytes *= view->shape[axis];
    return bytes;
}

/* True if all numbers are aligned to their size. */
static int is_aligned(const Py_buffer *view) {
    if ((uintptr_t)view->buf % (uintptr_t)view->itemsize) return 0;
    for (int axis = 0; axis < view->ndim; axis++)
        if (view->shape[axis] > 1 && stride(view, axis) % view->itemsize) return 0;
    return 1;
}

/* Set `value` to the integer `object`, called `name` in messages; return 0, or -1 with an exception set. */
static int whole(PyObject *object, const char *name, uint64_t *value) {
    PyObject *number = PyNumber_Index(object);
    if (!number) return -1;
    const unsigned long long converted = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (converted == (unsigned long long)-1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(PyExc_OverflowError, "%s must be an integer from 0 to 2**64 - 1", name);
        return -1;
    }
    *value = converted;
    return 0;
}

/* The number of threads `object`, at most `most`; 0 with an exception set if it is invalid. */
static int thread_limit(PyObject *object, int most) {
    uint64_t asked;
    if (whole(object, "threads", &asked)) return 0;
    if (asked < 1) PyErr_SetString(PyExc_ValueError, "threads must be at least 1");
    return asked > (uint64_t)most ? most : (int)asked;
}
