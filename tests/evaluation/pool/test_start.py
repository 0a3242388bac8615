"""Start of workers: modules in the current directory are not imported, and failures are explained."""

import errno
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

import lmma
from lmma.evaluation import evaluator
from lmma.evaluation.failures import WorkersError
from lmma.evaluation.pool import pool as pool_module
from lmma.evaluation.pool.processes import exit_reason
from strays import MINE, command, lay_out


@pytest.fixture
def strays(tmp_path):
    return lay_out(tmp_path)


@pytest.mark.parametrize("target", ["sphere", "mine:loss"])
def test_a_pool_runs_nothing_that_lies_about(target, strays, environment, tmp_path):
    words = ("minimize", target, "--dim", 3, "--workers", 2, "--max-generations", 2, "--seed", 1)
    done = subprocess.run(command(*words), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert strays() == []


def test_workers_find_what_the_parent_finds(environment, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    code = (
        "import sys; sys.path.insert(0, 'later'); import lmma, mine, numpy as np\n"
        "r = lmma.minimize(mine.loss, np.ones(3), 1.0, workers=2, maxiter=2, rng=1)\n"
        "print(r.failures, r.nfev > 0)"
    )
    (tmp_path / "later").mkdir()
    (tmp_path / "mine.py").rename(tmp_path / "later" / "mine.py")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0", "True"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux has them")
def test_workers_without_memory_say_memory(environment, tmp_path):
    # A worker with less memory than its parent: a wrapper that limits itself first
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nulimit -v 60000\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    code = (
        "import sys, resource; from lmma.cli import main\n"
        f"sys.executable = {str(wrapper)!r}\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ("minimize", "sphere", "--dim", 3, "--workers", 2, "--max-generations", 2, "--quiet")
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, words)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("lmma: sphere: worker processes")
    assert "memory" in last


@pytest.fixture
def births(monkeypatch, tmp_path):
    """Makes the first ``count`` workers end at birth by a shell command; returns how many were born."""

    def arrange(count, end):
        born = tmp_path / "born"
        wrapper = tmp_path / "python"
        wrapper.write_text(
            f"#!/bin/sh\necho >> '{born}'\n"  # the folder's name may have a space
            f"if [ $(wc -l < '{born}') -le {count} ]; then {end}; fi\n"
            f'exec {sys.executable} "$@"\n'
        )
        wrapper.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(wrapper))
        return lambda: len(born.read_text().splitlines())

    return arrange


def sphere(x):
    return float(x @ x)


@pytest.mark.parametrize(("count", "end"), [(14, "kill -KILL $$"), (14, "kill -TERM $$"), (2, "exit 7")])
def test_workers_that_end_at_birth_are_replaced(births, count, end):
    serial = lmma.minimize(sphere, np.ones(3), 0.5, rng=1, maxiter=3)
    born = births(count, end)
    result = lmma.minimize(sphere, np.ones(3), 0.5, rng=1, maxiter=3, workers=2)
    assert np.array_equal(result.mean, serial.mean)
    assert (result.failures, result.deaths) == (0, 0)
    assert count < born() <= count + 2  # the second may not be needed


@pytest.mark.parametrize(
    ("end", "reason", "most"),
    [("kill -KILL $$", "SIGKILL", pool_module.KILLED_STARTS + 6), ("exit 7", "status 7", 8)],
)
def test_workers_that_always_end_at_birth_end_the_run_with_the_reason(births, end, reason, most):
    born = births(1000, end)
    with pytest.raises(WorkersError, match=reason):
        lmma.minimize(sphere, np.ones(3), 0.5, rng=1, maxiter=3, workers=2)
    assert born() <= most


@pytest.fixture
def refusals(monkeypatch):
    """Makes the system refuse to start processes, after the first two, ``count`` times."""
    start, asked = subprocess.Popen, []

    def arrange(count):
        def refuse(*args, **options):
            asked.append(1)
            if 2 < len(asked) <= 2 + count:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return start(*args, **options)

        monkeypatch.setattr(subprocess, "Popen", refuse)
        monkeypatch.setattr(pool_module, "HEARTBEAT", 0.01)
        return asked

    return arrange


def test_a_worker_the_system_rejects_to_replace_is_replaced_later(refusals, tmp_path):
    def fun(x):
        try:
            os.close(os.open(tmp_path / str(x[0]), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return x[0]
        os.kill(os.getpid(), signal.SIGKILL)  # each candidate kills one worker

    asked = refusals(8)
    evaluate = evaluator(fun, workers=2)
    try:
        values = evaluate(np.arange(3.0)[:, None])
    finally:
        evaluate.close()
    assert values.tolist() == [0, 1, 2]
    assert evaluate.record.deaths == 3
    assert len(asked) >= 2 + 8 + 2


def test_a_system_that_rejects_all_workers_ends_the_run(refusals):
    asked = refusals(1000)
    evaluate = evaluator(lambda x: os.kill(os.getpid(), signal.SIGKILL), workers=2)
    with pytest.raises(WorkersError, match="temporarily unavailable"):
        evaluate(np.zeros((4, 1)))
    assert len(asked) <= 2 + 3 * pool_module.REFUSED_STARTS  # a few more if a worker dies while others start


def test_a_killed_worker_says_memory():
    assert "memory" in exit_reason(-signal.SIGKILL)
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        assert "SIGSEGV" in exit_reason(-signal.SIGSEGV)
    assert "status 7" in exit_reason(7)


ORPHANED = """
import ctypes, os, signal, sys, time
import lmma

driver = os.getpid()

def fun(x):
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # to live on when the run is killed, and report to nobody
    if os.getppid() == driver:  # not if another candidate was waiting already
        os.kill(driver, signal.SIGKILL)
        while os.getppid() == driver:
            time.sleep(0.001)
    return 0.0

lmma.minimize(fun, [1.0, 1.0], timeout=100, maxfevals=50)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_worker_whose_run_was_killed_goes_without_a_word(environment):
    # its standard error is open until it has gone too
    done = subprocess.run(
        [sys.executable, "-c", ORPHANED], env=environment, stderr=subprocess.PIPE, timeout=100
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == b""
