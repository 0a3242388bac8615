"""quasi-newton: the phases match a sequential listing, resume anywhere, and end with a true message."""

import math
import shutil
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

import lmma
from lmma import problems
from lmma.methods import quasi_newton, strategy_class
from lmma.methods.quasi_newton import Phase
from lmma.numerics.value_noise import ValueNoise, difference_noise, printed_digits
from lmma.run.checkpoint import Checkpoint
from oracle_quasi_newton import search


def six_digits(X, f):
    return np.array([float(f"{value:.6g}") for value in f])


def some_fail(X, f):
    """Fail for a twentieth of the points, by the last digits of their coordinates."""
    digits = np.array([int(abs(float(x.sum())) * 1e12) for x in X])
    return np.where(digits % 20 == 7, np.nan, f)


SHOWN = {
    "exact": lambda X, f: f,
    "6 digits": six_digits,
    "float32": lambda X, f: f.astype(np.float32).astype(float),
    "failures": some_fail,
    "offset": lambda X, f: f + 1e6,
    "counts": lambda X, f: np.round(f / 50),
}
OTHERS = {
    "kinks": lambda X: np.sum(np.abs(X) ** 1.2 * np.arange(1, X.shape[1] + 1), axis=1),
    "steep kink": lambda X: np.abs(X).max(axis=1),
    "constant": lambda X: np.ones(len(X)),
    "saddle": lambda X: X[:, 0] ** 2 - X[:, 1] ** 2 + X[:, 1] ** 4 / 9 + np.sum(X[:, 2:] ** 2, axis=1),
    "all fail": lambda X: np.full(len(X), np.nan),
    "few work": lambda X: np.where(np.abs(X).sum(axis=1) > 1e-3, np.sum(X**2, axis=1), np.nan),
}
FUNCTIONS = ("sphere", "ellipsoid", "rotated-ellipsoid", "rosenbrock", "different-powers")


def function(name, shown="exact"):
    fun = OTHERS[name] if name in OTHERS else problems.get(name).function
    return lambda X: SHOWN[shown](X, fun(X))


def start(n, seed=1, name=""):
    return np.zeros(n) if name in ("saddle", "few work") else np.random.default_rng(seed).uniform(-5, 5, n)


def strategy(n=8, seed=1, name="", **options):
    return lmma.strategy("quasi-newton", start(n, seed, name), 3.0, **{"rng": seed} | options)


MODELS = {"matrix": {"MATRIX_UP_TO": 1000}, "pairs, in blocks of rows": {"MATRIX_UP_TO": 0, "BATCH_BYTES": 0}}


def using(model):
    """Use this model for any number of variables, and the smallest batches."""
    return patch.multiple(quasi_newton, **MODELS[model])


@pytest.fixture(params=MODELS)
def model(request):
    """Run a test with each model."""
    with using(request.param):
        yield request.param


def evaluate_phase(es, fun):
    """Ask and tell until the phase of ``es`` is complete; return all points and values."""
    X, values, last = [], [], False
    while not last:
        last = not es.method.continues
        X.append(es.ask())
        values.append(fun(X[-1]))
        es.tell(values[-1])
    return np.concatenate(X), np.concatenate(values)


def draws(es):
    """The random numbers of any batch of ``es``."""
    twin = lmma.strategy("quasi-newton", np.zeros(es.n), 1.0, rng=es.key)

    def draw(batch, stream):
        twin.method.generation = batch
        return twin.generator(stream)

    return draw


CASES = [
    *((name, shown, n) for name in FUNCTIONS for shown in SHOWN for n in (3, 8)),
    *((name, "exact", n) for name in OTHERS for n in (2, 7)),
    ("rotated-ellipsoid", "failures", 20),
]


@cache
def compare(model, name, shown, n, most=1500):
    """Run strategy and listing side by side; return the phases and the ending."""
    with using(model):
        return _compare(model, name, shown, n, most)


def _compare(model, name, shown, n, most):
    fun, es = function(name, shown), strategy(n, name=name)
    listing = search(start(n, name=name), 3.0, draws(es), pairs_only=model != "matrix")
    rows, phases = next(listing), []
    while len(phases) < most:
        phases.append(es.method.phase)
        X, values = evaluate_phase(es, fun)
        np.testing.assert_array_equal(X, rows, err_msg=f"phase {len(phases)}, {phases[-1]!r}")
        with np.errstate(all="ignore"):
            try:
                rows = listing.send(values)
            except StopIteration as end:
                return phases, list(es.method.stop()), [end.value]
        assert not es.method.stop()
    return phases, [], []


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("name", "shown", "n"), CASES)
def test_every_phase_is_that_of_the_sequential_listing(model, name, shown, n):
    _, reasons, wanted = compare(model, name, shown, n)
    assert reasons == wanted


