"""Variables of a space: real, integer, categorical and fixed, with their encoding as coordinates.

A variable has one coordinate per entry of its shape, or none if it is fixed. A coordinate is the value
itself, the logarithm of a real with ``log=True``, or the index of a choice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]

UNDECIDED = -1.0  # coordinate of a choice without a preferred value
MAX_COPY = 1 << 20  # bytes of an array that is copied for each evaluation
MAX_INTEGER = 2**53  # larger integers are not exact in double precision


@dataclass(frozen=True)
class Variable(ABC):
    """Base class of the variables of a space: the mapping between values and coordinates."""

    kind: ClassVar[str] = ""

    @property
    @abstractmethod
    def extent(self) -> Shape:
        """The shape of the value; empty for a scalar."""

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return math.prod(self.extent)

    @property
    def unit_of_measure(self) -> str:
        """The unit; empty if there is none."""
        return ""

    @abstractmethod
    def decoded(self, part: Values) -> Any:
        """Return the value for coordinates of shape (..., size); for rows, an array of values."""

    @abstractmethod
    def encoded(self, value: Any) -> Values:
        """Return the coordinates of ``value``, (size,); raise ValueError if it is invalid."""


class SearchVariable(Variable):
    """A variable that is searched, with limits and a default start in its coordinates."""

    integer: ClassVar[bool] = False

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Lower and upper limit of each coordinate."""

    @property
    def count(self) -> int | None:
        """The number of values of a choice; None for numbers."""
        return None

    @property
    def middle(self) -> float:
        """The default start of each coordinate."""
        return (self.limits[0] + self.limits[1]) / 2

    def position(self, part: Values) -> Values:
        """Return coordinates scaled from the limits to [0, 1]."""
        low, high = self.limits
        return (part - low) / (high - low)


class Number(SearchVariable):
    """Base class of variables that are a number, or an array of numbers, with a unit."""

    unit: str
    shape: Shape

    @property
    def extent(self) -> Shape:
        """The shape of the value."""
        return self.shape

    @property
    def unit_of_measure(self) -> str:
        """The unit of the value, such as ``kg/s``; empty if it has none."""
        return self.unit


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool | str) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{what} must be a number, got {value!r:.60}")
    if not math.isfinite(value):
        raise ValueError(
            f"{what} must be finite, got {value!r}: the search starts midway between low and high"
        )
    return float(value)


def _shape(shape: Any) -> Shape:
    given = (shape,) if isinstance(shape, int | np.integer) and not isinstance(shape, bool) else shape
    entries = tuple(given) if isinstance(given, tuple | list) else (None,)
    if not all(isinstance(k, int | np.integer) and not isinstance(k, bool) and k > 0 for k in entries):
        raise ValueError(f"shape must be a positive integer or a tuple of them, got {shape!r}")
    return tuple(int(k) for k in entries)


def _array(value: Any, shape: Shape, expected: str, kinds: str) -> Values:
    """Return a numeric value as coordinates; raise ValueError with ``expected`` if it is invalid."""
    given = np.asarray(value)
    if given.dtype.kind not in kinds or given.shape != shape:
        raise ValueError(f"must be {expected}, got {value!r:.60}")
    return given.astype(np.float64).reshape(-1)


def _expected(entry: str, shape: Shape) -> str:
    return entry if shape == () else f"an array of shape {shape}, each {entry}"


