"""Choices next to any strategy: they are learned, and the inner strategy is unaffected."""

import numpy as np
import pytest
from scipy import stats

import lmma
from adapting import ADAPTING, BY_RANKS
from lmma.layers.choices import Categorical
from lmma.methods.registry import make_strategy

METHODS = BY_RANKS


def mixed(method="d-lm-ma-es", **options):
    """Four reals, two binary variables, one of five values, an integer; best at (0, 0, 0, 0, 1, 1, 3, 2)."""
    given = {"integrality": [0, 0, 0, 0, 1, 1, 0, 1], "categories": {6: 5}, "rng": 1} | options
    bounds = [(-5, 5)] * 4 + [(0, 1)] * 2 + [(None, None)] + [(-9, 9)]
    return lmma.strategy(method, [2.0, 2.0, 2.0, 2.0, 0.5, 0.5, -1.0, 0.0], 1.0, bounds=bounds, **given)


def value(X):
    x = np.atleast_2d(X)
    return np.square(x[:, :4]).sum(axis=1) + (2 - x[:, 4] - x[:, 5]) + (x[:, 6] != 3) + np.square(x[:, 7] - 2)


def advance(es, generations):
    for _ in range(generations):
        es.tell(value(es.ask()))
    return es


@pytest.mark.parametrize("method", ADAPTING)
def test_every_method_finds_reals_integers_and_choices(method):
    es = mixed(method)
    while es.best_fun > 1e-6 and es.evaluations < 8_000:
        es.tell(value(es.ask()))
    assert es.best_fun <= 1e-6
    assert es.best_x[4:].tolist() == [1, 1, 3, 2]


def test_the_strategy_inside_is_as_if_it_were_alone():
    # choices that do not matter: ranks are those of the numbers
    es = make_strategy(lmma.LMMAES, np.ones(6), 0.5, categories={1: 3, 4: 2}, rng=5, popsize=8)
    alone = lmma.LMMAES(np.ones(4), 0.5, rng=es.key, popsize=8)
    for _ in range(40):
        X = es.ask()
        assert np.array_equal(X[:, [0, 2, 3, 5]], alone.ask())
        values = np.square(X[:, [0, 2, 3, 5]]) @ [1, 10, 100, 1000]
        es.tell(values)
        alone.tell(values)
    assert es.sigma == alone.sigma


def test_draws_have_the_probabilities_of_the_distribution():
    part = Categorical(np.array([2, 4]), 2, np.array([-1, 2]))
    np.testing.assert_allclose(part.q, [0.5, 0.5, 0.125, 0.125, 0.625, 0.125])
    drawn = part.draw(np.random.default_rng(1).random((20_000, 2)))
    # one false alarm in ten thousand for each of the two
    for column, q in ((0, part.q[:2]), (1, part.q[2:])):
        counts = np.bincount(drawn[:, column], minlength=len(q))
        assert stats.chisquare(counts, 20_000 * q).pvalue > 1e-4


def test_random_selection_leaves_the_distribution_uniform_in_the_mean():
    # Over 200 distributions; the mean of q has a standard error of at most 0.5/sqrt(200) = 0.035 (a
    # probability scatters by at most 0.5), so 0.15 is more than four of them.
    generator = np.random.default_rng(2)
    last = []
    for _ in range(200):
        part = Categorical(np.array([3]), 1)
        for _ in range(30):
            part.learn(part.draw(generator.random((4, 1))), np.array([0.5, 0.3, 0.1, 0.1]))
        last.append(part.q.copy())
        assert part.q.sum() == pytest.approx(1)
        assert part.q.min() >= part.least[0] * (1 - 1e-9)
    assert np.abs(np.mean(last, axis=0) - 1 / 3).max() < 0.15


def test_no_value_is_ever_lost():
    part = Categorical(np.array([4, 2]), 6)
    for _ in range(500):
        part.learn(np.array([[2, 0]] * 3), np.array([0.5, 0.3, 0.2]))
    assert part.modes().tolist() == [2, 0]
    np.testing.assert_allclose(part.q[[0, 1, 3]], part.least[0], rtol=1e-6)
    assert part.q[5] == pytest.approx(part.least[4])


@pytest.mark.parametrize("method", ["pulse-full", "d-lm-ma-es", "lm-cma-es"])
def test_a_resumed_run_with_choices_equals_the_unbroken_one(method):
    unbroken, broken = advance(mixed(method), 30), advance(mixed(method), 15)
    broken.ask()
    resumed = mixed(method, rng=7)
    resumed.set_state(broken.get_state())
    advance(resumed, 15)
    there = resumed.get_state()
    for name, array in unbroken.get_state().items():
        assert np.array_equal(array, there[name]), name


def test_a_generation_without_values_is_redrawn_and_can_be_resumed():
    es = advance(mixed(), 3)
    X = es.ask().copy()
    es.tell(np.full(es.popsize, np.nan))
    other = mixed(rng=9)
    other.set_state(es.get_state())
    Y = es.ask()
    assert not np.array_equal(X, Y)
    assert np.array_equal(Y, other.ask())


