"""Candidates of a run with bounds: evaluated inside, and learned from as sampled."""

import os
import time

import numpy as np
import pytest

import lmma
from adapting import ADAPTING


def spheres(X):
    return np.sum(np.square(X), axis=1)


@pytest.mark.parametrize("method", ADAPTING)
def test_a_search_that_projects_is_pulled_back_to_the_box(method):
    # Projected candidates alone know nothing of how far outside they were: without a penalty the mean wanders
    # off until all of them are the same corner, with a step size that is none.
    result = lmma.minimize(
        spheres, np.full(6, 2.0), 0.5, bounds=[1, 2.5], boundary="project", method=method, vectorized=True,
        rng=1, maxfevals=30_000,
    )  # fmt: skip
    assert result.fun == 6.0
    assert result.sigma < 1e-6


@pytest.mark.parametrize("boundary", ["reflect", "smooth", "project"])
def test_nothing_outside_the_box_is_ever_evaluated(boundary):
    seen = []

    def fun(X):
        seen.append(X.copy())
        return spheres(X)

    result = lmma.minimize(
        fun, np.full(4, 2.0), 5.0, bounds=[1, 3], boundary=boundary, vectorized=True, rng=1, maxiter=60
    )
    X = np.concatenate(seen)
    assert len(X) == result.nfev
    assert X.min() >= 1
    assert X.max() <= 3
    assert np.all((result.mean >= 1) & (result.mean <= 3))


def test_the_callers_arrays_stay_as_they_were():
    x0, lower, sigma0 = np.ones(4), np.zeros(4), np.full(4, 0.5)
    before = [x0.copy(), lower.copy(), sigma0.copy()]
    lmma.minimize(spheres, x0, sigma0, bounds=[lower, np.full(4, 3.0)], vectorized=True, rng=1, maxiter=5)
    for array, copy in zip((x0, lower, sigma0), before, strict=True):
        assert np.array_equal(array, copy)


def test_workers_are_gone_when_a_run_has_ended_with_an_error(tmp_path):
    def fun(x):
        (tmp_path / str(os.getpid())).touch()
        return float(x @ x)

    def callback(x):
        raise ArithmeticError("seen enough")

    with pytest.raises(ArithmeticError, match="seen enough") as caught:
        lmma.minimize(fun, np.ones(4), 1.0, rng=1, workers=2, callback=callback)
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert pids
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.05)
    assert caught.traceback  # held until here: no garbage collection has helped
