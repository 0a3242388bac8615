"""Checks of what a user passes to a strategy: each refusal names argument, value and remedy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from lmma.kernels import Key
from lmma.kernels.words import shown as shown  # part of what a refusal needs, for all who check
from lmma.strategies.parts.recombination import Array, Indices

# What ``rng`` takes; as text, for numpy.random is imported when somebody draws
Seed: TypeAlias = "int | np.integer[Any] | np.random.SeedSequence | np.random.Generator | Key | None"

Float = np.float64 | np.float32
Precision = Literal["float64", "float32"] | type[Float] | np.dtype[Float]  # what ``dtype`` takes


LARGEST_POPSIZE = 2**31  # beyond it numbers of candidates overflow the kernels' integers, and any memory

MOST = 10_000  # direction vectors: each pair of them is a number to be kept


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint such as `` (did you mean 'ma-es'?)``, or nothing where no word is near."""
    import difflib  # only mistakes need it

    found = difflib.get_close_matches(word, list(words), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def checked_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError for what is none of some words; arrays, which compare in their own way, included."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {shown(value)}")


def checked_flag(name: str, value: object) -> bool:
    """Return a switch, or say that it must be True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def checked_x0(x0: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Return a fresh vector in ``dtype``, or say what is wrong with ``x0``."""
    try:
        raw = np.asarray(x0)
    except ValueError as error:
        raise ValueError(f"x0 must be a vector of numbers: {error}") from None
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"x0 must hold real numbers, got dtype {raw.dtype}: convert it to float first")
    if raw.ndim > 1:
        raise ValueError(f"x0 must be a vector of shape (n,), got shape {raw.shape}: try x0.ravel()")
    if raw.size == 0:
        raise ValueError("x0 must have at least one coordinate, got none")
    vector = np.array(np.atleast_1d(raw), dtype=dtype)
    if not np.all(np.isfinite(vector)):
        where = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(f"x0 must be finite, got x0[{where}] = {vector[where]}")
    return vector


def checked_sigma0(sigma0: float | npt.ArrayLike, n: int, dtype: npt.DTypeLike) -> tuple[float, Array | None]:
    """Return sigma and, for a step size per coordinate, the scale around it with geometric mean 1."""
    raw = np.asarray(sigma0)
    if raw.dtype.kind not in "fiu":
        raise TypeError(f"sigma0 must be a positive number or one for each coordinate, got {shown(sigma0)}")
    if raw.ndim > 1 or (raw.ndim == 1 and len(raw) != n):
        raise ValueError(f"sigma0 must be a number or have the shape of x0, ({n},); got shape {raw.shape}")
    if not (np.all(np.isfinite(raw)) and np.all(raw > 0)):
        bad = float(raw) if raw.ndim == 0 else float(raw[~(np.isfinite(raw) & (raw > 0))][0])
        raise ValueError(
            f"sigma0 must be positive and finite, got {bad}: "
            "use about a third of the distance to the optimum you expect"
        )
    if raw.ndim == 0:
        return float(raw), None
    sigma = math.exp(float(np.mean(np.log(raw, dtype=np.float64))))
    return sigma, (raw / sigma).astype(dtype)


def checked_popsize(popsize: int | None, default: int) -> int:
    """Return a population size of at least 2."""
    if popsize is None:
        return max(default, 2)
    if isinstance(popsize, bool) or not isinstance(popsize, int | np.integer):
        raise TypeError(f"popsize must be an integer, got {shown(popsize)}")
    if popsize < 2:
        raise ValueError(f"popsize must be at least 2, got {popsize}: ranking needs a choice")
    if popsize > LARGEST_POPSIZE:
        raise ValueError(f"popsize must be at most {LARGEST_POPSIZE}, got {popsize}")
    return int(popsize)


def checked_number(name: str, value: Any, remedy: str = "") -> float:
    """Return ``value`` if it is a real number and not NaN, or say what ``name`` must be."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number{remedy}; got {shown(value)}")
    if value != value:
        raise ValueError(f"{name} must be a number{remedy}; got NaN")
    return float(value)


def checked_tolerance(name: str, value: Any) -> float:
    """Return a tolerance, 0 where it is switched off."""
    tolerance = checked_number(name, value, ", 0 to switch the rule off")
    if tolerance < 0:
        raise ValueError(f"{name} must not be negative, 0 switches the rule off; got {shown(value)}")
    return tolerance


def checked_threads(threads: int | None) -> int:
    """Return how many threads kernels may use, 0 where they shall decide."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer):
        raise TypeError(f"threads must be an integer or None, got {shown(threads)}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}: None leaves it to LMMA_NUM_THREADS")
    return int(threads)


