"""Spaces in TOML files, optionally with run options.

[variables]
speed = { real = [1, 9], unit = "m/s" }
rate = { real = [1e-5, 1e-1], log = true }
gear = { integer = [1, 6] }
oil = { choice = ["A", "C"] }
thickness = { real = [1, 20], unit = "mm", shape = 10 }
gravity = 9.81

[run]
objective = "model:loss"
max-evaluations = 20_000
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmma._text import nearest
from lmma.space.space import Space
from lmma.space.variables import Choice, Fixed, Integer, Number, Real, Variable

MAX_FILE_SIZE = 16 << 20  # bytes
KINDS: dict[str, type[Real | Integer | Choice | Fixed]] = {
    cls.kind: cls for cls in (Real, Integer, Choice, Fixed)
}
FORMS = "use { real = [low, high] }, { integer = [low, high] } or { choice = [...] }"
DETAILS = {"real": ("log", "unit", "shape"), "integer": ("unit", "shape"), "choice": ("shape",), "fixed": ()}


@dataclass(frozen=True)
class SpaceFile:
    """The contents of a file: a space and, optionally, run options."""

    space: Space
    run: Mapping[str, Any] = field(default_factory=dict)


def read_space(path: str | Path) -> SpaceFile:
    """Read a space from a TOML file; raise ValueError if it is invalid."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE_SIZE:
            raise ValueError(f"{path} is larger than {MAX_FILE_SIZE:,} bytes: is it a file of variables?")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    try:
        return _space_file(data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _space_file(data: Mapping[str, Any]) -> SpaceFile:
    for key in data:
        if key not in ("variables", "run"):
            raise ValueError(
                f"unknown table {key!r}{nearest(key, ['variables', 'run'])}: use [variables] and [run]"
            )
    variables, run = data.get("variables"), data.get("run", {})
    if not isinstance(variables, dict) or not variables:
        raise ValueError("no variables: define them in a table [variables]")
    if not isinstance(run, dict):
        raise ValueError(f"run must be a table of options, got {run!r:.60}")
    return SpaceFile(Space({name: variable(name, data) for name, data in variables.items()}), run)


def variable(name: str, data: Any) -> Variable:
    """Return the variable described by a TOML value."""
    if not isinstance(data, dict):
        if isinstance(data, list):
            raise ValueError(f"variable {name!r} is a list: {FORMS}")
        return Fixed(data)
    kinds = [kind for kind in KINDS if kind in data]
    for key in data:
        known = DETAILS[kinds[0]] if len(kinds) == 1 else sum(DETAILS.values(), ())
        if key not in (*KINDS, *known):
            hint = nearest(key, known) if kinds else f"{nearest(key, KINDS)}: {FORMS}"
            raise ValueError(f"variable {name!r} has an unknown key {key!r}{hint}")
    if len(kinds) != 1:
        raise ValueError(
            f"variable {name!r} must have one of {', '.join(KINDS)}, got {', '.join(data) or 'none'}"
        )
    kind, details = kinds[0], {key: data[key] for key in data if key not in KINDS}
    try:
        return _build(kind, data[kind], details)
    except (ValueError, TypeError) as error:
        text = re.sub(r"\bFixed\((.+)\)$", rf"{re.escape(name)} = \1", str(error))
        raise ValueError(f"variable {name!r}: {text}") from None


def _build(kind: str, value: Any, details: dict[str, Any]) -> Variable:
    cls = KINDS[kind]
    if not issubclass(cls, Number):
        return cls(value, **details)
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{kind} must be [low, high], got {value!r:.60}")
    if not isinstance(details.get("unit", ""), str) or not isinstance(details.get("log", False), bool):
        raise ValueError("unit must be a string, and log must be true or false")
    return cls(*value, **details)
