"""Integers of a strategy: exact, always mutable, without effect on real coordinates."""

import numpy as np
import pytest

import lmma
from adapting import ADAPTING, BY_RANKS
from lmma.layers.integers import least_mutation
from lmma.methods.es import Transform

METHODS = BY_RANKS
N = 12
ROTATION = np.linalg.qr(np.random.default_rng(0).standard_normal((N, N)))[0]


def ellipsoid(X):
    return np.square(X @ ROTATION) @ np.logspace(0, 4, N)


def half_integers(n):
    return np.arange(n) >= n // 2


@pytest.mark.parametrize("method", ADAPTING)
def test_variances_at_some_coordinates_are_those_of_all_of_m(method):
    es = lmma.strategy(method, np.ones(N), 0.5, rng=1)
    for _ in range(60):
        es.tell(ellipsoid(es.ask()))
    columns = np.array([1, 5, 6])
    known = es.method.transform.variances_at(columns, es.mean)
    by_rows = Transform.variances_at(es.method.transform, columns, es.mean)
    np.testing.assert_allclose(known, by_rows, rtol=1e-9)
    assert np.ptp(known) > 0 or method == "csa-es"


def test_the_share_of_candidates_without_a_forced_mutation_is_the_same_for_any_number_of_integers():
    for count in (1, 10, 1000):
        assert (1 - least_mutation(count)) ** count == pytest.approx(0.73)


@pytest.mark.parametrize("method", ADAPTING)
def test_candidates_hold_integers_within_bounds_and_the_reals_continue(method):
    n = 10
    bounds = [(None, None)] * 5 + [(-3, 2.5)] * 5
    es = lmma.strategy(method, np.full(n, 2.0), 1.0, bounds=bounds, integrality=half_integers(n), rng=1)
    for _ in range(120):
        X = es.ask()
        assert np.array_equal(X[:, 5:], np.rint(X[:, 5:]))
        assert X[:, 5:].min() >= -3
        assert X[:, 5:].max() <= 2
        es.tell(np.square(X - 0.3).sum(axis=1))
    assert np.array_equal(es.best_x[5:], np.zeros(5))
    assert np.array_equal(es.result.mean[5:], np.rint(es.mean[5:]))
    assert abs(es.best_fun - 5 * 0.09) < 0.1


@pytest.mark.parametrize("method", ["pulse-full", "d-lm-ma-es", "cma-es", "lm-ma-es", "sep-cma-es"])
def test_reals_converge_next_to_integers(method):
    # As many evaluations for all of 20 as twice what these methods need for 20 reals: a search whose integers
    # drown its reals, or are stuck beside the optimum, never gets there.
    n = 20
    es = lmma.strategy(
        method, np.random.default_rng(1).uniform(1, 3, n), 1.0, integrality=half_integers(n), rng=1
    )
    while es.best_fun > 1e-10 and es.evaluations < 16_000:
        es.tell(np.square(es.ask()).sum(axis=1))
    assert es.best_fun <= 1e-10


def test_integers_are_left_where_the_steps_of_reals_have_become_tiny():
    # The optimum of the integer moves when all has converged: a search without a bound never notices
    es = lmma.strategy("d-lm-ma-es", np.full(4, 1.0), 1.0, integrality=[0, 0, 0, 1], rng=1)
    best = 3
    while es.evaluations < 20_000 and es.sigma * es.scale[0] > 1e-8:
        es.tell(np.square(es.ask() - [0, 0, 0, best]).sum(axis=1))
    best = 5
    for _ in range(300):
        X = es.ask()
        es.tell(np.square(X - [0, 0, 0, best]).sum(axis=1))
    assert np.rint(es.mean[3]) == 5


def test_convergence_is_tested_on_real_variables():
    es = lmma.strategy("pulse-full", np.ones(6), 1.0, integrality=half_integers(6), rng=1, tolfun=0)
    while not es.stop() and es.evaluations < 20_000:
        es.tell(100 + np.square(es.ask()).sum(axis=1) * 1e12)
    assert "tolx" in es.stop()
    flat = lmma.strategy("pulse-full", np.ones(6), 1.0, integrality=half_integers(6), rng=1)
    while not flat.stop() and flat.evaluations < 20_000:
        flat.tell(np.round(np.square(flat.ask()).sum(axis=1) + 1000, 6))
    assert "tolfun" in flat.stop()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", ["d-lm-ma-es", "pulse-full"])
