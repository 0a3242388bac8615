"""Variables as people have them: real, integer, one of a few things, fixed; each knows its coordinates.

A variable has as many coordinates as its shape has entries, none if it is fixed. In a coordinate stands the
value itself, the logarithm of a real on a logarithmic scale, or the number of a choice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]

UNDECIDED = -1.0  # in the coordinate of a choice: no value is preferred
LARGEST = 2**53  # integers beyond are no exact numbers of double precision


@dataclass(frozen=True)
class Variable(ABC):
    """What a variable of a space can be."""

    kind: ClassVar[str] = ""

    @property
    @abstractmethod
    def extent(self) -> Shape:
        """The shape of its value; empty for a single one."""

    @property
    def size(self) -> int:
        """How many coordinates it has."""
        return math.prod(self.extent)

    @property
    def unit_of_measure(self) -> str:
        """What it is measured in; empty if nobody said."""
        return ""

    @abstractmethod
    def decoded(self, part: Values) -> Any:
        """Return the value for coordinates, (..., size): one value, or an array of them for rows."""

    @abstractmethod
    def encoded(self, value: Any) -> Values:
        """Return the coordinates of ``value``, (size,), or raise ValueError that says what it must be."""


class Searched(Variable):
    """A variable that is searched: it has limits in its coordinates, a middle, and a width."""

    integer: ClassVar[bool] = False

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Least and largest value of each coordinate."""

    @property
    def count(self) -> int | None:
        """How many values a choice has; None for numbers."""
        return None

    @property
    def middle(self) -> float:
        """Where the search starts in each coordinate."""
        return (self.limits[0] + self.limits[1]) / 2

    def position(self, part: Values) -> Values:
        """Return where coordinates lie between the limits, from 0 to 1."""
        low, high = self.limits
        return (part - low) / (high - low)


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool | str) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{what} must be a number, got {value!r:.60}")
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value!r}: a space starts in the middle of its limits")
    return float(value)


def _shape(shape: Any) -> Shape:
    given = (shape,) if isinstance(shape, int | np.integer) and not isinstance(shape, bool) else shape
    entries = tuple(given) if isinstance(given, tuple | list) else (None,)
    if not all(isinstance(k, int | np.integer) and not isinstance(k, bool) and k > 0 for k in entries):
        raise ValueError(f"shape must be a positive number or a tuple of them, got {shape!r}")
    return tuple(int(k) for k in entries)


def _array(value: Any, shape: Shape, expected: str, kinds: str) -> Values:
    """Return a value of numbers as coordinates, or say what was expected."""
    given = np.asarray(value)
    if given.dtype.kind not in kinds or given.shape != shape:
        raise ValueError(f"must be {expected}, got {value!r:.60}")
    return given.astype(np.float64).reshape(-1)


def _expected(words: str, shape: Shape) -> str:
    return words if shape == () else f"an array of shape {shape}, each {words}"


@final
@dataclass(frozen=True)
class Real(Searched):
    """A real number between ``low`` and ``high``.

    Parameters
    ----------
    low, high : float
        Least and largest value.
    log : bool
        Whether factors matter rather than differences: the search then sees the logarithm.
    unit : str
        What it is measured in, for people.
    shape : int or tuple of int
        For an array of such numbers.

    Examples
    --------
    >>> lmma.Real(1e-4, 1.0, log=True)
    Real(0.0001, 1.0, log=True)
    """

    kind = "real"
    low: float
    high: float
    log: bool = False
    unit: str = ""
    shape: Shape = ()

    def __post_init__(self) -> None:
        low, high = _number("low", self.low), _number("high", self.high)
        if not low < high:
            raise ValueError(
                f"low must be less than high, got {low:g} and {high:g}; Fixed({low:g}) is one value"
            )
        if self.log and not low > 0:
            raise ValueError(f"log=True needs a positive low, got {low:g}: 0 has no logarithm")
        if high - low == math.inf:
            raise ValueError(f"high - low is too large for a number: got {low:g} and {high:g}")
        for name, value in (("low", low), ("high", high), ("shape", _shape(self.shape))):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        more = [f"{name}={getattr(self, name)!r}" for name in ("log", "unit", "shape") if getattr(self, name)]
        return f"Real({', '.join([repr(self.low), repr(self.high), *more])})"

    @property
    def extent(self) -> Shape:
        """The shape of its value."""
        return self.shape

    @property
    def unit_of_measure(self) -> str:
        """What it is measured in."""
        return self.unit

    @property
    def limits(self) -> tuple[float, float]:
        """Least and largest coordinate."""
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def decoded(self, part: Values) -> Any:
        """Return a float, or an array of them."""
        values = np.clip(np.exp(part) if self.log else part, self.low, self.high)
        shaped = values.reshape(part.shape[:-1] + self.shape)
        return float(shaped) if shaped.shape == () else shaped

    def encoded(self, value: Any) -> Values:
        """Return the coordinates of ``value``."""
        words = _expected(f"a number from {self.low:g} to {self.high:g}", self.shape)
        numbers = _array(value, self.shape, words, "iuf")
        if not np.all((numbers >= self.low) & (numbers <= self.high)):
            raise ValueError(f"must be {words}, got {value!r:.60}")
        return np.clip(np.log(numbers), *self.limits) if self.log else numbers


