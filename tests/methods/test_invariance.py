"""Invariances that need internal state or a rotation, beyond those of ``lmma.testing``."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import lmma
from adapting import ADAPTING
from lmma.methods.pulse.parameters import mean_weights
from lmma.problems import rotated

METHODS = ["csa-es", "cma-es", "ma-es", "lm-ma-es"]


def ellipsoid(X):
    return np.square(X) @ 10.0 ** np.linspace(0, 3, X.shape[1])


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(2, 30))
def test_order_of_candidates_is_irrelevant(method, seed, n):
    x0 = np.random.default_rng(seed).uniform(-2, 2, n)
    a, b = (lmma.strategy(method, x0, 1.0, rng=seed) for _ in range(2))
    order = np.random.default_rng(seed).permutation(a.popsize)
    for _ in range(5):
        values = ellipsoid(a.ask())
        b.ask()
        b.method.z[...] = b.method.z[order]
        if b.method.d is not None:
            b.method.d[...] = b.method.d[order]
        if method == "lm-ma-es":
            b.method.transform.projections = b.method.transform.projections[order].copy()
        a.tell(values)
        b.tell(values[order])
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(a.sigma, b.sigma, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_rotation_with_the_matching_start_leaves_the_run_unchanged(method):
    n = 12
    rng = np.random.default_rng(0)
    R, _ = np.linalg.qr(rng.standard_normal((n, n)))
    x0 = rng.uniform(-2, 2, n)

    class Rotated:
        """Draws R^T z where the plain run draws z."""

        def __init__(self, source):
            self.source, self.key, self.threads = source, source.key, source.threads

        def draw(self, generation, first, z):
            self.source.draw(generation, first, z)
            z[...] = z @ R

    a = lmma.strategy(method, x0, 1.0, rng=1)
    b = lmma.strategy(method, R.T @ x0, 1.0, rng=1)
    b.method.source = Rotated(b.method.source)
    if method == "lm-ma-es":  # sampling is fused with drawing: take the plain lines instead
        b.method.transform.sample = lambda batch: plain_sample(b.method.transform, batch)
    for _ in range(40):
        a.tell(ellipsoid(a.ask()))
        b.tell(ellipsoid(b.ask() @ R.T))
    np.testing.assert_allclose(R @ b.mean, a.mean, rtol=1e-8, atol=1e-8 * a.sigma)
    np.testing.assert_allclose(b.sigma, a.sigma, rtol=1e-8)


def plain_sample(transform, batch):
    batch.source.draw(batch.generation, 0, batch.z)
    transform.projections = batch.z @ transform.vectors.T
    batch.out[...] = batch.mean + batch.step * transform.apply(batch.z)


@pytest.mark.parametrize("method", METHODS)
def test_transform_is_linear_and_its_transpose_is_its_transpose(method):
    es = lmma.strategy(method, np.full(15, 2.0), 1.0, rng=3)
    for _ in range(50):
        es.tell(ellipsoid(es.ask()))
    M = es.method.transform.apply(np.eye(15)).T
    z = np.random.default_rng(1).standard_normal((4, 15))
    np.testing.assert_allclose(es.method.transform.apply(z), z @ M.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(es.method.transform.apply(z[0]), M @ z[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(es.method.transform.apply_transposed(z), z @ M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(es.result.hess_inv @ z[0], M @ M.T @ z[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_random_selection_leaves_path_standard_normal(method):
    # 3000 generations at n = 64: the path renews itself every 1/c_sigma, 2 to 20 generations, so at least
    # 150 independent lengths of 64 squares each; standard error about sqrt(2 / (150 * 64)) = 0.015.
    es = lmma.strategy(method, np.zeros(64), 1.0, rng=5)
    rng = np.random.default_rng(5)
    lengths = []
    for _ in range(3000):
        es.ask()
        es.tell(rng.random(es.popsize))
        lengths.append(es.method.step.path @ es.method.step.path / 64)
        es.sigma = 1.0
    assert abs(np.mean(lengths[100:]) - 1.0) < 0.075


@pytest.mark.parametrize("method", ["cma-es", "ma-es", "lm-ma-es"])
def test_solves_rotated_cigar(method):
    # A strategy whose matrix hears nothing of the ranking behaves as CSA-ES does and stalls here.
    from lmma.problems import get

    f = rotated(get("cigar"), 16, np.random.default_rng(0))
    es = lmma.strategy(method, np.full(16, 2.0), 1.0, rng=2, tolfun=0)
    while es.best_fun > 1e-8 and es.evaluations < 200_000:
        es.tell(f(es.ask()))
    assert es.best_fun <= 1e-8
    plain = lmma.strategy("csa-es", np.full(16, 2.0), 1.0, rng=2, tolfun=0)
    while plain.evaluations < es.evaluations:
        plain.tell(f(plain.ask()))
    assert plain.best_fun > 1e-2


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 20])
@pytest.mark.parametrize("method", METHODS)
def test_solves_the_rotated_ellipsoid_of_condition_100_from_one_variable_up(method, n):
    R, _ = np.linalg.qr(np.random.default_rng(n).standard_normal((n, n)))
    scales = 100.0 ** (np.arange(n) / max(1, n - 1))
    es = lmma.strategy(method, np.full(n, 2.0), 1.0, rng=n, tolfun=0, tolx=0)
    while es.best_fun > 1e-10 and es.evaluations < 200_000 and not es.stop():
        es.tell(np.square(es.ask() @ R) @ scales)
    assert es.best_fun <= 1e-10


@pytest.mark.parametrize("how", ["drawn again", "injected"])
@pytest.mark.parametrize("method", ADAPTING)
def test_the_mean_moves_to_where_replaced_candidates_are(method, how):
    es = lmma.strategy(method, np.full(12, 2.0), 1.0, rng=3)
    for _ in range(30):
        es.tell(ellipsoid(es.ask()))
    mean = es.mean.copy()
    if how == "injected":
        es.inject(mean + 0.1 * es.steps * np.linspace(-1, 1, 12))
    X = es.ask()
    if how == "drawn again":
        es.resample([0, 3])
    values = np.arange(es.popsize) + 0.5
    values[[0, 3, -1]] = 0.1, 0.2, 0.3
    weights, rate = es.method.parameters.weights, 1.0
    if method.startswith("pulse"):  # the worse half counts against, and the mean goes a little further
        p = es.method.parameters
        weights, rate = mean_weights(weights, es.popsize, p.against), p.c_m
    expected = mean + rate * weights @ (X[np.argsort(values)[: len(weights)]] - mean)
    es.tell(values)
    np.testing.assert_allclose(es.mean, expected, rtol=1e-6, atol=1e-6 * np.abs(expected - mean).max())


@pytest.mark.parametrize(("method", "name"), [("vd-cma-es", "projections"), ("lm-cma-es", "kept")])
def test_stored_samples_are_those_of_the_replaced_candidates(method, name):
    a, b = (lmma.strategy(method, np.full(12, 2.0), 1.0, rng=3) for _ in range(2))
    for es in (a, b):
        for _ in range(30):
            es.tell(ellipsoid(es.ask()))
        es.ask()
    a.resample([0, 3])
    left = {
        "vd-cma-es": lambda z: z @ a.method.transform._direction()[1],
        "lm-cma-es": lambda z: a.method.transform._mix(z, 0)[0],
    }
    expected = getattr(b.method.transform, name).copy()
    expected[[0, 3]] = left[method](a.method.z[[0, 3]])
    np.testing.assert_allclose(getattr(a.method.transform, name), expected, rtol=1e-12)
