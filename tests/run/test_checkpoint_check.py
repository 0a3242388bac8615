"""Checkpoints with a valid checksum and invalid content are rejected with a message."""

import copy
import warnings

import numpy as np
import pytest

import lmma
from lmma._archive import CheckpointError, pack, read, unpack, write

METHODS = ("ma-es", "lm-ma-es", "lm-cma-es", "pulse-full")
ODD = (None, True, -1, 2**70, 1.5, float("nan"), float("-inf"), "x", [], {}, [[0]], {"a": 1})


def go_on(path, method="ma-es", generations=6):
    return lmma.minimize(
        lambda x: float(x @ x), np.ones(4), 0.5, method=method, restarts=1, bounds=[-2, 2], rng=1,
        checkpoint=path, maxiter=generations, history=True,
    )  # fmt: skip


@pytest.fixture(params=METHODS)
def saved(request, tmp_path):
    path = tmp_path / "run.npz"
    go_on(path, request.param, 3)
    return path, request.param, *read(path)


def places(value, path=()):
    """Every place in a header."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from places(value[key], (*path, key))


def changed(header, place, value):
    header = copy.deepcopy(header)
    inner = header
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return header


def test_odd_headers_are_rejected_or_harmless(saved):
    path, method, header, arrays = saved
    refused = 0
    for place in places({name: part for name, part in header.items() if name != "arrays"}):
        for value in ODD:
            write(path, changed(header, place, value), arrays)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = go_on(path, method, 4)
                except CheckpointError:
                    refused += 1
                else:  # what was changed does not matter, or is possible
                    assert np.isfinite(result.x).all()
                    assert np.isfinite(result.fun)
    assert refused > 200


def test_arrays_that_no_run_can_have_saved_are_rejected(saved):
    path, method, header, arrays = saved
    rng = np.random.default_rng(1)
    tried = 0
    for name, array in arrays.items():
        for value in (np.nan, -np.inf, -7):
            if name.startswith(("history.", "importance")) or array.size == 0:
                continue
            if value != -7 and array.dtype.kind != "f":
                continue
            wrong = array.copy()
            if wrong.dtype.kind == "u":
                continue
            wrong.flat[rng.integers(wrong.size)] = value
            write(path, header, arrays | {name: wrong})
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = go_on(path, method, 4)
            except CheckpointError:
                tried += 1
            else:  # a number like any other
                assert value == -7 or name.startswith("rule.") or name.endswith("noise.wide")
                assert np.isfinite(result.x).all()
    assert tried > 10
    for name in arrays:
        write(path, header, {label: array for label, array in arrays.items() if label != name})
        if not name.startswith("rule.") and name not in ("counters.best_x", "importance"):  # only shown
            with pytest.raises(CheckpointError):
                go_on(path, method)


@pytest.mark.parametrize("kind", [np.complex128, np.int8, "U3"])
def test_arrays_of_another_type_are_rejected(saved, kind):
    path, method, header, arrays = saved
    for name in ("counters.best_x", "history.best_fun", "history.evaluations", "strategy.mean"):
        if kind is np.int8 and name.startswith("history."):
            continue  # whole numbers are as good there
        write(path, header, arrays | {name: arrays[name].astype(kind)})
        with pytest.raises(CheckpointError, match=r"run\.npz"):
            go_on(path, method, 4)


def test_headers_nested_without_end_are_rejected(tmp_path):
    import zipfile

    from lmma import _archive

    deep = np.frombuffer(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, dtype=np.uint8)
    path = tmp_path / "deep.npz"
    with open(path, "w+b") as file:
        with zipfile.ZipFile(file, "w") as archive:
            with archive.open("header.npy", "w") as member:
                np.lib.format.write_array(member, deep, version=(1, 0))
            archive.comment = b"0" * 64
        size = file.tell()
        digest = _archive._digest(file, size)
        file.seek(size - 64)
        file.write(digest)
    with pytest.raises(CheckpointError, match="nested"):
        read(path)


def test_a_message_can_be_read_back():
    header, arrays = unpack(pack({"a": 1}, {"b": np.arange(3)}))
    assert header["a"] == 1
    assert arrays["b"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("name", "value"), [
    ("stride", 0), ("stride", -1), ("stride", np.nan), ("seen", -1), ("kept", -1), ("kept", 0.5),
])  # fmt: skip
def test_an_impossible_history_is_rejected_with_a_message(saved, name, value):
    path, method, header, arrays = saved
    write(path, header, arrays | {f"history.{name}": np.asarray(value)})
    with pytest.raises(CheckpointError, match=f"invalid content: {name}"):
        go_on(path, method)


@pytest.mark.parametrize("name", ["stride", "seen", "kept", "evaluations"])
def test_an_incomplete_history_is_rejected_with_a_message(saved, name):
    path, method, header, arrays = saved
    del arrays[f"history.{name}"]
    write(path, header, arrays)
    with pytest.raises(CheckpointError, match=name):
        go_on(path, method)
