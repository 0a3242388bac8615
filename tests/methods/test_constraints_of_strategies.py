"""Constraints in the loop of ask and tell, for every strategy."""

import numpy as np
import pytest

import lmma
from adapting import ADAPTING


def loop(es, function, evaluations=6000):
    while not es.stop() and es.evaluations < evaluations:
        f, g = function(es.ask())
        es.tell(f, constraints=g)
    return es.result


@pytest.mark.parametrize("method", ADAPTING)
def test_every_strategy_takes_constraints(method):
    result = loop(lmma.strategy(method, np.ones(4), 1.0, rng=1), lambda X: ((X**2).sum(1), X[:, :2] + 1))
    assert result.maxcv <= 1e-8
    assert result.fun == pytest.approx(2, abs=1e-4)
    assert result.multipliers == pytest.approx([2, 2], rel=0.05)


def test_constraint_state_can_be_resumed():
    def problem(X):
        return (X**2).sum(1), X[:, :1] + 1

    one, two = (lmma.LMMAES(np.ones(4), 1.0, rng=1) for _ in range(2))
    loop(one, problem, 200)
    two.set_state(one.get_state())
    assert np.array_equal(loop(one, problem, 400).x, loop(two, problem, 400).x)
    assert np.array_equal(one.result.multipliers, two.result.multipliers)


def test_equalities_and_linear_ones_are_said_beforehand():
    es = lmma.MAES(np.ones(4), 1.0, rng=1)
    es.constrain(equality=[True], linear=(np.ones((1, 4)), [2.0]))
    result = loop(es, lambda X: ((X**2).sum(1), X[:, :1] - 1))
    assert result.x.sum() == pytest.approx(2, abs=1e-12)
    assert result.x == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3], abs=1e-5)


def test_wrong_calls_are_rejected():
    es = lmma.MAES(np.ones(4), 1.0, rng=1)
    es.ask()
    with pytest.raises(ValueError, match="before the first ask"):
        es.constrain()
    with pytest.raises(ValueError, match=r"shape \(8, p\)"):
        es.tell(np.zeros(8), constraints=np.zeros((7, 2)))
    es.tell(np.arange(8.0), constraints=np.zeros((8, 2)))
    es.ask()
    with pytest.raises(ValueError, match="in every generation"):
        es.tell(np.arange(8.0))
    with pytest.raises(ValueError, match=r"shape \(8, 2\)"):
        es.tell(np.arange(8.0), constraints=np.zeros((8, 3)))
    with pytest.raises(TypeError, match="real numbers"):
        es.tell(np.arange(8.0), constraints=np.full((8, 2), "no"))


def test_failed_rows_rank_last():
    es = lmma.MAES(np.ones(4), 1.0, rng=1)
    es.ask()
    g = np.zeros((8, 1))
    g[3] = np.nan
    es.tell(np.arange(8.0), constraints=g)
    assert es.failures == 1
    assert es.best_fun == 0.0


@pytest.mark.parametrize("boundary", ["wrap"])
def test_periodic_variables_wrap_around(boundary):
    # The optimum lies beyond the face at 1, near 0.05: a search from 0.9 goes through the face
    def circle(X):
        return (1 - np.cos(2 * np.pi * (X - 0.05))).sum(1)

    es = lmma.MAES(np.full(3, 0.9), 0.05, rng=1, bounds=(0, 1), boundary=boundary)
    while not es.stop() and es.evaluations < 5000:
        candidates = es.ask()
        assert candidates.min() >= 0
        assert candidates.max() <= 1
        es.tell(circle(candidates))
    assert es.best_x == pytest.approx(np.full(3, 0.05), abs=1e-4)


def test_wrapping_leaves_one_sided_and_fixed_coordinates_to_mirrors():
    from lmma.bounds import box

    made = box([(0, 1), (0, None), (2, 2)], np.array([0.5, 1, 2]), boundary="wrap")
    assert made.inside(np.array([1.25, -3.0, 5.0])) == pytest.approx([0.25, 3.0, 2.0])
    assert made.inside(np.array([-0.25, 3.0, 2.0])) == pytest.approx([0.75, 3.0, 2.0])
