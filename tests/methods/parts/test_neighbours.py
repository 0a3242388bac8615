"""Before a search with integers or choices ends, it asks for the neighbours of its best point."""

import numpy as np
import pytest

import lmma

BEST = np.array([3.0, -9.0, 0.25, 2.0])  # the second integer at its bound


def search(**options):
    """Return a strategy with two integers, a real and a choice of five values."""
    given = {"bounds": [(-9, 9), (-9, 9), (-1, 1), (None, None)], "categories": {3: 5}, "rng": 1} | options
    return lmma.strategy(
        "d-lm-ma-es", [0.0, 0.0, 0.0, -1.0], 1.0, integrality=[1, 1, 0, 0], popsize=6, **given
    )


def value(X):
    return np.abs(X[:, :2] - BEST[:2]).sum(axis=1) + np.square(X[:, 2] - BEST[2]) + (X[:, 3] != BEST[3])


def at_the_neighbours(es, fun=value):
    """Return the strategy when it is about to ask for neighbours."""
    while not es.asks_for_neighbours and es.evaluations < 20_000:
        es.tell(fun(es.ask()))
    assert es.stop() == {}
    return es


def test_all_neighbours_are_asked_for_once_before_the_search_ends():
    es, seen = at_the_neighbours(search()), []
    best, before = es.best_x.copy(), es.evaluations
    assert best.round().tolist() == BEST.round().tolist()
    while not es.stop():
        rows = es.batch_size
        X = es.ask()
        assert len(X) == rows == es.batch_size <= es.popsize
        seen += X.tolist()
        es.tell(value(X))
    expected = [[2, -9, 2], [4, -9, 2], [3, -8, 2]] + [[3, -9, k] for k in (0, 1, 3, 4)]
    assert sorted([a, b, c] for a, b, _, c in seen) == sorted(expected)
    assert {x[2] for x in seen} == {best[2]}
    assert es.evaluations == before + len(expected)
    assert "tolfun" in es.stop()


@pytest.mark.parametrize("changed", [[3, -8, 2], [3, -9, 4]])
def test_the_search_continues_from_a_better_neighbour(changed):
    def other(X):
        return value(X) - 5.0 * np.all(X[:, [0, 1, 3]] == changed, axis=1)

    es = at_the_neighbours(search())
    while es.asks_for_neighbours:
        es.tell(other(es.ask()))
    assert es.best_x[[0, 1, 3]].tolist() == changed
    assert es.best_fun == pytest.approx(other(es.best_x[np.newaxis])[0])
    assert es.stop() == {}
    assert es.result.mean[[0, 1, 3]].tolist() == changed
    while not es.stop() and es.evaluations < 20_000:
        es.tell(other(es.ask()))
    assert es.result.success
    assert es.best_x[[0, 1, 3]].tolist() == changed


def test_a_state_between_neighbours_continues_as_the_unbroken_run():
    es = at_the_neighbours(search())
    es.tell(value(es.ask()))
    assert es.asks_for_neighbours
    other = search(rng=9)
    other.set_state(es.get_state())
    for _ in range(3):
        X = es.ask()
        assert np.array_equal(X, other.ask())
        es.tell(value(X))
        other.tell(value(X))
    state = other.get_state()
    for name, array in es.get_state().items():
        assert np.array_equal(array, state[name]), name


def test_neighbours_are_not_redrawn_and_may_all_fail():
    es = at_the_neighbours(search())
    failures, rows = es.failures, 0
    while es.asks_for_neighbours:
        X = es.ask()
        before = X.copy()
        es.resample(np.arange(len(X)))
        assert np.array_equal(X, before)
        rows += len(X)
        es.tell(np.full(len(X), np.nan))
        assert es.ranked_values.tolist() == [es.best_fun]
    assert es.failures == failures + rows
    assert es.result.success


def test_injected_points_come_before_neighbours():
    es = at_the_neighbours(search())
    point = [1.0, 1.0, 0.5, 0.0]
    es.inject(point)
    assert not es.asks_for_neighbours
    X = es.ask()
    assert len(X) == es.popsize
    assert X[-1].tolist() == point
    es.tell(value(X))
    at_the_neighbours(es)


def test_blocks_hold_the_neighbours_too():
    def fun(X):
        return np.abs(X - 4).sum(axis=1)

    es = at_the_neighbours(lmma.LMMAES(np.zeros(5), 2.0, integrality=True, rng=1, popsize=7), fun)
    blocks = [block.copy() for block in es.ask_blocks(3)]
    assert [len(block) for block in blocks] == [3, 3, 1]
    es.tell(fun(np.vstack(blocks)))
    while not es.stop():
        es.tell(fun(es.ask()))
    assert es.result.success
    assert es.best_fun == 0


def test_neighbours_are_compared_by_their_constraints():
    def told(es):
        X = es.ask()
        es.tell(-X.sum(axis=1), constraints=X @ np.array([[2.0], [3.0]]) - 12.0)

    es = lmma.strategy("cma-es", np.zeros(2), 3.0, bounds=(0, 9), integrality=True, rng=1)
    while not es.asks_for_neighbours and es.evaluations < 20_000:
        told(es)
    with pytest.raises(ValueError, match="without constraints"):
        es.ask(), es.tell(np.zeros(es.batch_size))
    es.tell([-99.0] * es.batch_size, constraints=np.ones((es.batch_size, 1)))  # better, but not feasible
    while not es.stop():
        told(es)
    assert es.best_fun == es.result.fun == -6
    assert es.result.success


def test_wide_integers_are_found_in_steps_of_their_width():
    es = lmma.strategy("d-lm-ma-es", np.zeros(2), 3e5, bounds=(-1e6, 1e6), integrality=True, rng=1)
    while not es.stop() and es.evaluations < 2_000:
        es.tell(np.abs(es.ask() - [333, -654_321]).sum(axis=1))
    assert es.best_fun == 0
    assert "integer_search_exhausted" in es.stop()
    assert es.integers.deviation.max() <= 1


def test_an_integer_at_the_end_of_precision_has_no_neighbours():
    x0 = np.full(2, 2.0**24)
    es = lmma.strategy(
        "d-lm-ma-es", x0, 1.0, bounds=(2.0**24, 2.0**24 + 8), integrality=True, rng=1, dtype="float32"
    )
    while not es.stop() and es.evaluations < 2_000:
        X = es.ask()
        es.tell((X.astype(np.float64) - 2.0**24).sum(axis=1))
    assert es.best_fun == 0
