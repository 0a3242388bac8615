"""Validation of user arguments and their conversion to run components."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma._text import nearest, plural, shown, used_elsewhere
from lmma.methods import Strategy, strategy_class
from lmma.methods.registry import choose_method, make_strategy
from lmma.numerics.checks import checked_x0
from lmma.run.options import RunOptions, default_sigma0

if TYPE_CHECKING:
    from lmma.layers.bounds import Box
    from lmma.run.result import Learned, WarmStart
    from lmma.run.user_constraints import Constraints
    from lmma.space import Space, Tree

Array = npt.NDArray[np.floating]
RANDOM_NUMBERS = ("seed", "generation")  # keywords of fun


@dataclass(frozen=True)
class Setup:
    """Starting point and factory of strategies, before and after restarts."""

    cls: type[Strategy]
    x0: Array
    sigma0: float | Array
    restart_sigma0: float | Array  # not the final step size of an earlier run
    box: Box | None  # for starts and step sizes; each strategy builds its own
    options: RunOptions
    learned: Learned | None  # from an earlier run
    limits: dict[str, Any]  # bounds, integers and choices, as arguments of strategies
    constraints: Constraints | None  # only declared ones
    default_steps: bool = False  # True if sigma0 is the default

    def first(self) -> Strategy:
        """Return the first strategy of the run."""
        strategy = self.make(self.x0, self.sigma0, self.options.popsize, self.options.rng)
        budget = self.options.maxfevals
        if budget is not None:
            strategy.limit(budget)
        if budget is not None and budget < strategy.batch_size and not strategy.cuts_batches:
            raise ValueError(
                f"maxfevals={budget} is less than one generation of popsize={strategy.batch_size}: "
                "increase maxfevals or reduce popsize"
            )
        if self.learned is not None:
            self.learned.transfer_to(strategy)
        if isinstance(self.options.inject, str | os.PathLike):
            from lmma.run.archive.opening import archived_points

            strategy.inject(archived_points(self.options.inject, self, strategy))
        elif self.options.inject is not None:
            strategy.inject(injected_points(self.options))
        return strategy

    def make(
        self, x0: Array, sigma0: float | Array, popsize: int | None, rng: Any, begin: str = ""
    ) -> Strategy:
        """Return a new strategy that starts at ``x0``; a portfolio begins with ``begin``."""
        from lmma.methods.portfolio import Portfolio

        options = self.options
        arguments: dict[str, Any] = {**self.limits, "threads": options.threads}
        if arguments.get("bounds") is not None:
            arguments["boundary"] = options.boundary
        # A user-defined strategy need not accept arguments that are not used
        given = {name: value for name, value in arguments.items() if value is not None}
        if begin:
            given["begin"] = begin
        if issubclass(self.cls, Portfolio):
            given |= {"rivals": bool(options.restarts), "cover": self.default_steps}
        try:
            strategy = make_strategy(
                self.cls, x0, sigma0, popsize=popsize, rng=rng, dtype=options.dtype, tolx=options.tolx,
                tolfun=options.tolfun, **given | options.constants,
            )  # fmt: skip
            if self.constraints is not None:
                strategy.constraint_options = self.constraints.options()
            elif options.treats_constraints_specially:  # fun may return undeclared constraints
                strategy.constrain(
                    handling=options.constraint_handling, feasibility_tol=options.feasibility_tol
                )
            if options.noise is not None:
                strategy.handle_noise(options.noise)
        except MemoryError as error:
            from lmma.numerics.memory import not_enough_memory

            size = "" if popsize is None else f", popsize={popsize}"
            raise not_enough_memory(error, f"{self.cls.name} with n={len(x0)}{size}") from None
        return strategy

    def undeclared_constraints(self) -> Constraints:
        """Return the constraints for a ``fun`` that returns some although none were declared."""
        from lmma.run.user_constraints import read_constraints

        return read_constraints(self.options, len(self.x0), self.limits)[0]

    def objective(self, fun: Callable[..., Any], seeds: tuple[str, ...] = ()) -> Callable[..., Any]:
        """Return ``fun``, with constraint functions if there are any, as a function of vectors.

        ``seeds`` are the seed keywords that ``fun`` takes.
        """
        if self.constraints is not None:
            return self.constraints.objective(fun, self.options, seeds)
        return on_vectors(fun, self.options.space, self.options.args, seeds)


def setup(fun: Callable[..., Any], x0: Any, sigma0: Any, options: RunOptions) -> Setup:
    """Validate the arguments and return the setup of the run."""
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {shown(fun)}")
    warm = _warm_start_from(x0)
    start, sigma0, limits = start_and_limits(x0 if warm is None else warm.x0, sigma0, options, default_sigma0)
    if options.polish:
        from lmma.run.finishers.polish import check_polish

        check_polish(options, limits)
    constraints = None
    if options.constraints is not None:
        from lmma.run.user_constraints import read_constraints

        constraints, box_among_them = read_constraints(options, len(start), limits)
        if box_among_them is not None:
            limits["bounds"] = box_among_them
    method = options.method
    if isinstance(method, str) and method == "auto":
        known = None if warm is None else warm.method
        method = known or _method(fun, len(start), options, limits, constraints)
    cls = strategy_class(method)
    if constraints is not None:
        cls.require_support("constraints", "constraints=")
    if options.constants:
        check_constants(cls, options.constants)
    if options.on_error == "resample" and not cls.can_resample:
        raise ValueError(f"{cls.name} cannot resample single candidates: set on_error='worst'")
    box = None
    if limits["bounds"] is not None or not isinstance(options.boundary, str) or options.boundary != "smooth":
        from lmma.layers.bounds import box as make_box

        box = make_box(limits["bounds"], start, boundary=options.boundary, dtype=options.dtype)
    usual = default_sigma0(start, box) if sigma0 is None else sigma0
    if sigma0 is None and not np.all(np.isfinite(usual)):
        raise ValueError(
            f"x0 is too large (up to {np.max(np.abs(start)):.3g}) for a default step size: set sigma0"
        )
    first, learned = usual, None
    if warm is not None:
        learned = warm.learned
        user_sigma0 = sigma0 is not None and not _has_names(options.space)
        if not user_sigma0 and warm.sigma0 is not None and not _steps_differ(warm, cls):
            first = warm.sigma0
    plain = sigma0 is None and first is usual
    found = Setup(cls, start, first, usual, box, options, learned, limits, constraints, plain)
    if options.noise == "auto" and not _detects_noise(found):
        return replace(found, options=options.replaced(noise=None))
    return found


def _detects_noise(setup: Setup) -> bool:
    """Return whether ``noise="auto"`` takes effect.

    It does not where the method has no noise handling, nor where values are used again or polished.
    """
    from lmma.run.archive.opening import all_discrete

    options = setup.options
    return "noise" in setup.cls.supports and not (
        options.polish or options.archive is not None or all_discrete(setup)
    )


def boundary_warnings(setup: Setup) -> list[str]:
    """Return a warning if ``boundary`` has no effect on some or all coordinates."""
    box, boundary = setup.box, setup.options.boundary
    if box is None:
        return [] if boundary == "smooth" else [f"boundary {boundary!r} has no effect: there are no bounds"]
    one_sided = int(np.count_nonzero(np.isfinite(box.lower) != np.isfinite(box.upper)))
    if boundary != "wrap" or not one_sided:
        return []
    return [f"boundary 'wrap' reflects {plural(one_sided, 'coordinate')} with only one finite bound"]


def _method(
    fun: Callable[..., Any], n: int, options: RunOptions, limits: dict[str, Any],
    constraints: Constraints | None,
) -> str:  # fmt: skip
    """Return the method that ``method="auto"`` selects."""
    numbers = max(1, n - len(limits.get("categories", ())))
    given = constraints is not None and constraints.given
    discrete = has_discrete(limits)
    lagrangian = given and not discrete and options.constraint_handling == "lagrange"
    return choose_method(
        numbers, popsize=options.popsize, constrained=lagrangian, discrete=discrete and not given,
        values="ranks" if discrete or _needs_ranks(fun, options) else options.values,
    )  # fmt: skip


def _needs_ranks(fun: Callable[..., Any], options: RunOptions) -> bool:
    """Return whether arguments only suit an evolution strategy."""
    return bool(
        options.constraints is not None
        or options.treats_constraints_specially
        or options.popsize is not None
        or options.constants
        or options.inject is not None
        or options.noise not in (None, "auto")
        or options.on_error == "resample"
        or (isinstance(options.quorum, int | float) and options.quorum < 1)
        or seed_keywords(fun, options.args, options.common_random_numbers, variable_names(options.space))
    )


def has_discrete(limits: Mapping[str, Any]) -> bool:
    """Return whether some variables are integers or choices."""
    integrality = limits.get("integrality")
    return bool(limits.get("categories")) or (integrality is not None and bool(np.any(integrality)))


def _warm_start_from(x0: Any) -> WarmStart | None:
    """Return the warm start if ``x0`` is an earlier result, else None."""
    if isinstance(x0, np.ndarray | list | tuple):
        return None
    from lmma.run.result import is_result, warm_start

    return warm_start(x0) if is_result(x0) else None


def _steps_differ(warm: WarmStart, cls: type[Strategy]) -> bool:
    """Return whether an earlier run has steps per coordinate that ``cls`` cannot use."""
    return warm.learned is not None and warm.learned.scale is not None and warm.method != cls.name


def check_constants(cls: type[Strategy], constants: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that is not a constant of the method, with a suggestion."""
    own = cls.known_options()
    arguments = [declared.name for declared in fields(RunOptions) if declared.name != "constants"]
    for name in constants:
        if name in own:
            continue
        if advice := used_elsewhere(name):
            raise TypeError(f"unknown option {name!r}: {advice}")
        hint = nearest(name, [*arguments, "seed", "sigma0", *own])
        constants_of = "" if hint else f"; its constants are described in help(lmma.{cls.__name__})"
        raise TypeError(f"unknown option {name!r} for method {cls.name!r}{hint}{constants_of}")


