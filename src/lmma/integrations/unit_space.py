"""Parameters of any kind as coordinates between 0 and 1, and back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
CHOSEN = 0.75  # the coordinate of a choice to start from; the others are in the middle


class Parameter(ABC):
    """One parameter, which takes ``width`` coordinates."""

    width = 1

    @abstractmethod
    def value(self, u: Array) -> Any:
        """Return what coordinates mean."""

    @abstractmethod
    def coordinates(self, value: Any) -> list[float]:
        """Return coordinates that mean ``value``; ValueError if it is none of the parameter's."""


@dataclass(frozen=True)
class Real(Parameter):
    """A number between two others, on a linear or logarithmic scale, of a grid if there is a step."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def value(self, u: Array) -> float:
        """Return what a coordinate means."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return min(max(math.exp(low + float(u[0]) * (high - low)), self.low), self.high)
        if self.step is not None:
            count = round((self.high - self.low) / self.step) + 1
            return min(self.low + min(int(float(u[0]) * count), count - 1) * self.step, self.high)
        return min(max(self.low + float(u[0]) * (self.high - self.low), self.low), self.high)

    def coordinates(self, value: Any) -> list[float]:
        """Return the coordinate of a number."""
        _refuse_outside(value, self.low, self.high)
        if self.log:
            return [(math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))]
        if self.step is not None:
            count = round((self.high - self.low) / self.step) + 1
            return [(round((value - self.low) / self.step) + 0.5) / count]
        return [(value - self.low) / (self.high - self.low)]


@dataclass(frozen=True)
class Whole(Parameter):
    """A whole number between two others; each has the same share of the coordinate, or of its logarithm."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def value(self, u: Array) -> int:
        """Return what a coordinate means."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(round(math.exp(low + float(u[0]) * (high - low))), self.low), self.high)
        count = (self.high - self.low) // self.step + 1
        return self.low + min(int(float(u[0]) * count), count - 1) * self.step

    def coordinates(self, value: Any) -> list[float]:
        """Return the coordinate of a whole number, the middle of its share."""
        _refuse_outside(value, self.low, self.high)
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return [(math.log(value) - low) / (high - low)]
        count = (self.high - self.low) // self.step + 1
        return [((value - self.low) // self.step + 0.5) / count]


@dataclass(frozen=True)
class Choice(Parameter):
    """One of several things without an order: a coordinate for each, the largest wins."""

    choices: tuple[Any, ...]

    @property
    def width(self) -> int:  # type: ignore[override]  # one for most
        """The number of coordinates."""
        return len(self.choices)

    def value(self, u: Array) -> Any:
        """Return the choice whose coordinate is largest."""
        return self.choices[int(np.argmax(u))]

    def coordinates(self, value: Any) -> list[float]:
        """Return coordinates among which that of ``value`` is largest."""
        if value not in self.choices:
            raise ValueError(f"{value!r} is none of {self.choices!r}")
        return [CHOSEN if choice == value else 0.5 for choice in self.choices]


@dataclass(frozen=True)
class UnitSpace:
    """Parameters by name, as one box of coordinates between 0 and 1."""

    parameters: Mapping[str, Parameter]

    @property
    def n(self) -> int:
        """The number of coordinates."""
        return sum(parameter.width for parameter in self.parameters.values())

    def values(self, u: Array) -> dict[str, Any]:
        """Return the parameters that a point of the box means."""
        found, at = {}, 0
        for name, parameter in self.parameters.items():
            found[name] = parameter.value(u[at : at + parameter.width])
            at += parameter.width
        return found

    def start(self, values: Mapping[str, Any]) -> Array:
        """Return where to start: at ``values``, in the middle where they are silent."""
        coordinates: list[float] = []
        for name, parameter in self.parameters.items():
            if name not in values:
                coordinates += [0.5] * parameter.width
                continue
            try:
                coordinates += parameter.coordinates(values[name])
            except (ValueError, TypeError) as error:
                raise ValueError(f"x0[{name!r}]: {error}") from None
        return np.array(coordinates)


def steps_of(sigma0: float | Mapping[str, float], space: UnitSpace, usual: float) -> float | Array:
    """Return the step size in the box: one number, or one for each coordinate."""
    if not isinstance(sigma0, Mapping):
        return sigma0
    steps: list[float] = []
    for name, parameter in space.parameters.items():
        steps += [sigma0.get(name, usual)] * parameter.width
    return np.array(steps)


def _refuse_outside(value: Any, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{value!r} is not between {low!r} and {high!r}")
