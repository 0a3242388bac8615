"""State in a checkpoint beyond the strategy, and the interval between checkpoints."""

import hashlib
import os
import signal
import time
import zipfile

import numpy as np
import pytest

import lmma
from lmma.checkpoint import Checkpoint, CheckpointError
from lmma.run.checkpoint import read, write


def spheres(X):
    return np.sum(np.square(X), axis=1)


def test_a_share_of_evaluations_and_a_first_step_are_remembered(tmp_path):
    options = {"sigma0": 0.7, "method": "ma-es", "restarts": "bipop:2", "tolfun": 1e-3, "vectorized": True}
    whole = lmma.minimize(spheres, np.full(4, 2.0), rng=5, maxiter=400, **options)
    assert [run.reason for run in whole.runs].count("allowance") == 4
    for stop in range(20, 401, 20):  # two or three stops in each part of the run
        parts = lmma.minimize(
            spheres, np.full(4, 2.0), rng=5, maxiter=stop, checkpoint=tmp_path / "run.npz", **options
        )
    assert (parts.nfev, parts.reason, parts.runs) == (whole.nfev, whole.reason, whole.runs)
    assert np.array_equal(parts.x, whole.x)


def test_dead_workers_are_remembered(tmp_path):
    def fun(x):
        try:
            os.close(os.open(tmp_path / "dead", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return float(x @ x)
        os.kill(os.getpid(), signal.SIGKILL)

    for stop in (2, 4):
        result = lmma.minimize(
            fun, np.ones(3), 1.0, rng=1, workers=2, maxiter=stop, checkpoint=tmp_path / "run.npz"
        )
        assert (result.nit, result.deaths, result.failures) == (stop, 1, 0)


def test_kernels_that_differ_from_those_of_the_checkpoint_are_reported(tmp_path):
    file = tmp_path / "run.npz"
    options = {"rng": 1, "vectorized": True, "checkpoint": file}
    assert lmma.minimize(spheres, np.ones(4), 1.0, maxiter=2, **options).warnings == []
    header, arrays = read(file)
    write(file, header | {"kernels": "other"}, arrays)
    [warning] = lmma.minimize(spheres, np.ones(4), 1.0, maxiter=4, **options).warnings
    assert "written with other kernels" in warning


def test_lambdas_are_distinguished_by_their_code(tmp_path):
    options = {"sigma0": 1.0, "rng": 1, "maxiter": 3, "checkpoint": tmp_path / "run.npz"}
    for _ in range(2):
        assert lmma.minimize(lambda x: float(x @ x), np.ones(4), **options).nit == 3
    with pytest.raises(CheckpointError, match="fun is"):
        lmma.minimize(lambda x: float(x @ x) + 1, np.ones(4), **options)


def test_checkpoints_are_as_frequent_as_asked_for(tmp_path):
    there = {}
    for every in (0, 3600):
        file = tmp_path / f"{every}.npz"
        there[every] = []
        lmma.minimize(
            spheres, np.ones(4), 1.0, rng=1, maxiter=5, vectorized=True,
            checkpoint=Checkpoint(file, every=every),
            callback=lambda x, every=every, file=file: there[every].append(file.exists()),
        )  # fmt: skip
        assert file.exists()
    assert there == {0: [True] * 5, 3600: [False] * 5}
    with pytest.raises(ValueError, match="every must be"):
        Checkpoint(tmp_path / "run.npz", every=-1)


def test_a_slow_disk_takes_a_twentieth_of_the_run_at_most(tmp_path, monkeypatch):
    written = []

    def slow(descriptor):
        written.append(descriptor)
        time.sleep(0.1)

    monkeypatch.setattr(os, "fsync", slow)
    lmma.minimize(spheres, np.ones(4), 1.0, rng=1, maxiter=100, tolx=0, tolfun=0, vectorized=True,
                  checkpoint=Checkpoint(tmp_path / "run.npz", every=0))  # fmt: skip
    assert len(written) < 20  # two for each checkpoint, and no checkpoint for four seconds after another


def test_between_two_checkpoints_there_is_the_time_that_was_asked_for(tmp_path, monkeypatch):
    now, written = [0.0], []
    replace = os.replace
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        os, "replace", lambda old, new: (written.append((now[0], str(new))), replace(old, new))
    )

    def takes_ten_seconds(X):
        now[0] += 10
        return spheres(X)

    saved = Checkpoint(tmp_path / "run.npz", every=25)
    lmma.minimize(takes_ten_seconds, np.ones(4), 1.0, rng=1, maxiter=11, vectorized=True, checkpoint=saved)
    monkeypatch.undo()
    assert [at for at, name in written if name.endswith("run.npz")] == [30, 60, 90, 110]  # and at the end


def test_the_previous_checkpoint_is_kept_without_hard_links_too(tmp_path, monkeypatch):
    def unsupported(old, new):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", unsupported)
    options = {"rng": 1, "vectorized": True, "checkpoint": tmp_path / "run.npz"}
    for stop in (3, 5):
        lmma.minimize(spheres, np.ones(4), 1.0, maxiter=stop, **options)
    assert read(tmp_path / "run.npz.prev")[0]["counters"]["generation"] == 3


def test_a_compressed_archive_is_rejected_however_right_its_checksum_is(tmp_path):
    # A few kilobytes may say that they are gigabytes
    file, packed = tmp_path / "run.npz", tmp_path / "packed.npz"
    lmma.minimize(spheres, np.ones(4), 1.0, rng=1, vectorized=True, maxiter=2, checkpoint=file)
    with zipfile.ZipFile(file) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        for name in plain.namelist():
            other.writestr(name, plain.read(name))
        other.comment = b"0" * 64
    data = packed.read_bytes()[:-64]
    packed.write_bytes(data + hashlib.sha256(data).hexdigest().encode())
    with pytest.raises(CheckpointError, match="compressed"):
        read(packed)


def test_workers_tolerances_and_callbacks_may_change_in_between(tmp_path):
    def fun(x):
        return float(x @ x)

    options = {"sigma0": 1.0, "rng": 1, "method": "ma-es"}
    whole = lmma.minimize(fun, np.ones(4), maxiter=30, **options)
    for changed in (
        {"maxiter": 5},
        {"maxiter": 10, "workers": 2},
        {"maxfevals": 120, "tolfun": 0, "callback": lambda x: None},
        {"maxiter": 30, "tolx": 1e-9, "timeout": 60, "history": 4},
    ):
        parts = lmma.minimize(fun, np.ones(4), checkpoint=tmp_path / "run.npz", **options, **changed)
    assert np.array_equal(parts.x, whole.x)
    assert np.array_equal(parts.mean, whole.mean)
    assert (parts.nfev, parts.nit, parts.fun) == (whole.nfev, whole.nit, whole.fun)
