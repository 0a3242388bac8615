"""Results in files, without pickle: written atomically and validated on loading.

The format is that of a checkpoint (``_archive.py``). Learned parameters are stored as arrays and loaded into
a new strategy of the method that the file names. That method must be one of :func:`lmma.methods`; nothing
else is imported.
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

from lmma._archive import RESULT, Arrays, CheckpointError, Header, read, write
from lmma._files import EXPANSION, LARGEST
from lmma._plain import decode, encode
from lmma._text import one_line, shown
from lmma.evaluation import Failure
from lmma.methods import Strategy
from lmma.methods.memory_check import check_saved_options
from lmma.methods.registry import methods, strategy_class
from lmma.numerics.state import MAX_COUNT, is_count, is_number
from lmma.run.result import Learned, RunResult, names_of
from lmma.run.state import SingleRun
from lmma.space import Space, Tree
from lmma.space.description import describe, from_description

SPECIAL = ("learned", "hess_inv", "history", "runs", "errors", "failed")  # fields stored separately
NAMES = ("space", "tree", "leaves")  # stored as one description
OMITTED = ("archive",)  # stored in a separate file
COUNTED = ("nfev", "nit", "failures", "late", "deaths", "status", "calls")
TEXTS = ("message", "reason", "method")


def save(result: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Save a result to ``path``; see :meth:`RunResult.save`."""
    path = Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"path={str(path)!r} cannot be written: it must be a file in an existing folder")
    header, arrays = _encoded(result)
    write(path, header, arrays, RESULT)


def load(path: str | os.PathLike[str], like: Any = None) -> RunResult:
    """Load a result that ``result.save(path)`` wrote.

    Nothing that the file names is imported or run. To load the learned parameters of a user-defined
    strategy, first register its class with :func:`lmma.register`.

    Parameters
    ----------
    path : str or Path
        The file.
    like : Space, Tree or structure, optional
        The space or structure of the run. Without it, ``x`` of a structure consists of dicts, lists, tuples
        and NumPy arrays, and values of choices other than numbers and texts are texts. With it, ``x`` is the
        same as in the saved result: a PyTorch module, a dataclass, JAX arrays.

    Raises
    ------
    ValueError
        If the file is damaged, is not a result of lmma, has invalid content, or does not match ``like``.

    Examples
    --------
    >>> import os, tempfile, lmma
    >>> result = lmma.minimize(lambda x: float(x @ x), [1.0] * 5, 0.5, rng=1, maxfevals=400)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(os.path.join(folder, "result.npz"))
    ...     again = lmma.load(os.path.join(folder, "result.npz"))
    >>> again.fun == result.fun, again.nfev
    (True, 95)
    >>> longer = lmma.minimize(lambda x: float(x @ x), again, maxfevals=400)  # warm start
    """
    path = Path(path)
    names = like if like is None or isinstance(like, Space | Tree) else Tree(like)
    try:
        header, arrays = read(path, RESULT)
        result = _decoded(header, arrays, path.stat().st_size)
    except CheckpointError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # a file with a matching checksum may still contain anything
        raise ValueError(f"cannot use result {path}: {one_line(error)}") from None
    if names is not None:
        try:
            _restore_names(result, names, header.get("as_text", []), arrays)
        except ValueError as error:
            raise ValueError(f"like= does not match the result {path}: {error}") from None
    return result


# Writing