@pytest.mark.parametrize("model", MODELS)
def test_these_cases_have_every_phase_and_every_ending(model):
    seen, ended = set(), set()
    for case in CASES:
        phases, reasons, _ = compare(model, *case)
        seen |= set(phases)
        ended |= set(reasons)
    assert seen == set(Phase) - {Phase.ENDED, Phase.HANDED}
    assert ended == {"converged", "stuck", "flat", "failures"}


# Resuming


def bowl(X):
    """A rotated quadratic whose minimum lies outside the box [-1, 1]^n."""
    n = X.shape[1]
    R = np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))[0]
    return np.square((X - np.linspace(-3, 3, n)) @ R) @ np.logspace(0, 3, n)


RESUMED = {
    "exact": ({}, function("rotated-ellipsoid")),
    "failures": ({}, function("rosenbrock", "failures")),
    "few digits": ({}, function("ellipsoid", "6 digits")),
    "values in float32": ({}, function("ellipsoid", "float32")),
    "kinks": ({}, function("kinks")),
    "x0 fails": ({"name": "few work"}, function("few work")),
    "bounds": ({"name": "few work", "bounds": [(-1, 1)] * 5 + [(0, 0), (0, None), (None, 4)]}, bowl),
    "float32": ({"dtype": "float32"}, function("rotated-ellipsoid")),
    "handed": ({"handed": True}, function("rotated-ellipsoid")),
}


def hand_over(es, fun):
    """Continue ``es`` with the metric of an evolution strategy."""
    ranks = lmma.strategy("pulse-full", es.mean, 1.0, rng=2)
    for _ in range(60):
        ranks.tell(fun(ranks.ask()))
    es.method.begin_from(ranks.method.metric(), float(fun(es.mean[None])[0]))


@pytest.mark.usefixtures("model")
def test_a_search_resumed_after_any_batch_is_the_same_bit_for_bit():
    phases = set()
    for options, fun in RESUMED.values():
        options = dict(options)
        handed = options.pop("handed", False)
        es = strategy(**options)
        if handed:
            hand_over(es, fun)
        while not es.method.stop() and es.evaluations < 2500:
            phases.add(es.method.phase)
            twin = strategy(seed=5, name="few work", **{k: v for k, v in options.items() if k != "name"})
            twin.set_state(es.get_state())
            X = es.ask()
            np.testing.assert_array_equal(twin.ask(), X)
            values = fun(X)
            es.tell(values)
            twin.tell(values)
            mine, theirs = es.get_state(), twin.get_state()
            for name in mine:
                np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert phases == set(Phase) - {Phase.ENDED}


def end_of(result):
    mean = np.asarray(result.mean).tobytes()
    return result.x.tobytes(), result.fun, mean, result.sigma, result.nfev, result.nit, result.reason


def rosenbrock(x):
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def run(fun=rosenbrock, x0=(0.6, 0.2, -0.1, 0.4), sigma0=0.5, **options):
    return lmma.minimize(fun, np.array(x0), sigma0, method="quasi-newton", **{"rng": 1} | options)


@pytest.mark.parametrize("options", [{}, {"bounds": [-2, 0.7], "x0": [0.1] * 4}, {"restarts": 1}], ids=str)
def test_a_run_resumed_from_any_checkpoint_equals_the_unbroken_one(options, tmp_path):
    copies = []

    def keep(x):
        if file.exists():  # it is not written before fun has returned as many values as a generation has
            copies.append(shutil.copy(file, tmp_path / f"{len(copies)}.npz"))

    file = tmp_path / "run.npz"
    options = {"maxiter": 90, **options}
    whole = run(**options)
    run(checkpoint=Checkpoint(file, every=0), callback=keep, **options)
    assert whole.nit - 8 <= len(copies) > 30
    for copy in copies[::3]:
        assert end_of(run(checkpoint=copy, **options)) == end_of(whole)


