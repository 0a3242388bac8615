"""State of a strategy: named arrays and numbers with a declared range, collected from objects and restored.

A class lists in ``STATE`` the attributes it adds to those of its bases. A mapping name -> :class:`Range` also
declares the valid values; :func:`restore` rejects all others, so that a modified file is detected. In a tuple
of names, values must be finite for classes of lmma and may be any number for classes of users. Lists and
attributes in ``VARIABLE`` may change their length and are assigned; others are copied in place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma._text import shown

State = dict[str, npt.NDArray[Any] | float]  # numbers may be integers
MAX_COUNT = 2**53  # integers in JSON are exact up to here


@dataclass(frozen=True)
class Range:
    """The valid values of a number, or of each number in an array."""

    description: str
    least: float = -math.inf
    most: float = math.inf
    open: bool = False  # True if ``least`` itself is excluded
    infinite: bool = False  # True if infinity is valid, within the limits
    nan: bool = False
    integer: bool = False

    def admits(self, value: object) -> bool:
        """Return True if ``value``, a number or an array of numbers, lies in the range."""
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "biuf":
            return False
        if numbers.dtype.kind == "b" or not numbers.size:
            return True
        low, high = float(numbers.min()), float(numbers.max())  # NaN if there is one
        if math.isnan(low) and self.nan:
            return True
        within = self.least <= low and high <= self.most and not (self.open and low <= self.least)
        if not within or (not self.infinite and (math.isinf(low) or math.isinf(high))):
            return False
        return not self.integer or numbers.dtype.kind in "iu" or bool(np.all(numbers == np.rint(numbers)))

    def check(self, name: str, value: object) -> None:
        """Raise ValueError if ``value`` is outside the range."""
        if not self.admits(value):
            raise ValueError(f"{name} must be {self.description}, got {shown(value)}")


Declared = tuple[str, ...] | Mapping[str, Range]  # type of ``STATE``

FINITE = Range("finite")
POSITIVE = Range("positive and finite", least=0.0, open=True)
NOT_NEGATIVE = Range("finite and not negative", least=0.0)
COUNT = Range("a non-negative integer", least=0.0, most=MAX_COUNT, integer=True)
AT_LEAST_ONE = Range("a positive integer", least=1.0, most=MAX_COUNT, integer=True)
ANY = Range("a number", infinite=True, nan=True)
NOT_NAN = Range("a number, not NaN", infinite=True)
VALUE = Range("finite, or infinity before it is known", open=True, infinite=True)
DISTANCE = Range("not negative, or infinity before it is known", least=0.0, infinite=True)
UNIT = Range("between 0 and 1", least=0.0, most=1.0)
FLAG = Range("true or false", least=0.0, most=1.0, integer=True)


def is_count(value: Any, least: int = 0) -> bool:
    """Return True if ``value``, read from JSON, is an integer from ``least`` to MAX_COUNT."""
    return type(value) is int and least <= value <= MAX_COUNT


def is_number(value: Any) -> bool:
    """Return True if ``value``, read from JSON, is a number other than NaN."""
    return type(value) in (int, float) and value == value


def state_names(cls: type) -> tuple[str, ...]:
    """Return the names in ``STATE`` of ``cls`` and its bases, bases first, without duplicates."""
    return tuple(_ranges(cls))


def state_ranges(part: object) -> dict[str, Range]:
    """Return the range of each attribute in ``STATE`` of the class of ``part``."""
    return _ranges(type(part))


def _ranges(cls: type) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for owner in reversed(cls.__mro__):
        declared = vars(owner).get("STATE", ())
        if isinstance(declared, str) or not all(isinstance(name, str) for name in declared):
            raise TypeError(
                f"{owner.__name__}.STATE must be a tuple of attribute names, such as ('path',); "
                f"got {declared!r}"
            )
        if isinstance(declared, Mapping):
            ranges |= declared
        else:
            default = FINITE if owner.__module__.startswith("lmma.") else ANY
            ranges |= {name: default for name in declared if name not in ranges}
    return ranges


def collect(parts: Mapping[str, object], *, copy: bool = True) -> State:
    """Return copies of the attributes in ``STATE`` of all ``parts``, labelled ``part.name``.

    With ``copy=False``, return the arrays of the parts themselves.
    """
    state: State = {}
    for label, (part, name, _) in _places(parts).items():
        value = getattr(part, name)
        if value is None and name in _variable(part):
            value = np.empty(0)
        if isinstance(value, list):
            value = np.array(value, dtype=np.float64)
        if isinstance(value, tuple) and all(isinstance(word, int) for word in value):
            value = np.array(value, dtype=np.uint64)  # a key
        if isinstance(value, np.ndarray):
            state[label] = value.copy() if copy else value
        elif isinstance(value, int | float | np.number | np.bool_):
            state[label] = value  # type: ignore[assignment]  # NumPy's numbers are numbers
        else:
            raise TypeError(
                f"{type(part).__name__}.STATE lists {name!r}, which is {value!r:.60}: "
                "state must consist of arrays and numbers"
            )
    return state


def restore(parts: Mapping[str, object], state: Mapping[str, Any]) -> None:
    """Restore the state returned by :func:`collect`; if any of it is invalid, change nothing."""
    places = _places(parts)
    for label, (part, name, limits) in places.items():
        here, new = getattr(part, name), state[label]
        if isinstance(here, list) or name in _variable(part):
            here = np.empty(0) if here is None else here
            fits = np.ndim(new) == np.ndim(here)
        else:
            fits = np.shape(new) == np.shape(here)
        if not fits:
            raise ValueError(f"state[{label!r}] has shape {np.shape(new)}, expected {np.shape(here)}")
        if isinstance(here, np.ndarray) and isinstance(new, np.ndarray) and new.dtype.kind != here.dtype.kind:
            raise ValueError(f"state[{label!r}] has dtype {new.dtype}, expected {here.dtype}")
        if not isinstance(here, tuple):  # tuples are keys: any 64 bits are valid
            limits.check(f"state[{label!r}]", new)
    for label, (part, name, _) in places.items():
        here = getattr(part, name)
        if isinstance(here, list):
            setattr(part, name, [float(number) for number in np.asarray(state[label])])
        elif isinstance(here, tuple) or name in _variable(part):
            setattr(part, name, np.array(state[label]))
        elif isinstance(here, np.ndarray):
            np.copyto(here, state[label])
        else:
            setattr(part, name, type(here)(state[label]))


def labels(parts: Mapping[str, object]) -> set[str]:
    """Return the labels in the state of ``parts``."""
    return set(_places(parts))


def _variable(part: object) -> tuple[str, ...]:
    return getattr(type(part), "VARIABLE", ())


def _places(parts: Mapping[str, object]) -> dict[str, tuple[object, str, Range]]:
    """Map each label of the state to its object, attribute name and range."""
    places = {
        (f"{label}." if label else "") + name: (part, name, limits)
        for label, part in parts.items()
        for name, limits in state_ranges(part).items()
    }
    for part, name, _ in places.values():
        if not hasattr(part, name):
            raise TypeError(f"{type(part).__name__}.STATE lists {name!r}, but this attribute does not exist")
    return places
