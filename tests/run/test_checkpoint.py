import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

import lmma
from lmma.problems import get
from lmma.run.checkpoint import Checkpoint, CheckpointError, previous, read, write

ELLIPSOID = get("ellipsoid").function


def spheres(X):
    return np.sum(np.square(X), axis=1)


def state_of(path):
    """Return all that a checkpoint holds except times."""
    header, arrays = read(path)
    header["counters"].pop("seconds")
    return header, {name: array for name, array in arrays.items() if name != "history.seconds"}


def assert_same(a, b):
    assert a[0] == b[0]
    assert a[1].keys() == b[1].keys()
    for name, array in a[1].items():
        assert np.array_equal(array, b[1][name], equal_nan=array.dtype.kind == "f"), name


CASES = {
    "plain": {"method": "lm-ma-es"},
    "single precision": {"method": "lm-ma-es", "dtype": "float32"},
    "full matrix": {"method": "ma-es"},
    "covariance": {"method": "cma-es"},
    "no matrix": {"method": "csa-es"},
    "penalties": {"method": "ma-es", "bounds": [0.5, 4.0], "boundary": "project"},
    "smooth box": {"method": "ma-es", "bounds": [0.5, 4.0]},
    "restarts": {"method": "ma-es", "restarts": "bipop:3", "tolfun": 1e-3},
    "scales": {"method": "ma-es", "sigma0": [1.0, 2.0, 3.0, 4.0]},
    "history": {"method": "ma-es", "history": 16},
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_equals_the_unbroken_one(case, tmp_path):
    options = {"sigma0": 0.7, "vectorized": True, "rng": 5, "maxiter": 150, **CASES[case]}
    whole = lmma.minimize(spheres, np.full(4, 2.0), checkpoint=tmp_path / "whole.npz", **options)
    for stop in (1, 20, 63, 64, 90, 150):
        parts = lmma.minimize(
            spheres, np.full(4, 2.0), checkpoint=tmp_path / "parts.npz", **{**options, "maxiter": stop}
        )
    assert_same(state_of(tmp_path / "whole.npz"), state_of(tmp_path / "parts.npz"))
    assert np.array_equal(whole.x, parts.x)
    assert (whole.nfev, whole.reason, whole.runs) == (parts.nfev, parts.reason, parts.runs)


def test_failures_are_remembered(tmp_path):
    def fun(x):
        if x[0] > 2.0:
            raise OSError(f"{x[0]} is too large")
        return float(x @ x)

    options = {"sigma0": 1.0, "rng": 1, "on_error": "resample"}
    whole = lmma.minimize(fun, np.full(3, 2.0), maxiter=12, **options)
    for stop in (5, 12):
        parts = lmma.minimize(fun, np.full(3, 2.0), maxiter=stop, checkpoint=tmp_path / "run.npz", **options)
    assert whole.failed == parts.failed != {}
    first, second = ([(error.kind, error.message) for error in run.errors] for run in (whole, parts))
    assert first == second != []
    assert (whole.nfev, whole.failures) == (parts.nfev, parts.failures)
    assert np.array_equal(whole.x, parts.x)


def test_a_finished_run_returns_its_result_again_and_continues_with_a_larger_budget(tmp_path):
    file = tmp_path / "run.npz"
    options = {"sigma0": 1.0, "vectorized": True, "tolfun": 0, "checkpoint": file}  # the file has the seed
    first = lmma.minimize(spheres, np.ones(4), values="ranks", maxfevals=400, **options)
    again = lmma.minimize(spheres, np.ones(4), values="ranks", maxfevals=400, **options)
    assert (first.nfev, first.fun, first.message) == (again.nfev, again.fun, again.message)
    assert np.array_equal(first.x, again.x)
    more = lmma.minimize(spheres, np.ones(4), values="ranks", maxfevals=800, **options)
    assert more.nfev == 800
    assert more.fun < first.fun


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"fun": ELLIPSOID}, "fun is 'spheres' in the file and 'ellipsoid' here"),
        ({"method": "cma-es"}, "method is 'ma-es' in the file and 'cma-es' here"),
        ({"x0": np.ones(5)}, "n is 4 in the file and 5 here"),
        ({"x0": np.zeros(4)}, "x0 or sigma0 differs"),
        ({"popsize": 20}, "popsize is 8 in the file and 20 here"),
        ({"dtype": "float32"}, "dtype is 'float64' in the file and 'float32' here"),
        ({"bounds": [-9, 9]}, "boundary is None in the file and 'smooth' here"),
        ({"rng": 2}, "the seed"),
        ({"c_1": 0.1}, "options is"),
        ({"fun": lambda X: spheres(X)}, "fun is 'spheres' in the file and '<lambda> "),
        ({"fun": functools.partial(spheres)}, r"and 'partial\(spheres\)' here"),
    ],
)
def test_a_checkpoint_of_another_run_is_rejected(changed, words, tmp_path):
    call = {"fun": spheres, "x0": np.ones(4), "sigma0": 1.0, "method": "ma-es", "rng": 1, "maxiter": 3,
            "vectorized": True, "checkpoint": tmp_path / "run.npz"}  # fmt: skip
    lmma.minimize(**call)
    before = (tmp_path / "run.npz").read_bytes()
    with pytest.raises(CheckpointError, match=words):
        lmma.minimize(**{**call, **changed})
    assert (tmp_path / "run.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("label", "value", "words"), [("version", 99, "version 99"), ("numerics", 0, "numerics have version 0"),
                                  ("format", "other", "not an lmma checkpoint")],
)  # fmt: skip
def test_another_version_is_rejected(label, value, words, tmp_path):
    write(tmp_path / "run.npz", {label: value}, {"a": np.zeros(2)})
    with pytest.raises(CheckpointError, match=words):
        read(tmp_path / "run.npz")


