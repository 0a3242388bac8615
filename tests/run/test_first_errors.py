"""Errors of an objective that has never returned a value are raised; later ones are failed evaluations."""

import concurrent.futures
import traceback

import numpy as np
import pytest
from varied_batches import Cut

import lmma

START = np.ones(4)


def raises(error, **options):
    """Return the exception of a run whose objective always raises ``error``, and the number of its calls."""
    calls = []

    def fun(x):
        calls.append(x)
        raise error

    with pytest.raises(type(error)) as caught:
        lmma.minimize(fun, START, 1.0, rng=1, **options)
    return caught.value, len(calls)


def notes(error):
    return "\n".join(error.__notes__)


@pytest.mark.parametrize("on_error", ["worst", "resample"])
def test_a_programming_error_is_raised_at_the_first_evaluation(on_error):
    for error in (NameError("np"), TypeError("two arguments"), AttributeError("summ"), ImportError("model")):
        raised, calls = raises(error, on_error=on_error)
        assert raised is error
        assert calls == 1
        assert "lmma: fun raised this before it had returned any value" in notes(raised)


@pytest.mark.parametrize("on_error", ["worst", "resample"])
def test_an_error_of_the_whole_first_generation_is_raised(on_error):
    errors = [
        RuntimeError("mesh"), ValueError("shape"), OSError("licence"), np.linalg.LinAlgError("singular"),
        MemoryError("large"),
    ]  # fmt: skip
    for error in errors:
        raised, calls = raises(error, popsize=6, on_error=on_error)
        assert raised is error
        assert calls == 6
        assert "lmma: every evaluation of the first generation failed with this error" in notes(raised)


def test_the_traceback_leads_to_the_line_of_the_objective():
    def fun(x):
        return np.summ(x)

    with pytest.raises(AttributeError) as caught:
        lmma.minimize(fun, START, 1.0, rng=1)
    assert "return np.summ(x)" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(AttributeError) as caught:
        lmma.minimize(fun, START, 1.0, rng=1, workers=2)
    assert "return np.summ(x)" in notes(caught.value)


def test_a_stop_iteration_of_the_objective_does_not_pass_for_that_of_a_callback():
    def fun(x):
        raise StopIteration

    for on_error in ("worst", "raise"):
        with pytest.raises(RuntimeError, match="fun raised StopIteration"):
            lmma.minimize(fun, START, 1.0, rng=1, on_error=on_error)


def test_on_error_raise_is_not_taken_for_a_matrix_that_cannot_be_decomposed():
    def fun(x):
        if x[0] < 0.5:
            raise np.linalg.LinAlgError("singular")
        return float(x @ x)

    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        lmma.minimize(fun, START, 1.0, rng=1, on_error="raise")


def test_one_value_in_the_first_generation_makes_errors_data():
    def fun(x):
        if x[0] > worst_but_one:
            raise RuntimeError("mesh")
        return float(x @ x)

    first = lmma.strategy(
        lmma.minimize(lambda x: x @ x, START, 1.0, rng=1, maxiter=1).method, START, 1.0, rng=1
    )
    worst_but_one = np.sort(first.ask()[:, 0])[0]  # only one candidate of the first generation is evaluated
    result = lmma.minimize(fun, START, 1.0, rng=1, maxfevals=200)
    assert result.failed["RuntimeError"] >= 7
    assert np.isfinite(result.fun)


def test_errors_of_different_kinds_are_data():
    calls = []

    def fun(x):
        calls.append(x)
        raise (RuntimeError if len(calls) % 2 else ValueError)("here")

    result = lmma.minimize(fun, START, 1.0, rng=1)
    assert result.reason == "failures"
    assert set(result.failed) == {"RuntimeError", "ValueError"}


def test_nan_is_never_raised():
    result = lmma.minimize(lambda x: float("nan"), START, 1.0, rng=1)
    assert (result.reason, set(result.failed)) == ("failures", {"nan"})


def test_a_programming_error_after_a_value_is_data():
    def fun(x):
        if x[0] < 0.5:
            return x.no_such_attribute
        return float("nan") if x[0] > 1.5 else float(x @ x)

    result = lmma.minimize(fun, START, 0.1, rng=1, maxfevals=300)
    assert result.failed["AttributeError"] > 0
    assert np.isfinite(result.fun)


def first_candidate_fails(kind):
    """Return an objective that fails at the first candidate of seed 1 alone."""
    method = lmma.minimize(lambda x: x @ x, START, 1.0, rng=1, maxiter=1).method
    bad = lmma.strategy(method, START, 1.0, rng=1).ask()[0].copy()

    def fun(x):
        if np.array_equal(x, bad):
            raise kind("first")
        return float(x @ x)

    return fun


def test_workers_do_not_change_what_is_raised():
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        for workers in (1, 2, map, threads):
            run = {"rng": 1, "maxfevals": 60, "workers": workers}
            with pytest.raises(TypeError, match="first"):
                lmma.minimize(first_candidate_fails(TypeError), START, 1.0, **run)
            result = lmma.minimize(first_candidate_fails(RuntimeError), START, 1.0, **run)
            assert result.failed == {"RuntimeError": 1}


def test_a_vectorised_objective_that_raises_is_called_once():
    calls = []

    def fun(X):
        calls.append(X)
        raise ValueError("operands could not be broadcast together")

    with pytest.raises(ValueError, match="broadcast"):
        lmma.minimize(fun, START, 1.0, values="ranks", rng=1, vectorized=True)
    assert len(calls) == 1


def test_a_forgotten_vectorized_is_suggested():
    with pytest.raises(IndexError) as caught:
        lmma.minimize(lambda X: (X**2).sum(axis=1), START, 1.0, rng=1)
    assert "if fun takes many rows at once, set vectorized=True" in notes(caught.value)


def test_a_budget_below_one_generation_does_not_hide_the_error():
    assert raises(RuntimeError("mesh"), method=Cut, maxfevals=3)[1] == 3


def test_no_checkpoint_is_left_of_a_run_that_never_had_a_value(tmp_path):
    file = tmp_path / "run.npz"
    raises(RuntimeError("mesh"), checkpoint=file)
    assert not file.exists()
    result = lmma.minimize(
        lambda x: float(x @ x), START, 1.0, values="ranks", rng=1, maxfevals=50, checkpoint=file
    )
    assert result.failures == 0


def test_a_resumed_run_treats_errors_as_the_unbroken_one(tmp_path):
    def fun(x):
        if broken:
            raise TypeError("in one generation")
        return float(x @ x)

    broken = False
    file = tmp_path / "run.npz"
    lmma.minimize(fun, START, 1.0, rng=1, maxiter=2, checkpoint=file)
    broken = True
    result = lmma.minimize(fun, START, 1.0, rng=1, maxiter=3, checkpoint=file)
    assert set(result.failed) == {"TypeError"}


def test_constraint_functions_are_part_of_the_first_evaluation():
    with pytest.raises(AttributeError, match="no_such"):
        lmma.minimize(lambda x: x @ x, START, 1.0, constraints=lambda x: x.no_such, rng=1)


def test_finishers_treat_errors_as_data():
    def fun(x):
        if polishing:
            raise TypeError("late")
        return float(x @ x)

    polishing = False

    def callback(intermediate_result):
        nonlocal polishing
        polishing = intermediate_result.nit >= 3
        return polishing

    result = lmma.minimize(fun, START, 1.0, rng=1, polish=True, callback=callback)
    assert np.isfinite(result.fun)
