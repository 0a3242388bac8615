"""coordinates: additivity, its match with a sequential listing, resuming, bounds, failures and endings."""

import math
import shutil
import zlib
from functools import cache

import numpy as np
import pytest

import lmma
from lmma import problems
from lmma.methods import coordinates, gate, strategy_class
from lmma.methods.coordinates import Phase, count_valleys, minimum_of_parabola
from lmma.numerics.value_noise import ValueNoise, longest_run
from lmma.run.checkpoint import Checkpoint
from oracle_coordinates import search


def six_digits(X, f):
    return np.array([float(f"{value:.6g}") for value in f])


def failing(share):
    """Fail for a share of the points, by a checksum of their coordinates."""

    def fail(X, f):
        sums = np.array([zlib.crc32(x.tobytes()) for x in X])
        return np.where(sums % 100 < 100 * share, np.nan, f)

    return fail


def noisy(X, f):
    """Add noise of 1e-6, a function of the point."""
    random = [np.random.default_rng(zlib.crc32(x.tobytes())).standard_normal() for x in X]
    return f * (1 + 1e-6 * np.array(random))


SHOWN = {
    "exact": lambda X, f: f,
    "6 digits": six_digits,
    "noise": noisy,
    "float32": lambda X, f: f.astype(np.float32).astype(float),
    "failures": failing(0.05),
    "many failures": failing(0.5),
    "offset": lambda X, f: f + 100,
}


def deceptive(X):
    """Narrow valleys right of the minimum, wide ones left of it, as in bbob's f4."""
    Z = np.where(X > 1.3, 10 * (X - 1.3), X - 1.3)
    return np.sum(Z**2 + 10 * (1 - np.cos(2 * np.pi * Z)), axis=1)


OTHERS = {
    "kinks": lambda X: np.sum(np.abs(X - 0.3) * np.arange(1, X.shape[1] + 1), axis=1),
    "deceptive": deceptive,
    "far": lambda X: np.sum((X - 30) ** 2 + 9 * (1 - np.cos(10 * (X - 30))), axis=1),
    "constant": lambda X: np.ones(len(X)),
    "steps": lambda X: np.sum(np.floor(10 * np.abs(X - 0.3)), axis=1),
    "maximum": lambda X: np.abs(X).max(axis=1),
    "all fail": lambda X: np.full(len(X), np.nan),
    "few work": lambda X: np.where(np.abs(X).sum(axis=1) > 1e-3, np.sum(X**2, axis=1), np.nan),
    "only x0 works": lambda X: np.where(np.all(start(X.shape[1]) == X, axis=1), 1.0, np.nan),
}
SUMS = ("sphere", "ellipsoid", "different-powers", "rastrigin")
COUPLED = ("rosenbrock", "rotated-ellipsoid")


def function(name, shown="exact"):
    fun = OTHERS[name] if name in OTHERS else problems.get(name).function
    return lambda X: SHOWN[shown](X, fun(X))


def start(n, seed=1, name=""):
    return np.zeros(n) if name == "few work" else np.random.default_rng(seed).uniform(-5, 5, n)


def strategy(n=8, seed=1, name="", sigma0=2.0, **options):
    return lmma.strategy("coordinates", start(n, seed, name), sigma0, **{"rng": seed} | options)


def advance(es, fun, most=100_000):
    """Run until the method ends."""
    while not es.method.stop() and es.evaluations < most:
        es.tell(fun(es.ask()))
    return es


def draws(es):
    """The random numbers of any batch of ``es``."""
    twin = lmma.strategy("coordinates", np.zeros(es.n), 1.0, rng=es.key)

    def draw(batch, stream):
        twin.method.generation = batch
        return twin.generator(stream)

    return draw


CASES = [
    *((name, shown, n) for name in SUMS for shown in SHOWN for n in (3, 8)),
    *((name, "exact", n) for name in (*OTHERS, *COUPLED) for n in (2, 7)),
    *(("deceptive", shown, 5) for shown in ("failures", "offset", "6 digits")),
    *((name, shown, 1) for name in ("sphere", "rastrigin") for shown in ("exact", "6 digits")),
]


