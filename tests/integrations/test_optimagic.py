"""Lmma as an algorithm of optimagic; skipped if it is not installed."""

import warnings

import numpy as np
import pytest

import lmma

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of optimagic's own
    om = pytest.importorskip("optimagic", reason="optimagic is not installed: pip install 'lmma[optimagic]'")

from lmma.integrations.optimagic import Lmma

pytestmark = pytest.mark.filterwarnings("ignore")  # of optimagic's own


def sphere(x):
    return float((x - 1) @ (x - 1))


def test_it_is_the_run_that_minimize_makes():
    ours = lmma.minimize(sphere, np.zeros(6), 0.5, rng=1, ftarget=1e-8)
    algorithm = Lmma(sigma0=0.5, seed=1, stopping_target=1e-8)
    result = om.minimize(sphere, np.zeros(6), algorithm=algorithm)
    assert np.array_equal(result.x, ours.x)
    assert result.fun == ours.fun
    assert result.n_fun_evals == ours.nfev
    assert result.algorithm_output["reason"] == "ftarget"
    assert result.message == ours.message


def test_parameters_of_any_shape_bounds_and_a_batch():
    def fun(params):
        return (params["a"] - 3) ** 2 + float(np.sum(np.square(params["b"] - 1)))

    bounds = om.Bounds(lower={"a": 0.0, "b": np.full(3, -2.0)}, upper={"a": 2.0, "b": np.full(3, 2.0)})
    start = {"a": 1.0, "b": np.zeros(3)}
    algorithm = Lmma(seed=1, population_size=12, n_cores=2, stopping_maxfun=1200)
    result = om.minimize(fun, start, algorithm=algorithm, bounds=bounds)
    assert result.params["a"] == pytest.approx(2.0, abs=1e-6)
    assert result.params["b"] == pytest.approx(np.ones(3), abs=1e-4)
    assert result.n_fun_evals <= 1200


def test_optimagic_maximises_and_keeps_a_history():
    result = om.maximize(
        lambda x: -sphere(x), np.zeros(4), algorithm=Lmma(sigma0=0.5, seed=1, stopping_maxiter=30)
    )
    assert result.fun > -0.1
    assert len(result.history.fun) == result.n_fun_evals


def test_options_are_optimagics():
    options = {"sigma0": 0.5, "seed": 1, "stopping_maxfun": 64}
    result = om.minimize(sphere, np.zeros(4), algorithm=Lmma, algo_options=options)
    assert result.n_fun_evals == 64
    with pytest.raises(Exception, match="sigma"):
        om.minimize(sphere, np.zeros(4), algorithm=Lmma(sigma0=-1.0, seed=1))
