"""A space of named variables, and the encoding of their values as vectors."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma._text import nearest, one_line, shown
from lmma.space.variables import SearchVariable, Values, Variable

MAX_REPR = 160  # characters; a longer repr is abbreviated
DEFAULT_STEP = 0.3  # initial step size, as a share of the width of a variable


@final
class Space(Mapping[str, Variable]):
    """A search space of named variables, for ``minimize(fun, space)``.

    Parameters
    ----------
    variables : mapping, optional
        Name -> :class:`Real`, :class:`Integer`, :class:`Choice` or :class:`Fixed`.
    **more
        The same, as keywords.

    Attributes
    ----------
    n : int
        Number of coordinates of a vector.
    labels : list of str
        Name of each coordinate, such as ``"speed"`` or ``"thickness[2]"``.

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
            raise ValueError(f"duplicate variable {twice[0]!r}: the names in a space must differ")
        self._variables: dict[str, Variable] = {}
        for name, variable in (given | more).items():
            self._variables[_checked_name(name)] = _checked_variable(name, variable)
        self._places: dict[str, slice] = {}
        self.n = 0
        for name, variable in self._variables.items():
            self._places[name] = slice(self.n, self.n + variable.size)
            self.n += variable.size
        if self.n == 0:
            raise ValueError("a space must have at least one Real, Integer or Choice variable, got none")

    def __getitem__(self, name: str) -> Variable:
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self.described().items()) == list(other.described().items())

    __hash__ = None  # type: ignore[assignment]  # like every mapping

    def __repr__(self) -> str:
        text = f"Space({', '.join(f'{name}={variable!r}' for name, variable in self.items())})"
        if len(text) <= MAX_REPR:
            return text
        first_names = one_line(", ".join(list(self)[:3]), 100) + (", ..." if len(self) > 3 else "")
        return f"<space: {len(self)} variables, {first_names}; n={self.n}>"

    def searched(self) -> Iterator[tuple[str, SearchVariable, slice]]:
        """Yield name, variable and coordinates of each variable that is not fixed."""
        for name, variable in self.items():
            if isinstance(variable, SearchVariable):
                yield name, variable, self._places[name]

    @property
    def labels(self) -> list[str]:
        """The name of each coordinate."""
        return [label for name, variable, _ in self.searched() for label in labels_of(name, variable.extent)]

    def described(self) -> dict[str, str]:
        """Return a description of each variable, by name; equal for equal spaces."""
        # without object addresses, which differ between processes
        return {name: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(variable)) for name, variable in self.items()}

    # Values and vectors

    def decode(self, vector: npt.ArrayLike) -> Any:
        """Return the values of a vector as a dict; for several rows, a list of dicts."""
        x = self._checked_vector(vector)
        if x.ndim == 2:
            return [self.decode(row) for row in x]
        return {name: variable.decoded(x[self._places[name]]) for name, variable in self.items()}

    def columns(self, rows: npt.ArrayLike) -> dict[str, Any]:
        """Return the values of several vectors, one per row, as one array per variable.

        A fixed value is not repeated.
        """
        x = np.atleast_2d(self._checked_vector(rows))
        return {name: variable.decoded(x[:, self._places[name]]) for name, variable in self.items()}

    def encode(self, values: Mapping[str, Any]) -> Values:
        """Return the vector for a dict of values; fixed variables may be omitted."""
        return self._encoded(values, None)

    def _encoded(self, values: Mapping[str, Any], others: Values | None) -> Values:
        """Return the vector for a dict of values, with missing ones taken from the vector ``others``."""
        if not isinstance(values, Mapping):
            raise TypeError(f"values must be a dict of name: value, got {values!r:.60}")
        for name in values:
            if name not in self._variables:
                known = shown(list(self))
                raise ValueError(f"unknown variable {name!r}{nearest(name, self)}; known variables: {known}")
        vector = np.empty(self.n) if others is None else others.copy()
        for name, variable in self.items():
            if name not in values:
                if isinstance(variable, SearchVariable) and others is None:
                    raise ValueError(f"no value for {name!r}: give one for each variable that is not fixed")
                continue
            try:
                vector[self._places[name]] = variable.encoded(values[name])
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        return vector

    def positions(self, vector: npt.ArrayLike) -> Values:
        """Return the position of each coordinate between its limits, from 0 (low) to 1 (high)."""
        x = self._checked_vector(vector)
        parts = [variable.position(x[..., place]) for _, variable, place in self.searched()]
        return np.concatenate(parts, axis=-1)

    def _checked_vector(self, vector: npt.ArrayLike) -> Values:
        x = np.asarray(vector, dtype=np.float64)
        if x.ndim not in (1, 2) or x.shape[-1] != self.n:
            raise ValueError(f"a vector of this space must have {self.n} numbers, got shape {x.shape}")
        return x

    # Arguments of a strategy

    @property
    def middle(self) -> Values:
        """The default start: the middle of each variable, with choices undecided."""
        return self._per_coordinate(lambda variable: variable.middle)

    @property
    def bounds(self) -> SimpleNamespace:
        """Lower and upper bounds of vectors, ``lb`` and ``ub``; infinite for choices."""
        numbers = self._per_coordinate(lambda variable: variable.count is None) == 1
        lower = np.where(numbers, self._per_coordinate(lambda variable: variable.limits[0]), -np.inf)
        upper = np.where(numbers, self._per_coordinate(lambda variable: variable.limits[1]), np.inf)
        return SimpleNamespace(lb=lower, ub=upper)

    @property
    def integrality(self) -> npt.NDArray[np.bool_]:
        """Mask of the integer coordinates; False for choices."""
        integer: npt.NDArray[np.bool_] = self._per_coordinate(lambda variable: variable.integer) == 1
        return integer

    @property
    def categories(self) -> dict[int, int]:
        """Number of values of each choice, by coordinate."""
        counts = self._per_coordinate(lambda variable: variable.count or 0)
        return {int(column): int(counts[column]) for column in np.flatnonzero(counts)}

    def steps(self, share: Any = None) -> Values:
        """Return a step size per coordinate: a share of the width of its variable, by default 0.3.

        ``share`` is one number for all variables, or a dict of name: number.
        """
        named = share if isinstance(share, Mapping) else {}
        for name, value in named.items():
            if name not in self._variables:
                raise ValueError(f"sigma0 has an unknown variable {name!r}{nearest(name, self)}")
            _checked_share(value, f" for {name}")
        default = DEFAULT_STEP if share is None or named is share else _checked_share(share, "")
        steps = np.empty(self.n)
        for name, variable, place in self.searched():
            low, high = variable.limits
            steps[place] = named.get(name, default) * (high - low)
        return steps

    def strategy_arguments(self, start: Any = None, share: Any = None) -> dict[str, Any]:
        """Return arguments of a strategy: ``x0, sigma0, bounds`` and, if any, ``integrality, categories``.

        ``start`` is a dict of values, a vector, or None for the middle; ``share`` is as in :meth:`steps`.
        """
        integrality, categories = self.integrality, self.categories
        given: dict[str, Any] = {"x0": self.start(start), "sigma0": self.steps(share), "bounds": self.bounds}
        if integrality.any():
            given["integrality"] = integrality
        if categories:
            given["categories"] = categories
        return given

    def start(self, start: Any = None) -> Values:
        """Return the start vector from a dict of values or a vector; the middle for None.

        Variables missing from a dict start in the middle.
        """
        if start is None:
            return self.middle
        if isinstance(start, Mapping):
            return self._encoded(start, self.middle)
        x = self._checked_vector(start)
        if x.ndim != 1:
            raise ValueError(f"x0 must be one vector of {self.n} numbers, got shape {x.shape}")
        return x

    def _per_coordinate(self, what: Any) -> Values:
        """Return ``what(variable)`` for each coordinate, as a vector."""
        parts = [np.full(variable.size, what(variable), float) for _, variable, _ in self.searched()]
        return np.concatenate(parts)