def _encoded(result: Mapping[str, Any]) -> tuple[Header, Arrays]:
    values: dict[str, Any] = {}
    arrays: Arrays = {}
    structures: dict[str, Any] = {}
    left_out: list[str] = []
    as_text: list[str] = []
    for name, value in result.items():
        if name in (*SPECIAL, *NAMES, *OMITTED):
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[f"value.{name}"] = value
            continue
        try:
            values[name] = _as_json(value)
        except (TypeError, ValueError):
            try:
                # parts of x that have no other form than text are better than no x
                text = as_text if name in ("x", "x_seen") else None
                structures[name] = encode(value, arrays, f"structure.{name}", text)
            except (TypeError, ValueError):
                left_out.append(f"{name} of type {type(value).__name__}")
    names = names_of(result)
    space = describe(names, arrays, as_text)
    if isinstance(names, Space | Tree) and "x_seen" in result:
        arrays["vector_seen"] = names.encode(result["x_seen"])
    if as_text:
        known = sorted({name.removeprefix("structure.").partition(".")[2] or name for name in as_text})
        listed = ", ".join(known)
        warning = f"without like=, load() returns texts for values that save() could not store: {listed}"
        values["warnings"] = [*values.get("warnings", []), one_line(warning)]
    header: Header = {
        "values": values,
        "structures": structures,
        "space": space,
        "as_text": as_text,
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
            header["learned"] = _describe(learned)
            arrays |= {f"part.{name}": np.asarray(value) for name, value in learned.parts().items()}
            if learned.scale is not None:
                arrays["learned.scale"] = learned.scale
            if learned.start is not None:
                arrays["learned.start"], arrays["learned.steps"] = map(np.asarray, learned.start)
        except (TypeError, ValueError):
            left_out.append("learned parameters, because constants of the method are not plain numbers")
    if left_out:
        values["warnings"] = [*values.get("warnings", []), f"save() omitted {', '.join(left_out)}"]
    return header, arrays


def _describe(learned: Learned) -> dict[str, Any]:
    return {
        "method": learned.kind.name,
        "dtype": learned.size[1].name,
        "popsize": learned.popsize,
        "options": _as_json(learned.options),
        "generation": learned.generation,
        "first_scale": learned.first_scale,
        "integers": learned.integers,
        "categories": None
        if learned.categories is None
        else {str(column): [values.start, values.stop] for column, values in learned.categories.items()},
    }


def _as_json(value: Any) -> Any:
    """Return ``value`` with NumPy numbers converted; raise if JSON cannot represent it exactly."""
    if isinstance(value, np.generic):
        value = value.item()
    if json.loads(json.dumps(value)) != value and value == value:
        raise ValueError(shown(value))
    return value


# Reading


def _decoded(header: Header, arrays: Arrays, size: int) -> RunResult:
    values, special = header["values"], header["special"]
    _require(isinstance(values, dict) and not set(values) & set(SPECIAL), "values")
    _require(isinstance(special, list) and set(special) <= set(SPECIAL), "special")
    structures = header.get("structures", {})
    _require(isinstance(structures, dict) and not set(structures) & {*SPECIAL, *NAMES}, "structures")
    as_text = header.get("as_text", [])
    _require(isinstance(as_text, list) and all(isinstance(name, str) for name in as_text), "as_text")
    result = RunResult(values)
    for name, data in structures.items():
        result[name] = decode(data, arrays)
    for name, array in arrays.items():
        if name.startswith("value."):
            result[name.removeprefix("value.")] = array
    _check_values(result)
    _add_names(result, header.get("space"), arrays)
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


def _add_names(result: RunResult, description: Any, arrays: Arrays) -> None:
    """Add the space or the leaves that the file describes."""
    names = from_description(description, arrays, len(result.get("vector", result["x"])))
    if isinstance(names, Space):
        result["space"] = names
        _require(isinstance(result.get("x"), dict) and result["x"].keys() == names.keys(), "x")
    elif names is not None:
        result["leaves"] = names.shapes


def _restore_names(result: RunResult, names: Space | Tree, as_text: list[str], arrays: Arrays) -> None:
    """Replace plain values by those of the user's space or structure; raise ValueError if it differs."""
    known: Any = names_of(result)
    if known is None or isinstance(known, Space) != isinstance(names, Space) or known.n != names.n:
        raise ValueError(f"the result has {shown(known)}")
    if isinstance(names, Tree):
        if names.shapes != known.shapes:
            raise ValueError(f"the result has the leaves {shown(known.shapes)}")
        del result["leaves"]
        result["tree"] = names
    elif list(names) != list(known):
        raise ValueError(f"the result has the variables {', '.join(known)}")
    else:
        result["space"] = names
    for field, vector in (("x", result["vector"]), ("x_seen", arrays.get("vector_seen"))):
        if field not in result or vector is None:
            continue
        made = names.decode(vector)
        if isinstance(names, Space):  # only texts: other values are exact
            kept = {name for name in names if not _is_text(f"structure.{field}.{name}", as_text)}
            made |= {name: result[field][name] for name in kept}
        result[field] = made
    result["warnings"] = [each for each in result.get("warnings", []) if "without like=" not in each]


def _is_text(name: str, as_text: list[str]) -> bool:
    return any(each == name or each.startswith(f"{name}.") for each in as_text)


def _check_values(result: RunResult) -> None:
    x = result.get("vector", result.get("x"))  # with a space, x may be missing
    _require(isinstance(x, np.ndarray) and x.ndim == 1 and len(x) > 0 and _is_finite(x), "x")
    _require(is_number(result.get("fun")), "fun")
    for name in COUNTED:
        _require(name not in result or is_count(result[name]), name)
    for name in TEXTS:
        _require(name not in result or isinstance(result[name], str), name)
    _require(isinstance(result.get("success", False), bool), "success")
    _require("sigma" not in result or is_number(result["sigma"]), "sigma")
    mean = result.get("mean", x)
    _require(isinstance(mean, np.ndarray) and mean.shape == x.shape and _is_finite(mean), "mean")
    warnings = result.get("warnings", [])
    _require(isinstance(warnings, list) and all(isinstance(each, str) for each in warnings), "warnings")


def _runs(found: Any) -> list[SingleRun]:
    runs = [SingleRun(**single) for single in found]
    for single in runs:
        _require(is_count(single.popsize, 1) and is_count(single.evaluations), "runs")
        _require(is_number(single.best_fun) and isinstance(single.reason, str), "runs")
        _require(isinstance(single.small, bool), "runs")
    return runs


def _errors(found: Any) -> list[Failure]:
    _require(all(isinstance(word, str) for error in found for word in error.values()), "errors")
    return [Failure(**error) for error in found]


def _failed(found: Any) -> UserDict[str, int]:
    _require(isinstance(found, dict) and all(is_count(count) for count in found.values()), "failed")
    return UserDict(found)


def _history(arrays: Arrays) -> dict[str, list[Any]]:
    columns = {k.removeprefix("history."): array for k, array in arrays.items() if k.startswith("history.")}
    _require(all(array.ndim == 1 and array.dtype.kind in "iuf" for array in columns.values()), "history")
    _require(len({len(array) for array in columns.values()}) <= 1, "history")
    return {name: array.tolist() for name, array in columns.items()}


def _add_learned(result: RunResult, about: dict[str, Any], arrays: Arrays, size: int) -> None:
    method = about["method"]
    _require(isinstance(method, str), "learned")
    if method not in methods():
        warning = (
            f"the learned parameters of {one_line(method, 60)} were not loaded: call lmma.register() with "
            "its class before lmma.load()"
        )
        result["warnings"] = [*result.get("warnings", []), warning]
        return
    strategy = _restored_strategy(about, result, arrays, size)
    result["learned"] = learned = Learned(strategy)
    learned.integers, learned.start = _learned_start(about.get("integers", []), arrays, strategy)
    result["hess_inv"] = strategy.method.hess_inv()


def _learned_start(integers: Any, arrays: Arrays, strategy: Strategy) -> tuple[list[int], Any]:
    """Return the integer coordinates and the start of a search: its first mean and steps."""
    _require(isinstance(integers, list) and all(is_count(k) and k < strategy.n for k in integers), "learned")
    start, steps = arrays.get("learned.start"), arrays.get("learned.steps")
    if start is None or steps is None:
        return integers, None
    _require(start.shape == (strategy.n,) and _is_finite(start) and _is_finite(steps), "learned.start")
    _require(steps.shape in ((), (strategy.method.n,)), "learned.steps")
    return integers, (start, steps)


def _restored_strategy(about: dict[str, Any], result: RunResult, arrays: Arrays, size: int) -> Strategy:
    """Return a new strategy with the learned parameters of the file."""
    kind = strategy_class(about["method"])
    popsize, dtype, options = about["popsize"], about["dtype"], about["options"]
    generation, first_scale = about["generation"], about["first_scale"]
    _require(
        is_count(popsize, 2) and dtype in ("float64", "float32") and isinstance(options, dict), "learned"
    )
    _require(is_count(generation) and is_number(first_scale) and 0 <= first_scale < math.inf, "learned")
    mean = result.get("mean", result.get("vector", result.get("x")))
    categories = _categories(about["categories"], len(mean))
    state: dict[str, Any] = {"generation": generation, "convergence.first_scale": float(first_scale)}
    state |= {name.removeprefix("part."): array for name, array in arrays.items() if name.startswith("part.")}
    stored = max(size, sum(array.nbytes for array in arrays.values()))
    check_saved_options(kind, len(mean), popsize, np.dtype(dtype).itemsize, options, stored)
    if (needed := 8 * sum(map(len, categories.values()))) > max(LARGEST, EXPANSION * size):
        raise ValueError(
            f"its learned parameters need {needed:,} bytes, too many for a file of {size:,} bytes"
        )
    if (scale := arrays.get("learned.scale")) is not None:
        _require(scale.shape == (len(mean) - len(categories),), "learned")
        state["scale"] = scale
    given: dict[str, Any] = {"categories": categories} if categories else {}
    strategy = kind(mean, 1.0, popsize=popsize, dtype=dtype, rng=0, **given, **options)
    strategy.set_state(strategy.get_state() | state)
    return strategy


def _categories(found: Any, n: int) -> dict[int, range]:
    """Return the categorical coordinates of a strategy, as coordinate -> range of values."""
    if found is None:
        return {}
    _require(isinstance(found, dict), "learned")
    categories: dict[int, range] = {}
    for column, values in found.items():
        _require(column.isdigit() and int(column) < n, "learned")
        first, end = values
        _require(
            type(first) is type(end) is int and abs(first) <= MAX_COUNT and 2 <= end - first <= MAX_COUNT,
            "learned",
        )
        categories[int(column)] = range(first, end)
    return categories


def _is_finite(array: Any) -> bool:
    return array.dtype.kind in "iuf" and bool(np.all(np.isfinite(array)))


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"invalid content: {what}")
