import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lmma
from lmma.evaluation import EvaluationError, Serial, evaluator
from lmma.evaluation.pool import processes


@pytest.fixture(params=["shared", "piped"], autouse=True)
def channel(request, monkeypatch):
    """Both channels; the piped one is that of systems without shared memory and process groups."""
    if request.param == "piped":
        monkeypatch.setitem(sys.modules, "lmma.evaluation.pool.shared", None)
        monkeypatch.setattr(processes, "_kill_session", processes._kill_tree)
    return request.param


@pytest.fixture
def rows():
    return np.random.default_rng(1).normal(size=(13, 7))


@pytest.fixture
def pool():
    """Makes pools that are closed at the end of the test."""
    made = []

    def make(fun, *args, **options):
        made.append(evaluator(fun, *args, **{"workers": 2, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_closure_gives_the_values_it_gives_here(pool, rows):
    scale = np.arange(7.0)
    fun = lambda x, power: float(scale @ np.abs(x) ** power)  # noqa: E731
    there, here = pool(fun, (3,)), Serial(fun, (3,))
    assert np.array_equal(there(rows), here(rows))
    assert np.array_equal(there(rows[:5]), here(rows[:5]))  # fewer rows than it has room for


def test_single_precision_is_passed_unchanged(pool, rows):
    single = rows.astype(np.float32)
    assert np.array_equal(
        pool(lambda x: float(x[0]) if x.dtype == np.float32 else np.nan)(single), single[:, 0]
    )


def test_vectorised_objectives_get_blocks_of_rows(pool, rows):
    def fun(X):
        return X.sum(axis=1) + 1000.0 * len(X)

    values = pool(fun, vectorized=True, workers=2)(np.tile(rows, (4, 1)))
    assert np.allclose(values % 1000.0, np.tile(rows, (4, 1)).sum(axis=1) % 1000.0)
    assert set(np.round(values, -3)) == {6000.0, 4000.0}  # 52 rows: eight blocks of six, one of four


def test_failures_are_noted_in_the_order_of_candidates(pool, tmp_path):
    def fun(x):
        if x[0] == 4:
            (tmp_path / "four").touch()
            raise KeyError("four")
        if x[0] == 3:
            wait_until((tmp_path / "four").exists)
            time.sleep(0.05)  # so that the later candidate's failure is reported first
            raise ValueError("three")
        return [0.0, np.nan, np.inf][int(x[0])]

    evaluate = pool(fun)
    values = evaluate(np.array([[3.0], [1.0], [2.0], [0.0], [4.0]]))
    assert np.array_equal(values, [np.nan, np.nan, np.nan, 0.0, np.nan], equal_nan=True)
    assert evaluate.record.failures == {"ValueError": 1, "KeyError": 1, "nan": 1, "inf": 1}
    assert [error.kind for error in evaluate.record.errors] == ["ValueError", "KeyError", "nan", "inf"]
    assert 'raise ValueError("three")' in evaluate.record.errors[0].traceback


def test_raise_brings_the_exception_home(pool):
    class Own(Exception):
        pass

    def fun(x):
        if x[0] == 2:
            raise KeyError("two")
        if x[0] == 3:
            raise Own("a class that cannot travel")
        return np.nan if x[0] == 4 else 0.0

    with pytest.raises(KeyError, match="two") as caught:
        pool(fun, on_error="raise")(np.array([[1.0], [2.0]]))
    assert "In a worker process" in caught.value.__notes__[0]
    with pytest.raises(EvaluationError, match="Own: a class"):
        pool(fun, on_error="raise")(np.array([[3.0]]))
    with pytest.raises(EvaluationError, match="NaN"):
        pool(fun, on_error="raise")(np.array([[4.0]]))


def test_an_evaluation_that_hangs_is_ended_and_the_others_continue(pool):
    def fun(x):
        time.sleep(1000 if x[0] == 2 else 0)
        return x[0]

    evaluate = pool(fun, timeout=1.0)
    values = evaluate(np.arange(8.0)[:, None])
    assert np.flatnonzero(np.isnan(values)).tolist() == [2]
    assert evaluate.record.failures == {"timeout": 1}
    assert np.array_equal(evaluate(np.arange(3.0, 9.0)[:, None]), np.arange(3.0, 9.0))


def test_a_killed_worker_is_replaced_and_its_candidate_evaluated_again(pool, tmp_path):
    def fun(x):
        if x[0] == 3 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x[0]

    evaluate = pool(fun)
    assert np.array_equal(evaluate(np.arange(6.0)[:, None]), np.arange(6.0))
    assert evaluate.record.deaths == 1
    assert not evaluate.record.failures


def test_a_candidate_that_always_kills_fails_after_three_times(pool):
    def fun(x):
        if x[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x[0]

    evaluate = pool(fun)
    values = evaluate(np.arange(3.0)[:, None])
    assert np.array_equal(values, [0.0, np.nan, 2.0], equal_nan=True)
    assert (evaluate.record.failures, evaluate.record.deaths) == ({"died": 1}, 3)


def test_workers_killed_while_idle_are_replaced(pool):
    evaluate = pool(lambda x: x[0])
    rows = np.arange(4.0)[:, None]
    evaluate(rows)
    for worker in list(evaluate._processes.values()):
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
    assert np.array_equal(evaluate(rows), np.arange(4.0))
    assert not evaluate.record.failures


def test_a_quorum_does_not_wait_for_stragglers_and_drops_what_they_bring(pool, tmp_path):
    def fun(x):
        if x[0] == 5:
            wait_until((tmp_path / "go").exists)
            (tmp_path / "came").touch()
        elif x[0] >= 10:
            wait_until((tmp_path / "came").exists)
            time.sleep(0.05)  # so that the late value comes while this generation is open
        return x[0]

    evaluate = pool(fun, quorum=0.85)
    values = evaluate(np.arange(8.0)[:, None])  # 7 of 8 are enough
    assert np.flatnonzero(np.isnan(values)).tolist() == [5]
    assert (np.count_nonzero(evaluate.late), evaluate.record.failures) == (1, {})
    assert evaluate.late.tolist() == [False] * 5 + [True] + [False] * 2
    (tmp_path / "go").touch()  # its value comes during the next generation and belongs to none
    later = evaluate(np.arange(10.0, 18.0)[:, None])
    returned = ~np.isnan(later)
    assert np.count_nonzero(returned) >= 7
    assert np.array_equal(later[returned], np.arange(10.0, 18.0)[returned])


@pytest.mark.parametrize("channel", ["shared"], indirect=True)
def test_candidates_pass_through_shared_memory_without_a_pickled_copy(pool, monkeypatch):
    n = 100_000
    evaluate = pool(lambda x: float(x[-1]) + len(x))
    place = evaluate.buffer(6, n, "float64")
    place[...] = 0.0
    place[:, -1] = np.arange(6.0)
    sent = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: sent.append(len(data)) or write(fd, data))
    assert np.array_equal(evaluate(place), n + np.arange(6.0))
    assert sum(sent) == 6 * 16  # a task names a row
    assert np.shares_memory(place, evaluate._channel.memory.candidates)


def test_an_objective_workers_cannot_load_is_an_error_at_once(pool):
    class NotLoadable:
        def __call__(self, x):
            return 0.0

        def __reduce__(self):
            return os.listdir, ("/no/such/folder",)

    with pytest.raises(RuntimeError, match="cannot load fun: FileNotFoundError"):
        pool(NotLoadable())(np.zeros((2, 2)))


def test_an_objective_that_does_not_return_a_number_is_reported():
    with pytest.raises(TypeError, match="fun must return one real number"):
        lmma.minimize(lambda x: "7", np.zeros(3), 1.0, workers=2)


def test_two_workers_and_one_process_find_the_same():
    def fun(x):
        return float(x @ x)

    runs = [lmma.minimize(fun, np.ones(4), 1.0, rng=1, maxiter=15, workers=k) for k in (1, 2)]
    assert runs[0].fun == runs[1].fun
    assert np.array_equal(runs[0].x, runs[1].x)
    assert np.array_equal(runs[0].mean, runs[1].mean)


SCRIPT = """
import os, sys, time, lmma
import numpy as np
def fun(x):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    time.sleep({pause})
    return float(x @ x)
lmma.minimize(fun, np.ones(4), 1.0, values="ranks", workers=2, maxtime=100)
"""  # no main guard: a script like anyone's


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("pause", [0.001, 1000])
def test_a_run_that_is_ended_leaves_no_process_behind(number, pause, channel, tmp_path):
    script = tmp_path / "script.py"
    text = SCRIPT.format(pause=pause).replace("sys.argv[1]", repr(str(tmp_path / "pids")))
    script.write_text(text if channel == "shared" else f"import sys; sys.modules['fcntl'] = None\n{text}")
    (tmp_path / "pids").mkdir()
    run = subprocess.Popen(
        [sys.executable, str(script)],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    wait_until(lambda: len(list((tmp_path / "pids").iterdir())) == 2)
    run.send_signal(number)
    run.wait(timeout=60)
    pids = [int(file.name) for file in (tmp_path / "pids").iterdir()]
    wait_until(lambda: not any(alive(pid) for pid in pids))


def alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