def test_a_state_that_contradicts_itself_is_rejected():
    es = strategy(bounds=[-9, 9])
    for _ in range(12):
        es.tell(bowl(es.ask()))
    state = es.get_state()
    for name, wrong in {
        "model.holds": np.full(8, 3), "model.inverse": np.zeros((2, 2)), "model.steps": np.zeros((5, 9)),
        "trial.t": np.zeros(9), "after_noise": 4, "ending": 1, "stencil.told": np.zeros(99),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=name.partition(".")[0]):
            strategy(bounds=[-9, 9]).set_state(state | {name: wrong})


# Runs


@pytest.mark.usefixtures("model")
def test_any_number_of_workers_gives_the_same_run():
    alone = run()
    assert alone.fun < 1e-15
    assert end_of(run(workers=2)) == end_of(alone)


@pytest.mark.usefixtures("model")
def test_the_budget_is_never_exceeded():
    for budget in (1, 2, 8, 9, 10, 17, 18, 40, 41, 42, 60, 99):
        calls = []
        result = run(lambda x, calls=calls: calls.append(x) or rosenbrock(x), maxfevals=budget)
        assert result.nfev == len(calls) <= budget
        assert result.reason == "maxfevals"


@pytest.mark.parametrize(("options", "words"), [
    ({"constraints": lambda x: 1 - x[0]}, "does not support constraints=: remove it, or set method='auto'"),
    ({"noise": "mix"}, "does not support noise=: remove it"),
    ({"integrality": [1, 0, 0, 0]}, r"does not support integers \(integrality=\): remove it"),
    ({"on_error": "resample"}, "cannot resample single candidates: set on_error='worst'"),
    ({"inject": np.ones(4)}, r"does not support inject\(\): use the point as x0"),
])  # fmt: skip
def test_what_is_not_supported_is_refused_with_a_remedy(options, words):
    with pytest.raises((ValueError, TypeError), match=f"^quasi-newton {words}"):
        run(**options)


def test_choices_and_constraints_of_ask_and_tell_are_refused():
    space = lmma.Space(a=lmma.Real(-1, 1), b=lmma.Choice(["p", "q", "r"]))
    with pytest.raises(ValueError, match=r"does not support choices \(categories=\)"):
        lmma.strategy("quasi-newton", space)
    es = strategy()
    with pytest.raises(ValueError, match="does not support constraints="):
        es.constrain()
    es.ask()
    with pytest.raises(ValueError, match="does not support constraints="):
        es.tell([1.0], constraints=[[0.0]])


def test_integers_that_are_none_are_no_reason_to_refuse():
    assert run(integrality=[0, 0, 0, 0]).success


@pytest.mark.parametrize(("fun", "reason", "success", "words"), [
    (rosenbrock, "converged", True, "hidden by the error of its values"),
    (lambda x: 3.0, "flat", False, "had the same value for 9 generations"),
    (lambda x: math.nan, "failures", False, "for 4 generations in a row"),
    (lambda x: float(np.sum(x)), "diverged", False, "unbounded below"),
    (lambda x: 1e-9 * rosenbrock(x) + 1e12, "converged", True, "hidden by the error"),
], ids=["smooth", "constant", "failures", "unbounded", "offset"])  # fmt: skip
@pytest.mark.usefixtures("model")
def test_every_ending_has_a_true_message(fun, reason, success, words):
    result = run(fun, tolx=0, tolfun=0, stagnation=False, maxfevals=20_000)
    assert (result.reason, result.success) == (reason, success)
    assert words in result.message


def test_kinks_are_not_called_convergence():
    result = run(lambda x: float(np.abs(x).max()), np.full(6, 1.5), 1.0)
    assert result.fun > 1e-10
    assert (result.reason, result.success) == ("stuck", False)
    assert "kinks or be rough near x: set method='auto'" in result.message


def test_an_edge_beyond_which_the_function_fails_is_not_called_convergence():
    result = run(lambda x: math.nan if x[0] < 0.5 else float(x @ x), np.full(6, 1.5), 1.0)
    assert result.fun == pytest.approx(0.25, abs=1e-3)
    assert (result.reason, result.success) == ("stuck", False)


def test_failed_steps_far_from_an_optimum_are_not_called_convergence():
    exact = problems.get("rosenbrock").function
    es = strategy(16, seed=2)
    while not es.method.stop():
        es.tell([float(f"{value:.4g}") for value in exact(es.ask())])
    assert es.method.progress.failures == 5
    assert es.best_fun > 1e-3
    assert list(es.stop()) == ["stuck"]