@final
@dataclass(frozen=True)
class Real(Number):
    """A real number between ``low`` and ``high``.

    Parameters
    ----------
    low, high : float
        Smallest and largest value.
    log : bool
        Whether to search on a logarithmic scale.
    unit : str
        Unit, for display only.
    shape : int or tuple of int
        Shape of an array of such numbers.

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
            constant = f"; for a constant, use Fixed({low:g})" if low == high else ""
            raise ValueError(f"low must be less than high, got {low:g} and {high:g}{constant}")
        if self.log and not low > 0:
            raise ValueError(f"low must be positive with log=True, got {low:g}")
        if high - low == math.inf:
            raise ValueError(f"high - low overflows, got {low:g} and {high:g}")
        for name, value in (("low", low), ("high", high), ("shape", _shape(self.shape))):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        more = [f"{name}={getattr(self, name)!r}" for name in ("log", "unit", "shape") if getattr(self, name)]
        return f"Real({', '.join([repr(self.low), repr(self.high), *more])})"

    @property
    def limits(self) -> tuple[float, float]:
        """Lower and upper limit of each coordinate."""
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def decoded(self, part: Values) -> Any:
        """Return a float, or an array of them."""
        values = np.clip(np.exp(part) if self.log else part, self.low, self.high)
        shaped = values.reshape(part.shape[:-1] + self.shape)
        return float(shaped) if shaped.shape == () else shaped

    def encoded(self, value: Any) -> Values:
        """Return the coordinates of ``value``."""
        expected = _expected(f"a number from {self.low:g} to {self.high:g}", self.shape)
        numbers = _array(value, self.shape, expected, "iuf")
        if not np.all((numbers >= self.low) & (numbers <= self.high)):
            raise ValueError(f"must be {expected}, got {value!r:.60}")
        return np.clip(np.log(numbers), *self.limits) if self.log else numbers


@final
@dataclass(frozen=True)
class Integer(Number):
    """An integer from ``low`` to ``high``, both included.

    Parameters
    ----------
    low, high : int
        Smallest and largest value.
    unit : str
        Unit, for display only.
    shape : int or tuple of int
        Shape of an array of such integers.

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
            if value != int(value) or abs(value) > MAX_INTEGER:
                raise ValueError(
                    f"{name} must be an integer between -2^53 and 2^53, got {getattr(self, name)!r}"
                )
            object.__setattr__(self, name, int(getattr(self, name)))
        if not self.low < self.high:
            constant = f"; for a constant, use Fixed({self.low})" if self.low == self.high else ""
            raise ValueError(f"low must be less than high, got {self.low} and {self.high}{constant}")
        object.__setattr__(self, "shape", _shape(self.shape))

    def __repr__(self) -> str:
        more = [f"{name}={getattr(self, name)!r}" for name in ("unit", "shape") if getattr(self, name)]
        return f"Integer({', '.join([repr(self.low), repr(self.high), *more])})"

    @property
    def limits(self) -> tuple[float, float]:
        """Lower and upper limit of each coordinate."""
        return float(self.low), float(self.high)

    def decoded(self, part: Values) -> Any:
        """Return an int, or an array of integers."""
        values = np.clip(np.rint(part), self.low, self.high).astype(np.int64)
        shaped = values.reshape(part.shape[:-1] + self.shape)
        return int(shaped) if shaped.shape == () else shaped

    def encoded(self, value: Any) -> Values:
        """Return the coordinates of ``value``."""
        expected = _expected(f"an integer from {self.low} to {self.high}", self.shape)
        numbers = _array(value, self.shape, expected, "iuf")
        if not np.all((numbers >= self.low) & (numbers <= self.high) & (numbers == np.rint(numbers))):
            raise ValueError(f"must be {expected}, got {value!r:.60}")
        return numbers


@final
@dataclass(frozen=True)
class Choice(SearchVariable):
    """One of several unordered ``values``, which can be any Python objects.

    ``fun`` receives lists, dicts, sets and arrays as copies, so that it cannot change them for later calls.

    Parameters
    ----------
    values : sequence
        Two or more values.
    shape : int or tuple of int
        Shape of an array of such choices.

    Examples
    --------
    >>> lmma.Choice(["steel", "aluminium"])
    Choice(['steel', 'aluminium'])
    """

    kind = "choice"
    values: Sequence[Any]
    shape: Shape = ()
    _table: Any = field(init=False, repr=False, compare=False)
    _numbers: _Numbers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Sequence | np.ndarray):
            raise TypeError(f"values of a choice must be a list, got {self.values!r:.60}")
        values = list(self.values)
        if len(values) < 2:
            raise ValueError(
                f"a choice must have two or more values, got {values!r:.60}: for a constant, use Fixed(value)"
            )
        numbers = _Numbers()
        for value in values:
            if numbers.find(value) is not None:
                raise ValueError(f"the values of a choice must differ, got {value!r:.60} twice")
            numbers.add(value)
        table = _objects(values)
        if all(isinstance(value, str) for value in values) or all(
            type(value) in (int, float) for value in values
        ):
            table = np.array(values)
        found = {"values": values, "shape": _shape(self.shape), "_table": table, "_numbers": numbers}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Choice({self.values!r}{f', shape={self.shape!r}' if self.shape else ''})"

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.values)

    @property
    def extent(self) -> Shape:
        """The shape of the value."""
        return self.shape

    @property
    def limits(self) -> tuple[float, float]:
        """Indices of the first and the last value."""
        return 0.0, len(self.values) - 1.0

    @property
    def middle(self) -> float:
        """UNDECIDED, because choices have no order."""
        return UNDECIDED

    def decoded(self, part: Values) -> Any:
        """Return the value, or an array of values."""
        numbers = np.clip(np.rint(part), 0, len(self.values) - 1).astype(np.intp)
        shape = part.shape[:-1] + self.shape
        if shape == ():
            return protected(self.values[int(numbers[0])])
        values = self._table[numbers]
        if values.dtype == object:
            values = _objects([protected(value) for value in values.flat])
        return values.reshape(shape)

    def encoded(self, value: Any) -> Values:
        """Return the indices of the values."""
        if self.shape == ():
            return np.array([self._number(value)])
        entries = np.asarray(value, dtype=object)
        if entries.shape != self.shape:
            raise ValueError(f"must be an array of shape {self.shape}, got {value!r:.60}")
        return np.array([self._number(entry) for entry in entries.reshape(-1)])

    def _number(self, value: Any) -> float:
        number = self._numbers.find(value)
        if number is None:
            raise ValueError(f"must be one of {self.values!r:.120}, got {value!r:.60}")
        return float(number)


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    """Return a vector of objects; lists among them stay lists."""
    made = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        made[i] = value
    return made


