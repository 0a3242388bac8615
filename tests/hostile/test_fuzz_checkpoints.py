"""Damaged and forged checkpoints are rejected with a message or resumed correctly."""

import copy
import math

import numpy as np
import pytest

import lmma
from fuzzing import damaged, one_of
from lmma.run.checkpoint import CheckpointError, read, write
from lmma.run.options import RunOptions
from lmma.run.run import Run

N = 4
X0 = np.full(N, 0.5)
CONFIGURATIONS = [
    {"method": "lm-ma-es", "sigma0": 0.7},
    {"method": "pulse-full", "sigma0": 0.7, "bounds": [0.1, 4.0], "boundary": "project"},
    {"method": "ma-es", "sigma0": 0.7, "restarts": "bipop:4", "tolfun": 1e-1},
    {"method": "cma-es", "sigma0": [1.0, 2.0, 3.0, 4.0], "history": 8},
    {"method": "vd-cma-es", "sigma0": 0.7, "dtype": "float32"},
    {"method": "d-lm-ma-es", "sigma0": 0.7, "bounds": [0.1, 4.0]},
    {"method": "lm-cma-es", "sigma0": 0.7, "restarts": 3, "tolfun": 1e-1},
]
GENERATIONS, MORE = 30, 45


def fails_now_and_then(x):
    if math.sin(100.0 * float(x[0])) > 0.95:
        raise OSError("now and then")
    return float(np.sum(np.square(x, dtype=np.float64)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Checkpoints of several runs: file, how the run goes on, and what it comes to unbroken."""
    folder = tmp_path_factory.mktemp("checkpoints")
    runs = []
    for number, options in enumerate(CONFIGURATIONS):
        file = folder / f"{number}.npz"
        given = {"rng": 5, **options}
        whole = lmma.minimize(fails_now_and_then, X0, maxiter=MORE, **given)
        lmma.minimize(fails_now_and_then, X0, maxiter=GENERATIONS, checkpoint=file, **given)
        runs.append((file, given, whole))
    return runs


def test_a_damaged_checkpoint_is_rejected(fuzz, saved, tmp_path):
    def case(rng):
        file, given, whole = one_of(rng, saved)
        content = file.read_bytes()
        broken = damaged(rng, content)
        (tmp_path / "run.npz").write_bytes(broken)
        try:
            result = lmma.minimize(
                fails_now_and_then, X0, maxiter=MORE, checkpoint=tmp_path / "run.npz", **given
            )
        except CheckpointError as error:
            assert "run.npz" in str(error)
            return "refused"
        assert broken == content, "a damaged file was loaded"
        assert np.array_equal(result.x, whole.x)
        return "untouched"

    fuzz(case, short=150, long=2_000, at_least=["refused"])


def test_a_forged_checkpoint_is_rejected_or_resumes_correctly(fuzz, saved, tmp_path):
    def case(rng):
        file, given, whole = one_of(rng, saved)
        header, arrays = read(file)
        for name in ("format", "version", "numerics", "arrays"):
            header.pop(name)
        what = alter_header(rng, header) if rng.random() < 0.5 else alter_arrays(rng, arrays)
        forged = tmp_path / "run.npz"
        forged.unlink(missing_ok=True)
        write(forged, header, arrays)
        return goes_on(forged, given, whole, f"{given['method']}, {what}")

    fuzz(case, short=150, long=5_000, at_least=["refused", "equal"])


def goes_on(file, given, whole, told):
    """Continue from a forged file and check that the run is refused or sound."""
    try:
        options = {name: value for name, value in given.items() if name != "sigma0"}
        with np.errstate(all="ignore"):
            run = Run(fails_now_and_then, X0, given["sigma0"],
                      RunOptions(maxiter=MORE, checkpoint=file, **options))  # fmt: skip
    except CheckpointError as error:
        assert "run.npz" in str(error), f"the file is not named in {error}: {told}"
        assert len(str(error)) < 2000, f"a refusal of {len(str(error))} letters: {told}"
        return "refused"
    except BaseException as error:
        if type(error).__name__ == "Hangs":
            raise
        raise AssertionError(f"reading: {type(error).__name__}: {error}: {told}"[:1500]) from error
    bad = [
        name
        for name, value in run.state.strategy.get_state().items()
        if np.asarray(value).dtype.kind == "f" and np.isnan(np.asarray(value)).any()
    ]
    assert not bad, f"NaN was loaded into {', '.join(bad)}: {told}"
    try:
        with np.errstate(all="ignore"):
            result = run.execute()
    except BaseException as error:
        if type(error).__name__ == "Hangs":
            raise
        raise AssertionError(f"going on: {type(error).__name__}: {error}: {told}"[:1500]) from error
    assert np.isfinite(result.x).all(), f"x = {result.x}: {told}"
    assert result.x.shape == (N,), f"shape {result.x.shape}: {told}"
    assert result.message, told
    assert not math.isnan(result.fun), f"fun is NaN: {told}"
    assert type(result.nfev) is int, f"nfev = {result.nfev!r}: {told}"
    assert result.nfev >= 0, f"nfev = {result.nfev!r}: {told}"
    repr(result)
    if np.array_equal(result.x, whole.x) and (result.nfev, result.fun) == (whole.nfev, whole.fun):
        return "equal"
    return "another sound run"  # other numbers of a possible run: no reader can know


# Forgeries

ODD = [None, True, -1, 0, 1.5, 10**30, 1e308, -(10**18), math.nan, math.inf, -math.inf, "", "text", [], {},
       [[]], [1, "a"],
       {"a": 1}, "9" * 5000, [None] * 3, 2**63, -0.0]  # fmt: skip


def places(value, path=()):
    """Yield the path of every entry in nested dictionaries and lists."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield (*path, key)
        yield from places(part, (*path, key))


def alter_header(rng, header):
    """Change an entry of the header, in place; return what was done."""
    path = one_of(rng, list(places(header)))
    holder = header
    for key in path[:-1]:
        holder = holder[key]
    kind = one_of(rng, ["replace", "replace", "replace", "remove", "add", "double"])
    value = copy.deepcopy(one_of(rng, ODD))
    if kind == "remove":
        del holder[path[-1]]
    elif kind == "add" and isinstance(holder, dict):
        holder["odd"] = value
    elif kind == "double" and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[path[-1]]))
    else:
        holder[path[-1]] = value
    return f"header {'.'.join(map(str, path))}: {kind} {value!r:.40}"