# Named variables and structures


def with_space(x0: Any, options: RunOptions) -> tuple[Any, RunOptions]:
    """Return ``x0`` and the options, with a space, tree or structure given as ``x0`` moved to ``space``.

    A space starts at its centre, a tree at its example. A float32 tree is searched in float32.
    """
    if options.space is None and (isinstance(x0, np.ndarray) or _holds_numbers(x0)):
        return x0, options
    from lmma.run.result import is_result
    from lmma.space import Space, Tree
    from lmma.space.tree import is_structure

    found: Space | Tree | None = None
    if isinstance(x0, Space | Tree):
        found = x0
        if options.space is not None:
            raise ValueError(
                "got a space both as x0 and as space=: pass x0 as a dict of values, or remove one of them"
            )
        x0 = None
    elif options.space is None and is_result(x0):
        found = x0.get("tree", x0.get("space"))
    elif options.space is None and is_structure(x0):
        try:
            found = Tree(x0)
        except (TypeError, ValueError) as error:
            raise type(error)(f"x0: {error}") from None
    if found is not None:
        options = options.replaced(space=found)
    if isinstance(options.space, Tree) and options.dtype == "float64":
        options = options.replaced(dtype=options.space.dtype.name)
    return x0, options


def _holds_numbers(x0: Any) -> bool:
    return isinstance(x0, list | tuple) and all(isinstance(number, int | float) for number in x0)


