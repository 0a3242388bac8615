"""Checks of the arguments of a strategy; each error names the argument, the value and the remedy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from lmma._text import nearest, shown, used_elsewhere
from lmma.kernels import Key
from lmma.numerics.recombination import Array, Indices

# Types of ``rng``, as a string: numpy.random is imported on first use
Seed: TypeAlias = "int | np.integer[Any] | np.random.SeedSequence | np.random.Generator | Key | None"

Float = np.float64 | np.float32
Precision = Literal["float64", "float32"] | type[Float] | np.dtype[Float]  # types of ``dtype``


LARGEST_POPSIZE = 2**31  # larger indices overflow the integers of the kernels

MAX_VECTORS = 10_000  # direction vectors: their Gram matrix is stored


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError unless ``value`` is one of the strings in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        which = f"one of {listed}" if len(choices) > 2 else " or ".join(map(repr, choices))
        hint = nearest(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name} must be {which}, got {shown(value)}{hint}")


def checked_flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool; raise TypeError unless it is one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def checked_x0(x0: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Return ``x0`` as a new vector of ``dtype``, after validation."""
    try:
        raw = np.asarray(x0)
    except Exception as error:  # such as a RuntimeError for a tensor that requires gradients
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"x0 must be a vector of numbers, got a {type(x0).__name__}: {error}") from None
    if isinstance(x0, np.ndarray) and np.any(mask := getattr(x0, "mask", False)):
        where = int(np.flatnonzero(mask)[0])
        raise ValueError(f"x0 must not be masked, but x0[{where}] is: x0.filled(value) replaces such entries")
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"x0 must contain real numbers, got dtype {raw.dtype}: convert it to float first")
    if raw.ndim == 0 and raw.dtype.kind in "iu":
        raise ValueError(
            f"x0={raw} may be a value or a number of variables: pass x0=[{float(raw)}] for one variable that "
            f"starts there, or x0=numpy.zeros({raw}) for {raw} variables"
        )
    if raw.ndim > 1:
        raise ValueError(f"x0 must be a vector of shape (n,), got shape {raw.shape}: try x0.ravel()")
    if raw.size == 0:
        raise ValueError("x0 must have at least one coordinate, got an empty array")
    vector = np.array(np.atleast_1d(raw), dtype=dtype)
    if not np.all(np.isfinite(vector)):
        where = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(f"x0 must be finite, got x0[{where}] = {vector[where]}")
    return vector


def checked_sigma0(sigma0: float | npt.ArrayLike, n: int, dtype: npt.DTypeLike) -> tuple[float, Array | None]:
    """Return sigma and, if ``sigma0`` is a vector, the scale of each coordinate, with geometric mean 1."""
    raw = np.asarray(sigma0)
    if raw.dtype.kind not in "fiu":
        raise TypeError(f"sigma0 must be a positive number or one for each coordinate, got {shown(sigma0)}")
    if raw.ndim > 1 or (raw.ndim == 1 and len(raw) != n):
        raise ValueError(f"sigma0 must be a number or have the shape of x0, ({n},); got shape {raw.shape}")
    if not (np.all(np.isfinite(raw)) and np.all(raw > 0)):
        bad = float(raw) if raw.ndim == 0 else float(raw[~(np.isfinite(raw) & (raw > 0))][0])
        raise ValueError(
            f"sigma0 must be positive and finite, got {bad}: "
            "use about a third of the expected distance to the optimum"
        )
    if raw.ndim == 0:
        return float(raw), None
    sigma = math.exp(float(np.mean(np.log(raw, dtype=np.float64))))
    return sigma, (raw / sigma).astype(dtype)


def check_step_range(sigma0: float | npt.ArrayLike, dtype: npt.DTypeLike, growth: float) -> None:
    """Raise ValueError if ``sigma0`` times ``growth`` overflows."""
    given, largest = float(np.max(np.asarray(sigma0))), float(np.finfo(np.dtype(dtype)).max) / growth
    if given > largest:
        raise ValueError(
            f"sigma0 must be at most {largest:.0e} in {np.dtype(dtype)} unless all variables are bounded, "
            f"got {given:g}: use about a third of the expected distance to the optimum"
        )


def checked_popsize(popsize: int | None, default: int) -> int:
    """Return ``popsize``, or ``default`` if it is None, as an integer of at least 2."""
    if popsize is None:
        return max(default, 2)
    if isinstance(popsize, bool) or not isinstance(popsize, int | np.integer):
        raise TypeError(f"popsize must be an integer, got {shown(popsize)}")
    if popsize < 2:
        raise ValueError(f"popsize must be at least 2, got {popsize}")
    if popsize > LARGEST_POPSIZE:
        raise ValueError(f"popsize must be at most {LARGEST_POPSIZE}, got {popsize}")
    return int(popsize)


def checked_number(name: str, value: Any, remedy: str = "") -> float:
    """Return ``value`` as a float; raise an error that names ``name`` unless it is a real number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number{remedy}; got {shown(value)}")
    if value != value:
        raise ValueError(f"{name} must be a number{remedy}; got NaN")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a floating-point number; got {shown(value)}") from None


def checked_tolerance(name: str, value: Any) -> float:
    """Return a tolerance of at least 0; 0 disables the stopping rule."""
    tolerance = checked_number(name, value, " (0 disables the rule)")
    if tolerance < 0:
        raise ValueError(f"{name} must not be negative (0 disables the rule); got {shown(value)}")
    return tolerance


def checked_threads(threads: int | None) -> int:
    """Return the number of kernel threads, 0 for the default."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer):
        raise TypeError(f"threads must be an integer or None, got {shown(threads)}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}: use None for the default")
    return int(threads)


