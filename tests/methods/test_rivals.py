"""Rivals of a search that creeps, points that cover the box, and restarts of a portfolio."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import lmma
from lmma.methods import rivals
from lmma.methods.portfolio import Stage
from lmma.methods.rivals import Trace
from lmma.run.restarts import share_of_slopes
from lmma.run.state import SingleRun

N = 6


def schaffer(X):
    """Schaffer's F7 with unequal scales: many valleys, in which searches creep."""
    Z = X * 10 ** np.linspace(0, 1.5, X.shape[-1])
    s = np.sqrt(Z[..., :-1] ** 2 + Z[..., 1:] ** 2)
    return (np.sqrt(s) * (1 + np.sin(50 * s**0.2) ** 2)).mean(axis=-1) ** 2


def kinked(X):
    """One valley with kinks."""
    return np.abs(X).max(axis=-1)


def strategy(seed=1, x0=3.0, **options):
    given = {"rng": seed, "rivals": True, "bounds": [-5, 5]} | options
    return lmma.strategy("portfolio", np.full(N, x0), 2.0, **given)


def course(values, spread=1.0, step=100, n=1, popsize=10):
    """Return the trace of a search with these best values, every ``step`` evaluations, and the search."""
    trace = Trace()
    for number, best in enumerate(values, start=1):
        search = SimpleNamespace(
            evaluations=step * number, best_fun=best, n=n, popsize=popsize,
            ranked_values=np.array([best, best + spread, best + 2 * spread]),
        )  # fmt: skip
        trace.add(search)
    return trace, search


# Rules


