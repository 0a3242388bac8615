"""The default: a gate, quasi-Newton search and an evolution strategy, and the changes between them."""

import math

import numpy as np
import pytest

import lmma
from lmma.methods import gate
from lmma.methods.convergence import CONVERGED
from lmma.methods.portfolio import Stage
from lmma.numerics.value_noise import ValueNoise

N = 6
START = np.random.default_rng(5).uniform(-3, 3, N)
ROTATION = np.linalg.qr(np.random.default_rng(6).standard_normal((N, N)))[0]


def sphere(X):
    return (X**2).sum(axis=-1)


def ellipsoid(X):
    return X**2 @ 10.0 ** np.linspace(0, 6, X.shape[-1])


def rosenbrock(X):
    return ((1 - X[..., :-1]) ** 2 + 100 * (X[..., 1:] - X[..., :-1] ** 2) ** 2).sum(axis=-1)


def rastrigin(X):
    return (X**2 - 10 * np.cos(2 * np.pi * X) + 10).sum(axis=-1)


def rotated_rastrigin(X):
    return rastrigin(X @ ROTATION)


def six_digits(X):
    return np.array([float(f"{value:.5e}") for value in np.atleast_1d(rastrigin(X))])


def noisy_in_the_sixth_digit(X):
    bits = np.frombuffer(np.ascontiguousarray(X).tobytes(), dtype=np.uint64).reshape(len(X), -1)
    numbers = (np.bitwise_xor.reduce(bits * np.uint64(0x9E3779B97F4A7C15), axis=1) >> np.uint64(11)) / 2.0**53
    return rastrigin(X) * (1 + 1e-6 * (2 * numbers - 1))


def kinked(X):
    return np.abs(X).sum(axis=-1)


def stairs(X):
    return np.floor(4 * np.abs(X)).sum(axis=-1)


def rotated_stairs(X):
    return stairs(X @ ROTATION)


def kinked_far_away(X):
    """Kinks outside, a bowl inside: an evolution strategy first, slopes later."""
    return np.where(np.abs(X) < 0.5, X**2, 10 * np.abs(X) - 4.75).sum(axis=-1)


def valley(X):
    """A narrow curved valley with six digits, in which slopes creep."""
    return np.array([float(f"{value:.5e}") for value in np.atleast_1d(rosenbrock(X))])


def strategy(x0=START, sigma0=1.0, **options):
    return lmma.strategy("portfolio", x0, sigma0, **{"rng": 1} | options)


def run(es, fun, batches=10**6, budget=10**6):
    while not es.stop() and batches > 0 and es.evaluations < budget:
        es.tell(fun(es.ask()))
        batches -= 1
    return es


# The gate


def decision(f, plus_far, minus_far, plus_near, minus_near, far, near, noise):
    """Return G as the docstring of the gate defines it, line by line; NaN for failures."""
    logarithms = []
    for a, b, c, d in zip(plus_far, minus_far, plus_near, minus_near, strict=True):
        if any(math.isnan(value) for value in (a, b, c, d)):
            continue
        curved_far = (a + b - 2 * f) / far**2
        curved_near = (c + d - 2 * f) / near**2
        ratio = min(max(abs(curved_near) / max(abs(curved_far), 1e-300), 1e-4), 1e4)
        hidden = 6 * noise * max(abs(f), abs(a), abs(b), abs(c), abs(d)) / near**2
        if abs(curved_near - curved_far) <= hidden or max(abs(curved_near), abs(curved_far)) <= hidden:
            ratio = 1.0
        logarithms.append(math.log(ratio))
    return sum(logarithms) / len(logarithms) if logarithms else math.inf


