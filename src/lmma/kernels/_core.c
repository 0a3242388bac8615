/* The compiled core of lmma.kernels: the functions of twin.py in C, with the same meaning.

   Plain C against the stable ABI: arrays come in through the buffer protocol, so neither NumPy's headers
   nor any library is needed. Every kernel exists for two number types and for up to two instruction sets,
   made from the same source by including it several times; the best set is picked when the module loads.

   Work is cut into units of columns that depend on the size of the problem alone, threads take units, and
   sums over units are added up in order: the same bits for any number of threads. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core_kernels.h"

/* ---- Arguments ------------------------------------------------------------------------------------- */

typedef struct {
    Py_buffer view[8];
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
    job->units = smaller(UNITS, (job->h + PAIRS - 1) / PAIRS);
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

/* ---- Functions ------------------------------------------------------------------------------------- */

/* normals(key0, key1, generation, first, out, threads) */
static PyObject *normals(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Sample job = {.units = 0};
    Py_buffer *out;
    int threads, status;
    (void)self;
    if (expect("normals", count, 6)) return NULL;
    if (!(out = array(&views, args[4], "out", 2, "df", 1)) || set_stream(&job, args, out) ||
        (threads = thread_count(args[5], job.rows * job.n)) < 0) {
        release(&views);
        return NULL;
    }
    job.z = out->buf;
    job.z_stride = row_stride(out);
    const size_t scratch = WORDS_SCRATCH * sizeof(uint64_t) + 2 * PAIRS * sizeof(double);
    Py_BEGIN_ALLOW_THREADS
    status = run_team(threads, chosen->kernels[is_single(out)]->normals, &job, job.units, scratch);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

static int sample_all(Sample *job, const Kernels *kernels, size_t size, int threads, const double *gram,
                      ptrdiff_t gram_stride, const double *c_d, double *projections) {
    const size_t rows = (size_t)job->rows, m = (size_t)job->m, active = (size_t)job->active;
    const size_t units = (size_t)job->units;
    const size_t words = WORDS_SCRATCH * sizeof(uint64_t);
    const size_t tall = (size_t)smaller(job->rows, ROWS);
    const size_t padded = (rows + MIX_ROWS - 1) / MIX_ROWS * MIX_ROWS;
    const size_t width = (size_t)smaller(PAIRS, job->h);
    job->partial = malloc((units * rows * m + active * rows + active + 1) * sizeof(double));
    job->mix = malloc((padded * active + 1) * size);
    int status = job->partial && job->mix ? 0 : -1;
    if (!status)
        status = run_team(threads, kernels->project, job, job->units, words + (m + tall) * 2 * width * size);
    if (!status) {
        for (size_t i = 0; i < rows * m; i++) {
            double sum = 0.0;
            for (size_t unit = 0; unit < units; unit++) sum += job->partial[unit * rows * m + i];
            projections[i] = sum;
        }
        memset(job->mix, 0, padded * active * size);
        kernels->fold(job, gram, gram_stride, c_d, projections, job->partial + units * rows * m);
        status = run_team(threads, kernels->mix, job, job->units,
                          words + (4 + 2 * MIX_ROWS + 2 * active) * PAIRS * size);
    }
    free(job->partial);
    free(job->mix);
    return status;
}

/* lm_sample(key0, key1, generation, first, vectors, active, gram, c_d, mean, step, z, out, projections,
             threads); step: a number or an array; z: an array or None */
static PyObject *lm_sample(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Sample job = {.units = 0};
    Py_buffer *out, *vectors, *gram, *c_d, *mean, *projections, *other;
    int threads, status;
    uint64_t active;
    (void)self;
    if (expect("lm_sample", count, 14)) return NULL;
    if (!(out = array(&views, args[11], "out", 2, "df", 1)) || set_stream(&job, args, out) ||
        !(vectors = array_like(&views, args[4], "vectors", 2, out, 0)) ||
        !has_shape(vectors, "vectors", vectors->shape[0], job.n) || word(args[5], &active) ||
        !(gram = array(&views, args[6], "gram", 2, "d", 0)) ||
        !(c_d = array(&views, args[7], "c_d", 1, "d", 0)) ||
        !(mean = array_like(&views, args[8], "mean", 1, out, 0)) || !has_shape(mean, "mean", 1, job.n) ||
        !(projections = array(&views, args[12], "projections", 2, "d", 1)) ||
        !has_shape(projections, "projections", job.rows, vectors->shape[0]) ||
        (threads = thread_count(args[13], job.rows * job.n)) < 0)
        goto fail;
    if (active > (uint64_t)vectors->shape[0] || active > (uint64_t)columns(c_d) ||
        active > (uint64_t)columns(gram) || active > (uint64_t)gram->shape[0]) {
        PyErr_Format(PyExc_ValueError, "active=%llu exceeds what vectors, gram or c_d hold",
                     (unsigned long long)active);
        goto fail;
    }
    if (job.rows > 1 && row_stride(projections) != columns(projections)) {
        PyErr_SetString(PyExc_ValueError, "projections must be contiguous");
        goto fail;
    }
    if (PyFloat_Check(args[9]) || PyLong_Check(args[9])) {
        job.step = PyFloat_AsDouble(args[9]);
    } else {
        if (!(other = array_like(&views, args[9], "step", 1, out, 0)) ||
            !has_shape(other, "step", 1, job.n))
            goto fail;
        job.steps = other->buf;
    }
    if (args[10] != Py_None) {
        if (!(other = array_like(&views, args[10], "z", 2, out, 1)) ||
            !has_shape(other, "z", job.rows, job.n))
            goto fail;
        job.z = other->buf;
        job.z_stride = row_stride(other);
    }
    job.vectors = vectors->buf;
    job.v_stride = row_stride(vectors);
    job.m = vectors->shape[0];
    job.active = (ptrdiff_t)active;
    job.mean = mean->buf;
    job.out = out->buf;
    job.out_stride = row_stride(out);
    Py_BEGIN_ALLOW_THREADS
    status = sample_all(&job, chosen->kernels[is_single(out)], (size_t)out->itemsize, threads, gram->buf,
                        row_stride(gram), c_d->buf, projections->buf);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

/* Columns a unit of recombine and update has. */
static ptrdiff_t unit_width(ptrdiff_t n) {
    return larger(1, (n + UNITS * STRIP - 1) / (UNITS * STRIP)) * STRIP;
}

/* recombine(weights, order, rows, out, threads) */
static PyObject *recombine(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *weights, *order, *rows, *out;
    int threads, status;
    (void)self;
    if (expect("recombine", count, 5)) return NULL;
    if (!(rows = array(&views, args[2], "rows", 2, "df", 0)) ||
        !(weights = array(&views, args[0], "weights", 1, "d", 0)) ||
        !(order = array(&views, args[1], "order", 1, "q", 0)) ||
        !has_shape(order, "order", 1, columns(weights)) ||
        !(out = array_like(&views, args[3], "out", 1, rows, 1)) ||
        !has_shape(out, "out", 1, columns(rows)) ||
        (threads = thread_count(args[4], columns(order) * columns(rows))) < 0)
        goto fail;
    const ptrdiff_t *indices = order->buf;
    for (Py_ssize_t i = 0; i < columns(order); i++)
        if (indices[i] < 0 || indices[i] >= rows->shape[0]) {
            PyErr_Format(PyExc_IndexError, "order[%zd]=%zd is not one of %zd rows", i, indices[i],
                         rows->shape[0]);
            goto fail;
        }
    const ptrdiff_t n = columns(rows), width = unit_width(n);
    const Recombine job = {n,       row_stride(rows), columns(order), width, weights->buf, indices,
                           rows->buf, out->buf};
    Py_BEGIN_ALLOW_THREADS
    status = run_team(threads, chosen->kernels[is_single(rows)]->recombine, &job, (n + width - 1) / width, 0);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

/* lm_update(vectors, keep, gain, z_mean, threads) */
static PyObject *lm_update(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *vectors, *keep, *gain, *z_mean;
    int threads, status;
    (void)self;
    if (expect("lm_update", count, 5)) return NULL;
    if (!(vectors = array(&views, args[0], "vectors", 2, "df", 1)) ||
        !(keep = array(&views, args[1], "keep", 1, "d", 0)) ||
        !has_shape(keep, "keep", 1, vectors->shape[0]) ||
        !(gain = array(&views, args[2], "gain", 1, "d", 0)) ||
        !has_shape(gain, "gain", 1, vectors->shape[0]) ||
        !(z_mean = array_like(&views, args[3], "z_mean", 1, vectors, 0)) ||
        !has_shape(z_mean, "z_mean", 1, columns(vectors)) ||
        (threads = thread_count(args[4], vectors->shape[0] * columns(vectors))) < 0) {
        release(&views);
        return NULL;
    }
    const ptrdiff_t n = columns(vectors), width = unit_width(n);
    const Update job = {n,         vectors->shape[0], row_stride(vectors), width, keep->buf, gain->buf,
                        z_mean->buf, vectors->buf};
    Py_BEGIN_ALLOW_THREADS
    status = run_team(threads, chosen->kernels[is_single(vectors)]->update, &job, (n + width - 1) / width, 0);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* pairs(words, out): the normal numbers made from words[0] (radii) and words[1] (angles). */
static PyObject *pairs(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *words, *out;
    (void)self;
    if (expect("pairs", count, 2)) return NULL;
    if (!(out = array(&views, args[1], "out", 2, "df", 1)) ||
        !(words = array(&views, args[0], "words", 2, is_single(out) ? "I" : "L", 0)) ||
        !has_shape(words, "words", 2, columns(out)) || !has_shape(out, "out", 2, columns(out))) {
        release(&views);
        return NULL;
    }
    if (columns(out) % 8) {
        PyErr_SetString(PyExc_ValueError, "pairs takes a multiple of eight columns");
        release(&views);
        return NULL;
    }
    const char *in = words->buf;
    char *made = out->buf;
    chosen->kernels[is_single(out)]->pairs(in, in + words->strides[0], columns(out), made,
                                           made + out->strides[0]);
    return finish(&views, 0);
}

/* instructions([name]): the set in use, after switching to the named one if given and present. */
static PyObject *instructions(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count > 1 && expect("instructions", count, 1)) return NULL;
    if (count) {
        const char *name = PyUnicode_AsUTF8AndSize(args[0], NULL);
        if (!name) return NULL;
        const Instructions *wanted = present(name);
        if (!wanted) {
            PyErr_SetString(PyExc_ValueError, "no such instruction set on this machine");
            return NULL;
        }
        chosen = wanted;
    }
    return PyUnicode_FromString(chosen->name);
}

static PyMethodDef methods[] = {
    {"normals", (PyCFunction)(void (*)(void))normals, METH_FASTCALL, NULL},
    {"lm_sample", (PyCFunction)(void (*)(void))lm_sample, METH_FASTCALL, NULL},
    {"recombine", (PyCFunction)(void (*)(void))recombine, METH_FASTCALL, NULL},
    {"lm_update", (PyCFunction)(void (*)(void))lm_update, METH_FASTCALL, NULL},
    {"pairs", (PyCFunction)(void (*)(void))pairs, METH_FASTCALL, NULL},
    {"instructions", (PyCFunction)(void (*)(void))instructions, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    (void)module;
    chosen = present("avx2") ? present("avx2") : &portable;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "The compiled core of lmma.kernels.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
