"""A space: named variables, and how their values stand in the vectors that a strategy searches."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.kernels.words import one_line
from lmma.space.variables import Searched, Values, Variable

LONGEST = 160  # signs of a line that shows every variable
STEP = 0.3  # of the width of a variable: the first step size


@final
class Space(Mapping[str, Variable]):
    """Named variables of all kinds; ``minimize(fun, space)`` searches it.

    Parameters
    ----------
    variables : mapping, optional
        Name -> :class:`Real`, :class:`Integer`, :class:`Choice` or :class:`Fixed`.
    **more
        The same as keywords.

    Attributes
    ----------
    n : int
        Coordinates of a vector.
    labels : list of str
        What each coordinate is called, such as ``"speed"`` or ``"thickness[2]"``.

    Examples
    --------
    >>> speed, gear, oil = lmma.Real(1, 9, unit="m/s"), lmma.Integer(1, 6), lmma.Choice(["A", "C"])
    >>> space = lmma.Space(speed=speed, gear=gear, oil=oil)
    >>> space.decode([5.0, 3.0, 1.0])
    {'speed': 5.0, 'gear': 3, 'oil': 'C'}
    >>> space.encode({"speed": 5, "gear": 3, "oil": "C"})
    array([5., 3., 1.])
    """

    def __init__(self, variables: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        given = dict(variables or {})
        if twice := sorted(given.keys() & more.keys()):
            raise ValueError(f"a space needs different names, {twice[0]!r} is there twice")
        self._variables: dict[str, Variable] = {}
        for name, variable in (given | more).items():
            self._variables[_checked_name(name)] = _checked_variable(name, variable)
        self._places: dict[str, slice] = {}
        self.n = 0
        for name, variable in self._variables.items():
            self._places[name] = slice(self.n, self.n + variable.size)
            self.n += variable.size
        if self.n == 0:
            raise ValueError("a space needs a variable to search: Real, Integer or Choice; got none")

    def __getitem__(self, name: str) -> Variable:
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self.described().items()) == list(other.described().items())

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __repr__(self) -> str:
        words = f"Space({', '.join(f'{name}={variable!r}' for name, variable in self.items())})"
        if len(words) <= LONGEST:
            return words
        few = one_line(", ".join(list(self)[:3]), 100) + (", ..." if len(self) > 3 else "")
        return f"<space: {len(self)} variables, {few}; n={self.n}>"

    def searched(self) -> Iterator[tuple[str, Searched, slice]]:
        """Yield name, variable and coordinates of all that is not fixed."""
        for name, variable in self.items():
            if isinstance(variable, Searched):
                yield name, variable, self._places[name]

    @property
    def labels(self) -> list[str]:
        """What each coordinate is called."""
        return [label for name, variable, _ in self.searched() for label in _labels(name, variable)]

    def described(self) -> dict[str, str]:
        """Return the variables in words, by name: equal for equal spaces."""
        # an object's address says nothing, and is another one in the next process
        return {name: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(variable)) for name, variable in self.items()}

    # Values and vectors

    def decode(self, vector: npt.ArrayLike) -> Any:
        """Return the values that a vector stands for, as a dict; for rows of vectors, a list of dicts."""
        x = self._checked_vector(vector)
        if x.ndim == 2:
            return [self.decode(row) for row in x]
        return {name: variable.decoded(x[self._places[name]]) for name, variable in self.items()}

    def columns(self, rows: npt.ArrayLike) -> dict[str, Any]:
        """Return the values of many vectors, one per row, as one array for each variable.

        A fixed value stands once, for all of them.
        """
        x = np.atleast_2d(self._checked_vector(rows))
        return {name: variable.decoded(x[:, self._places[name]]) for name, variable in self.items()}

    def encode(self, values: Mapping[str, Any]) -> Values:
        """Return the vector for a dict of values; fixed ones may be left out."""
        return self._encoded(values, None)

    def _encoded(self, values: Mapping[str, Any], others: Values | None) -> Values:
        """Return the vector for values; ``others`` has the coordinates of those that are not there."""
        if not isinstance(values, Mapping):
            raise TypeError(f"values must be a dict of name: value, got {values!r:.60}")
        for name in values:
            if name not in self._variables:
                raise ValueError(f"there is no variable {name!r} in the space{nearest(name, list(self))}")
        vector = np.empty(self.n) if others is None else others.copy()
        for name, variable in self.items():
            if name not in values:
                if isinstance(variable, Searched) and others is None:
                    raise ValueError(f"values have no {name!r}: give one for each variable that is not fixed")
                continue
            try:
                vector[self._places[name]] = variable.encoded(values[name])
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        return vector

    def positions(self, vector: npt.ArrayLike) -> Values:
        """Return where each coordinate lies between its limits, from 0 to 1."""
        x = self._checked_vector(vector)
        parts = [variable.position(x[..., place]) for _, variable, place in self.searched()]
        return np.concatenate(parts, axis=-1)

    def _checked_vector(self, vector: npt.ArrayLike) -> Values:
        x = np.asarray(vector, dtype=np.float64)
        if x.ndim not in (1, 2) or x.shape[-1] != self.n:
            raise ValueError(f"vectors of this space have {self.n} numbers, got shape {x.shape}")
        return x

    # What a search needs

    @property
    def middle(self) -> Values:
        """Where a search starts that is not told: in the middle of every variable, choices undecided."""
        return self._each(lambda variable: variable.middle)

    @property
    def bounds(self) -> SimpleNamespace:
        """Lower and upper bounds of the vectors, ``lb`` and ``ub``; choices have none."""
        numbers = self._each(lambda variable: variable.count is None) == 1
        lower = np.where(numbers, self._each(lambda variable: variable.limits[0]), -np.inf)
        upper = np.where(numbers, self._each(lambda variable: variable.limits[1]), np.inf)
        return SimpleNamespace(lb=lower, ub=upper)

    @property
    def integrality(self) -> npt.NDArray[np.bool_]:
        """Which coordinates are integers; choices are none."""
        integer: npt.NDArray[np.bool_] = self._each(lambda variable: variable.integer) == 1
        return integer

    @property
    def categories(self) -> dict[int, int]:
        """How many values each coordinate has that is a choice."""
        counts = self._each(lambda variable: variable.count or 0)
        return {int(column): int(counts[column]) for column in np.flatnonzero(counts)}

    def steps(self, share: Any = None) -> Values:
        """Return a step size for each coordinate: a share of the width of its variable, 0.3 by default.

        ``share`` is one number for all variables, or a dict of name: number.
        """
        named = share if isinstance(share, Mapping) else {}
        for name, value in named.items():
            if name not in self._variables:
                raise ValueError(
                    f"sigma0: there is no variable {name!r} in the space{nearest(name, list(self))}"
                )
            _checked_share(value, f" for {name}")
        usual = STEP if share is None or named is share else _checked_share(share, "")
        steps = np.empty(self.n)
        for name, variable, place in self.searched():
            low, high = variable.limits
            steps[place] = named.get(name, usual) * (high - low)
        return steps

    def strategy_arguments(self, start: Any = None, share: Any = None) -> dict[str, Any]:
        """Return what a strategy needs to search this space: ``x0, sigma0, bounds, integrality, categories``.

        ``start`` is a dict of values, a vector, or None for the middle; ``share`` as of :meth:`steps`. What a
        space has none of is not there.
        """
        integrality, categories = self.integrality, self.categories
        given: dict[str, Any] = {"x0": self.start(start), "sigma0": self.steps(share), "bounds": self.bounds}
        if integrality.any():
            given["integrality"] = integrality
        if categories:
            given["categories"] = categories
        return given

    def start(self, start: Any = None) -> Values:
        """Return the vector where a search starts: of a dict of values, of a vector, or the middle for None.

        Variables that a dict leaves out start in the middle.
        """
        if start is None:
            return self.middle
        if isinstance(start, Mapping):
            return self._encoded(start, self.middle)
        x = self._checked_vector(start)
        if x.ndim != 1:
            raise ValueError(f"x0 must be one vector of this space, {self.n} numbers; got shape {x.shape}")
        return x

    def _each(self, what: Any) -> Values:
        """Return ``what(variable)`` for each coordinate."""
        parts = [np.full(variable.size, what(variable), float) for _, variable, _ in self.searched()]
        return np.concatenate(parts)


def _labels(name: str, variable: Variable) -> list[str]:
    if variable.extent == ():
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*variable.extent)]


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(
            f"a variable's name must be one that a Python function can have for an argument, got {name!r:.60}"
        )
    if name.startswith("__") or name in RESERVED:
        raise ValueError(f"a variable cannot be called {name!r}, which lmma uses itself: take another name")
    return name


# {file}, {json} and {toml} stand for files in the command of an external program, [run] for options in TOML
RESERVED = ("file", "json", "toml", "run")


def _checked_variable(name: str, variable: Any) -> Variable:
    if isinstance(variable, Variable):
        return variable
    if isinstance(variable, type) and issubclass(variable, Variable):
        raise TypeError(f"{name} is the class {variable.__name__}: give its limits, {variable.__name__}(...)")
    raise TypeError(
        f"{name} must be lmma.Real, Integer, Choice or Fixed, got {variable!r:.60}: Fixed({variable!r:.40}) "
        "is a value that is not searched"
    )


def _checked_share(share: Any, what: str) -> float:
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < np.inf:
        raise ValueError(
            f"sigma0 of a space must be a share of a variable's width, such as 0.3; got {share!r:.60}{what}"
        )
    return float(share)


def nearest(name: str, known: list[str]) -> str:
    """Return words that suggest a known name; empty if none is near."""
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""
