"""Declarations of the constants of a method: name, type and formula in one place.

A method's constants are a frozen dataclass of ``n`` and ``lam``. A field with :func:`constant` is an option:
it is given by keyword or computed from the other constants, in the order of their dependencies.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from lmma._text import shown
from lmma.numerics.checks import MAX_VECTORS
from lmma.numerics.recombination import Array, log_weights, normalised_weights
from lmma.numerics.stepsize import damping_for_population


def constant(formula: Callable[[Any], Any], *, visible: bool = True) -> Any:
    """Declare a constant that defaults to ``formula(p)``; ``p`` holds the constants of the method."""
    return field(default=None, repr=visible, metadata={"formula": formula})


def derived(formula: Callable[[Any], Any], *, visible: bool = True) -> Any:
    """Declare a constant that is always ``formula(p)``."""
    return field(init=False, default=None, repr=visible, metadata={"formula": formula})


class _Resolver:
    """View of incomplete parameters that computes a missing constant on first access."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._formulas = {f.name: f.metadata.get("formula") for f in fields(parameters)}

    def __getattr__(self, name: str) -> Any:
        value, formula = getattr(self._parameters, name), self._formulas.get(name)
        if value is None and formula is not None:
            value = formula(self)
            object.__setattr__(self._parameters, name, value)
        return value


def _check_constant(name: str, kind: str, value: Any) -> None:
    """Raise TypeError or ValueError for a constant of the wrong type, or a rate outside its range."""
    if kind in ("int", "float"):
        number = numbers.Integral if kind == "int" else numbers.Real
        if isinstance(value, bool) or not isinstance(value, number):
            raise TypeError(
                f"{name} must be {'an integer' if kind == 'int' else 'a number'}, got {shown(value)}"
            )
        try:
            finite = math.isfinite(value)
        except OverflowError:  # an integer beyond the range of floats
            finite = False
        if not finite:
            raise ValueError(f"{name} must be finite, got {shown(value)}")
    if kind == "Array":
        try:
            np.asarray(value, dtype=np.float64)
        except Exception:  # strings, ragged lists, objects whose conversion raises
            raise TypeError(f"{name} must be a list of numbers, got {shown(value)}") from None
    if name in ("c_sigma", "d_sigma") and not value > 0:
        raise ValueError(f"{name} must be positive, got {shown(value)}")
    if name == "c_m" and not 0 < value <= 2:  # not a rate: the step may exceed the mean of the selected
        raise ValueError(f"c_m must lie between 0 and 2, got {value!r}")
    if name.startswith("c_") and name != "c_m" and kind == "float" and not 0 <= value <= 1:
        raise ValueError(f"{name} is a rate and must lie between 0 and 1, got {shown(value)}")


def check_vectors(m: int | None) -> None:
    """Raise ValueError for an invalid number of direction vectors; None is the default."""
    if m is not None and not 1 <= m <= MAX_VECTORS:
        raise ValueError(f"m must lie between 1 and {MAX_VECTORS}, got {m}")


def size_given(given: Mapping[str, Any], name: str) -> int:
    """Return the size ``name`` among given constants; 0 if it is missing or not a positive integer."""
    value = given.get(name)
    return max(0, int(value)) if isinstance(value, numbers.Integral) else 0


@dataclass(frozen=True)
class _Size:
    n: int
    lam: int


@dataclass(frozen=True, kw_only=True)
class Parameters(_Size):
    """Constants of every method: weights, and the step-size rule of CMA-ES and MA-ES.

    ``norm`` and ``population_damping`` select the form of the rule, see :class:`lmma.numerics.stepsize.CSA`.
    """

    tutorial_weights: ClassVar[bool] = False  # ln((lam + 1)/2) - ln i in place of ln(mu + 1/2) - ln i
    norm: ClassVar[bool] = False
    mu: int = constant(lambda p: p.lam // 2)  # [A1:1]
    weights: Array = constant(lambda p: log_weights(p.lam, p.mu, p.tutorial_weights), visible=False)  # [A1:1]
    mu_w: float = derived(lambda p: 1.0 / float(p.weights @ p.weights))  # [A1:1]
    c_sigma: float = constant(lambda p: (p.mu_w + 2) / (p.n + p.mu_w + 5))  # [A1:1]
    d_sigma: float = 2.0  # [A1:19]
    population_damping: float = derived(lambda p: damping_for_population(p.mu_w, p.n))

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of the constants that can be passed as options."""
        return tuple(f.name for f in fields(cls) if f.init and f.kw_only)

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.init and option.kw_only and (given := getattr(self, option.name)) is not None:
                _check_constant(option.name, str(option.type), given)
        self._check_sizes()
        if self.weights is not None:
            weights = normalised_weights(self.lam, self.mu, self.weights)
            self._set(weights=weights, mu=len(weights))
        resolver = _Resolver(self)
        for option in fields(self):
            getattr(resolver, option.name)
        self._check()

    def _check_sizes(self) -> None:
        """Raise ValueError if a given constant is too large, before arrays of that size are created."""

    def _check(self) -> None:
        """Raise ValueError for constants that are invalid in combination."""

    @classmethod
    def numbers_stored_for(cls, n: int, lam: int, given: Mapping[str, Any]) -> int:
        """Return the approximate number of values that a method stores because of the ``given`` constants."""
        return 0

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class RankParameters(Parameters):
    """Constants with the rates at which CMA-ES and MA-ES learn a matrix."""

    c_1: float = constant(lambda p: 2 / ((p.n + 1.3) ** 2 + p.mu_w))  # [A1:1]
    c_mu: float = constant(
        lambda p: min(1 - p.c_1, 2 * (p.mu_w - 2 + 1 / p.mu_w) / ((p.n + 2) ** 2 + p.mu_w))  # [A1:1]
    )


@dataclass(frozen=True, kw_only=True)
class TutorialParameters(Parameters):
    """Constants with the weights, step-size rule and path of Hansen's tutorial (arXiv 1604.00772)."""

    tutorial_weights: ClassVar[bool] = True
    norm: ClassVar[bool] = True
    d_sigma: float = constant(lambda p: damping_for_population(p.mu_w, p.n) + p.c_sigma)
    population_damping: float = derived(lambda p: 1.0)  # included in d_sigma
    c_c: float = constant(lambda p: (4 + p.mu_w / p.n) / (p.n + 4 + 2 * p.mu_w / p.n))
