"""From what a user asks for to the parts of a run, each checked where it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.run.constraints import Constraints, read_constraints
from lmma.run.options import RunOptions, choose_method, default_sigma0
from lmma.run.polish import check_polish
from lmma.run.variables import points_of, start_and_limits
from lmma.run.warm_start import Learned, WarmStart, warm_start
from lmma.space import Space
from lmma.strategies import Strategy, strategy_class
from lmma.strategies.mixed import make_strategy
from lmma.strategies.parts.bounds import Box
from lmma.strategies.parts.bounds import box as make_box
from lmma.strategies.parts.checks import nearest, shown
from lmma.strategies.parts.memory import in_words

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Setup:
    """Where a run starts and how it makes its strategies, the first one and those after restarts."""

    cls: type[Strategy]
    x0: Array
    sigma0: float | Array
    restart_sigma0: float | Array  # not the small step that an earlier run ended with
    box: Box | None  # for starts and step sizes; strategies have their own
    options: RunOptions
    learned: Learned | None  # what an earlier run knows
    limits: dict[str, Any]  # bounds, integers and choices, as strategies take them
    constraints: Constraints

    def first(self) -> Strategy:
        """Return the strategy a run begins with."""
        strategy = self.make(self.x0, self.sigma0, self.options.popsize, self.options.rng)
        budget = self.options.maxfevals
        if budget is not None and budget < strategy.popsize:
            raise ValueError(
                f"maxfevals={budget} is less than one generation of popsize={strategy.popsize}: "
                "raise maxfevals or lower popsize"
            )
        if self.learned is not None:
            self.learned.teach(strategy)
        if self.options.inject is not None:
            strategy.inject(points_of(self.options))
        return strategy

    def make(self, x0: Array, sigma0: float | Array, popsize: int | None, rng: Any) -> Strategy:
        """Return a strategy that starts at ``x0``."""
        options = self.options
        wishes: dict[str, Any] = {**self.limits, "threads": options.threads}
        if wishes.get("bounds") is not None:
            wishes["boundary"] = options.boundary
        # A user's own strategy need not know of what nobody asked for
        given = {name: value for name, value in wishes.items() if value is not None}
        try:
            strategy = make_strategy(
                self.cls, x0, sigma0, popsize=popsize, rng=rng, dtype=options.dtype, tolx=options.tolx,
                tolfun=options.tolfun, **given, **options.constants,
            )  # fmt: skip
            strategy.constraint_options = self.constraints.options()
            if options.noise is not None:
                strategy.handle_noise(options.noise)
        except MemoryError as error:
            size = "" if popsize is None else f", popsize={popsize}"
            raise in_words(error, f"{self.cls.name} with n={len(x0)}{size}") from None
        return strategy


def setup(
    fun: Callable[..., Any],
    x0: Any,
    sigma0: Any,
    options: RunOptions,
) -> Setup:
    """Return how the run is to start, after checking what the user gave."""
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {shown(fun)}")
    warm = warm_start(x0)
    start, sigma0, limits = start_and_limits(warm.x0, sigma0, options, default_sigma0)
    check_polish(options, limits)
    constraints, box_among_them = read_constraints(options, len(start), limits)
    if box_among_them is not None:
        limits["bounds"] = box_among_them
    method = options.method
    if isinstance(method, str) and method == "auto":
        numbers = max(1, len(start) - len(limits.get("categories", ())))
        real = constraints.keeps_equalities  # no integers, no choices
        constrained = constraints.given and real and constraints.handling == "lagrange"
        discrete = not constraints.given and not real
        method = warm.method or choose_method(
            numbers, popsize=options.popsize, constrained=constrained, discrete=discrete
        )
    cls = strategy_class(method)
    suggest_for_misspelt(cls, options.constants)
    if options.on_error == "resample" and not cls.can_resample:
        raise ValueError(f"{cls.name} cannot draw single candidates anew: use on_error='worst'")
    box = make_box(limits["bounds"], start, boundary=options.boundary, dtype=options.dtype)
    usual = default_sigma0(start, box) if sigma0 is None else sigma0
    if sigma0 is None and not np.all(np.isfinite(usual)):
        raise ValueError(
            f"x0 is so large (up to {np.max(np.abs(start)):.3g}) that no step fits by default: give sigma0"
        )
    told = sigma0 is not None and not isinstance(options.space, Space)
    first = usual if told or warm.sigma0 is None or _steps_differ(warm, cls) else warm.sigma0
    return Setup(cls, start, first, usual, box, options, warm.learned, limits, constraints)


def _steps_differ(warm: WarmStart, cls: type[Strategy]) -> bool:
    """Return whether an earlier run's step size has factors with it that ``cls`` cannot take over."""
    return warm.learned is not None and warm.learned.scale is not None and warm.method != cls.name


def suggest_for_misspelt(cls: type[Strategy], constants: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that is no constant of the method, naming what is near."""
    own = cls.known_options()
    arguments = [declared.name for declared in fields(RunOptions) if declared.name != "constants"]
    takes = ", ".join(own) or "none"
    for name in constants:
        if name not in own:
            hint = nearest(name, [*arguments, "seed", "sigma0", *own])
            raise TypeError(
                f"unknown option {name!r} for method {cls.name!r}{hint}; {cls.name} takes {takes}"
            )