def _has_names(space: Space | Tree | None) -> bool:
    """Return whether the variables are named (a :class:`Space`)."""
    if space is None:
        return False
    from lmma.space import Space

    return isinstance(space, Space)


def start_and_limits(
    x0: Any, sigma0: Any, options: RunOptions, usual: Callable[[Array], Any]
) -> tuple[Array, Any, dict[str, Any]]:
    """Return the start, the step size if known, and the limits as arguments of strategies.

    ``usual`` computes the default step size.
    """
    space = options.space
    limits: dict[str, Any] = {"bounds": options.bounds, "integrality": options.integrality}
    if space is None:
        if x0 is None:
            from lmma.layers.bounds import centre

            x0 = centre(options.bounds)
        return checked_x0(x0, np.float64), sigma0, limits
    from lmma.space import Tree

    if isinstance(space, Tree):
        limits["bounds"] = space.bounds(options.bounds)
        start = space.start(x0)
        return start, space.steps(sigma0, usual(start) if isinstance(sigma0, Mapping) else None), limits
    limits = space.strategy_arguments(x0, sigma0)
    return limits.pop("x0"), limits.pop("sigma0"), limits


def on_vectors(
    fun: Callable[..., Any],
    space: Space | Tree | None,
    args: tuple[Any, ...] = (),
    more: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Return ``fun`` as a function of vectors, which are decoded to named values or a structure.

    ``more`` are the names of further keywords.
    """
    if space is None:
        return fun
    from lmma.space import Tree
    from lmma.space.calling import NamedValues, Structures

    return Structures(fun, space) if isinstance(space, Tree) else NamedValues(fun, space, args, more)


def injected_points(options: RunOptions) -> Any:
    """Return the points to inject as vectors; with a space they may be dicts or structures."""
    points, space = options.inject, options.space
    if space is None or points is None:
        return points
    from lmma.space import Tree

    if isinstance(space, Tree):
        return _structures_as_rows(points, space)
    if isinstance(points, Mapping):
        return space.encode(points)
    if isinstance(points, list | tuple) and all(isinstance(point, Mapping) for point in points):
        return np.array([space.encode(point) for point in points])
    return points


def _structures_as_rows(points: Any, tree: Tree) -> Any:
    """Return one or several structures as vectors; vectors unchanged."""
    if isinstance(points, np.ndarray):
        return points
    try:
        return tree.encode(points)
    except (TypeError, ValueError):
        if not isinstance(points, list | tuple):
            raise
    return np.array([tree.encode(point) for point in points])


def variable_names(space: Space | Tree | None) -> tuple[str, ...]:
    """Return the names of the variables, which the objective may take as keywords."""
    return tuple(space) if _has_names(space) else ()  # type: ignore[arg-type]


# Random numbers


def seed_keywords(
    fun: Callable[..., Any], args: tuple[object, ...], requested: bool | None, taken: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the subset of the keywords ``seed`` and ``generation`` to call a function with.

    These are the ones in its signature without a default or a value in ``args``. If ``requested`` is True,
    those with a default are included; if False, none are. Names in ``taken`` are variables.
    """
    if requested is False:
        return ()
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    given = 1 + len(args)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    free = [p for place, p in enumerate(parameters) if not (p.kind in positional and place < given)]
    names = [name for name in RANDOM_NUMBERS if name not in tuple(taken)]
    wants = tuple(
        p.name for p in free if p.name in names and (requested or p.default is inspect.Parameter.empty)
    )
    if requested and not wants:
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
            return tuple(names)
        raise ValueError(
            "common_random_numbers=True needs a fun that takes seed= or generation=, such as "
            "def fun(x, seed): rng = numpy.random.default_rng(seed)"
        )
    return wants
