"""Kernels other than sampling: deferred updates, directions, squares, scales."""

import numpy as np
import pytest

from lmma.kernels import reference

KEY = (3, 4)
DTYPES = ["float64", "float32"]


def state(n, lam, m, dtype, seed=0):
    rng = np.random.default_rng(seed)
    made = {
        "vectors": rng.standard_normal((m, n)).astype(dtype),
        "c_d": np.minimum(1 / (1.5 ** np.arange(m) * n), 0.5),
        "mean": rng.standard_normal(n).astype(dtype),
        "z_mean": rng.standard_normal(n).astype(dtype),
        "keep": rng.uniform(0.5, 1.0, m),
        "gain": rng.uniform(0.0, 0.5, m),
    }
    return made, rng


def gram_of(vectors):
    wide = vectors.astype(np.float64)
    return wide @ wide.T


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 129, 384, 1003, 9001])
def test_an_update_that_rides_along_gives_the_same_bits(kernels, n, dtype):
    lam, m = 7, 6
    s, _ = state(n, lam, m, dtype)
    update = (s["keep"], s["gain"], s["z_mean"])
    first = s["vectors"].copy()
    kernels.lm_update(first, *update)
    gram = gram_of(first)
    results = []
    for vectors, waiting in ((first, None), (s["vectors"], update)):
        z, x = np.empty((lam, n), dtype), np.empty((lam, n), dtype)
        p = kernels.lm_sample(KEY, 7, 0, vectors, m, gram, s["c_d"], s["mean"], 0.3, z, x, update=waiting)
        results.append((z, x, p, vectors))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_no_bit(core, dtype):
    n, lam, m = 120_001, 23, 20

    def everything(threads):
        s, rng = state(n, lam, m, dtype)
        gram = gram_of(s["vectors"])
        update = (s["keep"], s["gain"], s["z_mean"])
        z, x = np.empty((lam, n), dtype), np.empty((lam, n), dtype)
        p = core.lm_sample(
            KEY, 7, 0, s["vectors"], m, gram, s["c_d"], s["mean"], 0.3, z, x, update=update, threads=threads
        )
        weights, order = rng.random(11), rng.permutation(lam)[:11]
        u, d = core.lm_direction(
            weights, order, p, m, gram, s["c_d"], s["vectors"], s["z_mean"], threads=threads
        )
        squares, scales = np.empty(n, dtype), np.ones(n, dtype)
        core.squares(weights, order, z, squares, threads=threads)
        core.rescale(scales, 0.1, weights, order, z, s["z_mean"], 0.3, threads=threads)
        return z, x, p, s["vectors"], u, d, squares, scales

    one = everything(1)
    for threads in (2, 4):
        for a, b in zip(one, everything(threads), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("active", [0, 3, 6])
def test_the_direction_of_the_mean_is_that_of_the_chain_of_factors(kernels, active, dtype):
    n, lam, m = 50, 9, 6
    s, rng = state(n, lam, m, dtype)
    z = rng.standard_normal((lam, n)).astype(dtype)
    weights, order = rng.random(4), rng.permutation(lam)[:4]
    z_mean = (weights @ z[order]).astype(dtype)
    gram = gram_of(s["vectors"])
    projections = z.astype(float) @ s["vectors"].T.astype(float)
    u, d = kernels.lm_direction(weights, order, projections, active, gram, s["c_d"], s["vectors"], z_mean)
    expected = z_mean.astype(float)
    for c, v in zip(s["c_d"][:active], s["vectors"].astype(float), strict=False):
        expected = (1 - c) * expected + c * v * (v @ expected)
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(d, expected, rtol=rtol, atol=rtol * 10)
    np.testing.assert_allclose(u, weights @ projections[order], rtol=1e-12)


def test_the_gram_matrix_follows_the_vectors(kernels):
    s, _ = state(40, 1, 5, "float64")
    gram = gram_of(s["vectors"])
    u, length2 = s["vectors"] @ s["z_mean"], float(s["z_mean"] @ s["z_mean"])
    kernels.lm_gram(gram, s["keep"], s["gain"], u, length2)
    kernels.lm_update(s["vectors"], s["keep"], s["gain"], s["z_mean"])
    np.testing.assert_allclose(gram, gram_of(s["vectors"]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_path_fades_and_takes_a_step(kernels, dtype):
    rng = np.random.default_rng(5)
    path, step = rng.standard_normal((2, 37)).astype(dtype)
    expected = 0.9 * path.astype(float) + 0.7 * step.astype(float)
    kernels.fade(path, 0.9, 0.7, step)
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-15 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_squares_and_scales_are_as_the_formula_says(kernels, dtype):
    rng = np.random.default_rng(3)
    z = rng.standard_normal((12, 2500)).astype(dtype)
    path = rng.standard_normal(2500).astype(dtype)
    weights, order = rng.uniform(-1, 1, 7), rng.permutation(12)[:7]
    squares, scales = np.empty(2500, dtype), np.full(2500, 2.0, dtype)
    kernels.squares(weights, order, z, squares)
    kernels.rescale(scales, 0.1, weights, order, z, path, 0.3)
    expected = weights @ z[order].astype(float) ** 2
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(squares, expected, rtol=rtol, atol=rtol * 10)
    np.testing.assert_allclose(
        scales, 2 * np.exp(0.1 * (expected + 0.3 * (path.astype(float) ** 2 - 1))), rtol=rtol
    )


def test_bad_input_raises_instead_of_crashing(core):
    s, rng = state(12, 3, 4, "float64")
    gram, z = gram_of(s["vectors"]), rng.standard_normal((3, 12))
    good = {
        "weights": np.ones(2), "order": np.arange(2), "projections": np.zeros((3, 4)), "active": 4,
        "gram": gram, "c_d": s["c_d"], "vectors": s["vectors"], "z_mean": s["z_mean"],
    }  # fmt: skip
    core.lm_direction(**good)
    for name, value in (
        ("order", np.array([0, 3])),
        ("order", np.arange(3)),
        ("projections", np.zeros((3, 5))),
        ("active", 5),
        ("gram", np.zeros((3, 3))),
        ("c_d", np.zeros(3)),
        ("z_mean", np.zeros(11)),
        ("vectors", np.zeros((4, 12), np.float32)),
    ):
        with pytest.raises((ValueError, TypeError, IndexError)):
            core.lm_direction(**{**good, name: value})
    for update in (
        (np.ones(3), np.ones(4), s["z_mean"]),
        (np.ones(4), np.ones(4), s["z_mean"][:5]),
        (np.ones(4), None, s["z_mean"]),
        (np.ones(4, np.float32), np.ones(4), s["z_mean"]),
    ):
        with pytest.raises((ValueError, TypeError)):
            core.lm_sample(KEY, 1, 0, s["vectors"], 4, gram, s["c_d"], s["mean"], 1.0, None, z, update=update)
        with pytest.raises((ValueError, TypeError)):
            core.lm_update(s["vectors"], *update)
    fixed = s["vectors"].copy()
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        core.lm_sample(
            KEY, 1, 0, fixed, 4, gram, s["c_d"], s["mean"], 1.0, None, z,
            update=(s["keep"], s["gain"], s["z_mean"]),
        )  # fmt: skip
    for name, value in (
        ("gram", np.zeros((4, 5))),
        ("keep", np.ones(3)),
        ("u", np.ones(3)),
        ("length2", "x"),
    ):
        arguments = {"gram": gram, "keep": s["keep"], "gain": s["gain"], "u": np.ones(4), "length2": 1.0}
        with pytest.raises((ValueError, TypeError)):
            core.lm_gram(**{**arguments, name: value})
    for scales, path in (
        (np.ones(11), np.ones(12)),
        (np.ones(12), np.ones(11)),
        (np.ones(12, "f"), np.ones(12)),
    ):
        with pytest.raises((ValueError, TypeError)):
            core.rescale(scales, 0.1, np.ones(2), np.arange(2), z, path, 0.3)


def test_core_and_reference_agree(core):
    s, rng = state(700, 9, 6, "float64")
    gram, projections = gram_of(s["vectors"]), rng.standard_normal((9, 6))
    arguments = (
        np.ones(3) / 3,
        np.array([4, 0, 8]),
        projections,
        6,
        gram,
        s["c_d"],
        s["vectors"],
        s["z_mean"],
    )
    for a, b in zip(core.lm_direction(*arguments), reference.lm_direction(*arguments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