def labels_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return the name of each entry of a variable, such as ``"thickness[2]"``; of a scalar, its name."""
    if shape == ():
        return [name]
    return [f"{name}[{','.join(map(str, place))}]" for place in np.ndindex(*shape)]


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"the name of a variable must be a valid Python argument name, got {name!r:.60}")
    if name.startswith("__") or name in RESERVED:
        raise ValueError(f"variable name {name!r} is reserved: choose another name")
    return name


# {file}, {json} and {toml} are placeholders in commands of external programs; [run] is a table in TOML files
RESERVED = ("file", "json", "toml", "run")


def _checked_variable(name: str, variable: Any) -> Variable:
    if isinstance(variable, Variable):
        return variable
    if isinstance(variable, type) and issubclass(variable, Variable):
        raise TypeError(
            f"{name} is the class {variable.__name__}, not an instance: use {variable.__name__}(...)"
        )
    raise TypeError(
        f"{name} must be lmma.Real, Integer, Choice or Fixed, got {variable!r:.60}: for a constant, use "
        f"Fixed({variable!r:.40})"
    )


def _checked_share(share: Any, what: str) -> float:
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share < np.inf:
        raise ValueError(
            f"sigma0 of a space must be a share of a variable's width, such as 0.3; got {share!r:.60}{what}"
        )
    return float(share)