def test_a_trace_has_the_best_value_at_every_age_within_five_percent():
    trace, search = course([100.0 / k for k in range(1, 1001)])
    assert trace.best_at(99) == math.inf
    for age in (100, 1234, 20_000, 99_999):
        assert 1e4 / age <= trace.best_at(age) <= 1.06 * 1e4 / age + 100 / (age // 100) - 1e4 / age
    assert len(trace.ages) < 20 + math.log(1000) / math.log(rivals.STEP)
    assert trace.spread == pytest.approx(1.0)
    assert search.evaluations == 100_000


@pytest.mark.parametrize(
    ("values", "creeping"),
    [
        ([1000.0 / k for k in range(1, 101)], False),  # |f| falls by a third in the last third of the run
        ([1e6 - k for k in range(100)], False),  # gains do not fade
        ([1e6 + 1000.0 / k**2 for k in range(1, 101)], True),  # they fade
        ([5.0] * 100, True),
    ],
)
def test_a_search_creeps_if_its_gains_fade(values, creeping):
    trace, search = course(values)
    assert rivals.creeps(trace, search, search.evaluations, math.inf) == creeping
    assert not rivals.creeps(trace, search, search.evaluations, 6 * search.evaluations)  # it is early


def test_a_search_whose_values_approach_one_another_does_not_creep():
    trace = Trace()
    for k in range(1, 101):  # spread 10^(-k/8): 1e-12 at the end, 1e-11 at k = 88
        ranked = 5.0 + 10.0 ** (-k / 8) * np.arange(3)
        search = SimpleNamespace(evaluations=100 * k, best_fun=5.0, n=1, popsize=10, ranked_values=ranked)
        trace.add(search)
        if k in (40, 99):
            assert not rivals.creeps(trace, search, search.evaluations, math.inf)


def test_a_rival_is_dropped_if_it_is_behind_at_equal_age():
    own, search = course([1000.0 / k for k in range(1, 101)], n=10)
    # At 1000 evaluations the search had the value 100; a young rival is compared with half of its age: 200
    for best, behind in ((199.0, False), (201.0, True)):
        trace, rival = course([1e9] * 8 + [best] * 2, n=30)
        assert rivals.falls_behind(trace, rival, own, search) == behind
    for best, behind in ((99.0, False), (101.0, True)):
        trace, rival = course([1e9] * 8 + [best] * 2, n=10)
        assert rivals.falls_behind(trace, rival, own, search) == behind
    # Twice the population: as many generations at 2000 evaluations
    trace, rival = course([1e9] * 18 + [101.0] * 2, n=10, popsize=20)
    assert rivals.falls_behind(trace, rival, own, search)


def test_a_rival_that_cannot_close_the_gap_is_dropped():
    own, search = course([1000.0] * 50 + [10.0] * 50)
    for spread, dropped in ((1.0, True), (40.0, False)):  # the gap is 90, and gains are over
        trace, rival = course([100.0] * 30, spread=spread)
        assert rivals.falls_behind(trace, rival, own, search) == dropped


# Runs


def test_rivals_use_half_of_the_evaluations_at_most_and_one_takes_over():
    es, stages, swapped = strategy(seed=16), set(), None
    while not es.stop() and es.evaluations < 8000:
        X = es.ask()
        stages.add(Stage(es.course.stage))
        before = es.ranks
        es.tell(schaffer(X))
        assert es.course.by_rivals <= es.evaluations / 2 + es.popsize
        if es.course.popsize and not swapped:
            assert es.ranks is not before
            assert es.rival is None
            assert es.best_fun == es.ranks.best_fun
            swapped = es.evaluations
    assert Stage.RIVAL in stages
    assert swapped
    assert es.course.rivals >= 1
    assert es.course.popsize == 2 * lmma.strategy("pulse-full", np.zeros(N), 1.0).popsize


def test_a_search_is_not_changed_by_its_rivals():
    es, alone = strategy(seed=2), strategy(seed=2, rivals=False)
    met, compared = 0, 0
    while not es.stop() and es.evaluations < 3500:
        X, stage = es.ask(), es.course.stage
        if stage == Stage.RIVAL:
            met += 1
        else:
            assert np.array_equal(X, alone.ask()) or stage == Stage.LOOK_AGAIN
            compared += 1
            if stage == Stage.LOOK_AGAIN:  # its lines depend on the number of the batch
                break
            alone.tell(schaffer(X))
        es.tell(schaffer(X))
    assert compared > 5
    assert es.ranks is not None
    assert not es.course.popsize


def test_a_healthy_search_has_no_rivals():
    es = strategy(x0=4.0)
    while not es.stop() and es.evaluations < 1500:
        es.tell(kinked(es.ask()))
    assert es.course.by_ranks > 500
    assert es.course.by_rivals == 0


def test_no_rivals_without_restarts():
    for restarts in (0, 1):
        result = lmma.minimize(
            schaffer, np.full(N, 3.0), 2.0, bounds=[-5, 5], vectorized=True, rng=1, maxfevals=8000,
            restarts=restarts, stagnation=False,
        )  # fmt: skip
        assert result.nfev <= 8000
        assert ("rivals" in result.parts) == bool(restarts)


@pytest.mark.parametrize("seed", [2, 16])
def test_a_portfolio_with_rivals_resumed_after_any_batch_equals_the_unbroken_one(seed):
    es, stages = strategy(seed), set()
    while not es.stop() and es.evaluations < 8000:
        stages.add(Stage(es.course.stage))
        other = strategy(9, 0.0)
        other.set_state(es.get_state())
        X = es.ask()
        assert np.array_equal(X, other.ask())
        values = schaffer(X)
        es.tell(values)
        other.tell(values)
    assert Stage.RIVAL in stages


def test_a_rival_without_a_search_is_rejected():
    es = strategy()
    while not es.stop() and es.course.stage != Stage.RIVAL:
        es.tell(schaffer(es.ask()))
    state = {name: value for name, value in es.get_state().items() if not name.startswith("ranks.")}
    with pytest.raises(ValueError, match="contradicts"):
        strategy().set_state(state)


# The duel


LARGE = 110


def rippled(Z):
    """Return Z with the oscillations of the suites of CEC."""
    logarithm = np.log(np.abs(Z) + 1e-300)
    faster, slower = np.where(Z > 0, 10, 5.5), np.where(Z > 0, 7.9, 3.1)
    waves = np.sin(faster * logarithm) + np.sin(slower * logarithm)
    return np.sign(Z) * np.exp(logarithm + 0.049 * waves)


def groups(X):
    """Eleven rotated, rippled and skewed ellipsoids of ten variables, of very different sizes."""
    rng, size = np.random.default_rng(7), 10
    weights = 10.0 ** (3 * rng.standard_normal(LARGE // size))
    rotations = [np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in weights]
    X = X - rng.uniform(-3, 3, LARGE)
    total = 0.0
    for number, (weight, rotation) in enumerate(zip(weights, rotations, strict=True)):
        Z = rippled(X[..., number * size : (number + 1) * size] @ rotation)
        powers = 1 + 0.2 * np.arange(size) / (size - 1) * np.sqrt(np.maximum(Z, 0))
        Z = np.where(Z > 0, np.maximum(Z, 1e-300) ** powers, Z)
        total = total + weight * (Z**2 * 10.0 ** np.linspace(0, 6, size)).sum(axis=-1)
    return total


def curved(X):
    return ((1 - X[..., :-1]) ** 2 + 100 * (X[..., 1:] - X[..., :-1] ** 2) ** 2).sum(axis=-1)


@pytest.mark.parametrize(("fun", "width", "taken_over"), [(groups, 50, True), (curved, 5, False)])
def test_an_evolution_strategy_takes_over_if_it_is_ahead_of_slopes_at_every_age(fun, width, taken_over):
    start = np.random.default_rng(1).uniform(-width, width, LARGE)
    es, after = lmma.strategy("portfolio", start, 0.6 * width, rng=1), None
    while after is None:
        other = lmma.strategy("portfolio", np.zeros(LARGE), 1.0, rng=9)
        other.set_state(es.get_state())
        X, stage = es.ask(), es.course.stage
        assert np.array_equal(X, other.ask())
        values = fun(X)
        es.tell(values)
        if stage == Stage.DUEL != es.course.stage:
            after = es.course.stage
    assert es.course.duelled
    assert (after == Stage.RANKS) == taken_over
    assert (es.slopes is None) == taken_over
    assert es.course.by_ranks <= 20 * LARGE + 2 * LARGE + es.popsize  # a stencil has up to 2 n rows
    if taken_over:
        assert es.best_fun == es.ranks.best_fun


# The box


def test_points_cover_the_box_if_the_budget_is_small():
    """Of n points of Sobol's sequence, some lie in each half of every coordinate."""
    n = 16
    es = lmma.strategy("portfolio", np.zeros(n), 3.0, rng=1, bounds=[-5, 5], cover=True)
    es.limit(20 * n)
    es.tell(schaffer(es.ask()))
    X = es.ask()
    assert es.course.stage == Stage.COVER
    assert X.shape == (n, n)
    assert np.abs(X).max() <= 5
    halves = (X > 0).sum(axis=0)
    assert halves.min() >= n // 4
    assert halves.max() <= 3 * n // 4
    es.tell(schaffer(X))
    assert es.course.stage == Stage.RANKS
    assert np.array_equal(es.ranks.mean, es.best_x)
    assert es.ranks.steps == pytest.approx(1.5)


@pytest.mark.parametrize(("budget", "covers"), [(10, True), (30, True), (31, False), (None, False)])
def test_the_box_is_covered_up_to_thirty_evaluations_per_variable(budget, covers):
    asked = []

    def fun(X):
        asked.append(len(X))
        return schaffer(X)

    n = 17  # not the size of a population or a look
    maxfevals = 31 * n if budget is None else budget * n
    sigma0 = 3.0 if budget is None else None  # a step size that the user chooses is kept
    lmma.minimize(fun, np.zeros(n), sigma0, bounds=[-5, 5], vectorized=True, rng=1, maxfevals=maxfevals)
    assert (n in asked) == covers


def test_failures_in_all_of_the_box_begin_at_x0():
    es = lmma.strategy("portfolio", np.zeros(N), 3.0, rng=1, bounds=[-5, 5], cover=True)
    es.limit(20 * N)
    es.tell(schaffer(es.ask()))
    es.ask()
    assert es.course.stage == Stage.COVER
    es.tell(np.full(N, np.nan))
    assert es.course.stage == Stage.RANKS
    assert np.isfinite(es.best_fun)


# Restarts


def single(best_fun, begin, share=0.0):
    return SingleRun(10, 100, best_fun, "converged", begin=begin, share=share)


def test_slopes_that_end_above_other_runs_get_fewer_restarts():
    first = single(5.0, "look", 1.0)
    assert share_of_slopes([first]) == 1
    assert share_of_slopes([first, single(9.0, "slopes")]) == 0.5
    assert share_of_slopes([first, single(9.0, "slopes"), single(9.0, "slopes")]) == 0.25
    assert share_of_slopes([first, single(9.0, "slopes"), single(4.0, "slopes")]) == 1
    assert share_of_slopes([first, single(4.0, "slopes"), single(4.0, "slopes")]) == 1
    ranks = single(20.0, "ranks")  # the median of the other runs is now 12.5
    assert share_of_slopes([first, single(9.0, "slopes"), ranks]) == 1
