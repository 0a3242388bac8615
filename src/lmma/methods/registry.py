"""Registry of strategies by name, in the order of the paper; each is imported on first use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from lmma._text import nearest, shown
from lmma.methods.ask_tell import COMMON, Strategy
from lmma.methods.base import Method
from lmma.numerics.recombination import default_popsize

if TYPE_CHECKING:
    from lmma.methods.constants import StrategyOptions

S = TypeVar("S", bound=type[Strategy])

METHODS = {
    # Algorithm 1: blue, violet, green; the listing without colours; the supplement's variant
    "cma-es": "lmma.methods.cma:CMAES",
    "ma-es": "lmma.methods.ma:MAES",
    "lm-ma-es": "lmma.methods.lmma:LMMAES",
    "csa-es": "lmma.methods.csa:CSAES",
    "lm-ma-es-archive": "lmma.methods.lmma_archive:LMMAESArchive",
    # The paper's baselines, and sep-CMA-ES
    "acma-es": "lmma.methods.acma:ACMAES",
    "lm-cma-es": "lmma.methods.lmcma:LMCMAES",
    "vd-cma-es": "lmma.methods.vdcma:VDCMAES",
    "sep-cma-es": "lmma.methods.sepcma:SepCMAES",
    # For training networks
    "open-es": "lmma.methods.openes:OpenES",
    # New in lmma
    "d-lm-ma-es": "lmma.methods.dlmma:DLMMAES",
    "pulse": "lmma.methods.pulse.method:Pulse",
    "pulse-full": "lmma.methods.pulse.method:PulseFull",
    "quasi-newton": "lmma.methods.quasi_newton:QuasiNewton",
    "interpolation": "lmma.methods.interpolation:Interpolation",
    "coordinates": "lmma.methods.coordinates:Coordinates",
    "portfolio": "lmma.methods.portfolio:Portfolio",
}
_registered: dict[str, type[Strategy]] = {}  # by users


def register(name: str) -> Callable[[S], S]:
    """Return a class decorator that registers a strategy under ``name``.

    Examples
    --------
    >>> @lmma.register("my-es")                                           # doctest: +SKIP
    ... class MyES(lmma.Strategy): ...
    """
    if name in METHODS:
        raise ValueError(f"{name!r} is a built-in method: choose another name")

    def add(cls: S) -> S:
        cls.name = name
        _registered[name] = cls
        return cls

    return add


def methods() -> list[str]:
    """Return the names of all strategies: the built-in ones, then registered ones."""
    return [*METHODS, *_registered]


def strategy_class(method: str | type[Strategy] | type[Method]) -> type[Strategy]:
    """Return the strategy class for ``method``: a name, ``"module:Class"``, or a class.

    A :class:`~lmma.methods.base.Method`, such as a subclass of :class:`lmma.ES`, is wrapped as a strategy.

    Raises
    ------
    ValueError
        If the name is unknown (the message suggests a similar one), cannot be imported, or is not a strategy.
    TypeError
        If the object is not a subclass of :class:`lmma.Strategy`, or lacks required methods.
    """
    if isinstance(method, str):
        found: Any = _registered.get(method)
        if found is None:
            found = _import_object(METHODS.get(method, method))
    else:
        found = method
    if isinstance(found, type) and issubclass(found, Method):
        found = _strategy_with(found)
    error = ValueError if isinstance(method, str) else TypeError
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise error(
            f"method {shown(method)} is not a strategy: pass a name, a subclass of lmma.Strategy, or "
            "'module:Class'"
        )
    if missing := found.missing():
        raise error(
            f"method {shown(method)} is incomplete: {found.__name__} must define {', '.join(missing)}"
        )
    return found


# Thresholds of method="auto"; docs/research.md, "Which method", has the measurements behind them.
SLOPES_UP_TO = 100_000  # variables; beyond, the first slopes would take more evaluations than most runs have
FULL_MATRIX_UP_TO = 300  # variables; beyond, the cost of a matrix exceeds the evaluations it saves
ACMA_CONSTRAINED_UP_TO = 6  # variables; up to here it needs fewer evaluations; docs/constraints.md
ACMA_DISCRETE_UP_TO = 12  # variables, some integers or choices; likewise; docs/mixed_variables.md


def choose_method(
    n: int,
    *,
    popsize: int | None = None,
    constrained: bool = False,
    discrete: bool = False,
    values: str = "ranks",
) -> str:
    """Return the method that ``method="auto"`` selects for ``n`` variables on this machine.

    - ``"portfolio"`` with ``values="auto"``, for up to 100,000 variables without constraints, integers and
      choices.
    - ``"acma-es"`` for up to 6 real variables with ``constraints=``. Constraints that only ``fun`` returns
      are not known yet.
    - ``"acma-es"`` for up to 12 variables without constraints, if some are integers or choices.
    - ``"pulse-full"`` for up to 300 variables.
    - ``"pulse"`` beyond. It stores O(log n) directions instead of a matrix and needs as few evaluations on
      most functions.
    - ``"d-lm-ma-es"`` if these would fill half of the free memory.
    """
    from lmma.numerics.checks import checked_popsize
    from lmma.numerics.memory import available_memory

    if (constrained and n <= ACMA_CONSTRAINED_UP_TO) or (discrete and n <= ACMA_DISCRETE_UP_TO):
        return "acma-es"
    wanted = ["pulse-full" if n <= FULL_MATRIX_UP_TO else "pulse"]
    if values == "auto" and n <= SLOPES_UP_TO and not (constrained or discrete):
        wanted.insert(0, "portfolio")
    available = available_memory()
    for method in wanted:
        needed = strategy_class(method).memory(n, checked_popsize(popsize, default_popsize(n)))
        if available is None or needed < available / 2:
            return method
    return "d-lm-ma-es"


def _method_for(x0: Any, options: Mapping[str, Any], values: str) -> str:
    """Return the method that ``"auto"`` selects for a start and options of :func:`strategy`."""
    categories, integrality = options.get("categories") or (), options.get("integrality")
    discrete = bool(categories) or (integrality is not None and bool(np.any(integrality)))
    n = max(1, np.size(np.asarray(x0)) - len(categories))
    own = options.get("popsize") is not None or bool(set(options) - set(COMMON))
    return choose_method(
        n, popsize=options.get("popsize"), discrete=discrete, values="ranks" if own or discrete else values
    )


def strategy(
    method: str | type[Strategy] | type[Method],
    x0: Any,
    sigma0: float | npt.ArrayLike | None = None,
    *,
    values: str = "auto",
    **options: Unpack[StrategyOptions],
) -> Strategy:
    """Create a strategy from a name, a class or ``"module:Class"``.

    ``"auto"`` selects the method by the number and kind of the variables, as :func:`lmma.minimize` does
    without constraints; ``values="ranks"`` selects an evolution strategy. With a ``popsize`` or constants of
    a method it is one, too.

    If ``x0`` is a :class:`lmma.Space`, the search starts at its middle, or at ``start=``, a dict of values,
    and ``sigma0`` is a fraction of the range of each variable. Candidates are vectors; ``space.decode(X)``
    returns their values.

    Examples
    --------
    >>> import lmma
    >>> lmma.strategy("lm-ma-es", [1.0, 2.0], 0.5, rng=1)
    <lm-ma-es: n=2, generation=0, best_fun=inf, sigma=0.5>
    """
    given: dict[str, Any] = {**options}
    if hasattr(x0, "strategy_arguments"):  # a lmma.Space, which this package must not import
        given |= x0.strategy_arguments(given.pop("start", None), sigma0)
        x0, sigma0 = given.pop("x0"), given.pop("sigma0")
    elif sigma0 is None:
        raise TypeError(
            "sigma0 is required: pass a step size, about a third of the expected distance to the optimum"
        )
    if isinstance(method, str) and method == "auto":
        method = _method_for(x0, given, values)
    return make_strategy(strategy_class(method), x0, sigma0, **given)


def make_strategy(
    cls: type[Strategy], x0: npt.ArrayLike, sigma0: float | npt.ArrayLike, *,
    categories: Mapping[int, int | range] | None = None, **options: Any,
) -> Strategy:  # fmt: skip
    """Create a strategy of class ``cls``, with a layer of choices if needed.

    ``categories`` maps categorical coordinates to their number of values or their range. An integer with two
    values becomes a choice: its distribution is learned faster than a step size.
    """
    choices = {int(j): k if isinstance(k, range) else range(k) for j, k in (categories or {}).items()}
    for column, values in choices.items():
        if len(values) < 2:
            raise ValueError(f"categories: coordinate {column} must have at least two values, got {values!r}")
    if options.get("bounds") is not None and options.get("integrality") is not None:
        from lmma.layers.choices import two_valued

        choices |= two_valued(x0, options["bounds"], options["integrality"])
    if not choices:
        return cls(x0, sigma0, **options)
    if options.get("popsize") is None:
        options["popsize"] = default_popsize(max(2, np.size(np.asarray(x0))))
    if cls.METHOD is None:
        from lmma.methods.user_method import wrapped_for_choices

        cls = wrapped_for_choices(cls)
    return cls(x0, sigma0, categories=choices, **options)


@cache
def _strategy_with(method: type[Method]) -> type[Strategy]:
    """Return a strategy class for ``method``."""
    return type(method.__name__, (Strategy,), {"METHOD": method, "__doc__": method.__doc__})


def _import_object(place: str) -> Any:
    """Import and return the object at ``module:Class``."""
    module_name, colon, path = place.partition(":")
    if not colon:
        known = ["auto", *methods()]
        raise ValueError(
            f"unknown method {place!r}{nearest(place, known)}; known methods: {', '.join(known)}"
        )
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
