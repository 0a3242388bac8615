import os
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import lmma
from lmma.evaluation import EvaluationError, Serial, evaluator
from lmma.evaluation.executors import Submitted
from lmma.evaluation.pool.pool import Pool


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(3) as executor:
        yield executor


def awkward(x):
    if x[0] == 1:
        raise KeyError("one")
    return [0.0, 0.0, np.nan, -np.inf, 4.0][int(x[0])]


ROWS = np.arange(5.0)[:, None]


@pytest.mark.parametrize("workers", [1, map, "threads"])
def test_all_ways_agree_on_values_and_failures(workers, threads):
    evaluate = evaluator(awkward, workers=threads if workers == "threads" else workers)
    assert np.array_equal(evaluate(ROWS), [0.0, np.nan, np.nan, np.nan, 4.0], equal_nan=True)
    assert evaluate.record.failures == {"KeyError": 1, "nan": 1, "inf": 1}
    assert "awkward" in evaluate.record.errors[0].traceback


@pytest.mark.parametrize("workers", [1, map, "threads"])
def test_all_ways_raise_if_asked_to(workers, threads):
    evaluate = evaluator(awkward, (), "raise", workers=threads if workers == "threads" else workers)
    with pytest.raises(KeyError, match="one"):
        evaluate(ROWS)
    with pytest.raises(EvaluationError, match="NaN"):
        evaluate(ROWS[2:])


def test_a_closure_reaches_the_processes_of_an_executor():
    offset = 7.0
    with ProcessPoolExecutor(1, mp_context=None) as executor:
        evaluate = evaluator(lambda x, y: float(x[0] + y + offset), (1.0,), workers=executor)
        assert isinstance(evaluate, Submitted)
        assert np.array_equal(evaluate(ROWS), ROWS[:, 0] + 8.0)


def test_raise_brings_the_exception_itself_from_a_thread(threads):
    error = KeyError("one")

    def fun(x):
        raise error

    with pytest.raises(KeyError) as caught:
        evaluator(fun, (), "raise", workers=threads)(ROWS)
    assert caught.value is error


def test_raise_brings_the_exception_home_from_another_process():
    class Own(Exception):
        pass

    def fun(x):
        raise Own("a class that cannot travel") if x[0] else KeyError("zero")

    with ProcessPoolExecutor(1, mp_context=None) as executor:
        evaluate = evaluator(fun, (), "raise", workers=executor)
        with pytest.raises(KeyError, match="zero") as caught:
            evaluate(ROWS)
        with pytest.raises(EvaluationError, match="Own: a class"):
            evaluate(ROWS[1:])
    assert "In a worker process" in caught.value.__notes__[0]


def test_a_quorum_leaves_late_futures_behind(threads):
    gate = threading.Event()

    def fun(x):
        if x[0] == 0:
            gate.wait(60)
        return x[0]

    evaluate = evaluator(fun, workers=threads, quorum=0.8)
    values = evaluate(ROWS)
    gate.set()
    assert np.flatnonzero(np.isnan(values)).tolist() == [0]
    assert (np.count_nonzero(evaluate.late), evaluate.record.failures) == (1, {})
    assert evaluate.late.tolist() == [True, False, False, False, False]


def test_a_future_that_hangs_is_abandoned(threads):
    gate = threading.Event()

    def fun(x):
        if x[0] == 3:
            gate.wait(60)
        return x[0]

    evaluate = evaluator(fun, workers=threads, timeout=0.3)
    values = evaluate(ROWS)
    gate.set()
    assert np.flatnonzero(np.isnan(values)).tolist() == [3]
    assert evaluate.record.failures == {"timeout": 1}


def test_a_broken_executor_ends_the_run_with_the_best_so_far(threads):
    class Breaks(Executor):
        calls = 0

        def submit(self, fn, /, *args, **kwargs):
            Breaks.calls += 1
            if Breaks.calls > 50:
                raise BrokenExecutor("a process died")
            future = Future()
            future.set_result(fn(*args))
            return future

    result = lmma.minimize(lambda x: float(x @ x), np.ones(3), 1.0, rng=1, workers=Breaks())
    assert result.reason == "failures"
    assert "a process died" in result.message
    assert result.fun < 3.0


def test_a_map_that_loses_answers_is_rejected():
    with pytest.raises(ValueError, match="must behave like map"):
        evaluator(lambda x: 0.0, workers=lambda f, rows: [0.0])(ROWS)


def test_a_run_through_threads_equals_a_serial_one(threads):
    def fun(x):
        time.sleep(0.0005 * (x[0] > 0))
        return float(x @ x)

    runs = [lmma.minimize(fun, np.ones(3), 1.0, rng=1, maxiter=10, workers=w) for w in (1, map, threads)]
    assert all(np.array_equal(run.mean, runs[0].mean) for run in runs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "at least 1"),
        ({"workers": "two"}, "workers must be an integer"),
        ({"workers": 1.5}, "workers must be an integer"),
        ({"timeout": 0}, "timeout must be a positive"),
        ({"quorum": 0}, "quorum must be a fraction"),
        ({"quorum": 0.5}, "needs more than one worker"),
        ({"workers": map, "timeout": 1.0}, "cannot be used with a map"),
        ({"workers": map, "vectorized": True}, "cannot be used with a map"),
    ],
)
def test_wishes_that_cannot_be_met_are_rejected(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        evaluator(awkward, **options)


def test_a_timeout_brings_a_process_of_its_own():
    assert isinstance(evaluator(awkward, timeout=5.0), Pool)
    assert isinstance(evaluator(awkward, workers=1), Serial)


def test_minus_one_is_a_worker_for_each_core_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 4, 5}, raising=False)
    assert evaluator(awkward, workers=-1).workers == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4}, raising=False)
    assert isinstance(evaluator(awkward, workers=-1), Serial)