def test_the_optimum_as_x0_is_convergence_and_a_saddle_point_is_left():
    there = run(lambda x: float(x @ x), np.zeros(4))
    assert (there.fun, there.reason) == (0.0, "converged")
    saddle = run(lambda x: float(x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 9 + x[2:] @ x[2:]), np.zeros(4))
    assert saddle.fun == pytest.approx(-2.25)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("failed", [math.nan, math.inf, -math.inf])
def test_failures_of_any_kind_are_worked_around(failed):
    rng = np.random.default_rng(1)
    result = run(lambda x: failed if rng.random() < 0.1 else rosenbrock(x), maxfevals=3000)
    assert result.fun < 1e-8
    assert math.isfinite(result.fun)


def test_an_x0_that_fails_is_replaced_by_a_point_nearby():
    x0 = np.array([0.6, 0.2, -0.1, 0.4])
    result = run(lambda x: math.nan if np.array_equal(x, x0) else rosenbrock(x), x0)
    assert result.failures == 1
    assert result.fun < 1e-12


def test_values_matter_and_not_only_their_ranks():
    assert strategy_class("quasi-newton").uses_values
    a, b = (run(lambda x, k=k: rosenbrock(x) ** k, maxfevals=100) for k in (1, 3))
    assert not np.array_equal(a.x, b.x)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("sigma0", [1e-3, 1e3])
def test_a_wrong_initial_step_size_is_survived(sigma0):
    assert run(lambda x: float(np.sum((x - 9) ** 2 * np.arange(1, 5))), sigma0=sigma0).fun < 1e-12


def test_restarts_log_and_history_are_those_of_any_method(tmp_path):
    result = run(restarts=2, log=tmp_path / "log", history=True)
    assert len(result.runs) == 3
    assert sum(part.evaluations for part in result.runs) == result.nfev == result.history["evaluations"][-1]
    assert run(x0=result.x, history=False).fun <= result.fun + 1e-12


def test_the_metric_is_the_inverse_hessian():
    n = 6
    R = np.linalg.qr(np.random.default_rng(2).normal(size=(n, n)))[0]
    H = R.T @ np.diag(np.logspace(0, 3, n)) @ R
    es = strategy(n)
    while not es.stop() and es.evaluations < 10_000:
        X = es.ask()
        es.tell(np.einsum("ij,jk,ik->i", X, H, X) / 2)
    C = es.sigma0**2 * np.column_stack([es.result.hess_inv @ e for e in np.eye(n)])
    np.testing.assert_allclose(C @ H, np.eye(n), atol=0.3)
    assert 0 < es.sigma < 1e-3


def test_a_matrix_that_does_not_fit_into_memory_is_refused_before_it_is_made():
    n = 200_000
    with (
        patch.object(quasi_newton, "MATRIX_UP_TO", n),
        pytest.raises(MemoryError, match=f"quasi-newton with n={n}"),
    ):
        lmma.strategy("quasi-newton", np.zeros(n), 1.0)


# Bounds


def is_stationary(fun, x, low, high, tolerance):
    """Return whether no coordinate can move inside the box to lower ``fun``, to first order."""
    steps = 1e-6 * np.eye(len(x))
    g = (fun(x + steps) - fun(x - steps)) / 2e-6
    g = np.where(((x == low) & (g > 0)) | ((x == high) & (g < 0)), 0.0, g)
    return float(np.abs(g).max()) < tolerance


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("corner", [0.2, -1.0, 1.0])
@pytest.mark.parametrize("n", [2, 5, 12])
def test_an_optimum_on_faces_of_a_box_is_found_inside_it(n, corner):
    low, high = np.full(n, -1.0), np.full(n, 1.0)
    es = lmma.strategy("quasi-newton", np.full(n, corner), 0.6, bounds=[(-1, 1)] * n, rng=n)
    while not es.stop() and es.evaluations < 10_000:
        X = es.ask()
        assert np.all((low <= X) & (high >= X))
        es.tell(bowl(X))
    assert "converged" in es.stop()
    assert is_stationary(bowl, es.best_x, low, high, 1e-3)
    assert np.any(np.abs(es.best_x) == 1.0)  # on a face, exactly


@pytest.mark.usefixtures("model")
def test_steps_end_on_faces_exactly_in_spite_of_rounding():
    rng = np.random.default_rng(1)
    for seed in range(20):
        low, high, c = -rng.random(6), rng.random(6), rng.normal(size=6)
        c += 0.1 * np.sign(c)
        result = run(
            lambda x, c=c: float(c @ x) + 0.01 * float(x @ x), low + 0.37 * (high - low), 0.37,
            bounds=list(zip(low, high, strict=True)), rng=seed,
        )  # fmt: skip
        np.testing.assert_array_equal(result.mean, np.where(c > 0, low, high))