@final
@dataclass(frozen=True)
class Integer(Searched):
    """An integer from ``low`` to ``high``, both included.

    Parameters
    ----------
    low, high : int
        Least and largest value.
    unit : str
        What it is measured in, for people.
    shape : int or tuple of int
        For an array of such integers.

    Examples
    --------
    >>> lmma.Integer(1, 6)
    Integer(1, 6)
    """

    kind = "integer"
    integer = True
    low: int
    high: int
    unit: str = ""
    shape: Shape = ()

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = _number(name, getattr(self, name))
            if value != int(value) or abs(value) > LARGEST:
                raise ValueError(f"{name} must be an integer of at most 2^53, got {getattr(self, name)!r}")
            object.__setattr__(self, name, int(getattr(self, name)))
        if not self.low < self.high:
            raise ValueError(
                f"low must be less than high, got {self.low} and {self.high}; Fixed({self.low}) is one value"
            )
        object.__setattr__(self, "shape", _shape(self.shape))

    def __repr__(self) -> str:
        more = [f"{name}={getattr(self, name)!r}" for name in ("unit", "shape") if getattr(self, name)]
        return f"Integer({', '.join([repr(self.low), repr(self.high), *more])})"

    @property
    def extent(self) -> Shape:
        """The shape of its value."""
        return self.shape

    @property
    def unit_of_measure(self) -> str:
        """What it is measured in."""
        return self.unit

    @property
    def limits(self) -> tuple[float, float]:
        """Least and largest coordinate."""
        return float(self.low), float(self.high)

    def decoded(self, part: Values) -> Any:
        """Return an int, or an array of integers."""
        values = np.clip(np.rint(part), self.low, self.high).astype(np.int64)
        shaped = values.reshape(part.shape[:-1] + self.shape)
        return int(shaped) if shaped.shape == () else shaped

    def encoded(self, value: Any) -> Values:
        """Return the coordinates of ``value``."""
        words = _expected(f"an integer from {self.low} to {self.high}", self.shape)
        numbers = _array(value, self.shape, words, "iuf")
        if not np.all((numbers >= self.low) & (numbers <= self.high) & (numbers == np.rint(numbers))):
            raise ValueError(f"must be {words}, got {value!r:.60}")
        return numbers


@final
@dataclass(frozen=True)
class Choice(Searched):
    """One of ``values``, which have no order: anything in Python.

    Parameters
    ----------
    values : sequence
        Two or more values.
    shape : int or tuple of int
        For an array of such choices.

    Examples
    --------
    >>> lmma.Choice(["steel", "aluminium"])
    Choice(['steel', 'aluminium'])
    """

    kind = "choice"
    values: Sequence[Any]
    shape: Shape = ()
    _table: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Sequence | np.ndarray):
            raise TypeError(f"a choice must have a list of values, got {self.values!r:.60}")
        values = list(self.values)
        if len(values) < 2:
            raise ValueError(
                f"a choice must have two or more values, got {values!r:.60}: Fixed(value) is one"
            )
        for i, value in enumerate(values):
            if any(_same(value, other) for other in values[:i]):
                raise ValueError(f"the values of a choice must differ, {value!r:.60} is there twice")
        table = np.empty(len(values), dtype=object)
        table[:] = values
        if all(isinstance(value, str) for value in values) or all(
            type(value) in (int, float) for value in values
        ):
            table = np.array(values)
        for name, value in (("values", values), ("shape", _shape(self.shape)), ("_table", table)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Choice({self.values!r}{f', shape={self.shape!r}' if self.shape else ''})"

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.values)

    @property
    def extent(self) -> Shape:
        """The shape of its value."""
        return self.shape

    @property
    def limits(self) -> tuple[float, float]:
        """Numbers of the first and the last value."""
        return 0.0, len(self.values) - 1.0

    @property
    def middle(self) -> float:
        """No value: choices have no middle."""
        return UNDECIDED

    def decoded(self, part: Values) -> Any:
        """Return the value itself, or an array of values."""
        numbers = np.clip(np.rint(part), 0, len(self.values) - 1).astype(np.intp)
        shape = part.shape[:-1] + self.shape
        return self.values[int(numbers[0])] if shape == () else self._table[numbers].reshape(shape)

    def encoded(self, value: Any) -> Values:
        """Return the numbers of the values."""
        if self.shape == ():
            return np.array([self._number(value)])
        entries = np.asarray(value, dtype=object)
        if entries.shape != self.shape:
            raise ValueError(f"must be an array of shape {self.shape}, got {value!r:.60}")
        return np.array([self._number(entry) for entry in entries.reshape(-1)])

    def _number(self, value: Any) -> float:
        for number, known in enumerate(self.values):
            if _same(value, known):
                return float(number)
        raise ValueError(f"must be one of {self.values!r:.120}, got {value!r:.60}")


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same to a user: 1 and True are not, 1 and 1.0 are."""
    if isinstance(one, bool | np.bool_) != isinstance(other, bool | np.bool_):
        return False
    try:
        return one is other or bool(one == other)
    except Exception:  # values that cannot be compared are told apart by who they are
        return False


@final
@dataclass(frozen=True)
class Fixed(Variable):
    """A value that is not searched, and is handed to fun as it is.

    Examples
    --------
    >>> lmma.Fixed(9.81)
    Fixed(9.81)
    """

    kind = "fixed"
    value: Any

    def __repr__(self) -> str:
        return f"Fixed({self.value!r})"

    @property
    def extent(self) -> Shape:
        """Empty: it is one value, whatever it is."""
        return ()

    @property
    def size(self) -> int:
        """It has no coordinates."""
        return 0

    def decoded(self, part: Values) -> Any:
        """Return the value."""
        return self.value

    def encoded(self, value: Any) -> Values:
        """Return nothing, if it is the value."""
        if not (_same(value, self.value) or np.array_equal(value, self.value)):
            raise ValueError(f"is fixed to {self.value!r:.60}, got {value!r:.60}")
        return np.zeros(0)
