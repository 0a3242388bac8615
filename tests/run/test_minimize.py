import io
import math
import sys

import numpy as np
import pytest
import scipy.optimize

import lmma
from adapting import ADAPTING
from lmma.methods.portfolio import Portfolio
from lmma.minimize import choose_method
from lmma.numerics.memory import available_memory
from lmma.run.observers import Progress, Recorder
from lmma.run.observers.progress_line import ProgressLine


def sphere(x):
    return float(x @ x)


def spheres(X):
    return np.sum(np.square(X), axis=1)


def test_returns_a_real_optimize_result_that_holds_what_was_evaluated():
    seen = []

    def f(x):
        seen.append(x.copy())
        return sphere(x)

    result = lmma.minimize(f, np.full(8, 3.0), 1.0, values="ranks", noise=None, rng=1)
    assert isinstance(result, scipy.optimize.OptimizeResult)
    assert result.success
    assert result.fun == sphere(result.x) < 1e-10
    assert result.nfev == len(seen)
    assert any(np.array_equal(result.x, x) for x in seen)
    assert result.nit * 10 == result.nfev


def test_vectorized_and_serial_runs_are_the_same():
    a = lmma.minimize(lambda x: float(np.sum(np.square(x))), np.ones(5), 1.0, seed=3, maxiter=50)
    b = lmma.minimize(spheres, np.ones(5), 1.0, rng=3, maxiter=50, vectorized=True)
    assert np.array_equal(a.x, b.x)


def test_an_objective_may_alter_what_it_is_given():
    def f(x):
        value = sphere(x)
        x[:] = 0.0
        return value

    result = lmma.minimize(f, np.ones(4), 1.0, rng=1, maxiter=20)
    assert result.fun == sphere(result.x) > 0


@pytest.mark.parametrize(
    ("options", "reason", "word"),
    [
        ({"ftarget": 1e-3}, "ftarget", "ftarget"),
        ({"maxfevals": 100}, "maxfevals", "maxfevals"),
        ({"maxiter": 7}, "maxiter", "maxiter"),
        ({"maxtime": 1e-9}, "maxtime", "maxtime"),
        ({"tolx": 1e-3, "tolfun": 0}, "tolx", "tolx"),
        ({"tolfun": 1e-5, "tolx": 0}, "tolfun", "tolfun"),
        ({"callback": lambda x: True}, "callback", "callback"),
    ],
)
def test_the_message_says_why_it_stopped_and_which_argument_changes_that(options, reason, word):
    result = lmma.minimize(spheres, np.ones(4), 1.0, values="ranks", rng=1, vectorized=True, **options)
    assert result.reason == reason
    assert word in result.message
    assert result.success == (reason in ("ftarget", "tolx", "tolfun"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ADAPTING)
def test_an_unbounded_function_ends_as_diverged_without_overflow(method, dtype):
    result = lmma.minimize(
        lambda X: -X.sum(axis=1), np.zeros(20), 1.0, method=method, vectorized=True, rng=1, dtype=dtype,
        maxfevals=50_000,
    )  # fmt: skip
    assert "Diverged" in result.message


def test_the_budget_is_never_exceeded():
    result = lmma.minimize(spheres, np.ones(4), 1.0, rng=1, vectorized=True, maxfevals=101, popsize=10)
    assert result.nfev == 100


def test_convergence_without_reaching_the_target_is_not_a_success():
    result = lmma.minimize(lambda x: sphere(x) + 1, np.ones(3), 1.0, rng=1, ftarget=0.5)
    assert not result.success
    assert "was not reached" in result.message


def test_args_are_passed_on():
    result = lmma.minimize(lambda x, a, b: sphere(x - a) + b, np.zeros(3), 1.0, args=(2.0, 5.0), rng=1)
    np.testing.assert_allclose(result.x, 2.0, atol=1e-4)
    assert result.fun == pytest.approx(5.0)
    result = lmma.minimize(lambda x, a: sphere(x - a), np.zeros(3), 1.0, args=2.0, rng=1)  # as SciPy has it
    np.testing.assert_allclose(result.x, 2.0, atol=1e-4)


def test_callbacks_follow_scipys_convention():
    seen = []
    lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxiter=3, callback=seen.append)
    assert [x.shape for x in seen] == [(3,)] * 3

    def watch(intermediate_result):
        if intermediate_result.nit == 2:
            raise StopIteration

    result = lmma.minimize(sphere, np.ones(3), 1.0, rng=1, callback=watch)
    assert (result.nit, result.reason) == (2, "callback")


def test_a_failing_objective_is_counted_ranked_last_and_reported():
    def f(x):
        if x[0] > 1.2:
            raise RuntimeError("too hot")
        return math.nan if x[1] > 1.2 else sphere(x)

    result = lmma.minimize(f, np.ones(3), 0.5, values="ranks", rng=1, ftarget=1e-8)
    assert result.success
    assert result.failures > 0
    kinds = {error.kind for error in result.errors}
    assert "RuntimeError" in kinds
    assert any("too hot" in error.traceback for error in result.errors)
    with pytest.raises(RuntimeError, match="too hot"):
        lmma.minimize(f, np.ones(3), 0.5, values="ranks", rng=1, on_error="raise")


