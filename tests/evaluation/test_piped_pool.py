"""The pool without shared memory, as on Windows; features that Windows lacks are switched off.

Nothing in this file needs POSIX, so it also runs where the piped channel is the only one.
"""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lmma
from lmma.evaluation import evaluator
from lmma.evaluation.failures import WorkersError
from lmma.evaluation.pool import processes
from lmma.evaluation.pool.pool import Pool


@pytest.fixture(autouse=True)
def without_shared_memory(monkeypatch):
    """Takes away the shared memory, the kill by process group, and calls that Windows has not."""
    monkeypatch.setitem(sys.modules, "lmma.evaluation.pool.shared", None)
    monkeypatch.setattr(processes, "_kill_session", processes._kill_tree, raising=False)
    for name in ("fork", "killpg", "memfd_create", "posix_fallocate", "set_blocking", "pread", "pwrite"):
        monkeypatch.delattr(os, name, raising=False)


@pytest.fixture
def pool():
    """Makes pools that are closed at the end of the test."""
    made = []

    def make(fun, **options):
        made.append(evaluator(fun, **{"workers": 2, **options}))
        assert isinstance(made[-1], Pool)
        return made[-1]

    yield make
    for each in made:
        each.close()


def sphere(x):
    return float(x @ x)


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"vectorized": True, "popsize": 40}])
def test_the_run_is_that_of_one_process(options):
    fun = (lambda X: np.square(X).sum(axis=1)) if "vectorized" in options else sphere
    runs = [lmma.minimize(fun, np.ones(5), 1.0, rng=1, maxiter=12, workers=k, **options) for k in (1, 3)]
    assert runs[0].fun == runs[1].fun
    assert np.array_equal(runs[0].mean, runs[1].mean)


def test_one_evaluation_that_hangs_is_killed(pool):
    def fun(x):
        time.sleep(1000 if x[0] == 2 else 0)
        return x[0]

    evaluate = pool(fun, workers=1, timeout=1.0)
    values = evaluate(np.arange(5.0)[:, None])
    assert np.array_equal(values, [0.0, 1.0, np.nan, 3.0, 4.0], equal_nan=True)
    assert evaluate.record.failures == {"timeout": 1}


def test_a_candidate_that_always_kills_fails_after_three_times(pool):
    evaluate = pool(lambda x: os._exit(3) if x[0] == 1 else x[0])
    assert np.array_equal(evaluate(np.arange(3.0)[:, None]), [0.0, np.nan, 2.0], equal_nan=True)
    assert (evaluate.record.failures, evaluate.record.deaths) == ({"died": 1}, 3)


def test_candidates_and_objectives_larger_than_a_pipe_pass(pool):
    table = np.arange(300_000.0)
    evaluate = pool(lambda x: float(np.count_nonzero(x > table) + x[-1] + table[-1]))
    rows = 1e5 * np.random.default_rng(1).normal(size=(5, len(table)))
    assert np.array_equal(evaluate(rows), [np.count_nonzero(x > table) + x[-1] + table[-1] for x in rows])


def test_the_shape_may_change_between_generations_and_workers_stay(pool):
    evaluate = pool(lambda x: float(x.sum()))
    for shape, dtype in [((3, 4), "float64"), ((6, 2), "float32"), ((2, 9), "float64")]:
        rows = np.ones(shape, dtype)
        before = list(evaluate._processes.values())
        assert np.array_equal(evaluate(rows), rows.sum(axis=1))
        assert before in ([], list(evaluate._processes.values()))


def test_an_argument_may_be_modified_and_kept(pool):
    kept = []

    def fun(x):
        x += 1.0
        kept.append(x)
        return float(kept[0][0])

    values = pool(fun, workers=1, timeout=60)(np.arange(3.0)[:, None])
    assert np.array_equal(values, [1.0, 1.0, 1.0])


def test_output_and_children_of_fun_cannot_disturb_the_reports(pool, capfd):
    def fun(x):
        print("printed", flush=True)
        assert sys.stdin.read() == ""
        subprocess.run([sys.executable, "-c", "print('by a program')"], check=True)
        return x[0]

    evaluate = pool(fun)
    assert np.array_equal(evaluate(np.arange(3.0)[:, None]), np.arange(3.0)), evaluate.record.errors
    out, errors = capfd.readouterr()
    assert (out, errors.count("printed"), errors.count("by a program")) == ("", 3, 3)


def test_a_program_that_outlives_its_worker_does_not_keep_the_pool_waiting(pool):
    def fun(x):
        if x[0] == 1:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
            os._exit(1)
        return x[0]

    began = time.monotonic()
    evaluate = pool(fun)
    values = evaluate(np.arange(3.0)[:, None])
    evaluate.close()
    assert np.array_equal(values, [0.0, np.nan, 2.0], equal_nan=True)
    assert time.monotonic() - began < 20


def test_a_pool_that_is_closed_leaves_no_thread_or_process(pool):
    evaluate = pool(sphere)
    evaluate(np.ones((4, 2)))
    ended = [worker.process for worker in evaluate._processes.values()]
    threads = [thread for worker in evaluate._processes.values() for thread in worker.threads]
    assert len(threads) == 4
    evaluate.close()
    assert not any(thread.is_alive() for thread in threads)
    assert all(process.poll() is not None for process in ended)
    assert all(process.stdin.closed and process.stdout.closed for process in ended)
    assert not set(threads) & set(threading.enumerate())


def test_a_system_without_more_threads_is_an_error_that_names_workers(pool, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    evaluate = pool(sphere)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(WorkersError, match=r"can't start new thread\): set workers= to a smaller number"):
        evaluate(np.ones((4, 2)))


def test_workers_exit_with_a_run_that_is_killed(python, tmp_path):
    (tmp_path / "script.py").write_text(
        """
import os, sys, threading, time
sys.modules["fcntl"] = None
import lmma

def fun(x):
    open("started", "a").close()
    time.sleep(3)
    open("survived", "a").close()
    return 0.0

def end():
    while not os.path.exists("started"):
        time.sleep(0.01)
    os._exit(0)  # nothing is closed

threading.Thread(target=end).start()
lmma.minimize(fun, [1.0, 1.0], workers=2, maxfevals=50)
"""
    )
    python("script.py")
    time.sleep(4)
    assert (tmp_path / "started").exists()
    assert not (tmp_path / "survived").exists()


def test_a_tree_is_killed_with_taskkill_and_without_it_at_least_the_process(monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda words, **options: asked.append(words))
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    processes._kill_tree(process)
    assert process.wait(60) != 0
    assert asked == [["taskkill", "/F", "/T", "/PID", str(process.pid)]]
    processes._kill_tree(process)  # it has gone: nothing to do
    assert len(asked) == 1
