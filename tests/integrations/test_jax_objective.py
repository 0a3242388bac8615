"""JAX losses as objectives, compiled once; skipped if JAX is not installed."""

import numpy as np
import pytest

import lmma

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'lmma[jax]'")
jnp = jax.numpy

from lmma.integrations.jax import objective  # noqa: E402

X = jnp.linspace(-1, 1, 60).reshape(20, 3)
Y = X @ jnp.array([[1.0], [-2.0], [0.5]]) + 0.25


def start():
    return {"w": jnp.zeros((3, 1)), "b": jnp.zeros(1)}


def loss(p, x=X, y=Y):
    return ((x @ p["w"] + p["b"] - y) ** 2).mean()


def test_a_run_knows_that_the_objective_is_vectorised():
    params = {"w": np.zeros(3, np.float32)}
    fun = objective(params, lambda p: ((p["w"] - 1.0) ** 2).sum())
    runs = [lmma.minimize(fun, params, 0.1, rng=1, maxiter=5, **more) for more in ({}, {"vectorized": True})]
    assert runs[0].failures == 0
    np.testing.assert_array_equal(runs[0].vector, runs[1].vector)


def test_values_are_those_of_one_after_the_other():
    tree = lmma.Tree(start())
    rows = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
    expected = [float(loss(tree.decode(row))) for row in rows]
    for chunk in (None, 2, 50):
        np.testing.assert_allclose(objective(start(), loss, chunk=chunk)(rows), expected, rtol=1e-4)


def test_it_compiles_once_whatever_the_number_of_candidates():
    traced = []

    def watched(p):
        traced.append(1)
        return loss(p)

    fun = objective(start(), watched)
    assert fun.compilations == 0
    rows = np.zeros((9, 4), np.float32)
    for count in (9, 9, 4, 9, 1):
        assert len(fun(rows[:count])) == count
    fun(np.zeros((25, 4), np.float32))
    assert fun.compilations == 1
    assert len(traced) == 1


def test_a_run_with_restarts_compiles_once_and_ends_with_arrays_of_jax():
    fun = objective(start(), loss)
    result = lmma.minimize(
        fun, start(), 0.3, vectorized=True, rng=1, restarts=1, maxfevals=3000, noise="auto", tolfun=1e-7
    )
    assert fun.compilations == 1
    assert isinstance(result.x["w"], jax.Array)
    assert result.vector.dtype == np.float32
    assert result.fun < 1e-6


def test_mini_batches_are_drawn_by_the_seed_without_recompilation():
    def batch(key):
        rows = jax.random.randint(key, (5,), 0, 20)
        return X[rows], Y[rows]

    fun = objective(start(), loss, batch=batch)
    lmma.minimize(fun, start(), 0.3, vectorized=True, rng=1, maxiter=10)
    assert fun.compilations == 1
    rows = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(fun(rows, 3), fun(rows, 3))
    assert not np.array_equal(fun(rows, 3), fun(rows, 4))