@pytest.mark.parametrize("seed", range(20))
def test_the_gate_matches_its_definition(seed):
    rng = np.random.default_rng(seed)
    far = 10.0 ** rng.uniform(0, 4)
    values = 3 + rng.standard_normal((4, 3)) * np.array([[far], [far], [1e-3 * far], [1e-3 * far]])
    if seed % 3 == 0:
        values[rng.integers(4), 1] = np.nan
    errors = ValueNoise()
    errors.relative = 10.0 ** rng.uniform(-12, -4)
    verdict = gate.judge(values.ravel(), 3.0, gate.AT_START, errors, one_sided=False)
    expected = decision(3.0, *values, *gate.AT_START, errors.relative)
    assert verdict.score == pytest.approx(expected, rel=1e-12)
    assert verdict.smooth == (math.log(0.1) <= expected <= math.log(4))


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize(
    ("fun", "smooth"), [(sphere, True), (ellipsoid, True), (kinked, False), (stairs, False)]
)
def test_the_gate_tells_smooth_functions_from_rough_ones(fun, smooth, one_sided):
    for seed in range(10):
        lines = gate.random_lines(np.random.default_rng(seed), 3, np.ones(N))
        points = gate.points(START, lines, gate.AT_START, None, one_sided=one_sided)
        verdict = gate.judge(fun(points), float(fun(START)), gate.AT_START, ValueNoise(), one_sided=one_sided)
        if fun is kinked and verdict.smooth:  # no line has met a kink
            assert abs(verdict.score) < 1e-6 or one_sided
            continue
        assert verdict.smooth == smooth


def test_points_of_a_look_stay_in_the_box():
    rng = np.random.default_rng(1)
    limits = np.zeros(N), np.ones(N)
    for _ in range(50):
        centre = np.where(rng.random(N) < 0.5, rng.random(N), np.round(rng.random(N)))
        lines, one_sided = gate.inside(centre, gate.random_lines(rng, 3, np.ones(N)), 0.3, limits)
        points = gate.points(centre, lines, gate.AT_START, limits, one_sided=one_sided)
        assert points.min() >= 0
        assert points.max() <= 1
        apart = points.reshape(4, 3, N) - centre
        np.testing.assert_allclose(apart[1], (2 if one_sided else -1) * apart[0], atol=1e-15)


# Who searches


def test_slopes_solve_a_smooth_function_in_a_few_evaluations():
    es = run(strategy(), ellipsoid)
    assert es.best_fun < 1e-15
    assert es.evaluations < 20 * N
    assert [name for _, name in es.turns][:2] == ["look", "quasi-newton"]
    assert not CONVERGED.isdisjoint(es.stop())


def test_a_rough_function_is_searched_by_ranks_as_if_there_were_nothing_else():
    es, alone = strategy(), lmma.PulseFull(START, 1.0, rng=1)
    stages = []
    while es.course.stage != Stage.RANKS:
        stages.append(Stage(es.course.stage))
        es.tell(rotated_stairs(es.ask()))
    assert stages == [Stage.LOOK, Stage.SPLIT, Stage.SUMS, Stage.SUMS]  # whole numbers hide the interaction
    for _ in range(10):
        X = es.ask()
        assert np.array_equal(X, alone.ask())
        es.tell(rotated_stairs(X))
        alone.tell(rotated_stairs(X))


def test_a_race_that_slopes_lose_leaves_the_evolution_strategy_untouched():
    es = strategy(sigma0=3.0)
    alone, attempts = None, 0
    while es.evaluations < 6000 and not es.stop():
        before = es.course.stage
        X = es.ask()
        values = rotated_rastrigin(X)
        if before == Stage.RANKS:
            if alone is None:
                alone = lmma.PulseFull(START, 3.0, rng=1)
                alone.set_state(es.ranks.get_state())
            assert np.array_equal(X, alone.ask())
            alone.tell(values)
        es.tell(values)
        if es.course.stage == Stage.REPLY or es.course.stage == Stage.SLOPES:
            alone = None
        attempts += before != Stage.ATTEMPT and es.course.stage == Stage.ATTEMPT
    assert attempts > 0


