"""Parsers for option values; error messages state the expected format."""

from __future__ import annotations

import ast
import math
import warnings
from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma._files import read_json
from lmma.cli.status import UsageError

Vector = npt.NDArray[np.float64]
VECTOR_FILES = (".npy", ".txt", ".csv")


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a number, got {text!r}") from None
    if not math.isfinite(value):
        raise ArgumentTypeError(f"expected a finite number, got {text!r}")
    return value


def number_or_none(text: str) -> float | None:
    """Parse a number, or ``none`` as None."""
    return None if text.lower() == "none" else number(text)


def positive(text: str) -> float:
    """Parse a positive number."""
    value = number(text)
    if value <= 0:
        raise ArgumentTypeError(f"expected a positive number, got {text!r}")
    return value


def not_negative(text: str) -> float:
    """Parse a number of at least 0."""
    value = number(text)
    if value < 0:
        raise ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


def whole_number(text: str, least: int = 0) -> int:
    """Parse a whole number of at least ``least``; ``1e6`` and ``1_000_000`` are accepted."""
    try:
        value: float = int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
    if not math.isfinite(value) or value != int(value) or value < least:
        raise ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return int(value)


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    return whole_number(text, 1)


def constant(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value becomes a Python literal if possible, else a string."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        raise ArgumentTypeError(f"expected NAME=VALUE such as m=20, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
    except (RecursionError, MemoryError):
        raise ArgumentTypeError(f"{name} is nested too deeply") from None


def names(text: str) -> tuple[str, ...]:
    """Split a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(text: str, option: str) -> list[int]:
    """Parse comma-separated whole numbers and ranges: ``1-3,7`` is 1, 2, 3 and 7."""
    found: list[int] = []
    for word in names(text):
        first, _, last = word.partition("-")
        try:
            found += range(count(first), count(last or first) + 1)
        except ArgumentTypeError as error:
            raise UsageError(f"{option}: {error}") from None
    if not found:
        raise UsageError(f"{option} contains no number, got {text!r}")
    return found


def vector(text: str, n: int | None, option: str) -> Vector:
    """Parse a vector: comma-separated numbers, a file, or one number repeated ``n`` times."""
    if Path(text).suffix.lower() in VECTOR_FILES:
        values = _read(Path(text), option)
    else:
        try:
            values = np.array([float(word) for word in text.split(",")])
        except ValueError:
            raise UsageError(
                f"{option} must be comma-separated numbers, one number, or a file ending in "
                f"{', '.join(VECTOR_FILES)}; got {text!r}"
            ) from None
    if values.size == 1 and n is not None:
        return np.full(n, values[0])
    if n is not None and values.size != n:
        raise UsageError(f"{option} has {values.size} numbers but --dim is {n}: omit --dim or change one")
    return values


def bounds(text: str, n: int) -> SimpleNamespace:
    """Parse bounds: two numbers for all variables, or a file with one row per variable.

    The result has attributes ``lb`` and ``ub``: with two variables, two vectors could be mistaken for two
    (low, high) pairs.
    """
    path = Path(text)
    if path.suffix.lower() in VECTOR_FILES:
        values = _read(path, "--bounds", (n, 2))
        return SimpleNamespace(lb=values[:, 0], ub=values[:, 1])
    try:
        low, high = (float(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"--bounds must be two numbers LOW,HIGH or a file; got {text!r}") from None
    return SimpleNamespace(lb=np.full(n, low), ub=np.full(n, high))


def integers(text: str, n: int) -> npt.NDArray[np.bool_]:
    """Parse a mask of integer variables: ``all``, or comma-separated indices and ranges, counted from 0."""
    if text == "all":
        return np.ones(n, dtype=np.bool_)
    chosen = np.zeros(n, dtype=np.bool_)
    for word in names(text):
        first, _, last = word.partition("-")
        try:
            low, high = whole_number(first), whole_number(last or first)
        except ArgumentTypeError:
            raise UsageError(f"--integers must be all, or indices such as 3,7-12; got {text!r}") from None
        if not low <= high < n:
            raise UsageError(f"--integers: {word} is outside the {n} variables, which are numbered from 0")
        chosen[low : high + 1] = True
    if not chosen.any():
        raise UsageError(f"--integers must be all, or indices such as 3,7-12; got {text!r}")
    return chosen


def values(text: str, option: str) -> dict[str, Any]:
    """Parse values by name: comma-separated NAME=VALUE pairs, or a .json file that contains an object."""
    if Path(text).suffix.lower() == ".json":
        try:
            found = read_json(Path(text).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{option}: {text} cannot be read as JSON: {error}") from None
        if not isinstance(found, dict):
            raise UsageError(f"{option}: {text} must contain a JSON object of names and values")
        return found
    try:
        return dict(constant(word) for word in names(text))
    except ArgumentTypeError as error:
        raise UsageError(f"{option}: {error}") from None


def rows(text: str, n: int, option: str) -> Vector:
    """Read points from a file, one per row; a single vector is one point."""
    path = Path(text)
    if path.suffix.lower() not in VECTOR_FILES:
        raise UsageError(f"{option} must be a file ending in {', '.join(VECTOR_FILES)}; got {text!r}")
    return _read(path, option, rows_of=n)


def _read(
    path: Path, option: str, shape: tuple[int, int] | None = None, *, rows_of: int | None = None
) -> Vector:
    if not path.is_file():
        raise UsageError(f"{option}: {path} does not exist")
    try:
        if path.suffix.lower() == ".npy":
            values = np.load(path, allow_pickle=False)
        else:
            with warnings.catch_warnings():  # an empty file is reported below
                warnings.simplefilter("ignore")
                values = np.loadtxt(path, delimiter="," if path.suffix.lower() == ".csv" else None, ndmin=1)
        values = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError, OSError, EOFError, MemoryError) as error:
        raise UsageError(f"{option}: {path} cannot be read as numbers: {error}") from None
    if values.size == 0:
        raise UsageError(f"{option}: {path} contains no numbers")
    if shape is not None:
        if values.shape != shape:
            raise UsageError(
                f"{option}: {path} must contain {shape[0]} rows LOW HIGH, got shape {values.shape}"
            )
        return values
    if rows_of is not None:
        points = np.atleast_2d(values)
        if points.ndim != 2 or points.shape[1] != rows_of:
            raise UsageError(
                f"{option}: {path} must contain rows of {rows_of} numbers, got shape {values.shape}"
            )
        return points
    if values.ndim > 1 and max(values.shape) != values.size:
        raise UsageError(f"{option}: {path} must contain one vector, got an array of shape {values.shape}")
    return values.ravel()


def first_bytes(file: Path) -> bytes:
    """Return the first 100 bytes of a file, by which its type is recognised."""
    if file.exists() and not file.is_file():  # reading a named pipe would wait for a writer
        raise UsageError(f"{file} cannot be read: not a regular file")
    try:
        with open(file, "rb") as opened:
            return opened.read(100)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None


def writable(text: str, option: str, suffixes: tuple[str, ...]) -> Path:
    """Check an output path before the run: its suffix and its directory."""
    path = Path(text)
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}, got {text!r}")
    if not path.parent.is_dir():
        raise UsageError(f"{option}: no such directory: {path.parent}")
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a directory")
    return path
