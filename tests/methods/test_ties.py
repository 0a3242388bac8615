"""Rounded values, plateaus and tiny values."""

import numpy as np
import pytest

import lmma
from lmma.methods.convergence import Ties


def rosenbrock(X):
    return np.sum(100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2, axis=1)


def with_digits(digits, fun=rosenbrock):
    """Return ``fun`` as a simulator prints it."""
    return lambda X: np.array([float(f"{value:.{digits}g}") for value in fun(X)])


@pytest.mark.parametrize(("method", "n", "digits", "seed"), [
    ("pulse-full", 10, 2, 1), ("lm-ma-es", 20, 4, 1), ("lm-cma-es", 20, 4, 2),
])  # fmt: skip
def test_values_with_few_digits_do_not_end_a_search(method, n, digits, seed):
    # each ended at 9 or more before ties lengthened the steps
    x0 = np.random.default_rng(101).uniform(-5, 5, n)
    result = lmma.minimize(
        with_digits(digits), x0, 3.0, method=method, rng=seed, vectorized=True, maxfevals=40_000
    )
    assert result.fun < 1e-10
    assert result.learned.strategy.convergence.ties.count > 0


@pytest.mark.parametrize("method", ["pulse-full", "lm-ma-es"])
def test_without_ties_nothing_is_noticed(method):
    result = lmma.minimize(rosenbrock, np.zeros(6), 0.5, method=method, rng=1, vectorized=True)
    assert result.learned.strategy.convergence.ties.count == 0


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("value", [0.0, 7.0, 1e-30])
def test_a_constant_function_is_not_a_success(n, value):
    result = lmma.minimize(lambda X: np.full(len(X), value), np.ones(n), 1.0, rng=1, vectorized=True)
    assert (result.reason, result.success) == ("flat", False)
    assert "more digits" in result.message


def test_a_constant_ends_the_loop_of_who_asks_and_tells():
    es = lmma.LMMAES(np.ones(3), 1.0, rng=1)
    while not es.stop():
        es.ask()
        es.tell(np.ones(es.popsize))
    assert list(es.stop()) == ["flat"]
    assert not es.result.success


def test_a_plateau_of_the_start_is_left_by_longer_steps():
    # all points within 20 of the start have the same value
    def fun(X):
        distance = np.linalg.norm(X, axis=1)
        return np.where(distance < 20, 1000.0, np.sum((X - 30) ** 2, axis=1) / 1e3)

    result = lmma.minimize(fun, np.zeros(3), 0.1, rng=1, vectorized=True, ftarget=1e-6, maxfevals=20_000)
    assert result.reason == "ftarget"


@pytest.mark.parametrize("factor", [1e-20, 1e-300])
def test_tiny_values_are_optimised_as_large_ones_are(factor):
    def run(factor, **budget):
        return lmma.minimize(
            lambda X: factor * np.sum(X**2, axis=1),
            np.ones(10),
            1.0,
            values="ranks",
            rng=1,
            vectorized=True,
            **budget,
        )

    plain, tiny = run(1.0), run(factor)
    assert plain.reason == tiny.reason == "tolfun"
    assert tiny.nfev >= plain.nfev
    assert np.array_equal(run(factor, maxfevals=plain.nfev).x, plain.x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("offset", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [2, 20])
def test_the_last_digits_of_the_precision_are_convergence(n, offset, dtype):
    def fun(X):
        return (np.sum((X - 0.3) ** 2, axis=1) + offset).astype(dtype)

    result = lmma.minimize(fun, np.ones(n), 1.0, values="ranks", rng=1, vectorized=True, dtype=dtype)
    assert (result.reason, result.success) == ("tolfun", True)


def test_a_warm_start_keeps_the_scale_of_values():
    def sphere(X):
        return np.sum(X**2, axis=1)

    first = lmma.minimize(sphere, np.ones(5), 1.0, values="ranks", rng=1, vectorized=True)
    again = lmma.minimize(sphere, first, rng=2, vectorized=True)
    assert (again.reason, again.nfev < first.nfev) == ("tolfun", True)


@pytest.mark.parametrize(("ranked", "hinder"), [
    ([1.0] * 7 + [1.5] * 3, True),
    ([1.0] * 6 + [1.5] * 4, False),
    ([1.0] * 9 + [1.0 + 2**-52], False),  # the last digit
    ([1.0], False),
    ([3.0, 3.0], True),  # a difference has never been seen
])  # fmt: skip
def test_ties_among_seven_of_ten_hinder(ranked, hinder):
    ties = Ties()
    ties.update(np.array(ranked), 1e-11)
    assert ties.significant is hinder