def checked_dtype(dtype: Precision) -> np.dtype[Any]:
    """Return float64 or float32."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except Exception:  # whatever an object answers that is asked for its type
        found = np.dtype(object)
    if found not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {shown(dtype)}")
    return found


def checked_values(
    values: npt.ArrayLike, count: int, name: str = "values", whose: str = "candidate of ask()"
) -> npt.NDArray[np.float64]:
    """Return objective values as float64, or say what is wrong with them."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must be {count} real numbers, got dtype {raw.dtype}"
            f"{_first_odd(raw)}: return a float for each candidate, NaN where it failed"
        )
    if raw.shape != (count,):
        raise ValueError(
            f"{name} must have shape ({count},), one for each {whose} in the same order; "
            f"got shape {raw.shape}"
        )
    return raw.astype(np.float64, copy=False)


def _first_odd(values: npt.NDArray[Any]) -> str:
    for index, value in enumerate(values.ravel()):
        if not isinstance(value, int | float | np.number):
            return f" (values[{index}] is {shown(value)})"
    return ""


def key_from(rng: Seed) -> Key:
    """Return the 128-bit key of a run from a seed, a SeedSequence, a Generator, fresh entropy, or a key."""
    if isinstance(rng, tuple):
        if len(rng) != 2 or any(isinstance(w, bool) or not isinstance(w, int | np.integer) for w in rng):
            raise TypeError(f"rng as a key must be two integers of 64 bits each, got {shown(rng)}")
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
    """Return ``out``, a fresh array if it is None, or say what is wrong with it."""
    if out is None:
        return np.empty(shape, dtype=dtype)
    if out.shape != shape or out.dtype != dtype or not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError(
            f"out must be a writeable, C-contiguous {dtype} array of shape {shape}, "
            f"got {out.dtype} {out.shape}"
        )
    return out


def checked_rows(rows: npt.ArrayLike, popsize: int) -> Indices:
    """Return numbers of candidates, or say what is wrong with them."""
    found = np.asarray(rows)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"rows must be a list of numbers of candidates, got {shown(rows)}")
    if np.any((found < 0) | (found >= popsize)):
        raise ValueError(f"rows must lie between 0 and popsize - 1 = {popsize - 1}, got {shown(rows)}")
    return found.astype(np.intp)


def checked_injected(points: npt.ArrayLike, n: int, dtype: npt.DTypeLike) -> Array:
    """Return a fresh array of points, one per row, or say what is wrong with them."""
    try:
        with np.errstate(over="ignore"):
            rows = np.atleast_2d(np.array(points, dtype=dtype))
    except Exception:  # texts, ragged lists, what refuses to be a number
        raise TypeError(
            f"inject: points must be numbers, of shape ({n},) or (rows, {n}); got {shown(points)}"
        ) from None
    if rows.ndim != 2 or rows.shape[1] != n or not np.all(np.isfinite(rows)):
        raise ValueError(
            f"inject: points must be finite, of shape ({n},) or (rows, {n}); got shape {np.shape(points)}"
        )
    largest = 1e-4 * math.sqrt(
        float(np.finfo(rows.dtype).max)
    )  # beyond, the square of a distance is infinite
    if np.any(np.abs(rows) > largest):
        raise ValueError(
            f"inject: points must be within reach: no coordinate beyond {largest:.0e} in {rows.dtype}; got "
            f"{float(np.abs(rows).max()):g}"
        )
    return rows


def refuse_unknown_options(
    method: str, given: Iterable[str], own: Sequence[str], common: Sequence[str]
) -> None:
    """Raise TypeError for a keyword that is neither an option of ``method`` nor one of every strategy."""
    for option in given:
        if option not in own and option not in common:
            known = [*common, *own]
            raise TypeError(
                f"unknown option {option!r} for {method}{nearest(option, known)}: one of {', '.join(known)}"
            )
