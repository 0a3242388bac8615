/* The compiled core of lmma.kernels: the kernels of reference.py, reference_pulse.py and reference_integers.py in C.

   Plain C against the stable ABI: arrays are passed by the buffer protocol, so neither NumPy's headers nor any
   library is needed. Each kernel is compiled for two number types and up to two instruction sets by
   including its template (.inc) several times. The best instruction set is chosen when the module is loaded.

   Work is divided into units of columns that depend only on the size of the problem. Threads take units, and
   sums over units are added in a fixed order, so results are bitwise equal for any number of threads. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "core_kernels.h"
#include "core_arguments.h"

/* State of a module object; each interpreter has its own. */
typedef struct {
    const Instructions *chosen;
} State;

static const Kernels *kernels_for(PyObject *module, const Py_buffer *numbers) {
    const State *state = PyModule_GetState(module);
    return state->chosen->kernels[is_single(numbers)];
}

/* normals(key0, key1, generation, first, out, threads) */
static PyObject *normals(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Sample job = {.units = 0};
    Py_buffer *out;
    int threads, status;
    if (expect("normals", count, 6)) return NULL;
    if (!(out = array(&views, args[4], "out", 2, "df", 1)) || set_stream(&job, args, out) ||
        (threads = thread_count(args[5], job.rows * job.n)) < 0) {
        release(&views);
        return NULL;
    }
    job.z = out->buf;
    job.z_stride = row_stride(out);
    const size_t row = 2 * PAIRS_OF(is_single(out)) * (size_t)out->itemsize;
    Team team = {.work = {kernels_for(self, out)->normals},
                 .phases = 1,
                 .job = &job,
                 .units = job.units,
                 .scratch = WORDS_SCRATCH * sizeof(uint64_t) + row};
    Py_BEGIN_ALLOW_THREADS
    status = run_team(threads, &team);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* Memory that sampling allocates. Sizes are float64, which cannot overflow and is exact for all sizes that can be
   allocated. */
typedef struct {
    double sums;                  /* numbers, of all units */
    double partial, mix, scratch; /* bytes; scratch: per thread */
} Space;

static Space space_of(const Sample *job, size_t size) {
    const double rows = (double)job->rows, m = (double)job->m, active = (double)job->active;
    const double pairs = PAIRS_OF(size == sizeof(float)), padded = MIX_ROWS * ceil(rows / MIX_ROWS);
    const double tall = (double)smaller(job->rows, ROWS), width = (double)smaller((ptrdiff_t)pairs, job->h);
    const double project = (m + tall) * 2 * width, mix = (4 + 2 * MIX_ROWS + 2 * active) * pairs;
    Space space = {.sums = (double)job->units * rows * m};
    space.partial = (space.sums + active * rows + active + 1) * sizeof(double);
    space.mix = (padded * active + 1) * (double)size;
    space.scratch = WORDS_SCRATCH * sizeof(uint64_t) + (project > mix ? project : mix) * (double)size;
    return space;
}

/* Bytes for a team of up to `threads` threads, each with scratch memory aligned to ALIGNMENT. */
static double all_of(const Space *space, int threads) {
    return space->partial + space->mix + threads * (space->scratch + ALIGNMENT);
}

/* Compute both products for one generation; return -1 without changing anything if there is no memory. */
static int sample_all(Sample *job, const Kernels *kernels, size_t size, int threads) {
    const Space space = space_of(job, size);
    if (all_of(&space, MAX_THREADS) > (double)(PTRDIFF_MAX / 2)) return -1;
    Team team = {.work = {kernels->project, kernels->mix},
                 .between = kernels->fold,
                 .phases = 2,
                 .job = job,
                 .units = job->units,
                 .scratch = (size_t)space.scratch};
    job->partial = borrow((size_t)space.partial);
    job->mix = calloc((size_t)space.mix, 1);
    job->chain = job->partial ? job->partial + (size_t)space.sums : NULL;
    const int status = job->partial && job->mix ? run_team(threads, &team) : -1;
    give_back(job->partial);
    free(job->mix);
    return status;
}

/* lm_workspace(n, rows, m, itemsize, threads): bytes that lm_sample allocates for these sizes. */
static PyObject *lm_workspace(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    static const char *const names[4] = {"n", "rows", "m", "itemsize"};
    uint64_t value[4];
    (void)self;
    if (expect("lm_workspace", count, 5)) return NULL;
    for (int i = 0; i < 4; i++) {
        if (whole(args[i], names[i], &value[i])) return NULL;
        if (value[i] > PTRDIFF_MAX / 4) return PyErr_Format(PyExc_ValueError, "%s is too large", names[i]);
    }
    if (value[3] != sizeof(float) && value[3] != sizeof(double))
        return PyErr_Format(PyExc_ValueError, "itemsize must be 4 or 8");
    Sample job = {.m = (ptrdiff_t)value[2], .active = (ptrdiff_t)value[2]};
    set_shape(&job, (ptrdiff_t)value[1], (ptrdiff_t)value[0], value[3] == sizeof(float));
    const double numbers = (double)job.n * (double)job.rows, plenty = (double)MAX_THREADS * WORTH_A_THREAD;
    const int threads = thread_count(args[4], (ptrdiff_t)(numbers < plenty ? numbers : plenty));
    if (threads < 0) return NULL;
    const Space space = space_of(&job, (size_t)value[3]);
    return PyLong_FromDouble(all_of(&space, (int)smaller(threads, larger(1, job.units))));
}

/* Convert keep and gain of each vector (copied) and z_mean: args[0] to args[2]. */
static int set_update(Views *views, PyObject *const *args, const Py_buffer *vectors, const double **keep,
                      const double **gain, const void **z_mean) {
    Py_buffer *view;
    if (!(*keep = numbers_of(views, args[0], "keep", vectors->shape[0])) ||
        !(*gain = numbers_of(views, args[1], "gain", vectors->shape[0])) ||
        !(view = array_like(views, args[2], "z_mean", 1, vectors, 0)) ||
        !has_shape(view, "z_mean", 1, columns(vectors)))
        return -1;
    *z_mean = view->buf;
    return 0;
}

/* lm_sample(key0, key1, generation, first, vectors, active, gram, c_d, mean, step, z, out, projections,
             keep, gain, z_mean, threads); step: a number or an array; z and keep: an array or None */
static PyObject *lm_sample(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Sample job = {.units = 0};
    Py_buffer *out, *vectors, *gram, *c_d, *mean, *projections, *other;
    int threads, status;
    uint64_t active;
    if (expect("lm_sample", count, 17)) return NULL;
    const int updated = args[13] != Py_None;
    if (!(out = array(&views, args[11], "out", 2, "df", 1)) || set_stream(&job, args, out) ||
        !(vectors = array_like(&views, args[4], "vectors", 2, out, updated)) ||
        !has_shape(vectors, "vectors", vectors->shape[0], job.n) || whole(args[5], "active", &active) ||
        !(gram = array(&views, args[6], "gram", 2, "d", 0)) || !(c_d = array(&views, args[7], "c_d", 1, "d", 0)) ||
        !(job.c_d = copy_of(&views, c_d)) || !(mean = array_like(&views, args[8], "mean", 1, out, 0)) ||
        !has_shape(mean, "mean", 1, job.n) || !(projections = array(&views, args[12], "projections", 2, "d", 1)) ||
        !has_shape(projections, "projections", job.rows, vectors->shape[0]) ||
        (updated && set_update(&views, args + 13, vectors, &job.keep, &job.gain, &job.z_mean)) ||
        (threads = thread_count(args[16], job.rows * job.n)) < 0)
        goto fail;
    if (active > (uint64_t)vectors->shape[0] || active > (uint64_t)columns(c_d) || active > (uint64_t)columns(gram) ||
        active > (uint64_t)gram->shape[0]) {
        PyErr_Format(PyExc_ValueError, "active=%llu exceeds the size of vectors, gram or c_d",
                     (unsigned long long)active);
        goto fail;
    }
    if (job.rows > 1 && row_stride(projections) != columns(projections)) {
        PyErr_SetString(PyExc_ValueError, "projections must be contiguous");
        goto fail;
    }
    if (PyFloat_Check(args[9]) || PyLong_Check(args[9])) {
        if (real(args[9], "step", &job.step)) goto fail;
    } else {
        if (!(other = array_like(&views, args[9], "step", 1, out, 0)) || !has_shape(other, "step", 1, job.n)) goto fail;
        job.steps = other->buf;
    }
    if (args[10] != Py_None) {
        if (!(other = array_like(&views, args[10], "z", 2, out, 1)) || !has_shape(other, "z", job.rows, job.n))
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
    job.gram = gram->buf;
    job.gram_stride = row_stride(gram);
    job.projections = projections->buf;
    const Kernels *kernels = kernels_for(self, out);
    Py_BEGIN_ALLOW_THREADS
    status = sample_all(&job, kernels, (size_t)out->itemsize, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

/* Number of columns of a unit of recombine and update. */
static ptrdiff_t unit_width(ptrdiff_t n) { return larger(1, (n + UNITS * STRIP - 1) / (UNITS * STRIP)) * STRIP; }

static int run_units(Work work, void *job, ptrdiff_t n, ptrdiff_t width, int threads) {
    Team team = {.work = {work}, .phases = 1, .job = job, .units = (n + width - 1) / width};
    return run_team(threads, &team);
}

/* A job that writes the weighted sum of rows to out. */
static Recombine sum_of(const Py_buffer *rows, const Weighted *weighted, const Py_buffer *out) {
    return (Recombine){.n = columns(rows),
                       .stride = row_stride(rows),
                       .count = weighted->count,
                       .width = unit_width(columns(rows)),
                       .weights = weighted->weights,
                       .order = weighted->order,
                       .rows = rows->buf,
                       .out = out->buf};
}

static PyObject *weighted_sum(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t count, int squared) {
    Views views = {.count = 0};
    Py_buffer *rows, *out;
    Weighted weighted;
    int threads, status;
    if (expect(name, count, 5)) return NULL;
    if (!(rows = array(&views, args[2], "rows", 2, "df", 0)) || weighted_of(&views, args, rows, &weighted) ||
        !(out = array_like(&views, args[3], "out", 1, rows, 1)) || !has_shape(out, "out", 1, columns(rows)) ||
        (threads = thread_count(args[4], weighted.count * columns(rows) / LIGHTER)) < 0) {
        release(&views);
        return NULL;
    }
    const Kernels *kernels = kernels_for(self, rows);
    Recombine job = sum_of(rows, &weighted, out);
    Py_BEGIN_ALLOW_THREADS
    status = run_units(squared ? kernels->squares : kernels->recombine, &job, job.n, job.width, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* recombine(weights, order, rows, out, threads) */
static PyObject *recombine(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    return weighted_sum(self, "recombine", args, count, 0);
}

/* squares(weights, order, rows, out, threads) */
static PyObject *squares(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    return weighted_sum(self, "squares", args, count, 1);
}

/* rescale(scales, rate, weights, order, rows, path, share, threads) */
static PyObject *rescale(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *rows, *path, *scales;
    Weighted weighted;
    double rate, share;
    int threads, status;
    if (expect("rescale", count, 8)) return NULL;
    if (real(args[1], "rate", &rate) || real(args[6], "share", &share)) return NULL;
    if (!(rows = array(&views, args[4], "rows", 2, "df", 0)) || weighted_of(&views, args + 2, rows, &weighted) ||
        !(path = array_like(&views, args[5], "path", 1, rows, 0)) || !has_shape(path, "path", 1, columns(rows)) ||
        !(scales = array_like(&views, args[0], "scales", 1, rows, 1)) ||
        !has_shape(scales, "scales", 1, columns(rows)) ||
        (threads = thread_count(args[7], weighted.count * columns(rows) / LIGHTER)) < 0) {
        release(&views);
        return NULL;
    }
    Recombine job = sum_of(rows, &weighted, scales);
    job.base = path->buf;
    job.share = share;
    job.rate = rate;
    const Work work = kernels_for(self, rows)->rescale;
    Py_BEGIN_ALLOW_THREADS
    status = run_units(work, &job, job.n, job.width, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* lm_update(vectors, keep, gain, z_mean, threads) */
static PyObject *lm_update(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Update job;
    Py_buffer *vectors;
    int threads, status;
    if (expect("lm_update", count, 5)) return NULL;
    if (!(vectors = array(&views, args[0], "vectors", 2, "df", 1)) ||
        set_update(&views, args + 1, vectors, &job.keep, &job.gain, &job.z_mean) ||
        (threads = thread_count(args[4], vectors->shape[0] * columns(vectors) / LIGHTER)) < 0) {
        release(&views);
        return NULL;
    }
    job.n = columns(vectors);
    job.m = vectors->shape[0];
    job.stride = row_stride(vectors);
    job.width = unit_width(job.n);
    job.vectors = vectors->buf;
    const Work work = kernels_for(self, vectors)->update;
    Py_BEGIN_ALLOW_THREADS
    status = run_units(work, &job, job.n, job.width, threads);
    Py_END_ALLOW_THREADS
    return finish(&views, status);
}

/* fade(path, keep, gain, step): path = keep path + gain step. This is not one of the kernels because their instruction
   sets fuse a product and a sum: on x86 every product is rounded here, as in the reference implementation. */
static PyObject *fade(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *path, *step;
    double keep, gain;
    (void)self;
    if (expect("fade", count, 4)) return NULL;
    if (real(args[1], "keep", &keep) || real(args[2], "gain", &gain)) return NULL;
    if (!(path = array(&views, args[0], "path", 1, "df", 1)) ||
        !(step = array_like(&views, args[3], "step", 1, path, 0)) || !has_shape(step, "step", 1, columns(path))) {
        release(&views);
        return NULL;
    }
    const ptrdiff_t n = columns(path);
    Py_BEGIN_ALLOW_THREADS
    if (is_single(path)) {
        float *to = path->buf;
        const float *from = step->buf, kept = (float)keep, added = (float)gain;
        for (ptrdiff_t j = 0; j < n; j++) to[j] = kept * to[j] + added * from[j];
    } else {
        double *to = path->buf;
        const double *from = step->buf;
        for (ptrdiff_t j = 0; j < n; j++) to[j] = keep * to[j] + gain * from[j];
    }
    Py_END_ALLOW_THREADS
    return finish(&views, 0);
}

/* Algorithm 1's chain for one vector z whose products with the direction vectors are u:
   M z = alpha z + the sum of mixed[i] m_i; see fold in core_units.inc. Returns alpha. */
static double mix_one(ptrdiff_t active, const double *gram, ptrdiff_t stride, const double *c_d, const double *u,
                      double *mixed) {
    double alpha = 1.0;
    for (ptrdiff_t j = 0; j < active; j++) {
        double s = alpha * u[j];
        for (ptrdiff_t i = 0; i < j; i++) {
            s += mixed[i] * gram[j * stride + i];
            mixed[i] *= 1.0 - c_d[j];
        }
        mixed[j] = c_d[j] * s;
        alpha *= 1.0 - c_d[j];
    }
    return alpha;
}

/* lm_direction(weights, order, projections, active, gram, c_d, vectors, z_mean, u, out, threads): u, the sum
   of weights[i] * projections[order[i]], is V z_mean; out becomes M z_mean. */
static PyObject *lm_direction(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *projections, *gram, *c_d, *vectors, *z_mean, *u, *out;
    Weighted weighted;
    uint64_t active;
    int threads, status = -1;
    if (expect("lm_direction", count, 11)) return NULL;
    if (!(vectors = array(&views, args[6], "vectors", 2, "df", 0)) ||
        !(projections = array(&views, args[2], "projections", 2, "d", 0)) ||
        !has_shape(projections, "projections", projections->shape[0], vectors->shape[0]) ||
        weighted_of(&views, args, projections, &weighted) || whole(args[3], "active", &active) ||
        !(gram = array(&views, args[4], "gram", 2, "d", 0)) || !(c_d = array(&views, args[5], "c_d", 1, "d", 0)) ||
        !(z_mean = array_like(&views, args[7], "z_mean", 1, vectors, 0)) ||
        !has_shape(z_mean, "z_mean", 1, columns(vectors)) || !(u = array(&views, args[8], "u", 1, "d", 1)) ||
        !has_shape(u, "u", 1, vectors->shape[0]) || !(out = array_like(&views, args[9], "out", 1, vectors, 1)) ||
        !has_shape(out, "out", 1, columns(vectors)) ||
        (threads = thread_count(args[10], vectors->shape[0] * columns(vectors) / LIGHTER)) < 0)
        goto fail;
    if (active > (uint64_t)columns(gram) || active > (uint64_t)gram->shape[0] || active > (uint64_t)columns(c_d) ||
        active > (uint64_t)columns(u)) {
        PyErr_Format(PyExc_ValueError, "active=%llu exceeds the size of gram, c_d or vectors",
                     (unsigned long long)active);
        goto fail;
    }
    double *products = u->buf, *mixed = malloc((size_t)(active + 1) * (sizeof(double) + sizeof(ptrdiff_t)));
    if (mixed) {
        ptrdiff_t *rows = (ptrdiff_t *)(mixed + active + 1);
        memset(products, 0, (size_t)columns(u) * sizeof(double));
        for (Py_ssize_t i = 0; i < weighted.count; i++) {
            const double *row = (const double *)projections->buf + weighted.order[i] * row_stride(projections);
            const double weight = weighted.weights[i];
            for (Py_ssize_t j = 0; j < columns(u); j++) products[j] += weight * row[j];
        }
        for (ptrdiff_t i = 0; i < (ptrdiff_t)active; i++) rows[i] = i;
        Recombine job = {.n = columns(vectors),
                         .stride = row_stride(vectors),
                         .count = (ptrdiff_t)active,
                         .width = unit_width(columns(vectors)),
                         .weights = mixed,
                         .order = rows,
                         .rows = vectors->buf,
                         .base = z_mean->buf,
                         .out = out->buf};
        const Work work = kernels_for(self, vectors)->recombine;
        job.share = mix_one(job.count, gram->buf, row_stride(gram), c_d->buf, products, mixed);
        Py_BEGIN_ALLOW_THREADS
        status = run_units(work, &job, job.n, job.width, threads);
        Py_END_ALLOW_THREADS
        free(mixed);
    }
    return finish(&views, status);
fail:
    release(&views);
    return NULL;
}

/* lm_gram(gram, keep, gain, u, length2): V V^T after V has become keep V + gain z_mean, where u = V z_mean
   for the earlier V and length2 = |z_mean|^2. */
static PyObject *lm_gram(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *gram, *keep, *gain, *u;
    (void)self;
    if (expect("lm_gram", count, 5)) return NULL;
    double length2;
    if (real(args[4], "length2", &length2)) return NULL;
    if (!(gram = array(&views, args[0], "gram", 2, "d", 1)) || !has_shape(gram, "gram", columns(gram), columns(gram)) ||
        !(keep = array(&views, args[1], "keep", 1, "d", 0)) || !has_shape(keep, "keep", 1, columns(gram)) ||
        !(gain = array(&views, args[2], "gain", 1, "d", 0)) || !has_shape(gain, "gain", 1, columns(gram)) ||
        !(u = array(&views, args[3], "u", 1, "d", 0)) || !has_shape(u, "u", 1, columns(gram))) {
        release(&views);
        return NULL;
    }
    const double *a = keep->buf, *b = gain->buf, *products = u->buf;
    for (Py_ssize_t i = 0; i < columns(gram); i++) {
        double *row = (double *)gram->buf + i * row_stride(gram);
        const double half = a[i] * products[i] + length2 / 2 * b[i];
        for (Py_ssize_t j = 0; j < columns(gram); j++)
            row[j] = a[i] * a[j] * row[j] + (half * b[j] + b[i] * (a[j] * products[j] + length2 / 2 * b[j]));
    }
    return finish(&views, 0);
}

#include "core_pulse_calls.h"
#include "core_axes_calls.h"
#include "core_integers.h"

/* pairs(words, out): the normal numbers made from words[0] (radii) and words[1] (angles). */
static PyObject *pairs(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Views views = {.count = 0};
    Py_buffer *words, *out;
    if (expect("pairs", count, 2)) return NULL;
    if (!(out = array(&views, args[1], "out", 2, "df", 1)) ||
        !(words = array(&views, args[0], "words", 2, is_single(out) ? "I" : "Q", 0)) ||
        !has_shape(words, "words", 2, columns(out)) || !has_shape(out, "out", 2, columns(out))) {
        release(&views);
        return NULL;
    }
    if (columns(out) % 8) {
        PyErr_SetString(PyExc_ValueError, "the number of columns of out must be a multiple of eight");
        release(&views);
        return NULL;
    }
    const char *in = words->buf;
    char *made = out->buf;
    kernels_for(self, out)->pairs(in, in + stride(words, 0), columns(out), made, made + stride(out, 0));
    return finish(&views, 0);
}

/* instructions([name]): the instruction set in use, after switching to the named one if a name is given. */
static PyObject *instructions(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    State *state = PyModule_GetState(self);
    if (count > 1 && expect("instructions", count, 1)) return NULL;
    if (count) {
        const char *name = PyUnicode_AsUTF8AndSize(args[0], NULL);
        if (!name) return NULL;
        const Instructions *wanted = present(name);
        if (!wanted) {
            PyErr_Format(PyExc_ValueError, "instruction set %s is not available on this machine", name);
            return NULL;
        }
        state->chosen = wanted;
    }
    return PyUnicode_FromString(state->chosen->name);
}

#define METHOD(name) {.ml_name = #name, .ml_meth = (PyCFunction)(void (*)(void))name, .ml_flags = METH_FASTCALL}

static PyMethodDef methods[] = {
    METHOD(normals),      METHOD(lm_sample),   METHOD(lm_workspace),   METHOD(recombine),         METHOD(lm_update),
    METHOD(squares),      METHOD(rescale),     METHOD(fade),           METHOD(lm_direction),      METHOD(lm_gram),
    METHOD(pulse_sample), METHOD(pulse_learn), METHOD(leading_axes),   METHOD(add_squares),       METHOD(grow),
    METHOD(pulse_renew),  METHOD(stretched),   METHOD(round_integers), METHOD(recentre_integers), METHOD(pairs),
    METHOD(instructions), {.ml_name = NULL},
};

static int prepare(PyObject *module) {
    State *state = PyModule_GetState(module);
    state->chosen = present("avx2") ? present("avx2") : &portable;
    return PyModule_AddIntConstant(module, "MOST_ROWS", MOST_ROWS) ||
                   PyModule_AddIntConstant(module, "MOST_GROWN", MOST_GROWN)
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {{.slot = Py_mod_exec, .value = prepare}, {.slot = 0}};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The compiled core of lmma.kernels.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