def test_slopes_are_tried_where_a_rough_function_becomes_smooth():
    es = run(strategy(np.full(N, 4.0), 0.5), kinked_far_away)
    names = [name for _, name in es.turns]
    assert es.best_fun < 1e-12
    assert es.evaluations < run(lmma.PulseFull(np.full(N, 4.0), 0.5, rng=1), kinked_far_away).evaluations
    assert "quasi-newton" in names


def test_a_search_that_ends_beside_a_minimum_is_begun_anew():
    es = strategy()
    while es.course.stage != Stage.SLOPES:
        es.tell(ellipsoid(es.ask()))
    method = es.slopes.method
    method._end("converged", 0.0)  # as a metric that has collapsed would
    best = es.best_fun
    es.tell(ellipsoid(es.ask()))
    assert es.course.stage == Stage.LAST_LOOK
    run(es, ellipsoid)
    assert es.best_fun < 1e-12 * best
    assert es.slopes.method is not method
    assert es.evaluations < 30 * N


def test_a_challenger_that_gains_nothing_is_given_up_early():
    es = strategy(np.random.default_rng(1).uniform(-5, 5, 20), 3.0)
    while es.course.stage != Stage.CHALLENGE:
        es.tell(rosenbrock(es.ask()))
    until, began = es.course.until, es.ranks.evaluations
    while es.course.stage == Stage.CHALLENGE:
        es.tell(rosenbrock(es.ask()))
        spent = es.course.by_ranks - began
    assert spent < until


def test_an_evolution_strategy_takes_over_where_slopes_are_stuck():
    es = strategy()
    while es.course.stage != Stage.SLOPES:
        es.tell(sphere(es.ask()))
    es.slopes.method._end("stuck", 1.0)
    es.tell(sphere(es.ask()))
    assert es.course.stage == Stage.RANKS
    assert es.slopes is None
    np.testing.assert_array_equal(es.ranks.mean, es.best_x)


def test_values_with_errors_are_searched_on_after_convergence():
    es = run(strategy(), lambda X: np.round(1 + sphere(X), 5))
    assert [name for _, name in es.turns if name in ("interpolation", "pulse-full")]
    assert es.best_fun < 1 + 1e-4


def test_interpolation_that_takes_a_kink_for_errors_ends():
    target = np.array([1.0, -2.0, 0.5, 3.0])

    def fun(X):
        return ((X - target) ** 2).sum(axis=-1) + np.abs(np.diff(X - target)).sum(axis=-1)

    for seed in range(1, 7):
        result = lmma.minimize(fun, np.zeros(4), 1.0, vectorized=True, rng=seed, maxfevals=20_000)
        assert result.success
        assert result.nfev < 10_000
        assert result.fun < 1e-9


def test_evaluations_are_counted_by_part():
    for fun in (sphere, rosenbrock, rastrigin, stairs):
        es = run(strategy(), fun, budget=4000)
        assert sum(es.shares.values()) == es.evaluations
    result = lmma.minimize(rastrigin, START, 1.0, vectorized=True, rng=1, restarts=3, maxfevals=5000)
    assert sum(result.parts.values()) == result.nfev
    assert result.history["slopes"][-1] == result.parts["slopes"]


# Sums over coordinates


@pytest.mark.parametrize("fun", [rastrigin, six_digits, noisy_in_the_sixth_digit])
@pytest.mark.parametrize("bounds", [[-5, 5], None])
def test_a_sum_with_many_valleys_is_solved_by_coordinates(fun, bounds):
    """A scan takes up to 200 levels, golden sections 18, sweeps some 35 evaluations per variable."""
    result = lmma.minimize(fun, START, 2.0, bounds=bounds, vectorized=True, rng=1)
    assert rastrigin(result.x) < 1e-6
    assert result.nfev < 400 * N
    assert result.parts["coordinates"] > result.nfev / 2
    assert result.success


