"""Start and initial step size of a run, given or by default, and after an earlier run."""

import math
from itertools import pairwise

import numpy as np
import pytest

import lmma


def spheres(X):
    return np.sum(np.square(X), axis=1)


class Seen:
    """The sphere, and the candidates of every generation."""

    def __init__(self):
        self.generations = []

    def __call__(self, X):
        self.generations.append(X.copy())
        return spheres(X)


def first_generation(x0, sigma0=None, **options):
    seen = Seen()
    lmma.minimize(seen, x0, sigma0, **{"rng": 1, "vectorized": True, "maxiter": 1} | options)
    return seen.generations[0]


@pytest.mark.parametrize(
    ("x0", "bounds", "sigma0"),
    [
        (np.zeros(400), None, 0.3),
        (np.full(400, 10.0), None, 3.0),
        (np.full(400, 10.0), [0, None], 3.0),
        (np.full(400, 1.0), [-50, 52], 30.6),
    ],
)
def test_default_steps_have_the_scale_of_the_start_or_of_the_box(x0, bounds, sigma0):
    # 38.3% of a normal distribution lie within half a standard deviation; of 8000 numbers, give or take 0.5%
    X = first_generation(x0, bounds=bounds, boundary="reflect", popsize=20)
    assert np.mean(np.abs(X - x0) < sigma0 / 2) == pytest.approx(0.383, abs=0.02)


def test_a_warm_start_begins_at_the_mean_with_the_final_step_size():
    first = lmma.minimize(
        spheres, np.full(100, 3.0), 1.0, values="ranks", rng=1, vectorized=True, maxfevals=1000
    )
    assert np.linalg.norm(first.x - first.mean) > 0.1
    X = first_generation(first, 1e-9)
    np.testing.assert_allclose(X, np.tile(first.mean, (len(X), 1)), atol=1e-6)
    X = first_generation(first, method="csa-es")
    assert np.sqrt(np.mean((X - first.mean) ** 2)) == pytest.approx(first.sigma, rel=0.1)


def test_after_restarts_a_warm_start_begins_at_the_best_strategy():
    options = {"rng": 1, "vectorized": True, "method": "ma-es"}
    alone = lmma.minimize(spheres, np.full(5, 3.0), 1.0, **options)
    both = lmma.minimize(spheres, np.full(5, 3.0), 1.0, restarts=1, maxfevals=alone.nfev + 40, **options)
    assert len(both.runs) == 2
    assert both.runs[0].best_fun < both.runs[1].best_fun
    X = first_generation(both, 1e-9)
    np.testing.assert_allclose(X, np.tile(both.x, (len(X), 1)), atol=1e-6)


def test_a_warm_start_keeps_a_step_size_for_each_coordinate():
    scale = np.r_[np.full(50, 1e-3), np.full(50, 1e3)]
    first = lmma.minimize(
        spheres, np.zeros(100), scale, rng=1, vectorized=True, maxiter=2, method="csa-es", tolfun=0
    )
    X = first_generation(first) - first.mean
    ratio = np.sqrt(np.mean(X[:, 50:] ** 2) / np.mean(X[:, :50] ** 2))
    assert ratio == pytest.approx(1e6, rel=0.1)


def test_any_result_of_scipy_is_a_start():
    from scipy.optimize import OptimizeResult

    X = first_generation(OptimizeResult(x=np.full(3, 0.1), fun=0.03), 1e-9)
    np.testing.assert_allclose(X, 0.1, atol=1e-6)


# Restarts


