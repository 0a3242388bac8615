"""The constants of a method, each said once: its name, its type and its formula.

A method's constants are a frozen dataclass of ``n`` and ``lam``. A field with :func:`constant` is an option:
given by keyword, or else computed from the others, in whatever order that takes.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from lmma.kernels.words import shown
from lmma.strategies.parts.recombination import Array, log_weights, normalised_weights
from lmma.strategies.parts.stepsize import crowding


def constant(formula: Callable[[Any], Any], *, visible: bool = True) -> Any:
    """Declare a constant: ``formula(p)`` unless it is given, with ``p`` the constants of the method."""
    return field(default=None, repr=visible, metadata={"formula": formula})


def derived(formula: Callable[[Any], Any], *, visible: bool = True) -> Any:
    """Declare a constant that is always ``formula(p)``."""
    return field(init=False, default=None, repr=visible, metadata={"formula": formula})


class _Resolver:
    """Stands for parameters on the way: what is missing is computed when a formula asks for it."""

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
    """Raise TypeError or ValueError for a constant that is not of its kind, or a rate that is none."""
    if kind in ("int", "float"):
        number = numbers.Integral if kind == "int" else numbers.Real
        if isinstance(value, bool) or not isinstance(value, number):
            raise TypeError(
                f"{name} must be {'an integer' if kind == 'int' else 'a number'}, got {shown(value)}"
            )
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {shown(value)}")
    if kind == "Array":
        try:
            np.asarray(value, dtype=np.float64)
        except Exception:  # texts, ragged lists, what refuses to be a number
            raise TypeError(f"{name} must be a list of numbers, got {shown(value)}") from None
    if name in ("c_sigma", "d_sigma") and not value > 0:
        raise ValueError(f"{name} must be positive, got {shown(value)}")
    if name == "c_m" and not 0 < value <= 2:  # a factor: the mean may go beyond the mean of the selected
        raise ValueError(f"c_m must lie between 0 and 2, got {value!r}")
    if name.startswith("c_") and name != "c_m" and kind == "float" and not 0 <= value <= 1:
        raise ValueError(f"{name} is a rate and must lie between 0 and 1, got {shown(value)}")


@dataclass(frozen=True)
class _Size:
    n: int
    lam: int


@dataclass(frozen=True, kw_only=True)
class Parameters(_Size):
    """What every method has: weights, and the step-size rule as CMA-ES and MA-ES have it.

    ``norm`` and ``crowd`` say which form the rule takes, see :class:`lmma.strategies.parts.stepsize.CSA`.
    """

    tutorial_weights: ClassVar[bool] = False  # ln((lam + 1)/2) - ln i in place of ln(mu + 1/2) - ln i
    norm: ClassVar[bool] = False
    mu: int = constant(lambda p: p.lam // 2)  # [A1:1]
    weights: Array = constant(lambda p: log_weights(p.lam, p.mu, p.tutorial_weights), visible=False)  # [A1:1]
    mu_w: float = derived(lambda p: 1.0 / float(p.weights @ p.weights))  # [A1:1]
    c_sigma: float = constant(lambda p: (p.mu_w + 2) / (p.n + p.mu_w + 5))  # [A1:1]
    d_sigma: float = 2.0  # [A1:19]
    crowd: float = derived(lambda p: crowding(p.mu_w, p.n))

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of the constants that can be given."""
        return tuple(f.name for f in fields(cls) if f.init and f.kw_only)

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.init and option.kw_only and (given := getattr(self, option.name)) is not None:
                _check_constant(option.name, str(option.type), given)
        if self.weights is not None:
            weights = normalised_weights(self.lam, self.mu, self.weights)
            self._set(weights=weights, mu=len(weights))
        resolver = _Resolver(self)
        for option in fields(self):
            getattr(resolver, option.name)
        self._check()

    def _check(self) -> None:
        """Raise ValueError for constants with which the method makes no sense."""

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class RankParameters(Parameters):
    """The rates at which CMA-ES and MA-ES learn a matrix."""

    c_1: float = constant(lambda p: 2 / ((p.n + 1.3) ** 2 + p.mu_w))  # [A1:1]
    c_mu: float = constant(
        lambda p: min(1 - p.c_1, 2 * (p.mu_w - 2 + 1 / p.mu_w) / ((p.n + 2) ** 2 + p.mu_w))  # [A1:1]
    )


@dataclass(frozen=True, kw_only=True)
class TutorialParameters(Parameters):
    """Weights, step-size rule and path as Hansen's tutorial has them (arXiv 1604.00772)."""

    tutorial_weights: ClassVar[bool] = True
    norm: ClassVar[bool] = True
    d_sigma: float = constant(lambda p: crowding(p.mu_w, p.n) + p.c_sigma)
    crowd: float = derived(lambda p: 1.0)  # d_sigma has it
    c_c: float = constant(lambda p: (4 + p.mu_w / p.n) / (p.n + 4 + 2 * p.mu_w / p.n))