@cache
def compare(name, shown, n, most=120):
    """Run strategy and listing side by side; return the phases and the endings."""
    fun, es = function(name, shown), strategy(n, name=name)
    listing = search(start(n, name=name), 2.0, draws(es))
    with np.errstate(all="ignore"):
        rows, phases = next(listing), []
        while es.generation < most:
            scan = es.method.scan
            phases.append(es.method.phase)
            phases += ["zoom"] * (scan.zooms > 0) + ["beyond"] * (scan.extension > 0)
            X = es.ask()
            np.testing.assert_array_equal(X, rows, err_msg=f"batch {es.generation}")
            values = fun(X)
            es.tell(values)
            try:
                rows = listing.send(values)
            except StopIteration as end:
                return phases, list(es.method.stop()), [end.value]
            assert not es.method.stop()
    return phases, [], []


@pytest.mark.parametrize(("name", "shown", "n"), CASES)
def test_every_batch_is_that_of_the_sequential_listing(name, shown, n):
    _, reasons, wanted = compare(name, shown, n)
    assert reasons == wanted


def test_these_cases_have_every_phase_and_every_ending():
    seen, ended = set(), set()
    for case in CASES:
        phases, reasons, _ = compare(*case)
        seen |= set(phases)
        ended |= set(reasons)
    assert seen == set(Phase) - {Phase.ENDED} | {"zoom", "beyond"}
    assert ended == {"converged", "not_additive", "flat", "failures"}


# Additivity


def look(fun, x, points, errors=None):
    """The gate's decision about additivity."""
    halves = gate.halves(np.random.default_rng(2), x, points)
    return gate.judge_additivity(fun(points), fun(halves), float(fun(x[None])[0]), errors or ValueNoise())


def displaced(n, rows=4, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, n)
    return x, x + rng.uniform(0.5, 1, (rows, n)) * rng.choice([-1, 1], (rows, n))


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("name", [*SUMS, "rotated-sphere", "kinks", "steps", "deceptive"])
def test_sums_are_additive(name, n):
    found = look(function(name), *displaced(n))
    assert found.additive
    assert found.decided
    assert found.interaction < 1e-14


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("name", [*COUPLED, "rotated-cigar", "rotated-rastrigin", "maximum"])
def test_others_are_not_additive(name, n):
    found = look(function(name), *displaced(n))
    assert (found.additive, found.decided) == (False, True)
    assert found.interaction > 1e-6


@pytest.mark.parametrize("shown", ["6 digits", "noise", "float32"])
def test_additivity_follows_the_errors_of_values(shown):
    errors = ValueNoise()
    errors.relative = {"6 digits": 3e-6, "noise": 1e-6, "float32": 3e-8}[shown]
    x, points = displaced(10)
    found = look(function("rastrigin", shown), x, points, errors)
    assert found.additive
    assert found.interaction < 1e-4
    as_if_exact = look(function("rastrigin", shown), x, points)
    assert as_if_exact.additive == (shown == "float32")  # errors below 1e-6
    assert not look(function("rosenbrock", shown), x, points, errors).additive


def test_without_enough_values_additivity_is_undecided():
    x, points = displaced(10)
    errors = ValueNoise()
    errors.relative = 1e-2  # hides all differences
    for fun, noise in [
        (OTHERS["constant"], None), (function("rastrigin"), errors), (OTHERS["all fail"], None),
        (lambda X: np.where(np.arange(len(X)) % 4 > 0, np.nan, X[:, 0]), None),
    ]:  # fmt: skip
        found = look(fun, x, points, noise)
        assert (found.additive, found.decided) == (False, False)


def test_failed_rows_are_left_out_of_the_look():
    x, points = displaced(10)
    fun = function("ellipsoid")
    assert look(lambda X: np.where(np.arange(len(X)) == 1, np.nan, fun(X)), x, points).additive


def test_halves_divide_the_coordinates_that_move():
    x, points = displaced(9)
    points[:, :3] = x[:3]  # fixed ones
    one, other = np.split(gate.halves(np.random.default_rng(1), x, points), 2)
    assert np.all((one == x) | (one == points))
    assert np.array_equal(one + other, x + points)
    assert np.all(np.count_nonzero(one != x, axis=1) == 3)
    assert len({tuple(row) for row in one != x}) > 1


# Parts


def test_a_failure_on_the_line_is_not_taken_for_noise():
    line = (1 + 1e-3 * np.arange(8.0)) ** 2
    line[5] = np.nan
    assert longest_run(line).tolist() == line[:5].tolist()
    errors = ValueNoise()
    errors.measure(line, 1.0)
    assert errors.relative < 1e-15
    assert longest_run(np.full(8, np.nan)).size == 0