@pytest.mark.parametrize("bad", [np.zeros(2), None, "1.0", [1.0]])
def test_an_objective_that_does_not_return_a_number_is_reported(bad):
    with pytest.raises(TypeError, match="fun must return one real number"):
        lmma.minimize(lambda x: bad, np.ones(3), 1.0)


def test_a_vectorized_objective_of_the_wrong_shape_is_reported():
    with pytest.raises(TypeError, match="vectorized=True must return"):
        lmma.minimize(lambda X: X, np.ones(3), 1.0, vectorized=True)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "lmmaes"}, ValueError, "did you mean 'lm-ma-es'"),
        ({"maxfeval": 10}, TypeError, "did you mean 'maxfevals'"),
        ({"sigma0": -1.0}, ValueError, "sigma0 must be positive"),
        ({"popsize": 1}, ValueError, "popsize must be at least 2"),
        ({"maxfevals": 3}, ValueError, "less than one generation"),
        ({"maxiter": 0}, ValueError, "maxiter must be positive"),
        ({"ftarget": math.nan}, ValueError, "ftarget"),
        ({"rng": 1, "seed": 1}, ValueError, "rng or seed"),
        ({"on_error": "ignore"}, ValueError, "on_error"),
        ({"threads": 0}, ValueError, "threads"),
        ({"boundary": "bounce", "bounds": [0, 2]}, ValueError, "boundary"),
        ({"m": 0, "method": "lm-ma-es"}, ValueError, "m must lie between 1 and"),
    ],
)
def test_bad_input_is_rejected_with_the_remedy(options, error, words):
    with pytest.raises(error, match=words):
        lmma.minimize(sphere, np.ones(3), values="ranks", **{"sigma0": 1.0, **options})


def test_an_objective_may_say_that_it_is_vectorised():
    def spheres(X):
        assert X.ndim == 2
        return np.sum(X**2, axis=1)

    spheres.vectorized = True
    result = lmma.minimize(spheres, np.ones(3), 1.0, rng=1, maxiter=5)
    explicit = lmma.minimize(spheres, np.ones(3), 1.0, rng=1, maxiter=5, vectorized=True)
    np.testing.assert_array_equal(result.x, explicit.x)
    assert lmma.check(spheres, np.ones(3), rng=1).failures == 0


def test_auto_takes_a_full_matrix_for_few_variables_and_directions_for_many():
    assert choose_method(1) == choose_method(100) == choose_method(300) == "pulse-full"
    assert choose_method(301) == choose_method(10_000) == "pulse"


def test_auto_uses_values_up_to_a_hundred_thousand_variables(monkeypatch):
    monkeypatch.setattr("lmma.numerics.memory.available_memory", lambda: None)
    assert choose_method(2, values="auto") == choose_method(100_000, values="auto") == "portfolio"
    assert choose_method(100_001, values="auto") == choose_method(2000, values="ranks") == "pulse"
    assert choose_method(2000, values="auto", discrete=True) == "pulse"


def test_auto_takes_active_cma_es_for_few_variables_with_constraints():
    assert choose_method(6, constrained=True) == "acma-es"
    assert choose_method(7, constrained=True) == choose_method(6) == "pulse-full"

    def chosen(n, **options):
        return lmma.minimize(sphere, np.ones(n), 1.0, rng=1, maxiter=2, **options).method

    below = [lambda x: x[0] + 1]
    assert chosen(3, constraints=below) == "acma-es"
    assert chosen(3, values="ranks") == chosen(9, constraints=below) == "pulse-full"
    assert chosen(3) == chosen(9) == "portfolio"
    assert chosen(3, popsize=20) == chosen(3, noise="mix") == chosen(3, inject=np.zeros(3)) == "pulse-full"
    assert chosen(3, constraints=below, constraint_handling="rank") == "pulse-full"  # ranks alone


def test_auto_takes_active_cma_es_for_few_variables_with_integers():
    def chosen(n, **options):
        integers = np.arange(n) % 2
        return lmma.minimize(
            sphere, np.ones(n), 1.0, rng=1, maxiter=2, integrality=integers, **options
        ).method

    assert chosen(12) == "acma-es"
    assert chosen(13) == chosen(4, constraints=[lambda x: x[0] + 1]) == "pulse-full"