def test_choices_alone_are_a_search_too():
    es = lmma.strategy("lm-ma-es", np.full(30, 0.5), 1.0, bounds=(0, 1), integrality=True, rng=1)
    assert es.choices is not None
    assert es.method.n == 0
    while es.best_fun > 0 and es.evaluations < 6000:
        es.tell(30 - es.ask().sum(axis=1))
    assert es.best_fun == 0
    X = es.ask()
    before = X.copy()
    es.resample([0, 1], 1)
    assert np.array_equal(X[2:], before[2:])


def test_injected_points_are_candidates_and_learned_from():
    es = mixed()
    es.inject([[0.1, 0.2, 0.3, 0.4, 1, 0, 3, 2], [0, 0, 0, 0, 1, 1, 3, 2]])
    saved = es.get_state()
    X = es.ask()
    assert X[-1].tolist() == [0, 0, 0, 0, 1, 1, 3, 2]
    assert X[-2].tolist() == [0.1, 0.2, 0.3, 0.4, 1, 0, 3, 2]
    again = mixed(rng=3)
    again.set_state(saved)
    assert np.array_equal(again.ask(), X)
    again = mixed(rng=3)
    again.set_state(es.get_state())  # between ask and tell: as before
    assert np.array_equal(again.ask(), X)
    es.tell(value(X))
    assert es.best_fun == 0
    assert len(es.injected) == 0
    with pytest.raises(ValueError, match="index of a value"):
        es.inject([0, 0, 0, 0, 1, 1, 7, 2])
    with pytest.raises(ValueError, match="within bounds"):
        es.inject([9, 0, 0, 0, 1, 1, 3, 2])


def test_a_start_that_is_a_value_is_preferred_at_first():
    es = make_strategy(lmma.LMMAES, [0.0, 2.0, -1.0], 1.0, categories={1: 4, 2: 4}, rng=1)
    np.testing.assert_allclose(
        es.choices.distribution.q, [0.125, 0.125, 0.625, 0.125, 0.25, 0.25, 0.25, 0.25]
    )


def test_two_values_of_an_integer_are_a_choice_and_keep_their_numbers():
    es = lmma.strategy("lm-ma-es", [0.0, 7.5], 1.0, bounds=[(-1, 1), (7, 8)], integrality=[0, 1], rng=1)
    assert es.choices is not None
    assert set(es.ask()[:, 1].tolist()) == {7.0, 8.0}


def test_a_strategy_like_it_is_made_from_its_recipe():
    for es in (
        mixed(),
        lmma.strategy("lm-ma-es", np.zeros(4), 1.0, bounds=(-3, 3), integrality=[0, 1, 1, 0]),
    ):
        cls, options = es.recipe()
        twin = cls(np.zeros(es.n), 1.0, rng=3, **options)
        twin.set_state(es.get_state())
        assert np.array_equal(twin.ask(), es.ask())


def test_one_value_is_not_a_choice():
    with pytest.raises(ValueError, match="coordinate 1 must have at least two values"):
        make_strategy(lmma.LMMAES, [0.0, 0.0], 1.0, categories={1: 1})


def test_numbers_next_to_choices_use_constraints_by_ranks_only():
    es = make_strategy(lmma.PulseFull, np.ones(5), 1.0, categories={4: 3}, rng=1)
    es.constrain(handling="rank")
    before = es.method.mean.copy()
    X = es.ask()[:, :4].copy()
    violated = 1.0 + np.arange(es.popsize)[::-1]  # by all, and by the last candidate least
    es.tell(np.zeros(es.popsize), constraints=violated)
    weights = es.method.parameters.weights
    best = X[::-1][: len(weights)]
    # The mean of the better half: weights against the worse one would flee from where feasible points are
    assert np.allclose(es.method.mean, weights @ best / weights.sum(), rtol=0, atol=1e-12)
    assert not np.allclose(es.method.mean, before)


BEARS = np.array([1.0, 1.6, 2.7, 4.4, 7.0, 11.0, 18.0])  # what each of seven standard sections bears
NEEDS = np.random.default_rng(0).uniform(1.2, 15, 20)


def members(x):
    section = x.astype(int)
    return float((BEARS**1.1)[section].sum()), NEEDS / BEARS[section] - 1


@pytest.mark.parametrize("seed", [2, 3, 4])  # without ranks infeasible, or far from the optimum
def test_ranks_take_over_where_multipliers_balance_between_integers(seed):
    result = lmma.minimize(
        members, np.full(20, 3.0), bounds=(0, 6), integrality=True, rng=seed, maxfevals=8000,
        constraints=lmma.constraints.Returned(),
    )  # fmt: skip
    assert result.maxcv == 0
    assert result.fun == pytest.approx((BEARS**1.1)[np.searchsorted(BEARS, NEEDS)].sum())
