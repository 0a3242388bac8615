"""The compiled core equals the reference for any number of threads, and no input crashes it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lmma.kernels import reference

KEY = (3, 4)


def problem(n, lam, m, dtype, seed=0):
    """Return vectors, their Gram matrix, rates and mean as a run of LM-MA-ES would have them."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((m, n)).astype(dtype)
    gram = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    c_d = np.minimum(1 / (1.5 ** np.arange(m) * n), 0.5)
    return vectors, gram, c_d, rng.standard_normal(n).astype(dtype)


def sample(kernels, n, lam, m, active, dtype="float64", step=0.3, keep_z=True, first=11, rows=None, **kw):
    vectors, gram, c_d, mean = problem(n, lam, m, dtype)
    rows = lam if rows is None else rows
    z = np.full((rows, n), np.nan, dtype=dtype) if keep_z else None
    x = np.full((rows, n), np.nan, dtype=dtype)
    if step is None:
        step = np.linspace(0.1, 2.0, n).astype(dtype)
    p = kernels.lm_sample(KEY, 7, first, vectors, active, gram, c_d, mean, step, z, x, **kw)
    return z, x, p


def assert_close(a, b, dtype, scale=1.0):
    """1e-12 of the size of the numbers in float64, a few units in the last place in float32."""
    scale = max(scale, float(np.max(abs(b))))
    np.testing.assert_allclose(a, b, rtol=0, atol=scale * (1e-12 if dtype == "float64" else 3e-6))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 9, 63, 128, 383, 384, 385, 1000, 3001])
@pytest.mark.parametrize(("lam", "m", "active"), [(1, 1, 0), (5, 3, 3), (18, 18, 10), (50, 7, 7)])
def test_candidates_equal_those_of_the_reference(core, n, lam, m, active, dtype):
    for step in (0.3, None):
        for ours, wanted in zip(
            sample(core, n, lam, m, active, dtype, step),
            sample(reference, n, lam, m, active, dtype, step),
            strict=True,
        ):
            assert_close(ours, wanted, dtype, scale=np.sqrt(n))  # products of n numbers cancel


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_number_of_threads_gives_the_same_bits(core, dtype):
    n, lam, m = 9001, 31, 20
    one = sample(core, n, lam, m, m, dtype, threads=1)
    rng = np.random.default_rng(1)
    weights, order = rng.random(15), rng.permutation(lam)[:15]
    mean = np.empty(n, dtype=dtype)
    core.recombine(weights, order, one[0], mean, threads=1)
    vectors = problem(n, lam, m, dtype)[0]
    core.lm_update(vectors, rng.random(m), np.ones(m), mean, threads=1)
    for threads in (2, 4, 7):
        for a, b in zip(one, sample(core, n, lam, m, m, dtype, threads=threads), strict=True):
            np.testing.assert_array_equal(a, b)
        z = np.empty_like(one[0])
        core.normals(KEY, 7, 11, z, threads=threads)
        np.testing.assert_array_equal(z, one[0])
        other = np.empty_like(mean)
        core.recombine(weights, order, one[0], other, threads=threads)
        np.testing.assert_array_equal(other, mean)
        rng = np.random.default_rng(1)
        rng.random(15), rng.permutation(lam)
        again = problem(n, lam, m, dtype)[0]
        core.lm_update(again, rng.random(m), np.ones(m), mean, threads=threads)
        np.testing.assert_array_equal(again, vectors)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [3, 391, 1001])
def test_z_may_be_forgotten(core, n, dtype):
    kept, forgotten = sample(core, n, 9, 5, 5, dtype), sample(core, n, 9, 5, 5, dtype, keep_z=False)
    np.testing.assert_array_equal(kept[1], forgotten[1])
    np.testing.assert_array_equal(kept[2], forgotten[2])


def test_candidates_do_not_depend_on_how_many_are_drawn_together(core):
    z, x, p = sample(core, 1003, 31, 12, 12)
    for first, rows in ((0, 1), (1, 2), (5, 7), (30, 1)):
        part = sample(core, 1003, 31, 12, 12, first=11 + first, rows=rows)
        for a, b in zip(part, (z, x, p), strict=True):
            np.testing.assert_array_equal(a, b[first : first + rows])


def test_rows_may_lie_apart(core):
    n, lam, m = 50, 6, 4
    vectors, gram, c_d, mean = problem(n, lam, m, "float64")
    wide = np.zeros((m, 3 * n))
    wide[:, n : 2 * n] = vectors
    z, x = np.zeros((lam, 2 * n))[:, :n], np.zeros((lam, 2 * n))[:, n:]
    core.lm_sample(KEY, 7, 11, wide[:, n : 2 * n], m, gram, c_d, mean, 0.3, z, x)
    expected = sample(core, n, lam, m, m)
    np.testing.assert_array_equal(z, expected[0])
    np.testing.assert_array_equal(x, expected[1])
    assert np.all(x.base[:, :n] == 0.0)


def test_core_and_reference_recombine_and_update_alike(core):
    rng = np.random.default_rng(2)
    for dtype in ("float64", "float32"):
        for mu in range(1, 10):
            rows = rng.standard_normal((12, 2500)).astype(dtype)
            weights, order = rng.random(mu), rng.permutation(12)[:mu]
            ours, wanted = np.empty(2500, dtype), np.empty(2500, dtype)
            core.recombine(weights, order, rows, ours)
            reference.recombine(weights, order, rows, wanted)
            assert_close(ours, wanted, dtype)
            v, w = rows[:5].copy(), rows[:5].copy()
            keep, gain = rng.random(5), rng.random(5)
            core.lm_update(v, keep, gain, ours)
            reference.lm_update(w, keep, gain, ours)
            assert_close(v, w, dtype)