def corrupted(data, rng):
    """Return a checkpoint's bytes after one of several accidents."""
    kind = rng.integers(6)
    at = int(rng.integers(len(data)))
    if kind == 0:
        return data[:at]  # cut short
    if kind == 1:
        return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]  # a flipped bit
    if kind == 2:
        return data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :] + b"x"  # a lost sector
    if kind == 3:
        return data + rng.bytes(int(rng.integers(1, 100)))  # something appended
    if kind == 4:
        other = int(rng.integers(len(data)))
        a, b = sorted((at, other))
        return data[:a] + data[b:]  # a piece missing
    return rng.bytes(len(data))  # something else altogether


def check_corruptions(count, tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(spheres, np.ones(4), 1.0, rng=1, maxiter=5, vectorized=True, checkpoint=file)
    data = file.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(count):
        file.write_bytes(corrupted(data, rng))
        if file.read_bytes() == data:
            continue
        with pytest.raises(CheckpointError, match=r"cannot use checkpoint|does not exist"):
            read(file)
    file.write_bytes(data)
    assert read(file)[0]["counters"]["generation"] == 5


def test_damage_is_noticed(tmp_path):
    check_corruptions(200, tmp_path)


@pytest.mark.slow
def test_damage_is_noticed_a_thousand_times(tmp_path):
    check_corruptions(1000, tmp_path)


def test_swapped_arrays_are_noticed(tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(
        spheres, np.ones(4), 1.0, values="ranks", rng=1, maxiter=5, vectorized=True, checkpoint=file
    )
    arrays = dict(np.load(file))
    mean, best = "strategy.mean", "strategy.record.best_x"
    arrays[mean], arrays[best] = arrays[best], arrays[mean]
    np.savez(file, **arrays)
    with pytest.raises(CheckpointError, match="checksum"):
        lmma.minimize(
            spheres, np.ones(4), 1.0, values="ranks", rng=1, maxiter=5, vectorized=True, checkpoint=file
        )


class Evil:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.npz"
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write(file, {}, {"a": np.array([Evil()], dtype=object)})
    assert not file.exists()
    # A stranger who knows the format, checksum included
    plain = np.lib.format.write_array
    monkeypatch.setattr(
        np.lib.format, "write_array", lambda *a, **k: plain(*a, **{**k, "allow_pickle": True})
    )
    write(file, {}, {"a": np.array([Evil()], dtype=object)})
    with pytest.raises(CheckpointError, match="does not contain plain numbers"):
        read(file)
    assert not (tmp_path / "executed").exists()


def test_a_declared_size_is_not_believed(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    header = np.lib.format.write_array_header_1_0

    def lies(stream, array, **_):
        header(stream, {"descr": array.dtype.str, "fortran_order": False, "shape": (2**50,)})
        stream.write(array.tobytes())

    honest = np.lib.format.write_array
    monkeypatch.setattr(
        np.lib.format, "write_array",
        lambda stream, array, **k: (honest if array.dtype == np.uint8 else lies)(stream, array, **k),
    )  # fmt: skip
    write(file, {}, {"a": np.zeros(3)})
    with pytest.raises(CheckpointError, match="cannot reshape array of size 3"):  # not: unable to allocate
        read(file)


def test_the_file_is_an_ordinary_archive_with_a_readable_header(tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(spheres, np.ones(4), 1.0, values="ranks", rng=1, maxiter=5, vectorized=True,
                  checkpoint=Checkpoint(file, extra={"command": ["minimize", "sphere"]}))  # fmt: skip
    with np.load(file, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        assert archive["strategy.mean"].shape == (4,)
    assert header["extra"] == {"command": ["minimize", "sphere"]}
    assert header["identity"]["fun"] == "spheres"
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None


def test_the_previous_checkpoint_is_kept(tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(
        spheres,
        np.ones(4),
        1.0,
        values="ranks",
        rng=1,
        maxiter=5,
        vectorized=True,
        checkpoint=Checkpoint(file, every=0),
    )
    generations = [read(path)[0]["counters"]["generation"] for path in (previous(file), file)]
    assert generations[0] <= generations[1] == 5
    file.write_bytes(b"broken")
    with pytest.raises(CheckpointError, match=r"previous checkpoint, copy .*run.npz.prev"):
        read(file)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.npz", "run.npz.prev"]
    shutil.copy(previous(file), file)  # as the message says
    options = {"rng": 1, "maxiter": 9, "vectorized": True}
    result = lmma.minimize(spheres, np.ones(4), 1.0, values="ranks", checkpoint=file, **options)
    assert np.array_equal(result.x, lmma.minimize(spheres, np.ones(4), 1.0, values="ranks", **options).x)


def test_a_path_that_cannot_be_written_is_rejected_before_the_run(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "run.npz"):
        with pytest.raises(ValueError, match="cannot be written"):
            lmma.minimize(spheres, np.ones(4), 1.0, vectorized=True, checkpoint=path)


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = lmma.minimize(spheres, np.ones(4), 1.0, rng=1, vectorized=True, ftarget=1e-8,
                           checkpoint=Checkpoint(tmp_path / "run.npz", every=0))  # fmt: skip
    assert result.success
    assert len(result.warnings) == 1
    assert "No space left" in result.warnings[0]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_saves_where_it_was(tmp_path):
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        if calls == 100:
            raise KeyboardInterrupt
        return float(x @ x)

    options = {"sigma0": 1.0, "rng": 1, "maxiter": 30}
    result = lmma.minimize(fun, np.ones(4), values="ranks", checkpoint=tmp_path / "run.npz", **options)
    assert (result.reason, result.nit) == ("interrupted", 99 // 8)
    assert read(tmp_path / "run.npz")[0]["counters"]["generation"] == 99 // 8
    resumed = lmma.minimize(fun, np.ones(4), values="ranks", checkpoint=tmp_path / "run.npz", **options)
    assert np.array_equal(resumed.x, lmma.minimize(fun, np.ones(4), values="ranks", **options).x)


SCRIPT = """
import sys, time
import numpy as np
import lmma
from lmma.run.checkpoint import Checkpoint

def fun(X):
    time.sleep({pause})
    return np.sum(np.square(X) * 10.0 ** np.arange(X.shape[1]), axis=1)

lmma.minimize(fun, np.full(6, 2.0), 1.0, method="lm-ma-es", rng=8, vectorized=True, maxiter={generations},
              restarts=3, tolfun=1e-3, checkpoint=Checkpoint(sys.argv[1], every=0),
              log=sys.argv[1] + ".jsonl")
print("end")
"""


def kill_and_resume(kills, generations, pause, tmp_path):
    """Kill a run at random moments, often enough, then let it end; return how often."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(pause=pause, generations=generations))
    command = [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    whole, parts = tmp_path / "whole.npz", tmp_path / "parts.npz"
    assert subprocess.check_output([*command, str(whole)], env=environment) == b"end\n"
    rng = np.random.default_rng(1)
    killed = starts = 0
    while True:
        run = subprocess.Popen([*command, str(parts)], env=environment, stdout=subprocess.PIPE)
        starts += 1
        if killed < kills:
            before = parts.stat().st_mtime_ns if parts.exists() else 0
            # Not before the run has got somewhere, so that it ends one day; then at any moment
            while run.poll() is None and (not parts.exists() or parts.stat().st_mtime_ns == before):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.05))
            run.send_signal(signal.SIGKILL)
        output, _ = run.communicate()
        if run.returncode == 0:
            assert output == b"end\n"
            break
        assert run.returncode == -signal.SIGKILL, "a resumed run failed"
        killed += 1
    assert_same(state_of(whole), state_of(parts))
    lines = [json.loads(line) for line in (tmp_path / "parts.npz.jsonl").read_text().splitlines()]
    counts = [line["evaluations"] for line in lines]
    assert counts == sorted(set(counts))  # no record twice, none out of order
    return killed


def test_a_killed_run_resumes_to_the_same_end(tmp_path):
    assert kill_and_resume(3, 300, 0.002, tmp_path) == 3


@pytest.mark.slow
def test_a_run_killed_a_hundred_times_resumes_to_the_same_end(tmp_path):
    assert kill_and_resume(100, 6000, 0.003, tmp_path) == 100
