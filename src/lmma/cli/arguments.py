"""What stands after an option, as Python values; each refusal says what was expected."""

from __future__ import annotations

import ast
import math
import os
import warnings
from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.cli.status import UsageError

Vector = npt.NDArray[np.float64]
VECTOR_FILES = (".npy", ".txt", ".csv")


def number(text: str) -> float:
    """Return a finite number."""
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a number, got {text!r}") from None
    if not math.isfinite(value):
        raise ArgumentTypeError(f"expected a finite number, got {text!r}")
    return value


def number_or_none(text: str) -> float | None:
    """Return a number, or None for ``none``."""
    return None if text.lower() == "none" else number(text)


def positive(text: str) -> float:
    """Return a positive number."""
    value = number(text)
    if value <= 0:
        raise ArgumentTypeError(f"expected a positive number, got {text!r}")
    return value


def not_negative(text: str) -> float:
    """Return a number of at least 0."""
    value = number(text)
    if value < 0:
        raise ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


def whole(text: str) -> int:
    """Return a whole number of at least 0; ``1e6`` and ``1_000_000`` are understood."""
    try:
        return int(text)
    except ValueError:
        value = number(text)
    if value != int(value) or value < 0:
        raise ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(value)


def count(text: str) -> int:
    """Return a whole number of at least 1."""
    value = whole(text)
    if value < 1:
        raise ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def constant(text: str) -> tuple[str, Any]:
    """Return NAME=VALUE as a pair; the value is a Python literal where it reads as one."""
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
    """Return the words between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(text: str, option: str) -> list[int]:
    """Return whole numbers and ranges between commas: ``1-3,7`` is 1, 2, 3 and 7."""
    found: list[int] = []
    for word in names(text):
        first, _, last = word.partition("-")
        try:
            found += range(count(first), count(last or first) + 1)
        except ArgumentTypeError as error:
            raise UsageError(f"{option}: {error}") from None
    if not found:
        raise UsageError(f"{option} names no number: {text!r}")
    return found


def vector(text: str, n: int | None, option: str) -> Vector:
    """Return the vector that ``text`` means: numbers between commas, a file, or one number ``n`` times."""
    if Path(text).suffix.lower() in VECTOR_FILES:
        values = _read(Path(text), option)
    else:
        try:
            values = np.array([float(word) for word in text.split(",")])
        except ValueError:
            raise UsageError(
                f"{option} must be numbers between commas, one number, or a file ending in "
                f"{', '.join(VECTOR_FILES)}; got {text!r}"
            ) from None
    if values.size == 1 and n is not None:
        return np.full(n, values[0])
    if n is not None and values.size != n:
        raise UsageError(f"{option} holds {values.size} numbers but --dim is {n}: drop --dim or change one")
    return values


def bounds(text: str, n: int) -> SimpleNamespace:
    """Return bounds with ``lb`` and ``ub``: two numbers for all variables, or a file with a row for each.

    Named sides, for two vectors could also be read as two pairs where there are two variables.
    """
    path = Path(text)
    if path.suffix.lower() in VECTOR_FILES:
        values = _read(path, "--bounds", (n, 2))
        return SimpleNamespace(lb=values[:, 0], ub=values[:, 1])
    try:
        low, high = (float(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"--bounds must be LOW,HIGH, two numbers, or a file; got {text!r}") from None
    return SimpleNamespace(lb=np.full(n, low), ub=np.full(n, high))


def integers(text: str, n: int) -> npt.NDArray[np.bool_]:
    """Return which of ``n`` variables are integers: all, or numbers and ranges between commas, from 0 on."""
    if text == "all":
        return np.ones(n, dtype=np.bool_)
    chosen = np.zeros(n, dtype=np.bool_)
    for word in names(text):
        first, _, last = word.partition("-")
        try:
            low, high = whole(first), whole(last or first)
        except ArgumentTypeError as error:
            raise UsageError(f"--integers: {error}") from None
        if not low <= high < n:
            raise UsageError(f"--integers: {word} is no range of the {n} variables, which count from 0")
        chosen[low : high + 1] = True
    if not chosen.any():
        raise UsageError(f"--integers must be all, or numbers such as 3,7-12; got {text!r}")
    return chosen


def values(text: str, option: str) -> dict[str, Any]:
    """Return values by name: NAME=VALUE between commas, or a .json file with an object."""
    if Path(text).suffix.lower() == ".json":
        from lmma.store.untrusted import read_json

        try:
            found = read_json(Path(text).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{option}: {text} cannot be read as JSON: {error}") from None
        if not isinstance(found, dict):
            raise UsageError(f"{option}: {text} must hold an object of name: value")
        return found
    try:
        return dict(constant(word) for word in names(text))
    except ArgumentTypeError as error:
        raise UsageError(f"{option}: {error}") from None


def rows(text: str, n: int, option: str) -> Vector:
    """Return the points a file holds, one a row; a single vector is one point."""
    path = Path(text)
    if path.suffix.lower() not in VECTOR_FILES:
        raise UsageError(f"{option} must be a file ending in {', '.join(VECTOR_FILES)}; got {text!r}")
    return _read(path, option, rows_of=n)


def _read(
    path: Path, option: str, shape: tuple[int, int] | None = None, *, rows_of: int | None = None
) -> Vector:
    if not path.is_file():
        raise UsageError(f"{option}: there is no file {path}")
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
        raise UsageError(f"{option}: {path} holds no numbers")
    if shape is not None:
        if values.shape != shape:
            raise UsageError(f"{option}: {path} must hold {shape[0]} rows LOW HIGH, got shape {values.shape}")
        return values
    if rows_of is not None:
        points = np.atleast_2d(values)
        if points.ndim != 2 or points.shape[1] != rows_of:
            raise UsageError(
                f"{option}: {path} must hold rows of {rows_of} numbers, got shape {values.shape}"
            )
        return points
    if values.ndim > 1 and max(values.shape) != values.size:
        raise UsageError(f"{option}: {path} must hold one vector, got an array of shape {values.shape}")
    return values.ravel()


def writable(text: str, option: str, suffixes: tuple[str, ...]) -> Path:
    """Return a path that can be written to, refused now rather than after a long run."""
    path = Path(text)
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}, got {text!r}")
    if not path.parent.is_dir():
        raise UsageError(f"{option}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a directory")
    return path


def write_vector(path: Path, x: npt.NDArray[np.floating]) -> None:
    """Write ``x`` in the form the file's name asks for, such that ``--x0`` reads it back exactly.

    The file is whole or as it was before.
    """
    if path.suffix.lower() != ".npy":
        write_text(path, "".join(f"{float(value)!r}\n" for value in x))
        return
    path = path.resolve()
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        with open(aside, "wb") as file:
            np.save(file, x)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, which is whole or as it was before."""
    path = path.resolve()
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
