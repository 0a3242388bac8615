"""A checkpoint has one writer; locks of killed processes do not block."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lmma
from lmma import _files
from lmma._files import Lock
from lmma.run.checkpoint import Checkpoint, CheckpointError, previous, read


def spheres(X):
    return np.sum(np.square(X), axis=1)


def run(file, **options):
    options = {"vectorized": True, "values": "ranks", "rng": 1, "maxiter": 5, "checkpoint": file} | options
    return lmma.minimize(spheres, np.ones(4), 1.0, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["system", "file"])
def kind(request, monkeypatch):
    """Locks of the system, and what takes their place on a file system that has none."""
    if request.param == "file":

        def refuses(descriptor, operation):
            raise OSError(errno.ENOSYS, "Function not implemented")

        monkeypatch.setattr(_files.fcntl, "flock", refuses)
    return request.param


def test_two_runs_on_one_checkpoint_are_one_too_many(kind, tmp_path):
    file = tmp_path / "run.npz"
    refused = []

    def second(x):
        for again in (file, saved):
            with pytest.raises(
                CheckpointError, match="is in use by another run of this process: wait"
            ) as caught:
                run(again)
            refused.append(caught.value)

    saved = Checkpoint(file, every=0)
    result = run(saved, callback=second)
    assert (result.nit, len(refused)) == (5, 10)
    assert names(tmp_path) == ["run.npz", "run.npz.prev"]
    assert run(file, maxiter=8).nit == 8
    assert names(tmp_path) == ["run.npz", "run.npz.prev"]


def test_a_rejected_checkpoint_is_not_locked(kind, tmp_path):
    file = tmp_path / "run.npz"
    run(file)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run(file, rng=2)
    with pytest.raises(ValueError, match="maxfevals"):
        run(file, maxfevals=1)
    assert names(tmp_path) == ["run.npz"]
    assert run(file, maxiter=6).nit == 6


HOLDS = """
import sys, time
import numpy as np
import lmma
from lmma import _files
if sys.argv[2] == "file":
    _files.fcntl = None

def spheres(X):
    print(len(X), flush=True)
    time.sleep(1000)

lmma.minimize(spheres, np.ones(4), 1.0, vectorized=True, rng=1, checkpoint=sys.argv[1])
"""


@pytest.fixture
def holder(environment, tmp_path, kind):
    """A process in the middle of a run with the checkpoint run.npz."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "run.npz"), kind]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_named_and_its_death_frees_the_checkpoint(holder, tmp_path):
    file = tmp_path / "run.npz"
    with pytest.raises(CheckpointError, match=f"by process {holder.pid} on {socket.gethostname()}: wait"):
        run(file)
    assert holder.poll() is None
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert names(tmp_path) != []  # it could not tidy up
    assert run(file).nit == 5
    assert names(tmp_path) == ["run.npz"]


def test_a_process_elsewhere_may_live(monkeypatch, tmp_path):
    monkeypatch.setattr(_files, "fcntl", None)
    owner = tmp_path / ".run.npz.owner"
    owner.write_text(json.dumps({"pid": 2**22 + 1, "host": "elsewhere"}))
    with pytest.raises(CheckpointError, match=r"4194305 on elsewhere.*remove .*\.run\.npz\.owner"):
        run(tmp_path / "run.npz")
    ours = json.dumps({"pid": -1, "host": socket.gethostname()})
    for text in ("", "[" * 999, "3", '{"pid": "x"}', ours):
        owner.write_text(text)
        with pytest.raises(CheckpointError, match=r"remove .*\.run\.npz\.owner"):
            run(tmp_path / "run.npz")


def test_many_processes_at_once_let_one_through(tmp_path):
    held = []

    def take():
        lock = Lock(tmp_path / "run.npz", "checkpoint", CheckpointError)
        for _ in range(200):
            try:
                lock.acquire()
            except CheckpointError:
                continue
            held.append(1)
            assert len(held) == 1
            time.sleep(0)
            held.pop()
            lock.release()

    failed = []
    monitored = [threading.Thread(target=lambda: _noting(take, failed)) for _ in range(8)]
    for thread in monitored:
        thread.start()
    for thread in monitored:
        thread.join()
    assert failed == []
    assert names(tmp_path) == []


def _noting(work, failed):
    try:
        work()
    except BaseException as error:
        failed.append(error)


def test_a_fork_does_not_give_the_lock_away(tmp_path):
    lock = Lock(tmp_path / "run.npz", "checkpoint", CheckpointError)
    lock.acquire()
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(CheckpointError, match="another run of this process"):
        Lock(tmp_path / "run.npz", "checkpoint", CheckpointError).acquire()
    lock.release()


def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    left = [".run.npz.123.tmp.npz", ".run.npz.prev.123.tmp.npz"]
    others = [".run.npz.7.123.tmp.npz", ".run.npz.x.tmp.npz", "run.npz.123.tmp.npz", ".run_npz.123.tmp.npz"]
    for name in left + others:
        (tmp_path / name).write_text("half")
    run(tmp_path / "run.npz")
    assert names(tmp_path) == sorted([*others, "run.npz"])


def test_no_symbolic_link_is_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    file = tmp_path / "run.npz"
    file.symlink_to(precious)
    with pytest.raises(ValueError, match=f"is a symbolic link.*{precious}"):
        run(file)
    file.unlink()
    for name in (f".run.npz.{os.getpid()}.tmp.npz", f".run.npz.prev.{os.getpid()}.tmp.npz", "run.npz.prev"):
        (tmp_path / name).symlink_to(precious)
    lock = tmp_path / ".run.npz.lock"
    lock.symlink_to(precious)
    with pytest.raises(CheckpointError, match="cannot be locked"):
        run(file)
    lock.unlink()
    run(Checkpoint(file, every=0))
    run(file, maxiter=7)
    assert precious.read_text() == "precious"
    assert not file.is_symlink()
    assert not previous(file).is_symlink()
    assert names(tmp_path) == ["precious", "run.npz", "run.npz.prev"]


def test_a_file_system_without_hard_links_is_enough(monkeypatch, tmp_path):
    def none(*args, **named):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    run(tmp_path / "run.npz")
    run(tmp_path / "run.npz", maxiter=9)
    assert read(previous(tmp_path / "run.npz"))[0]["counters"]["generation"] == 5
    assert names(tmp_path) == ["run.npz", "run.npz.prev"]
