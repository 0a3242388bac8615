"""Strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy.typing as npt

from lmma.strategies.base import Strategy
from lmma.strategies.parts.checks import nearest

S = TypeVar("S", bound=type[Strategy])
_registry: dict[str, type[Strategy]] = {}


def register(name: str) -> Callable[[S], S]:
    """Return a class decorator that makes a strategy known under ``name``."""

    def add(cls: S) -> S:
        cls.name = name
        _registry[name] = cls
        return cls

    return add


def methods() -> list[str]:
    """Return the names of all strategies, in the order of the paper."""
    return list(_registry)


def strategy_class(name: str) -> type[Strategy]:
    """Return the strategy called ``name``, or suggest the nearest name there is."""
    try:
        return _registry[name]
    except (KeyError, TypeError):
        raise ValueError(
            f"unknown method {name!r}{nearest(str(name), _registry)}: one of {', '.join(_registry)}"
        ) from None


def strategy(name: str, x0: npt.ArrayLike, sigma0: float | npt.ArrayLike, **options: Any) -> Strategy:
    """Return a new strategy by name, such as ``strategy("lm-ma-es", x0, 0.5, rng=1)``."""
    return strategy_class(name)(x0, sigma0, **options)
