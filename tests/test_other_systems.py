"""Features missing on Windows and macOS are replaced or rejected with a message; simulated here."""

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import lmma
from lmma import _files
from lmma.evaluation import program
from lmma.evaluation.pool import worker

fcntl = pytest.importorskip("fcntl", reason="stands in for the locks of other systems")

# Modules that exist on POSIX systems alone; blocked, an import raises as it would on Windows.
POSIX_ONLY = ("fcntl", "termios", "resource", "pwd", "grp", "posix_ipc", "readline", "syslog", "tty", "pty")

WITHOUT_THEM = f"""
import sys
sys.modules.update(dict.fromkeys({POSIX_ONLY!r}))
"""


def sphere(x):
    return float(x @ x)


def test_a_run_needs_no_module_of_posix_systems(python):
    python(
        "-c",
        WITHOUT_THEM
        + """
import numpy as np
import lmma
result = lmma.minimize(lambda x: float(x @ x), np.ones(4), 1.0, rng=1, checkpoint="run.npz", maxiter=10)
assert result.nit == 10
""",
    )


def test_the_command_needs_no_module_of_posix_systems(python):
    out = python(
        "-c",
        WITHOUT_THEM
        + """
from lmma.cli import main
for words in ("methods", "minimize sphere --dim 4 --seed 1 --max-generations 20 --quiet"):
    print("status", main(words.split()))
""",
        quiet=False,
    )
    assert "status 0" in out  # the budget ran out


def test_worker_processes_need_no_module_of_posix_systems_and_no_main_guard(python, tmp_path):
    (tmp_path / "script.py").write_text(
        WITHOUT_THEM
        + """
import numpy as np
import lmma

runs = [
    lmma.minimize(lambda x: float(x @ x), np.ones(3), 1.0, rng=1, maxiter=5, **options)
    for options in ({}, {"workers": 2, "timeout": 60}, {"timeout": 60})
]
print(len({run.fun for run in runs}), {run.failures for run in runs})
"""
    )
    assert python("script.py").split() == ["1", "{0}"]


def test_asking_whether_a_process_lives_never_ends_it(monkeypatch):
    def kill(pid, number):
        raise AssertionError("on Windows os.kill(pid, 0) ends the process")

    monkeypatch.setattr(_files, "os", SimpleNamespace(name="nt", kill=kill))
    assert _files.is_gone(os.getpid()) is None


def test_a_process_that_ended_is_known_to_be_gone():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert _files.is_gone(ended.pid) is True
    assert _files.is_gone(os.getpid()) is False


@pytest.fixture
def windows_locks(monkeypatch):
    """Locks as Windows has them: of single bytes, which nobody else can then touch."""
    asked = []

    def locking(descriptor, mode, count):
        asked.append((os.lseek(descriptor, 0, os.SEEK_CUR), count))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    monkeypatch.setattr(_files, "fcntl", None)
    monkeypatch.setattr(_files, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    return asked


def test_windows_locks_keep_a_second_run_off_and_leave_nothing(windows_locks, tmp_path):
    file = tmp_path / "run.npz"
    refused = []

    def second(x):
        with pytest.raises(lmma.CheckpointError, match="in use by another run of this process") as caught:
            lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxiter=3, checkpoint=file)
        refused.append(caught.value)

    result = lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxiter=3, checkpoint=file, callback=second)
    assert (result.nit, len(refused)) == (3, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.npz"]
    assert all(lock == (_files.LOCKED_BYTE, 1) for lock in windows_locks)
    assert lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxiter=6, checkpoint=file).nit == 6


def test_windows_closes_a_lock_before_it_removes_it(windows_locks, monkeypatch, tmp_path):
    lock = _files.Lock(tmp_path / "run.npz", "checkpoint", ValueError)
    lock.acquire()
    descriptor, closed = lock._descriptor, []
    monkeypatch.setattr(
        type(lock.path), "unlink", lambda path, missing_ok=False: closed.append(is_closed(descriptor))
    )
    lock.release()
    assert closed == [True]


def is_closed(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def test_backslashes_of_windows_stay_in_a_command(monkeypatch):
    monkeypatch.setattr(program, "SEPARATOR", "\\")
    words = program.Program(r'C:\models\run.exe "D:\my data\in.txt" {file}').argv
    assert words == [r"C:\models\run.exe", r"D:\my data\in.txt", "{file}"]


def test_a_worker_looks_whether_its_pool_is_there_where_the_system_does_not_tell(monkeypatch):
    parents = iter([7, 7, 1])
    ended = []
    monkeypatch.setattr(worker, "POLL_INTERVAL", 0.0)
    monkeypatch.setattr(worker.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(worker.os, "_exit", ended.append)
    worker._exit_after(7)
    assert ended == [1]
    assert list(parents) == []


def test_only_the_shared_memory_of_the_pool_needs_posix(python):
    modules = (
        "lmma",
        "lmma.cli",
        "lmma.run.run",
        "lmma.evaluation.cluster.worker_host",
        "lmma.evaluation.executors",
        "lmma.evaluation.pool.piped",
        "lmma.evaluation.pool.pool",
        "lmma.evaluation.program",
    )
    python("-c", f"{WITHOUT_THEM}\nimport {', '.join(modules)}")
    tried = "try:\n    import lmma.evaluation.pool.shared\nexcept ImportError as error:\n    print(error)"
    assert "fcntl" in python("-c", f"{WITHOUT_THEM}\n{tried}")
