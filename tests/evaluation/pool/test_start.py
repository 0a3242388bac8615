"""How workers start: from nothing that lies about in the current directory, or with words why not."""

import resource
import signal
import subprocess
import sys

import pytest

from lmma.evaluation.pool.processes import why_it_ended

STRAYS = ("json", "random", "numpy", "struct", "dataclasses")
MINE = "import math\ndef loss(x):\n    return math.fsum(x * x)\n"


@pytest.fixture
def strays(tmp_path):
    for name in STRAYS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / name)!r} + '.ran', 'a').write('x')\n")
    (tmp_path / "mine.py").write_text(MINE)
    return lambda: sorted(file.name for file in tmp_path.glob("*.ran"))


def command(*words):
    """The command as the console script is: the current directory is not on the path to begin with."""
    code = "import sys; from lmma.cli import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-P", "-c", code, *map(str, words)]


@pytest.mark.parametrize("target", ["sphere", "mine:loss"])
def test_a_pool_runs_nothing_that_lies_about(target, strays, environment, tmp_path):
    words = ("minimize", target, "--dim", 3, "--workers", 2, "--max-generations", 2, "--seed", 1)
    done = subprocess.run(command(*words), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert strays() == []


@pytest.mark.parametrize("method", ["csa-es", "own:Mine"])
def test_an_experiment_runs_nothing_that_lies_about(method, strays, environment, tmp_path):
    (tmp_path / "own.py").write_text("import lmma\nclass Mine(lmma.MAES):\n    pass\n")
    words = ("compare", "--methods", f"ma-es,{method}", "--problems", "sphere", "--dims", 4, "--seeds", 1,
             "--workers", 2, "--budget", 100, "--out", tmp_path / "out")  # fmt: skip
    done = subprocess.run(command(*words), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (tmp_path / "out" / "store.sqlite").exists(), done.stderr
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


def test_a_killed_worker_says_memory():
    assert "memory" in why_it_ended(-signal.SIGKILL)
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        assert "SIGSEGV" in why_it_ended(-signal.SIGSEGV)
    assert "status 7" in why_it_ended(7)


ORPHANED = """
import ctypes, os, signal, sys, time
import lmma

def fun(x):
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # to live on when the run is killed, and report to nobody
    parent = os.getppid()
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
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