def test_a_strategy_may_be_chosen_by_auto_as_a_run_is():
    space = lmma.Space(a=lmma.Real(0, 1), b=lmma.Integer(0, 9), c=lmma.Choice(["x", "y", "z"]))
    assert lmma.strategy("auto", np.ones(300), 1.0, rng=1, values="ranks").name == "pulse-full"
    assert lmma.strategy("auto", np.ones(301), 1.0, rng=1, values="ranks").name == "pulse"
    assert lmma.strategy("auto", np.ones(300), 1.0, rng=1).name == "portfolio"
    assert lmma.strategy("auto", np.ones(300), 1.0, rng=1, popsize=20).name == "pulse-full"
    assert lmma.strategy("auto", np.ones(3), 1.0, rng=1, integrality=[0, 1, 0]).name == "acma-es"
    assert lmma.strategy("auto", space, rng=1).name == "acma-es"
    assert lmma.minimize(lambda a, b, c: a + b, space, rng=1, maxiter=1).method == "acma-es"
    es, result = lmma.strategy("auto", np.ones(5), 1.0, rng=1), []
    lmma.minimize(lambda x: result.append(x) or x[0], np.ones(5), 1.0, rng=1, maxiter=1)
    np.testing.assert_array_equal(es.ask(), result)


def test_auto_takes_nothing_that_fills_more_than_half_of_the_memory(monkeypatch):
    needed = lmma.Pulse.memory(5000, 29)
    for free, method in ((2 * needed + 1, "pulse"), (2 * needed, "d-lm-ma-es"), (None, "pulse")):
        monkeypatch.setattr("lmma.numerics.memory.available_memory", lambda free=free: free)
        assert choose_method(5000, popsize=29) == method
    needed = Portfolio.memory(5000, 29)
    for free, method in ((2 * needed + 1, "portfolio"), (2 * needed, "pulse")):
        monkeypatch.setattr("lmma.numerics.memory.available_memory", lambda free=free: free)
        assert choose_method(5000, popsize=29, values="auto") == method


def test_a_checkpoint_keeps_the_method_that_auto_chose_at_the_start(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"

    def run(budget):
        return lmma.minimize(
            sphere, np.ones(30), 1.0, values="ranks", rng=1, maxfevals=budget, checkpoint=file
        )

    assert run(500).method == "pulse-full"
    registry = sys.modules["lmma.methods.registry"]  # lmma.methods is a function
    monkeypatch.setattr(registry, "FULL_MATRIX_UP_TO", 29)  # another version, or another machine
    assert choose_method(30) == "pulse"
    assert run(4000).method == "pulse-full"


def test_a_request_that_exceeds_memory_is_rejected_before_allocation():
    n = 10 * math.isqrt(available_memory() // 8)
    with pytest.raises(MemoryError, match=r"needs about .* of memory, but only .*'lm-ma-es' would fit"):
        lmma.MAES(np.zeros(n), 1.0, popsize=43)


def test_scipy_takes_the_method():
    result = scipy.optimize.minimize(
        scipy.optimize.rosen,
        np.zeros(5),
        method=lmma.scipy_method("lm-ma-es"),
        options={"sigma0": 0.5, "rng": 1},
        tol=1e-9,
        callback=lambda intermediate_result: None,
    )
    assert result.fun < 1e-6
    with pytest.raises(ValueError, match="did you mean"):
        lmma.scipy_method("lm-ma")


def test_scipys_own_arguments_mean_what_they_mean_to_scipy(capsys):
    seen = []

    def fun(x, shift):
        seen.append(x.copy())
        return sphere(x - shift)

    def run(**call):
        seen.clear()
        options = {"sigma0": 0.5, "rng": 1} | call.pop("options", {})
        return scipy.optimize.minimize(
            fun, np.ones(3), args=(2.0,), method=lmma.scipy_method("ma-es"), options=options, **call
        )

    assert run(tol=1e-3).nfev < run(tol=1e-9).nfev
    assert run(options={"maxfev": 70}).nfev == len(seen) == 70
    run(bounds=[(0, 1.5)] * 3, options={"maxiter": 20})
    assert np.max(seen) <= 1.5
    assert run(jac=lambda x, shift: 2 * (x - shift), options={"maxiter": 2}).nit == 2
    assert capsys.readouterr().err == ""
    run(options={"maxiter": 2, "disp": True})
    assert "evaluations" in capsys.readouterr().err


def test_progress_is_plain_lines_in_a_pipe():
    stream = io.StringIO()
    line = ProgressLine(maxfevals=1000, stream=stream)
    for k in range(1, 4):
        line(Progress(100 * k, k, 1.0 / k, 0.1, k - 1, float(k)))
    line.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2  # the first at once, the last at the end
    assert "300 evaluations (30%)" in lines[-1]
    assert "100/s" in lines[-1]
    assert "7 s left" in lines[-1]
    assert "2 failed" in lines[-1]


def test_a_recorder_stays_small_and_ends_where_the_run_did():
    recorder = Recorder(size=10)
    for k in range(1000):
        if recorder.is_due():
            recorder.keep(Progress(k, k, 0.0, 1.0, 0, 0.0))
    recorder.end(Progress(999, 999, 0.0, 1.0, 0, 0.0))
    columns = recorder.columns()
    assert len(columns["evaluations"]) <= 11
    assert columns["evaluations"][0] == 0
    assert columns["evaluations"][-1] == 999