def test_a_resumed_run_with_integers_equals_the_unbroken_one(method, dtype):
    def make(rng=1):
        return lmma.strategy(method, np.full(8, 2.0), 1.0, integrality=half_integers(8), rng=rng, dtype=dtype)

    def advance(es, generations):
        for _ in range(generations):
            es.tell(np.square(es.ask() - 0.2).sum(axis=1))
        return es

    unbroken, broken = advance(make(), 30), advance(make(), 15)
    broken.ask()
    resumed = make(rng=7)
    resumed.set_state(broken.get_state())
    advance(resumed, 15)
    for name, value in unbroken.get_state().items():
        assert np.array_equal(value, resumed.get_state()[name]), name


def test_blocks_are_the_candidates_of_ask():
    whole, parts = (
        lmma.LMMAES(np.full(8, 2.0), 1.0, integrality=half_integers(8), rng=1, popsize=9) for _ in range(2)
    )
    for _ in range(5):
        X = whole.ask()
        blocks = [block.copy() for block in parts.ask_blocks(4)]
        np.testing.assert_allclose(np.vstack(blocks), X, rtol=1e-12)  # NumPy's products round by shape
        whole.tell(np.square(X).sum(axis=1))
        parts.tell(np.square(X).sum(axis=1))
    np.testing.assert_allclose(whole.mean, parts.mean, rtol=1e-12)
    np.testing.assert_allclose(whole.best_x, parts.best_x, rtol=1e-12)


def test_candidates_drawn_again_are_integers_too():
    es = lmma.strategy("lm-ma-es", np.zeros(6), 3.0, integrality=True, rng=1)
    X = es.ask()
    before = X.copy()
    es.resample([1, 3])
    assert np.array_equal(X, np.rint(X))
    assert not np.array_equal(X[[1, 3]], before[[1, 3]])
    assert np.array_equal(X[[0, 2]], before[[0, 2]])


def test_a_strategy_of_ones_own_has_integers_too():
    class Own(lmma.Strategy):
        def _sample(self, out):
            out[...] = self.mean + self.steps * self.generator().standard_normal(out.shape)
            self.X = out

        def _update(self, order, values):
            self.mean += 0.5 * (self.integers.unrounded[order[:3]].mean(axis=0) - self.mean)
            self.sigma *= 0.97

        @classmethod
        def memory(cls, n, popsize, itemsize=8):
            return 2 * popsize * n * itemsize

    es = Own(np.full(4, 3.0), 1.0, integrality=True, rng=1)
    for _ in range(300):
        es.tell(np.square(es.ask() - 7).sum(axis=1))
    assert np.array_equal(es.best_x, np.full(4, 7.0))


WRONG = {
    "length": ({"integrality": [1, 0]}, "integrality must be True, or 3 entries"),
    "kind": ({"integrality": [1, 0, 2]}, "integrality must be 1 for an integer and 0"),
    "words": ({"integrality": "yes"}, "integrality must be True, or 3 entries"),
    "no room": (
        {"integrality": True, "bounds": [(0.2, 0.8)] + [(-5, 5)] * 2},
        "coordinate 0, .* contain no integer",
    ),
}


@pytest.mark.parametrize(("given", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_integrality_is_rejected_by_name(given, words):
    with pytest.raises(ValueError, match=words):
        lmma.LMMAES([0.5, 0.5, 0.5], 1.0, **given)


def test_injected_points_must_be_integers():
    es = lmma.strategy("lm-ma-es", np.zeros(3), 1.0, integrality=[0, 1, 1], bounds=(-4, 4), rng=1)
    with pytest.raises(ValueError, match="injected points must be integers"):
        es.inject([0.5, 1.5, 1.0])
    with pytest.raises(ValueError, match="within bounds"):
        es.inject([0.5, 5.0, 1.0])
    es.inject([0.5, 2.0, 1.0])
    assert es.ask()[-1].tolist() == [0.5, 2.0, 1.0]