class _Numbers:
    """Values numbered in the order of insertion; a number is looked up by hash if possible."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._hashed: dict[Any, int] = {}
        self._others: list[int] = []  # numbers of values that cannot be hashed

    def add(self, value: Any) -> None:
        """Give ``value`` the next number."""
        number = len(self._values)
        self._values.append(value)
        try:
            self._hashed[_key(value)] = number
        except Exception:  # unhashable, or its __hash__ or __eq__ raises
            self._others.append(number)

    def find(self, value: Any) -> int | None:
        """Return the number of a value that is equal to ``value``, or None."""
        try:
            found = self._hashed.get(_key(value))
            rest: Iterable[int] = self._others
        except Exception:
            found, rest = None, range(len(self._values))
        if found is not None:
            return found
        return next((number for number in rest if _same(value, self._values[number])), None)


def _key(value: Any) -> Any:
    """Return a hashable object that is equal for equal values, as :func:`_same` compares them."""
    return isinstance(value, bool | np.bool_), _hashable(value)


def _hashable(value: Any) -> Any:
    if type(value) is list:
        return list, tuple(map(_hashable, value))
    if type(value) is dict:
        return dict, frozenset((key, _hashable(entry)) for key, entry in value.items())
    return value


def protected(value: Any) -> Any:
    """Return ``value`` such that ``fun`` cannot change it for later evaluations.

    Lists, tuples, dicts, sets and arrays are copied; large arrays are read-only views. Other objects are
    passed as they are.
    """
    try:
        return _copied(value)
    except RecursionError:  # a container that contains itself
        return value


def _copied(value: Any) -> Any:
    if type(value) in (str, int, float, bool):
        return value
    if type(value) in (list, tuple, set):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray) and value.nbytes > MAX_COPY:
        view = value.view()
        view.flags.writeable = False
        return view
    return value.copy() if isinstance(value, np.ndarray | bytearray) else value


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; unlike in Python, 1 and True are not."""
    if isinstance(one, bool | np.bool_) != isinstance(other, bool | np.bool_):
        return False
    try:
        return one is other or bool(one == other)
    except Exception:  # values that cannot be compared are equal only if identical
        return False


@final
@dataclass(frozen=True)
class Fixed(Variable):
    """A constant, passed to fun unchanged; lists, dicts, sets and arrays as copies.

    Arrays of more than 1 MB are passed as read-only views.

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
        """Always empty, even if the value is an array."""
        return ()

    @property
    def size(self) -> int:
        """Always 0: a constant has no coordinates."""
        return 0

    def decoded(self, part: Values) -> Any:
        """Return the constant, containers as copies; ``part`` is ignored."""
        return protected(self.value)

    def encoded(self, value: Any) -> Values:
        """Return an empty array; raise ValueError if ``value`` is not the constant."""
        if not (_same(value, self.value) or np.array_equal(value, self.value)):
            raise ValueError(f"is fixed to {self.value!r:.60}, got {value!r:.60}")
        return np.zeros(0)