def test_valleys_are_counted_with_ends_and_without_noise():
    t = np.linspace(0, 1, 40)
    columns = [t, -t, (t - 0.3) ** 2, np.cos(20 * t), -((t - 0.5) ** 2), 0 * t, t + 1e-3 * np.cos(99 * t)]
    assert count_valleys(np.column_stack(columns), 0.01).tolist() == [1, 1, 1, 4, 2, 1, 1]
    gaps = np.where(np.arange(40) % 5 == 2, np.nan, np.cos(20 * t))
    assert count_valleys(gaps[:, None], 0.01) == 4


def test_the_minimum_of_a_parabola_is_exact_for_any_two_points():
    a, b = np.array([1.0, 1.0, -0.5, 2.0]), np.array([-1.0, -0.3, -1.0, 1.0])
    values = [3 * (t - 0.7) ** 2 - 3 * 0.49 for t in (a, b)]
    move, curvature = minimum_of_parabola(a, b, *values)
    np.testing.assert_allclose(move, 0.7)
    np.testing.assert_allclose(curvature, 6.0)


@pytest.mark.parametrize(("rise", "other", "move"), [
    (-1.0, -2.0, -2.0), (math.inf, -1.0, -2.0), (math.inf, 1.0, 0.5), (-1.0, 1.0, 2.0),
])  # fmt: skip
def test_without_a_parabola_the_move_goes_beyond_the_better_point(rise, other, move):
    with np.errstate(all="ignore"):
        found = minimum_of_parabola(np.ones(1), -np.ones(1), np.array([rise]), np.array([other]))
    assert (found[0][0], found[1][0]) == (move, 0.0)


# Resuming and batches


RESUMED = {
    "scanned": ({"n": 3}, function("rastrigin")),
    "failures": ({"n": 5}, function("ellipsoid", "many failures")),
    "few digits": ({"n": 5}, function("ellipsoid", "6 digits")),
    "beyond": ({"n": 2}, OTHERS["far"]),
    "zoom": ({"n": 2}, OTHERS["deceptive"]),
    "x0 fails": ({"name": "few work"}, function("few work")),
    "coupled": ({"n": 4}, function("rosenbrock")),
    "bounds": ({"bounds": [(-5.5, 6)] * 5 + [(-6, None), (None, 6), (-6, 7)]}, OTHERS["kinks"]),
    "float32": ({"n": 4, "dtype": "float32"}, function("ellipsoid")),
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_search_resumed_after_any_batch_is_the_same_bit_for_bit(case):
    options, fun = RESUMED[case]
    es = strategy(**options)
    while not es.method.stop() and es.generation < 80:
        twin = strategy(**options | {"seed": 5, "name": "few work"})
        twin.set_state(es.get_state())
        X = es.ask()
        np.testing.assert_array_equal(twin.ask(), X)
        values = fun(X)
        es.tell(values)
        twin.tell(values)
        mine, theirs = es.get_state(), twin.get_state()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)


def test_neither_search_nor_random_numbers_depend_on_the_size_of_batches(monkeypatch):
    whole = advance(strategy(6), OTHERS["deceptive"])
    monkeypatch.setattr(coordinates, "BATCH_BYTES", 8 * 6 * 20)  # 20 rows
    divided, largest = strategy(6), 0
    while not divided.method.stop():
        X = divided.ask()
        largest = max(largest, len(X))
        divided.tell(OTHERS["deceptive"](X))
    assert largest == 20
    assert divided.generation > 1.5 * whole.generation
    assert divided.evaluations == whole.evaluations
    np.testing.assert_array_equal(divided.best_x, whole.best_x)


def end_of(result):
    mean = np.asarray(result.mean).tobytes()
    return result.x.tobytes(), result.fun, mean, result.sigma, result.nfev, result.nit, result.reason


def waves(x):
    return float(np.sum((x - 0.3) ** 2 + 3 * (1 - np.cos(4 * (x - 0.3)))))


def run(fun=waves, x0=(3.0, -2.0, 4.0, -1.0), sigma0=2.0, **options):
    return lmma.minimize(fun, np.array(x0), sigma0, method="coordinates", **{"rng": 1} | options)


@pytest.mark.parametrize("options", [{}, {"bounds": [-5, 5]}, {"maxfevals": 700}], ids=str)
def test_a_run_resumed_from_any_checkpoint_equals_the_unbroken_one(options, tmp_path):
    copies = []

    def keep(x):
        if file.exists():
            copies.append(shutil.copy(file, tmp_path / f"{len(copies)}.npz"))

    file = tmp_path / "run.npz"
    whole = run(**options)
    run(checkpoint=Checkpoint(file, every=0), callback=keep, **options)
    assert whole.nit >= len(copies) > 15
    for copy in copies[::3]:
        assert end_of(run(checkpoint=copy, **options)) == end_of(whole)


