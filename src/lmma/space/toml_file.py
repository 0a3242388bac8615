"""A space in a TOML file: its variables, and options of a run if one likes.

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

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmma.space.space import Space, nearest
from lmma.space.variables import Choice, Fixed, Integer, Real, Variable

LARGEST = 16 << 20  # bytes of a file
KINDS = ("real", "integer", "choice", "fixed")
DETAILS = {"real": ("log", "unit", "shape"), "integer": ("unit", "shape"), "choice": ("shape",), "fixed": ()}


@dataclass(frozen=True)
class SpaceFile:
    """What a file says: a space, and options of a run by the names it uses."""

    space: Space
    run: Mapping[str, Any] = field(default_factory=dict)


def read_space(path: str | Path) -> SpaceFile:
    """Return what a TOML file says; ValueError names the file, the place and the remedy."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path} has more than {LARGEST:,} bytes: no file of variables is as large")
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    try:
        return _space_file(said)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _space_file(said: Mapping[str, Any]) -> SpaceFile:
    for key in said:
        if key not in ("variables", "run"):
            raise ValueError(
                f"unknown table {key!r}{nearest(key, ['variables', 'run'])}: there are [variables] and [run]"
            )
    variables, run = said.get("variables"), said.get("run", {})
    if not isinstance(variables, dict) or not variables:
        raise ValueError("there are no variables: write them into [variables]")
    if not isinstance(run, dict):
        raise ValueError(f"run must be a table of options, got {run!r:.60}")
    return SpaceFile(Space({name: variable(name, words) for name, words in variables.items()}), run)


def variable(name: str, said: Any) -> Variable:
    """Return the variable that a value of TOML describes."""
    if not isinstance(said, dict):
        if isinstance(said, list):
            raise ValueError(
                f"variable {name!r} is a list: write {{ real = [low, high] }}, {{ integer = [low, high] }} "
                "or { choice = [...] }"
            )
        return Fixed(said)
    kinds = [kind for kind in KINDS if kind in said]
    for key in said:
        known = DETAILS[kinds[0]] if len(kinds) == 1 else sum(DETAILS.values(), ())
        if key not in (*KINDS, *known):
            raise ValueError(f"variable {name!r} has an unknown key {key!r}{nearest(key, [*KINDS, *known])}")
    if len(kinds) != 1:
        raise ValueError(
            f"variable {name!r} must have one of {', '.join(KINDS)}, got {', '.join(said) or 'none'}"
        )
    kind, details = kinds[0], {key: said[key] for key in said if key not in KINDS}
    try:
        return _made(kind, said[kind], details)
    except (ValueError, TypeError) as error:
        raise ValueError(f"variable {name!r}: {error}") from None


def _made(kind: str, value: Any, details: dict[str, Any]) -> Variable:
    if kind == "fixed":
        return Fixed(value)
    if kind == "choice":
        return Choice(value, **details)
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{kind} must be [low, high], got {value!r:.60}")
    if not isinstance(details.get("unit", ""), str) or not isinstance(details.get("log", False), bool):
        raise ValueError("unit must be a text and log true or false")
    return Real(*value, **details) if kind == "real" else Integer(*value, **details)