@pytest.mark.parametrize("fun", [rotated_rastrigin, rotated_stairs, rosenbrock])
def test_what_is_no_sum_is_asked_once(fun):
    es, looks = strategy(sigma0=2.0), 0
    while not es.stop() and es.evaluations < 2000:
        X = es.ask()
        looks += es.course.stage == Stage.SPLIT
        assert es.course.stage != Stage.SUMS
        es.tell(fun(X))
    assert looks == 1


def test_slopes_in_separable_mode_are_not_asked_for_additivity():
    es = strategy()
    while not es.stop():
        es.tell(ellipsoid(es.ask()))
        assert es.course.stage != Stage.SPLIT


def test_a_sum_that_ends_early_hands_over_its_steps():
    """A sum, but for a hill where all coordinates are best: an evolution strategy continues."""

    def fun(X):
        return rastrigin(X) + 200 * np.exp(-(X**2).sum(axis=-1) / 2)

    es, stages = strategy(x0=np.full(N, 4.6), sigma0=2.0, bounds=[-5, 5]), []
    while not es.stop() and es.evaluations < 20_000:
        X = es.ask()
        stages.append(Stage(es.course.stage))
        es.tell(fun(X))
        if stages[-1] == Stage.SUMS and es.course.stage == Stage.RANKS:
            steps, best = np.broadcast_to(es.ranks.steps, N), es.best_fun
            assert steps.max() <= 1  # a tenth of the width
            assert np.array_equal(es.ranks.mean, es.best_x)
    assert Stage.RANKS in stages[stages.index(Stage.SUMS) :]
    assert es.best_fun <= best


@pytest.mark.parametrize("budget", [200, 400, 1000])
def test_a_sum_within_a_budget(budget):
    result = lmma.minimize(rastrigin, START, 2.0, bounds=[-5, 5], vectorized=True, rng=1, maxfevals=budget)
    assert result.nfev <= budget
    assert result.fun < float(rastrigin(START))


# Interruptions and limits


@pytest.mark.parametrize(
    ("fun", "batches"),
    [
        (ellipsoid, 40),
        (rosenbrock, 200),
        (rastrigin, 300),
        (rotated_rastrigin, 300),
        (six_digits, 200),
        (kinked_far_away, 200),
        (valley, 300),
    ],
)
def test_a_portfolio_resumed_after_any_batch_equals_the_unbroken_one(fun, batches):
    es, stages = strategy(), set()
    for number in range(batches):
        if es.stop():
            break
        other = strategy(np.zeros(N), 2.0, rng=9)
        other.set_state(es.get_state())
        X = es.ask()
        assert np.array_equal(X, other.ask()), number
        stages.add(Stage(es.course.stage))
        es.tell(fun(X))
        other.tell(fun(X))
        assert es.course.stage == other.course.stage
    assert len(stages) > 1


@pytest.mark.parametrize("fun", [sphere, rosenbrock, rastrigin])
@pytest.mark.parametrize("budget", [9, 13, 20, 30, 61, 200, 777])
def test_the_budget_is_kept_and_used(fun, budget):
    result = lmma.minimize(fun, START, 1.0, vectorized=True, rng=1, maxfevals=budget, tolx=0, tolfun=0)
    assert result.nfev <= budget
    if result.reason == "maxfevals":
        assert result.nfev > budget - 10


def test_workers_change_nothing():
    for fun in (rosenbrock, rastrigin):
        alone, pooled = (
            lmma.minimize(lambda x, fun=fun: float(fun(x)), START, 1.0, rng=3, maxfevals=600, workers=workers)
            for workers in (1, 2)
        )
        assert np.array_equal(alone.x, pooled.x)
        assert (alone.nfev, alone.fun, alone.parts) == (pooled.nfev, pooled.fun, pooled.parts)


def test_ranks_are_invariant_to_increasing_transforms_and_the_default_is_not():
    def transformed(X):
        return np.exp(rosenbrock(X) / 1e4)

    runs = [
        lmma.minimize(f, START, 1.0, vectorized=True, rng=1, maxiter=50, values="ranks")
        for f in (rosenbrock, transformed)
    ]
    assert np.array_equal(runs[0].mean, runs[1].mean)