def test_a_state_that_contradicts_itself_is_rejected():
    es = strategy()
    for _ in range(5):
        es.tell(function("rastrigin")(es.ask()))
    assert es.method.phase == Phase.SCAN
    state = es.get_state()
    rows = len(state["plan.columns"])
    for name, wrong in {
        "plan.points": np.zeros((1, 8)), "plan.columns": np.full(rows, 8), "plan.places": np.zeros(3),
        "plan.told": np.zeros(rows), "scan.columns": np.full(8, 8), "scan.low": np.zeros(3),
        "scan.last_places": np.zeros((2, 3)), "phase": int(Phase.SWEEP), "ending": 1,
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            strategy().set_state(state | {name: wrong})


def test_any_number_of_workers_gives_the_same_run():
    alone = run()
    assert alone.fun < 1e-12
    assert end_of(run(workers=2)) == end_of(alone)


# Hand-over


def test_a_search_that_begins_with_known_errors_and_additivity_measures_neither():
    fun, es, errors = function("rastrigin"), strategy(8), ValueNoise()
    errors.relative = 1e-7
    es.method.begin_at(float(fun(es.mean[None])[0]), errors, additive=True)
    assert es.method.phase == Phase.VALLEYS
    assert es.method.errors.relative == 1e-7
    assert advance(es, fun).best_fun < 1e-10
    other = strategy(8)
    other.method.begin_at(float(fun(other.mean[None])[0]), additive=True)
    assert other.method.phase == Phase.NOISE
    other.tell(fun(other.ask()))
    assert other.method.phase == Phase.VALLEYS
    assert advance(other, fun).best_fun < 1e-10


def test_another_search_gets_steps_between_a_thousandth_and_a_tenth_of_the_ranges():
    bounds = [(-5, 5)] * 7 + [(1, 1)]
    es = lmma.strategy("coordinates", np.ones(8), 2.0, bounds=bounds, rng=1)
    fun = function("ellipsoid")
    while es.method.phase != Phase.SWEEP:
        es.tell(fun(es.ask()))
    assert es.method.typical_gain() >= 0
    assert np.all(es.method.root() == np.r_[np.full(7, 1.0), 2.0])
    advance(es, fun)
    assert np.all(es.method.root() == np.r_[np.full(7, 0.01), 2.0])
    record = es.method.metric()
    np.testing.assert_array_equal(record.mean, es.mean)
    np.testing.assert_allclose(record.sigma * record.diagonal, es.method.root(), rtol=1e-14)
    np.testing.assert_allclose(es.sigma * es.result.hess_inv.deviations(), es.method.root(), rtol=1e-14)
    assert np.all(strategy(3).method.root() == 2.0)
    assert es.method.typical_gain() > 0


def test_rows_left_count_all_rows_up_to_the_joint_point():
    es, fun = strategy(6), function("rastrigin")
    left = []
    while es.method.scan.zooms == 0:
        phase = es.method.phase
        left.append((phase, es.method.rows_left, es.evaluations))
        es.tell(fun(es.ask()))
        if phase == Phase.JOINT:
            done = es.evaluations
            assert all(rows + at == done for last, rows, at in left if last in (Phase.GOLDEN, Phase.PARABOLA))
            assert all(rows + at >= done for last, rows, at in left if last in (Phase.SCAN, Phase.SWEEP))
            left.clear()


def test_a_small_budget_makes_scans_coarser():
    fun = function("rastrigin")
    levels = {}
    for budget in (59, 80, 120, 1000):
        es = strategy(20)
        es.limit(20 * budget)
        while es.method.phase != Phase.SWEEP:
            es.tell(fun(es.ask()))
        levels[budget] = es.method.scan.levels
        assert es.evaluations + es.method.rows_left < 20 * budget
    assert levels[59] == 0 < levels[80] < levels[120] < levels[1000] == 200


# Runs


@pytest.mark.parametrize("n", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("bounds", [None, [-5, 5]])
def test_rastrigin_is_solved_from_random_starts(n, bounds):
    for seed in range(3):
        es = advance(strategy(n, seed, bounds=bounds), function("rastrigin"))
        assert es.best_fun < 1e-8
        assert es.evaluations < 400 * n + 200


@pytest.mark.parametrize("n", [2, 5, 40])
def test_narrow_valleys_among_wide_ones_are_found(n):
    for seed in range(3):
        es = strategy(n, seed, bounds=[-5, 5])
        while not es.stop():
            es.tell(OTHERS["deceptive"](es.ask()))
        assert es.best_fun < 1e-8


def test_an_ellipsoid_of_1000_variables_is_solved_with_few_evaluations():
    es = strategy(1000)
    fun = function("ellipsoid")
    while es.best_fun > 1e-10:
        es.tell(fun(es.ask()))
    assert es.evaluations < 12_000  # 3 sweeps and the looks


def test_memory_is_that_of_a_batch_for_100_000_variables():
    n = 100_000
    es = strategy(n)
    largest = 0
    while es.method.phase != Phase.SCAN and es.generation < 40:
        X = es.ask()
        largest = max(largest, X.nbytes)
        es.tell(np.sum(np.square(X), axis=1))
    assert es.method.phase == Phase.VALLEYS
    assert largest <= 2**26
    state = sum(np.size(value) for value in es.get_state().values())
    assert state < 100 * n
    assert es.memory(n, es.popsize) < 3 * 2**26 + 8 * 100 * n


@pytest.mark.parametrize("shown", ["6 digits", "noise", "float32", "offset"])
@pytest.mark.parametrize("name", ["ellipsoid", "rastrigin"])
@pytest.mark.parametrize("least", [0.0, 100.0])
def test_errors_of_values_do_not_prevent_an_end(name, shown, least):
    exact = function(name)
    es = advance(strategy(10), lambda X: SHOWN[shown](X, exact(X) + least), most=20_000)
    assert list(es.method.stop()) == ["converged"]
    assert float(exact(es.mean[None])[0]) < 1e-3 * max(least, 1e-9)


@pytest.mark.parametrize("name", SUMS)
def test_failures_of_a_twentieth_of_the_points_are_worked_around(name):
    for seed in range(3):
        assert advance(strategy(10, seed), function(name, "failures")).best_fun < 1e-8


@pytest.mark.parametrize("failed", [math.nan, math.inf, -math.inf])
def test_failures_of_any_kind_are_worked_around(failed):
    rng = np.random.default_rng(1)
    result = run(lambda x: failed if rng.random() < 0.05 else waves(x), maxfevals=3000)
    assert result.fun < 1e-8
    assert math.isfinite(result.fun)


@pytest.mark.parametrize(("options", "words"), [
    ({"constraints": lambda x: 1 - x[0]}, "does not support constraints=: remove it, or set method='auto'"),
    ({"noise": "mix"}, "does not support noise=: remove it"),
    ({"integrality": [1, 0, 0, 0]}, r"does not support integers \(integrality=\): remove it"),
])  # fmt: skip
def test_what_is_not_supported_is_refused_with_a_remedy(options, words):
    with pytest.raises((ValueError, TypeError), match=f"^coordinates {words}"):
        run(**options)


@pytest.mark.parametrize(("fun", "reason", "success"), [
    (waves, "converged", True),
    (lambda x: 3.0, "flat", False),
    (lambda x: math.nan, "failures", False),
    (lambda x: float(np.sum(x)), "diverged", False),
    (lambda x: waves(x) + 1e6, "converged", True),
    (lambda x: float(np.sum(x)) ** 2 + waves(x), "not_additive", False),
    (lambda x: float(np.abs(x).max()), "not_additive", False),
], ids=["smooth", "constant", "failures", "unbounded", "offset", "coupled", "kink"])  # fmt: skip
def test_every_ending_is_true(fun, reason, success):
    result = run(fun, tolx=0, tolfun=0, stagnation=False, maxfevals=20_000)
    assert (result.reason, result.success) == (reason, success)


def test_a_function_that_is_no_sum_ends_soon_and_names_the_remedy():
    result = run(lambda x: float(100 * np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum((1 - x[:-1]) ** 2)))
    assert result.reason == "not_additive"
    assert result.nfev < 600
    assert "fun is not a sum of functions of one variable each" in result.message
    assert "method='auto'" in result.message


def test_a_valley_along_which_coordinates_creep_is_given_up():
    es = advance(strategy(2), function("rotated-ellipsoid"))
    assert list(es.method.stop()) == ["not_additive"]
    assert es.evaluations < 400


def test_a_coordinate_whose_points_both_fail_does_not_rest():
    es = strategy(3)
    while es.method.phase != Phase.SWEEP or es.method.sweep.count < 2:
        es.tell(function("ellipsoid")(es.ask()))
    X = es.ask()
    values = function("ellipsoid")(X)
    values[~np.isclose(X[:, 1], es.mean[1], rtol=0, atol=0)] = np.nan
    es.tell(values)
    while es.method.phase != Phase.SWEEP:
        es.tell(function("ellipsoid")(es.ask()))
    assert es.method.sweep.active[1]


def test_gains_of_rounded_values_are_not_called_dependence():
    for seed in range(20):
        es = advance(strategy(20, seed), lambda X: np.round(np.sum(X**2, axis=1), 9))
        assert list(es.method.stop()) == ["converged"]


def test_the_value_at_x_is_that_of_an_evaluation():
    for n in (1, 4):
        es, fun = strategy(n), function("rastrigin")
        while not es.method.stop():
            es.tell(fun(es.ask()))
            assert es.method.f in (math.inf, float(fun(es.mean[None])[0]))


def test_numbers_beyond_floats_end_the_search():
    result = run(lambda x: 1e300 * float(np.exp(min(x @ x, 700.0))), [1.0] * 4)
    assert result.reason in ("numerical", "converged", "not_additive", "flat")
    assert math.isfinite(result.fun)


@pytest.mark.parametrize("sigma0", [1e-3, 1e3])
def test_a_wrong_initial_step_size_is_survived(sigma0):
    assert run(lambda x: float(np.sum((x - 9) ** 2 * np.arange(1, 5))), sigma0=sigma0).fun < 1e-12


def test_coordinates_without_effect_rest():
    es = advance(strategy(7), lambda X: X[:, 0] ** 2 - X[:, 6] ** 2 + X[:, 6] ** 4 / 9)
    assert es.best_fun == pytest.approx(-2.25)
    assert np.abs(es.mean).max() < 10


def test_values_matter_and_not_only_their_ranks():
    assert strategy_class("coordinates").uses_values
    a, b = (run(lambda x, k=k: waves(x) ** k, tolx=0, tolfun=0) for k in (1, 3))
    assert (a.reason, b.reason) == ("converged", "not_additive")


# Bounds


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("shown", ["exact", "6 digits"])
def test_an_optimum_on_faces_of_a_box_is_found_inside_it(n, shown):
    low, high, optimum = np.full(n, -1.0), np.full(n, 1.5), np.linspace(-3, 3, n)
    es = lmma.strategy("coordinates", np.full(n, 0.2), 0.6, bounds=[(-1, 1.5)] * n, rng=n)
    while not es.method.stop() and es.evaluations < 10_000:
        X = es.ask()
        assert np.all((low <= X) & (high >= X))
        es.tell(SHOWN[shown](X, 1 + np.sum((X - optimum) ** 2, axis=1)))
    assert list(es.method.stop()) == ["converged"]
    np.testing.assert_allclose(es.mean, np.clip(optimum, -1, 1.5), atol=1e-6 if shown == "exact" else 1e-2)
    outside = (optimum < -1) | (optimum > 1.5)
    np.testing.assert_array_equal(es.mean[outside], np.clip(optimum, -1, 1.5)[outside])


def test_a_start_on_faces_leaves_them_in_one_sweep():
    for corner in (-1.0, 1.0):
        es = lmma.strategy("coordinates", np.full(4, corner), 0.5, bounds=[-1, 1], rng=1)
        while es.method.sweep.count < 2:
            es.tell(np.sum((es.ask() - 0.6 * corner) ** 2, axis=1))
        assert es.best_fun < 1e-20


def test_fixed_coordinates_stay():
    es = lmma.strategy("coordinates", np.array([0.5, 3.0, -2.0]), 1.0, bounds=[(0.5, 0.5), (-9, 9), (-9, 9)])
    while not es.method.stop():
        X = es.ask()
        assert np.all(X[:, 0] == 0.5)
        es.tell(np.sum(X**2, axis=1))
    assert es.best_fun == pytest.approx(0.25)


def test_a_lowest_valley_at_the_end_of_a_range_is_followed_up_to_a_bound():
    fun = OTHERS["far"]
    free = advance(strategy(3), fun)
    np.testing.assert_allclose(free.best_x, 30, atol=1e-6)
    bounded = advance(strategy(3, bounds=[(None, 20)] * 3), fun)
    assert np.all(bounded.best_x <= 20)
    assert np.all(bounded.best_x > 19.5)