def test_calls_from_several_python_threads_do_not_disturb_one_another(core):
    alone = [sample(core, 2000 + i, 12, 6, 6)[1] for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda i: sample(core, 2000 + i, 12, 6, 6)[1], range(8)))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


def test_fold_equals_the_chain_of_factors():
    vectors, gram, c_d, _ = problem(6, 1, 4, "float64")
    z = np.arange(1.0, 7.0)
    d = z.copy()
    for c, v in zip(c_d, vectors, strict=True):
        d = (1 - c) * d + c * v * (v @ d)
    alpha, mix = reference.fold(gram, c_d)
    np.testing.assert_allclose(alpha * z + (vectors @ z) @ mix @ vectors, d, rtol=1e-12)


def bad_calls():
    """Arguments of lm_sample, each wrong in one place, and what the error should name."""
    f = np.float64
    return [
        ("vectors", np.zeros((4, 11))),
        ("vectors", np.zeros((4, 12), np.float32)),
        ("vectors", np.zeros((12, 4)).T),
        ("vectors", np.zeros(12)),
        ("vectors", None),
        ("active", 5),
        ("active", -1),
        ("gram", np.zeros((2, 4))),
        ("gram", np.zeros((4, 4), np.float32)),
        ("c_d", np.zeros(3)),
        ("c_d", [0.1] * 4),
        ("mean", np.zeros(11)),
        ("mean", np.zeros(12, np.int64)),
        ("mean", np.zeros(24)[::2]),
        ("step", np.zeros(11)),
        ("step", np.zeros(12, np.float32)),
        ("step", "large"),
        ("z", np.zeros((3, 11))),
        ("z", np.zeros((2, 12))),
        ("out", np.zeros((3, 12), order="F")),
        ("out", np.zeros((3, 12), ">f8")),
        ("out", np.zeros((3, 12), np.complex128)),
        ("out", np.frombuffer(np.zeros(36, f).tobytes()).reshape(3, 12)),
        ("out", np.zeros((3, 12, 1))),
        ("out", "text"),
        ("generation", -1),
        ("generation", 2**64),
        ("generation", 1.5),
        ("first", -1),
        ("first", 2**64 - 2),
        ("key", (1, -2)),
        ("key", (1, 2, 3)),
        ("threads", -3),
    ]


@pytest.mark.parametrize(("name", "value"), bad_calls())
def test_bad_input_raises_instead_of_crashing(core, name, value):
    vectors, gram, c_d, mean = problem(12, 3, 4, "float64")
    arguments = {
        "key": KEY, "generation": 1, "first": 0, "vectors": vectors, "active": 4, "gram": gram,
        "c_d": c_d, "mean": mean, "step": 1.0, "z": np.zeros((3, 12)), "out": np.zeros((3, 12)),
        "threads": 1,
    }  # fmt: skip
    core.lm_sample(**arguments)
    with pytest.raises((ValueError, TypeError, OverflowError, BufferError)):
        core.lm_sample(**{**arguments, name: value})


def test_bad_orders_raise(core):
    rows, out = np.zeros((3, 8)), np.zeros(8)
    for order in ([0, 3], [-1, 0], [0, 2**62]):
        with pytest.raises(IndexError, match="order"):
            core.recombine(np.ones(2), np.array(order), rows, out)
    for weights, order in ((np.ones(3), np.arange(2)), (np.ones(2), np.arange(2, dtype=np.int32))):
        with pytest.raises((ValueError, TypeError)):
            core.recombine(weights, order, rows, out)
    with pytest.raises(ValueError, match="out"):
        core.recombine(np.ones(2), np.arange(2), rows, np.zeros(7))
    with pytest.raises(ValueError, match="keep"):
        core.lm_update(rows, np.ones(2), np.ones(3), out)


def test_empty_selections_and_generations_are_harmless(core):
    out = np.ones(8)
    core.recombine(np.empty(0), np.empty(0, np.intp), np.zeros((3, 8)), out)
    assert np.all(out == 0.0)
    core.normals(KEY, 0, 0, np.empty((0, 8)))
    core.normals(KEY, 0, 0, np.empty((3, 0)))
    assert sample(core, 8, 0, 2, 2)[2].shape == (0, 2)
    assert sample(core, 8, 3, 0, 0)[2].shape == (3, 0)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_environment_chooses_the_kernels():
    show = "from lmma import kernels; print(kernels.backend(), kernels.normals.__module__)"
    assert "lmma.kernels.reference" in run(show, LMMA_KERNELS="numpy").stdout
    refused = run(show, LMMA_KERNELS="fortran")
    assert refused.returncode != 0
    assert "LMMA_KERNELS" in refused.stderr


def test_a_missing_core_is_replaced_in_silence():
    hide = "import sys; sys.modules['lmma.kernels._core'] = None; "
    done = run(hide + "from lmma import kernels; print(kernels.normals.__module__)", LMMA_KERNELS="")
    assert done.stdout.strip() == "lmma.kernels.reference"
    assert done.stderr == ""


def test_environment_sets_the_number_of_threads(core):
    show = "from lmma.kernels import native; print(native.THREADS)"
    assert run(show, LMMA_NUM_THREADS="3").stdout.strip() == "3"
    assert "LMMA_NUM_THREADS" in run(show, LMMA_NUM_THREADS="many").stderr