def test_what_needs_ranks_is_searched_by_ranks():
    for options in (
        {"noise": "average"}, {"popsize": 12}, {"inject": START}, {"on_error": "resample"},
        {"integrality": [1] + [0] * (N - 1)}, {"constraints": lambda x: x[0] - 5.0}, {"values": "ranks"},
    ):  # fmt: skip
        result = lmma.minimize(lambda x: float(sphere(x)), START, 1.0, rng=1, maxiter=5, **options)
        assert "parts" not in result, options
    with pytest.raises(ValueError, match="values must be"):
        lmma.minimize(sphere, START, 1.0, values="slopes")


# Difficult functions: each ends with its best point and a message that is true


def ends(fun, x0=START, sigma0=1.0, **options):
    seen = []

    def watched(x):
        value = fun(x)
        if math.isfinite(value):
            seen.append(value)
        return value

    result = lmma.minimize(watched, x0, sigma0, **{"rng": 1, "maxfevals": 3000} | options)
    assert result.message
    assert result.fun == min(seen)
    assert result.fun == pytest.approx(fun(result.x))
    return result


def test_a_function_that_fails_away_from_the_start():
    result = ends(lambda x: float(sphere(x)) if np.abs(x - START).max() < 0.5 else math.nan)
    assert result.failures
    assert result.fun < sphere(START)


def test_a_start_that_fails():
    def fun(x):
        return math.nan if np.array_equal(x, START) else float(sphere(x))

    assert ends(fun).fun < 1e-8


def test_whole_numbers():
    assert ends(lambda x: float(np.round(sphere(10 * x)))).fun <= 5


def test_a_constant():
    result = ends(lambda x: 3.0)
    assert result.reason == "flat"
    assert not result.success


def test_minus_infinity_is_not_a_solution():
    result = ends(lambda x: -math.inf if x[0] > 2.5 else float(sphere(x)))
    assert result.fun < 1e-8


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("fun", [sphere, ellipsoid, rosenbrock])
def test_a_step_size_that_is_wrong_by_a_factor_of_a_thousand(fun, factor):
    result = ends(lambda x: float(fun(x)), sigma0=factor, maxfevals=20_000)
    assert result.fun < 1e-8 or abs(result.fun - 3.97) < 0.1  # the other minimum of Rosenbrock's function


def test_a_start_at_the_optimum():
    result = ends(lambda x: float(sphere(x)), x0=np.zeros(N))
    assert result.fun == 0
    assert result.success


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("fun", [sphere, rosenbrock, kinked, stairs])
def test_few_variables(fun, n):
    result = ends(lambda x: float(fun(x)), x0=np.full(n, 1.7))
    assert result.fun < 1e-6


@pytest.mark.parametrize("fun", [sphere, kinked, rastrigin])
def test_bounds_tighter_than_a_stencil(fun):
    low, high = START - 1e-7, START + 1e-7
    result = ends(lambda x: float(fun(x)), bounds=list(zip(low, high, strict=True)))
    corner = np.where(START > 0, low, high)
    if fun is not rastrigin:
        np.testing.assert_allclose(result.x, corner, atol=1e-12)
    assert np.all((result.x >= low) & (result.x <= high))


def test_noise_that_appears_near_the_optimum():
    rng = np.random.default_rng(3)
    result = lmma.minimize(
        lambda x: float(sphere(x)) + 1e-3 * rng.standard_normal(), START, 1.0, rng=1, maxfevals=3000
    )
    assert sphere(result.x) < 0.02


def test_noise_is_found_by_default():
    rng = np.random.default_rng(7)
    result = lmma.minimize(
        lambda X: sphere(X) + rng.standard_normal(len(X)), np.ones(20), 1.0, vectorized=True, rng=1,
        maxfevals=40_000,
    )  # fmt: skip
    assert result.noise["found"]
    assert sphere(result.x) < 0.1
    assert "average" in result.message
