"""The result of a run in a file, without pickle: saved whole, and loaded only if it is what it says.

The layout is that of a checkpoint (``checkpoint_file.py``). What was learned is kept as arrays and put into a
new strategy of the method that the file names, which must be one of :func:`lmma.methods`; nothing else is
imported.
"""

from __future__ import annotations

import json
import math
import os
from collections import UserDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lmma.evaluation import Failure
from lmma.kernels.words import one_line, shown
from lmma.run.checkpoint_check import is_count, is_number, is_sound
from lmma.run.checkpoint_file import RESULT, Arrays, CheckpointError, Header, read, write
from lmma.run.counters import SingleRun
from lmma.run.run_result import RunResult
from lmma.run.warm_start import Learned
from lmma.store.untrusted import EXPANSION, LARGEST
from lmma.strategies import Strategy
from lmma.strategies.registry import METHODS, methods, strategy_class

SPECIAL = ("learned", "hess_inv", "history", "runs", "errors", "failed")  # each with a way of its own
COUNTED = ("nfev", "nit", "failures", "late", "deaths", "status")
TEXTS = ("message", "reason", "method")


def save(result: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a result at ``path``; see :meth:`RunResult.save`."""
    path = Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"path={str(path)!r} cannot be written: it must be a file in an existing folder")
    header, arrays = _encoded(result)
    write(path, header, arrays, RESULT)


def load(path: str | os.PathLike[str]) -> RunResult:
    """Return a result that ``result.save(path)`` wrote.

    Nothing that the file names is imported or run. What a strategy of your own has learned comes back where
    it is known under its name (:func:`lmma.register`) before.

    Raises
    ------
    ValueError
        If the file is damaged, is no result of lmma, or says what no result can say.

    Examples
    --------
    >>> import os, tempfile, lmma
    >>> result = lmma.minimize(lambda x: float(x @ x), [1.0] * 5, 0.5, rng=1, maxfevals=400)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(os.path.join(folder, "result.npz"))
    ...     again = lmma.load(os.path.join(folder, "result.npz"))
    >>> again.fun == result.fun, again.nfev
    (True, 400)
    >>> longer = lmma.minimize(lambda x: float(x @ x), again, maxfevals=400)  # goes on with what was learned
    """
    path = Path(path)
    try:
        header, arrays = read(path, RESULT)
        return _decoded(header, arrays, path.stat().st_size)
    except CheckpointError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # of whatever a file with a right checksum may say
        raise ValueError(f"result {path} is refused: {one_line(error)}") from None


# What is written


def _encoded(result: Mapping[str, Any]) -> tuple[Header, Arrays]:
    values: dict[str, Any] = {}
    arrays: Arrays = {}
    left_out = []
    for name, value in result.items():
        if name in SPECIAL:
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[f"value.{name}"] = value
            continue
        try:
            values[name] = _as_json(value)
        except (TypeError, ValueError):
            left_out.append(f"{name} of type {type(value).__name__}")
    header: Header = {
        "values": values,
        "runs": [asdict(single) for single in result.get("runs", ())],
        "errors": [asdict(error) for error in result.get("errors", ())],
        "failed": dict(result.get("failed", {})),
        "special": [name for name in SPECIAL if name in result],
        "learned": None,
    }
    for name, column in (result.get("history") or {}).items():
        arrays[f"history.{name}"] = np.asarray(column)
    learned = result.get("learned")
    if isinstance(learned, Learned):
        try:
            header["learned"] = _about(learned)
            arrays |= {f"part.{name}": np.asarray(value) for name, value in learned.parts().items()}
            if learned.scale is not None:
                arrays["learned.scale"] = learned.scale
        except (TypeError, ValueError):
            left_out.append("what was learned, for its constants are no plain numbers")
    if left_out:
        values["warnings"] = [*values.get("warnings", []), f"save() left out {', '.join(left_out)}"]
    return header, arrays


def _about(learned: Learned) -> dict[str, Any]:
    return {
        "method": learned.kind.name,
        "dtype": learned.size[1].name,
        "popsize": learned.popsize,
        "options": _as_json(learned.options),
        "generation": learned.generation,
        "first_scale": learned.first_scale,
    }


def _as_json(value: Any) -> Any:
    """Return ``value`` if JSON gives it back as it is; NumPy's numbers are numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if json.loads(json.dumps(value)) != value and value == value:
        raise ValueError(shown(value))
    return value


# What is read


def _decoded(header: Header, arrays: Arrays, size: int) -> RunResult:
    values, special = header["values"], header["special"]
    _want(isinstance(values, dict) and not set(values) & set(SPECIAL), "values")
    _want(isinstance(special, list) and set(special) <= set(SPECIAL), "special")
    result = RunResult(values)
    for name, array in arrays.items():
        if name.startswith("value."):
            result[name.removeprefix("value.")] = array
    _check_values(result)
    readers = {"runs": _runs, "errors": _errors, "failed": _failed}
    for name in special:
        if name in readers:
            result[name] = readers[name](header[name])
    if "history" in special:
        result["history"] = _history(arrays)
    if header["learned"] is not None:
        _add_learned(result, header["learned"], arrays, size)
    elif "hess_inv" in special:
        result["hess_inv"] = None
    return result


def _check_values(result: RunResult) -> None:
    x = result.get("vector", result.get("x"))  # by name or as a structure, x need not be in the file
    _want(isinstance(x, np.ndarray) and x.ndim == 1 and len(x) > 0 and _is_finite(x), "x")
    _want(is_number(result.get("fun")), "fun")
    for name in COUNTED:
        _want(name not in result or is_count(result[name]), name)
    for name in TEXTS:
        _want(name not in result or isinstance(result[name], str), name)
    _want(isinstance(result.get("success", False), bool), "success")
    _want("sigma" not in result or is_number(result["sigma"]), "sigma")
    mean = result.get("mean", x)
    _want(isinstance(mean, np.ndarray) and mean.shape == x.shape and _is_finite(mean), "mean")
    words = result.get("warnings", [])
    _want(isinstance(words, list) and all(isinstance(word, str) for word in words), "warnings")


def _runs(found: Any) -> list[SingleRun]:
    runs = [SingleRun(**single) for single in found]
    for single in runs:
        _want(is_count(single.popsize, 1) and is_count(single.evaluations), "runs")
        _want(is_number(single.best_fun) and isinstance(single.reason, str), "runs")
        _want(isinstance(single.small, bool), "runs")
    return runs


def _errors(found: Any) -> list[Failure]:
    _want(all(isinstance(word, str) for error in found for word in error.values()), "errors")
    return [Failure(**error) for error in found]


def _failed(found: Any) -> UserDict[str, int]:
    _want(isinstance(found, dict) and all(is_count(count) for count in found.values()), "failed")
    return UserDict(found)


def _history(arrays: Arrays) -> dict[str, list[Any]]:
    columns = {k.removeprefix("history."): array for k, array in arrays.items() if k.startswith("history.")}
    _want(all(array.ndim == 1 and array.dtype.kind in "iuf" for array in columns.values()), "history")
    _want(len({len(array) for array in columns.values()}) <= 1, "history")
    return {name: array.tolist() for name, array in columns.items()}


def _add_learned(result: RunResult, about: dict[str, Any], arrays: Arrays, size: int) -> None:
    method = about["method"]
    _want(isinstance(method, str), "learned")
    if method not in methods():
        words = f"what {one_line(method, 60)} learned was left out: lmma.register the class before lmma.load"
        result["warnings"] = [*result.get("warnings", []), words]
        return
    strategy = _taught(about, result, arrays, size)
    result["learned"] = Learned(strategy)
    result["hess_inv"] = strategy._hess_inv()


def _taught(about: dict[str, Any], result: RunResult, arrays: Arrays, size: int) -> Strategy:
    """Return a new strategy that knows what the file says was learned."""
    kind = strategy_class(about["method"])
    popsize, dtype, options = about["popsize"], about["dtype"], about["options"]
    generation, first_scale = about["generation"], about["first_scale"]
    _want(is_count(popsize, 2) and dtype in ("float64", "float32") and isinstance(options, dict), "learned")
    _want(is_count(generation) and is_number(first_scale) and 0 <= first_scale < math.inf, "learned")
    mean = result.get("mean", result.get("vector", result.get("x")))
    needed = kind.memory(len(mean), popsize, np.dtype(dtype).itemsize)
    if needed > max(LARGEST, EXPANSION * size):
        raise ValueError(f"what was learned would take {needed:,} bytes, too many for a file of {size:,}")
    ours = kind.name in METHODS
    state: dict[str, Any] = {"generation": generation, "first_scale": float(first_scale)}
    for name, array in arrays.items():
        if name.startswith("part."):
            label = name.removeprefix("part.")
            _want(is_sound(f"strategy.{label}", array, ours), f"array {name}")
            state[label] = array
    if (scale := arrays.get("learned.scale")) is not None:
        _want(scale.shape == mean.shape and _is_finite(scale) and bool(np.all(scale > 0)), "learned")
        state["scale"] = scale
    strategy = kind(mean, 1.0, popsize=popsize, dtype=dtype, rng=0, **options)
    strategy.set_state(strategy.get_state() | state)
    return strategy


def _is_finite(array: Any) -> bool:
    return array.dtype.kind in "iuf" and bool(np.all(np.isfinite(array)))


def _want(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"it says what no result of lmma can say ({what})")
