"""The variables of an archive: from the vector of a search to named values in the user's units."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma._files import read_json
from lmma._plain import to_json
from lmma.space import Space, Tree
from lmma.space.space import labels_of
from lmma.space.variables import Choice, Integer, Real

MAX_COLUMNS = 1000  # variables with a column each; SQLite allows 2000 columns in all

Cell = float | int | str | None


@dataclass(frozen=True)
class Columns:
    """Names of the coordinates, and how each is decoded.

    Parameters
    ----------
    n : int
        The number of coordinates.
    labels : list of str
        Their names; empty for more than ``MAX_COLUMNS`` coordinates without names of their own.
    units : dict
        Label -> unit, of those that have one.
    log, integers : list of int
        Coordinates that are logarithms, and integers.
    choices : dict
        Coordinate -> values by index.
    limits : list of [int, float, float]
        Coordinate, smallest and largest value, where these are known.
    """

    n: int
    labels: list[str] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    log: list[int] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    choices: dict[int, list[Cell]] = field(default_factory=dict)
    limits: list[list[float]] = field(default_factory=list)

    @classmethod
    def of(cls, space: Space | Tree | None, n: int) -> Columns:
        """Return the columns for vectors of a space or tree, or for plain vectors of length ``n``."""
        if isinstance(space, Space):
            return cls._of_space(space)
        if n > MAX_COLUMNS:
            return cls(n)
        if space is None:
            return cls(n, [f"x{i}" for i in range(n)])
        return cls(n, [label for path, shape in space.shapes.items() for label in labels_of(path, shape)])

    @classmethod
    def _of_space(cls, space: Space) -> Columns:
        found = cls(space.n, space.labels)
        for _, variable, place in space.searched():
            for column in range(place.start, place.stop):
                if isinstance(variable, Real | Integer):
                    found.limits.append([column, float(variable.low), float(variable.high)])
                if isinstance(variable, Real) and variable.log:
                    found.log.append(column)
                if isinstance(variable, Integer):
                    found.integers.append(column)
                if isinstance(variable, Choice):
                    found.choices[column] = [_cell(value) for value in variable.values]
                if unit := variable.unit_of_measure:
                    found.units[found.labels[column]] = unit
        return found

    @property
    def exact(self) -> bool:
        """True if the values of the columns are the coordinates themselves."""
        return self.separate and not (self.log or self.choices)

    @property
    def separate(self) -> bool:
        """True if each coordinate has a column; otherwise only the vector is stored."""
        return self.n <= MAX_COLUMNS

    @property
    def names(self) -> list[str]:
        """The names of the coordinates in tables."""
        return self.labels or [f"x{i}" for i in range(self.n)]

    def affinities(self) -> Iterator[str]:
        """Yield the SQL type of each column; that of a choice is empty, which keeps values as they are."""
        for column in range(self.n):
            yield "" if column in self.choices else "integer" if column in self.integers else "real"

    def cells(self, x: npt.NDArray[np.floating]) -> list[Cell]:
        """Return the values at ``x``, (n,), in the user's units."""
        if self.log or self.limits:
            x = x.astype(np.float64)
            if self.log:
                x[self.log] = np.exp(x[self.log])
            if self.limits:
                which, low, high = self._bounds
                x[which] = np.clip(x[which], low, high)
        cells: list[Cell] = x.tolist()
        for column in self.integers:
            cells[column] = round(cells[column])  # type: ignore[arg-type]
        for column, values in self.choices.items():
            cells[column] = values[min(max(round(cells[column]), 0), len(values) - 1)]  # type: ignore[arg-type]
        return cells

    @functools.cached_property
    def _bounds(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        table = np.array(self.limits, dtype=np.float64)
        return table[:, 0].astype(np.intp), table[:, 1], table[:, 2]

    # In files

    def to_json(self) -> str:
        """Return the columns as JSON text."""
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def from_json(cls, text: str) -> Columns:
        """Return the columns of :meth:`to_json`; raise ValueError for an invalid text."""
        try:
            given = read_json(text)
            choices = {int(column): list(values) for column, values in given.pop("choices").items()}
            found = cls(**given, choices=choices)
            used = [*found.log, *found.integers, *found.choices, *(int(limit[0]) for limit in found.limits)]
            valid = (
                type(found.n) is int
                and found.n > 0
                and len(found.labels) in (found.n, 0 if found.n > MAX_COLUMNS else found.n)
                and all(
                    isinstance(label, str) for label in (*found.labels, *found.units, *found.units.values())
                )
                and all(type(column) is int and 0 <= column < found.n for column in used)
                and all(len(limit) == 3 and limit[1] <= limit[2] for limit in found.limits)
                and all(values and all(map(_is_cell, values)) for values in choices.values())
            )
        except (TypeError, AttributeError, KeyError, IndexError):
            valid = False
        if not valid:
            raise ValueError("invalid content: columns")
        return found


def unique_names(labels: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return column names for ``labels``: SQLite ignores case, and some names are ``taken``.

    An underscore is appended to a name that is not free.
    """
    used = {name.lower() for name in taken}
    found = []
    for label in labels:
        name = label
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        found.append(name)
    return found


def clean(text: str) -> str:
    """Return a text that UTF-8 can represent."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cell(value: Any) -> Cell:
    """Return the value of a choice for a table: a number or text as it is, anything else as JSON."""
    plain = to_json(value)
    if isinstance(plain, str):
        return clean(plain)
    if isinstance(plain, bool | int) and abs(plain) < 2**63:
        return int(plain)
    return plain if isinstance(plain, float) else clean(json.dumps(plain))


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str)