def test_fixed_coordinates_get_no_rows():
    bounds = [(0.5, 0.5), (-1, 1), (0.2, 0.2), (-1, None), (None, None)]
    es = lmma.strategy("quasi-newton", [0.5, 0.3, 0.2, 0.1, 0.4], 0.5, bounds=bounds, rng=1)
    sizes = {}
    while not es.stop() and es.evaluations < 10_000:
        phase = es.method.phase
        X = es.ask()
        assert np.all(X[:, [0, 2]] == [0.5, 0.2])
        sizes.setdefault(phase, set()).add(len(X))
        es.tell(bowl(X))
    assert sizes[Phase.FIRST] == {6}
    assert sizes[Phase.SLOPES] <= {3, 6}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("width", [1e-7, 1e-3])
def test_a_box_tighter_than_a_stencil_is_searched(width):
    result = run(lambda x: float(x @ x), [1.0] * 4, bounds=[1.0, 1.0 + width])
    assert result.x.tolist() == [1.0] * 4
    result = run(lambda x: -float(x @ x), [1.0] * 4, bounds=[1.0, 1.0 + width])
    assert result.x.tolist() == [1.0 + width] * 4


@pytest.mark.usefixtures("model")
def test_a_coordinate_leaves_its_bound_when_the_function_falls_inwards():
    result = run(bounds=[-2, 2], x0=[-2.0, 2.0, -2.0, 2.0])
    assert np.abs(result.x).max() < 2
    assert result.fun < 4


# Evaluations: medians of five starts, with room for another rounding


@pytest.mark.parametrize(("name", "shown", "target", "most"), [
    ("sphere", "exact", 1e-10, 45), ("ellipsoid", "exact", 1e-10, 45), ("discus", "exact", 1e-10, 45),
    ("cigar", "exact", 1e-10, 45), ("different-powers", "exact", 1e-10, 550),
    ("rotated-ellipsoid", "exact", 1e-10, 1300), ("rotated-cigar", "exact", 1e-10, 400),
    ("sphere", "6 digits", 1e-8, 150), ("ellipsoid", "6 digits", 1e-8, 450),
    ("rotated-ellipsoid", "6 digits", 1e-8, 1700), ("rotated-ellipsoid", "float32", 1e-8, 1600),
    ("rotated-ellipsoid", "failures", 1e-8, 1800),
])  # fmt: skip
def test_evaluations_to_a_target_for_16_variables(name, shown, target, most):
    exact, used = problems.get(name).function, []
    for seed in range(701, 706):
        es = strategy(16, seed)
        while es.evaluations < 4000 and not es.stop():
            X = es.ask()
            values = exact(X)
            es.tell(SHOWN[shown](X, values))
            if values.min() <= target:
                break
        used.append(es.evaluations if values.min() <= target else math.inf)
    assert np.median(used) <= most


# Errors of values


def test_printed_digits_are_recognised():
    rng = np.random.default_rng(1)
    for digits in (2, 4, 6, 9):
        values = np.array([float(f"{value:.{digits}g}") for value in rng.normal(size=30)])
        assert printed_digits(values) == digits
    assert printed_digits(rng.normal(size=30)) is None


@pytest.mark.parametrize("level", [1e-9, 1e-3])
def test_the_difference_table_sees_noise_and_not_smooth_curves(level):
    x = np.arange(8) * 0.01
    smooth = np.exp(x) + 3 * x**2
    found = [difference_noise(smooth + level * np.random.default_rng(k).normal(size=8)) for k in range(200)]
    assert 0.6 * level < np.median(found) < 1.4 * level  # one line has few degrees of freedom
    assert difference_noise(smooth) < 1e-13


def test_errors_follow_the_last_values_only():
    noise = ValueNoise()
    noise.remember(np.array([1.25, 3.5, 2.25, 7.75, 4.5, 1.0]))
    noise.measure(np.full(8, math.nan), 5.0)
    assert noise.error(5.0) == pytest.approx(5 * 0.3 * 10.0**-2)  # three digits
    noise.remember(np.random.default_rng(1).normal(size=60))
    noise.measure(np.full(8, math.nan), 5.0)
    assert noise.error(5.0) == 5 * 2.2e-16
    assert not noise.is_outdated(1e-3)
    assert noise.is_outdated(1e-6)
