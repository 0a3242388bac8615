"""Strategies by name: one table, in the order of the paper, each imported when it is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, TypeVar

import numpy.typing as npt

from lmma.strategies.base import Strategy
from lmma.strategies.mixed import make_strategy
from lmma.strategies.parts.checks import nearest, shown

S = TypeVar("S", bound=type[Strategy])

METHODS = {
    # Algorithm 1: blue, violet, green; the listing without colours; the supplement's variant
    "cma-es": "lmma.strategies.cma:CMAES",
    "ma-es": "lmma.strategies.ma:MAES",
    "lm-ma-es": "lmma.strategies.lmma:LMMAES",
    "csa-es": "lmma.strategies.csa:CSAES",
    "lm-ma-es-archive": "lmma.strategies.lmma_archive:LMMAESArchive",
    # The paper's baselines, and one more
    "acma-es": "lmma.strategies.acma:ACMAES",
    "lm-cma-es": "lmma.strategies.lmcma:LMCMAES",
    "vd-cma-es": "lmma.strategies.vdcma:VDCMAES",
    "sep-cma-es": "lmma.strategies.sepcma:SepCMAES",
    # What people train networks with
    "open-es": "lmma.strategies.openes:OpenES",
    # Ours
    "d-lm-ma-es": "lmma.strategies.dlmma:DLMMAES",
    "pulse": "lmma.strategies.pulse:Pulse",
    "pulse-full": "lmma.strategies.pulse:PulseFull",
}
ALIASES = {"dd-ma-es": "pulse-full", "d-lr-es": "pulse"}  # what these names stood for is part of pulse now
CLASSES = {place.partition(":")[2]: name for name, place in METHODS.items()}  # class -> method

_registered: dict[str, type[Strategy]] = {}  # by users


def register(name: str) -> Callable[[S], S]:
    """Return a class decorator that makes a strategy known under ``name``.

    Examples
    --------
    >>> @lmma.register("my-es")                                           # doctest: +SKIP
    ... class MyES(lmma.Strategy): ...
    """
    if name in METHODS or name in ALIASES:
        raise ValueError(f"{name!r} is a method of lmma: choose another name")

    def add(cls: S) -> S:
        cls.name = name
        _registered[name] = cls
        return cls

    return add


def methods() -> list[str]:
    """Return the names of all strategies, in the order of the paper; registered ones follow."""
    return [*METHODS, *_registered]


def strategy_class(method: str | type[Strategy]) -> type[Strategy]:
    """Return the strategy that ``method`` means: a name, ``"module:Class"``, or a class itself.

    Raises
    ------
    ValueError
        For a name of nothing (with the nearest there is), of what cannot be imported, or of no strategy.
    TypeError
        For an object that is no subclass of :class:`lmma.Strategy`, or lacks what such a class must provide.
    """
    if isinstance(method, str):
        found = _registered.get(method)
        if found is None:
            name = ALIASES.get(method, method)
            found = _imported(METHODS.get(name, name))
    else:
        found = method
    wrong = ValueError if isinstance(method, str) else TypeError
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise wrong(
            f"method {shown(method)} is not a strategy: give a name, a subclass of lmma.Strategy, or "
            "'module:Class'"
        )
    if missing := sorted(found.__abstractmethods__):
        raise wrong(f"method {shown(method)} is not complete: {found.__name__} lacks {', '.join(missing)}")
    return found


def strategy(
    method: str | type[Strategy], x0: Any, sigma0: float | npt.ArrayLike | None = None, **options: Any
) -> Strategy:
    """Return a new strategy by name, class or ``"module:Class"``.

    A :class:`lmma.Space` in place of ``x0`` is searched from its middle, or from ``start=``, a dict of
    values; ``sigma0`` then is a share of each variable's width. Candidates are vectors, ``space.decode(X)``
    has their values.

    Examples
    --------
    >>> import lmma
    >>> lmma.strategy("lm-ma-es", [1.0, 2.0], 0.5, rng=1)
    <lm-ma-es: n=2, generation=0, best_fun=inf, sigma=0.5>
    """
    cls = strategy_class(method)
    if hasattr(x0, "strategy_arguments"):  # a space, of which this package knows no more
        options |= x0.strategy_arguments(options.pop("start", None), sigma0)
        x0, sigma0 = options.pop("x0"), options.pop("sigma0")
    elif sigma0 is None:
        raise TypeError(
            "sigma0 must be a step size, such as a third of the distance to the optimum; got none"
        )
    return make_strategy(cls, x0, sigma0, **options)


def _imported(place: str) -> Any:
    """Return what stands at ``module:Class``."""
    module_name, colon, path = place.partition(":")
    if not colon:
        known = methods()
        raise ValueError(f"unknown method {place!r}{nearest(place, known)}: one of {', '.join(known)}")
    try:
        module = import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ValueError(
            f"method {place!r}: cannot import {module_name!r} ({error}); is its folder on PYTHONPATH?"
        ) from None
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError:
        known = [name for name, value in vars(module).items() if inspect.isclass(value)]
        raise ValueError(f"method {place!r}: {module_name!r} has no {path!r}{nearest(path, known)}") from None