def starts(**options):
    """Return the middle of the first generation of every restart, and the spread of that generation."""
    seen = Seen()
    options = {"rng": 1, "vectorized": True, "tolfun": 0.5, "method": "ma-es", "noise": None} | options
    result = lmma.minimize(seen, np.zeros(20), 0.01, **options)
    at = np.cumsum([0] + [run.evaluations // run.popsize for run in result.runs[:-1]])
    first = [seen.generations[k] for k in at]
    assert [len(X) for X in first] == [run.popsize for run in result.runs]
    return result, [X.mean(axis=0) for X in first], [(X - X.mean(axis=0)).std() for X in first]


def test_without_a_box_restarts_begin_around_the_start():
    _, middles, spreads = starts(restarts=4)
    assert len(middles) == 5
    assert np.abs(middles).max() < 0.1  # sigma0 is 0.01
    assert all(0.005 < spread < 0.02 for spread in spreads)
    assert min(np.linalg.norm(a - b) for a, b in pairwise(middles)) > 0.02


def test_in_a_box_restarts_begin_anywhere_in_it():
    _, middles, _ = starts(restarts=4, bounds=[-5, 5], maxfevals=20_000)
    assert np.abs(middles[0]).max() < 0.1
    for middle in middles[1:]:  # uniform in [-5, 5]: 20 of them have a standard deviation of about 2.9
        assert 1.5 < middle.std() < 4.5
    draws = np.array(middles[1:3]) - np.mean(middles[1:3], axis=1, keepdims=True)
    assert abs(np.corrcoef(draws)[0, 1]) < 0.8  # and each elsewhere


def test_no_two_restarts_draw_the_same_candidates():
    seen = Seen()
    result = lmma.minimize(
        seen, np.zeros(20), 0.01, rng=1, vectorized=True, method="ma-es", tolfun=0.5,
        restarts=lmma.IPOP(2, factor=1),
    )  # fmt: skip
    assert [run.popsize for run in result.runs] == [12, 12, 12]
    at = np.cumsum([0] + [run.evaluations // run.popsize for run in result.runs[:-1]])
    first, second, third = (seen.generations[k] - seen.generations[k].mean(axis=0) for k in at)
    for a, b in ((first, second), (second, third), (first, third)):
        assert not np.allclose(a, b)


@pytest.mark.parametrize(
    ("restarts", "sizes"), [(lmma.IPOP(2, factor=3), [12, 36, 108]), (lmma.IPOP(0), [12]), (2, [12, 24, 48])]
)
def test_populations_grow_by_the_factor(restarts, sizes):
    assert [run.popsize for run in starts(restarts=restarts)[0].runs] == sizes


def test_bipop_gives_small_populations_small_steps_and_half_of_the_evaluations():
    result, _, spreads = starts(restarts=lmma.BIPOP(3, factor=3), tolfun=1e-9)
    runs = result.runs
    assert [run.popsize for run in runs if not run.small] == [12, 36, 108, 324]
    assert not runs[0].small
    assert not runs[1].small  # the first does not count: a large one goes next
    small = [spread / 0.01 for run, spread in zip(runs, spreads, strict=True) if run.small]
    assert len(small) > 3
    assert 0.008 < min(small) < 0.5  # sigma0 times 10^-2 to 1
    assert max(small) < 1.3
    large = runs[0]
    used = {False: 0, True: 0}
    for number, run in enumerate(runs):
        if run.small:
            assert used[True] < used[False]
            assert 12 <= run.popsize <= large.popsize // 2
            assert run.evaluations < max(12, large.evaluations // 2) + run.popsize
        else:
            large = run
        used[run.small] += run.evaluations if number else 0
    assert any(run.reason == "allowance" for run in runs)


def test_small_populations_lie_between_the_first_and_half_of_the_last_large_one():
    shares = []
    for seed in range(12):
        large = None
        for run in starts(restarts=lmma.BIPOP(3, factor=4), rng=seed)[0].runs:
            if run.small:
                shares.append(math.log(run.popsize / 12) / math.log(large / 2 / 12))
            large = large if run.small else run.popsize
    assert len(shares) > 50
    assert min(shares) >= 0
    assert 0.8 < max(shares) <= 1
    assert 0.15 < np.mean(shares) < 0.45  # the square of a uniform number has the mean 1/3; rounded down
