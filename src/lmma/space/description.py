"""Descriptions of spaces and trees in files: names, limits, units and shapes, as JSON and arrays.

A description is read without importing anything. A space is recreated from it. A tree becomes
:class:`Leaves`, because the classes of a structure are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma._plain import Arrays, decode, encode
from lmma._text import shown
from lmma.space.space import Space
from lmma.space.toml_file import DETAILS, variable
from lmma.space.tree import Tree
from lmma.space.variables import Choice, Fixed, Integer, Real, Variable


@final
class Leaves:
    """The names and shapes of the leaves of a tree, in the order of the vector.

    Parameters
    ----------
    shapes : mapping
        Path -> shape.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.n = sum(math.prod(shape) for shape in self.shapes.values())

    def values(self, vector: npt.NDArray[np.floating]) -> dict[str, Any]:
        """Return the numbers of a vector by path; a leaf of shape () is a float."""
        values: dict[str, Any] = {}
        first = 0
        for path, shape in self.shapes.items():
            part = vector[first : first + math.prod(shape)]
            values[path] = part.reshape(shape) if shape else float(part[0])
            first += len(part)
        return values


def describe(names: Space | Tree | Leaves | None, arrays: Arrays, as_text: list[str]) -> Any:
    """Return the description as JSON, None for None; its arrays are added to ``arrays``.

    Values of choices and constants that cannot be stored become texts; their names are appended to
    ``as_text``.
    """
    if names is None:
        return None
    if isinstance(names, Space):
        return {
            "variables": [
                [name, _describe_variable(each, arrays, name, as_text)] for name, each in names.items()
            ]
        }
    return {"leaves": [[path, list(shape)] for path, shape in names.shapes.items()]}


def _describe_variable(each: Variable, arrays: Arrays, name: str, as_text: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(each, Real | Integer):
        found[each.kind] = [each.low, each.high]
    elif isinstance(each, Choice):
        found[each.kind] = encode(list(each.values), arrays, f"space.{name}", as_text)
    elif isinstance(each, Fixed):
        found[each.kind] = encode(each.value, arrays, f"space.{name}", as_text)
    for detail in DETAILS[each.kind]:
        if value := getattr(each, detail):
            found[detail] = list(value) if detail == "shape" else value
    return found


def from_description(data: Any, arrays: Arrays, n: int) -> Space | Leaves | None:
    """Return the space of a :func:`describe` record; raise ValueError unless it has ``n`` coordinates."""
    if data is None:
        return None
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"invalid content: space {shown(data)}")
    kind, parts = next(iter(data.items()))
    found: Space | Leaves | None = None
    if not isinstance(parts, list) or not all(isinstance(part, list) and len(part) == 2 for part in parts):
        raise ValueError(f"invalid content: space {shown(parts)}")
    if kind == "variables":
        found = Space({name: _variable(name, about, arrays) for name, about in parts})
    elif kind == "leaves":
        found = Leaves({str(path): _shape(shape) for path, shape in parts})
    if found is None or found.n != n:
        raise ValueError(f"invalid content: a space that does not have {n} coordinates")
    return found


def _variable(name: Any, about: Any, arrays: Arrays) -> Variable:
    if not isinstance(about, dict):
        raise ValueError(f"invalid content: variable {shown(name)}")
    decoded = {key: decode(v, arrays) if key in ("choice", "fixed") else v for key, v in about.items()}
    return variable(str(name), decoded)


def _shape(shape: Any) -> tuple[int, ...]:
    if not (isinstance(shape, list) and all(type(k) is int and k >= 0 for k in shape)):
        raise ValueError(f"invalid content: shape {shown(shape)}")
    return tuple(shape)