def checked_dtype(dtype: Precision) -> np.dtype[Any]:
    """Return ``dtype`` as a NumPy dtype, float64 or float32."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except Exception:  # the ``dtype`` attribute of an arbitrary object may raise anything
        found = np.dtype(object)
    if found not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {shown(dtype)}")
    return found


def checked_values(
    values: npt.ArrayLike, count: int, name: str = "values", whose: str = "candidate of ask()"
) -> npt.NDArray[np.float64]:
    """Return ``count`` objective values as float64, after validation."""
    try:
        raw = np.asarray(values)
    except ValueError as error:  # such as pairs of a candidate and its value
        raise ValueError(f"{name} must be {count} real numbers, one for each {whose}: {error}") from None
    if raw.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must be {count} real numbers, got dtype {raw.dtype}"
            f"{_first_invalid(raw)}: return a float for each candidate, NaN if the evaluation failed"
        )
    if raw.shape != (count,):
        raise ValueError(
            f"{name} must have shape ({count},), one value for each {whose}, in the same order; "
            f"got shape {raw.shape}"
        )
    return raw.astype(np.float64, copy=False)


def _first_invalid(values: npt.NDArray[Any]) -> str:
    for index, value in enumerate(values.ravel()):
        if not isinstance(value, int | float | np.number):
            return f" (values[{index}] is {shown(value)})"
    return ""


def key_from(rng: Seed) -> Key:
    """Return the 128-bit key for a seed; None draws one from system entropy."""
    if isinstance(rng, tuple):
        if len(rng) != 2 or any(isinstance(w, bool) or not isinstance(w, int | np.integer) for w in rng):
            raise TypeError(f"rng as a key must be two 64-bit integers, got {shown(rng)}")
        if not all(0 <= word < 2**64 for word in rng):
            raise ValueError(f"rng as a key must be two integers from 0 to 2^64 - 1, got {shown(rng)}")
        return int(rng[0]), int(rng[1])
    if isinstance(rng, np.random.Generator):
        words: npt.NDArray[Any] = rng.integers(2**64, size=2, dtype=np.uint64)
    else:
        if not isinstance(rng, np.random.SeedSequence):
            if isinstance(rng, bool) or not (rng is None or isinstance(rng, int | np.integer)):
                raise TypeError(
                    "rng must be None, an integer seed, a SeedSequence, a numpy Generator or a key of two "
                    f"integers, got {shown(rng)}"
                )
            if rng is not None and rng < 0:
                raise ValueError(f"rng must be a non-negative seed, got {rng}")
            rng = np.random.SeedSequence(None if rng is None else int(rng))
        words = rng.generate_state(2, np.uint64)
    return int(words[0]), int(words[1])


def checked_out(out: Array | None, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Return ``out`` after validation, or a new array if it is None."""
    if out is None:
        return np.empty(shape, dtype=dtype)
    if out.shape != shape or out.dtype != dtype or not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError(
            f"out must be a writeable, C-contiguous {dtype} array of shape {shape}, "
            f"got {out.dtype} {out.shape}"
        )
    return out


def checked_rows(rows: npt.ArrayLike, popsize: int) -> Indices:
    """Return ``rows`` as indices of candidates, after validation."""
    found = np.asarray(rows)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"rows must be a list of candidate indices, got {shown(rows)}")
    if np.any((found < 0) | (found >= popsize)):
        raise ValueError(f"rows must lie between 0 and popsize - 1 = {popsize - 1}, got {shown(rows)}")
    return found.astype(np.intp)


def checked_injected(points: npt.ArrayLike, n: int, dtype: npt.DTypeLike) -> Array:
    """Return ``points`` as a new array, one per row, after validation."""
    try:
        with np.errstate(over="ignore"):
            rows = np.atleast_2d(np.array(points, dtype=dtype))
    except Exception:  # strings, ragged lists, objects whose conversion raises
        raise TypeError(
            f"inject must be numbers of shape ({n},) or (rows, {n}), got {shown(points)}"
        ) from None
    if rows.ndim != 2 or rows.shape[1] != n:
        raise ValueError(f"inject must have shape ({n},) or (rows, {n}), got shape {np.shape(points)}")
    if not np.all(np.isfinite(rows)):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        bad = "NaN" if np.isnan(rows[row, column]) else f"{rows[row, column]:g}"
        raise ValueError(f"inject must be finite, got {bad} in row {row}")
    largest = 1e-4 * math.sqrt(float(np.finfo(rows.dtype).max))  # squared distances overflow beyond this
    if np.any(np.abs(rows) > largest):
        raise ValueError(
            f"inject: coordinates must be at most {largest:.0e} in magnitude in {rows.dtype}, got "
            f"{float(np.abs(rows).max()):g}"
        )
    return rows


def check_option_names(
    method: str, given: Iterable[str], options: Sequence[str], common: Sequence[str]
) -> None:
    """Raise TypeError for a keyword that is neither in ``options`` of ``method`` nor in ``common``."""
    for option in given:
        if option not in options and option not in common:
            known = [*common, *options]
            advice = used_elsewhere(option)  # about minimize(), which has more arguments
            usable = any(f"{name}=" in advice for name in common)
            hint = f": {advice}" if usable else nearest(option, known)
            names = "" if hint else f"; it takes {', '.join(common)}, and the constants of the method"
            raise TypeError(f"unknown option {option!r} for {method}{hint}{names}")