def alter_arrays(rng, arrays):
    """Change an array, in place; return what was done."""
    name = one_of(rng, sorted(arrays))
    array = arrays[name]
    kind = one_of(
        rng,
        [
            "nan",
            "inf",
            "negative",
            "zero",
            "huge",
            "shape",
            "longer",
            "empty",
            "type",
            "remove",
            "add",
            "bits",
        ],
    )
    if kind in ("nan", "inf", "negative", "zero", "huge") and array.size:
        value = {"nan": np.nan, "inf": np.inf, "negative": -1, "zero": 0, "huge": 1e300}[kind]
        array = array.copy()
        if array.dtype.kind != "f":
            value = {
                "nan": 0,
                "inf": np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1,
                "huge": 1,
            }.get(kind, 0)
        with np.errstate(all="ignore"):
            array.reshape(-1)[int(rng.integers(array.size))] = np.float64(value).astype(array.dtype)
        arrays[name] = array
    elif kind == "shape":
        arrays[name] = array[np.newaxis]
    elif kind == "longer":
        arrays[name] = np.concatenate([array.reshape(-1), array.reshape(-1)])
    elif kind == "empty":
        arrays[name] = array.reshape(-1)[:0]
    elif kind == "type":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(
                one_of(rng, [np.float32, np.float64, np.int8, np.complex128, bool, ">f8"])
            )
    elif kind == "remove":
        del arrays[name]
    elif kind == "add":
        arrays[one_of(rng, ["odd", "strategy.odd", "rule.odd", "best_x", "history.odd"])] = np.zeros(3)
    elif array.size and array.dtype.itemsize:
        data = bytearray(array.tobytes())
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        arrays[name] = np.frombuffer(bytes(data), array.dtype).reshape(array.shape).copy()
    return f"array {name} {array.shape}: {kind}"
