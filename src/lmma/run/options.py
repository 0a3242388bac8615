"""Every argument of a run, declared once: default, type, meaning, and how the command line spells it.

:func:`lmma.minimize` repeats names and defaults in its signature, for people to read; the command line and
the table in docs/options.md are made from the fields. tests/run/test_options.py holds them together.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.evaluation.base import OnError
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.restarts import Schedule
    from lmma.space import Space, Tree
    from lmma.strategies import Strategy
    from lmma.strategies.parts.bounds import Boundary, Bounds, Box
    from lmma.strategies.parts.checks import Precision, Seed
    from lmma.strategies.parts.constraints import Handling
    from lmma.strategies.parts.noise import Treatment

Method = Literal[
    "auto", "cma-es", "ma-es", "lm-ma-es", "csa-es", "lm-ma-es-archive", "acma-es", "lm-cma-es", "vd-cma-es",
    "sep-cma-es", "open-es", "d-lm-ma-es", "pulse", "pulse-full",
]  # fmt: skip
Callback = Callable[[npt.NDArray[np.floating]], object] | Callable[["OptimizeResult"], object]

OnInterrupt = Literal["return", "raise"]

# How a value is written on the command line; lmma.cli.options knows how each is read.
Kind = Literal["word", "number", "positive", "not negative", "count", "switch", "bounds", "file", "rows",
               "restarts", "workers", "seed", "constant", "integers", "space", "constraints"]  # fmt: skip
Group = Literal["how to search", "how to evaluate", "when to stop"]


@dataclass(frozen=True)
class Spelling:
    """What an argument of a run is called on the command line, and how its value is written there."""

    help: str
    flag: str = ""  # such as --max-evaluations; empty where a shell has no use for the argument
    kind: Kind = "word"
    group: Group = "how to search"
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    library_only: str = ""  # why there is no flag

    def in_python(self, name: str) -> str:
        """Return the flag that is spelled as the argument ``name`` is, which does the same."""
        return self.flag if self.kind == "constant" else f"--{name.replace('_', '-')}"


def option(default: Any, help: str, flag: str = "", kind: Kind = "word", **more: Any) -> Any:
    """Return a field of :class:`RunOptions` that knows its meaning and its command-line spelling."""
    spelling = Spelling(help, flag, kind, **more)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"spelling": spelling})
    return field(default=default, metadata={"spelling": spelling})


@dataclass(frozen=True)
class RunOptions:
    """What a user may say about a run besides the objective, the start and the initial step size."""

    # Default, meaning, command line
    # fmt: off
    args: tuple[Any, ...] = option((),
        "further arguments of fun",
        library_only="values of Python; a function of your own can bind them")
    method: Method | str | type[Strategy] = option("auto",
        "the strategy: see lmma methods; auto chooses by n and memory; module:Class is your own",
        "--method", metavar="NAME")
    bounds: Bounds | None = option(None,
        "a box no evaluation leaves: two numbers LOW,HIGH for every variable (inf and -inf for none), or a "
        ".npy, .txt or .csv file with a row LOW HIGH for each",
        "--bounds", "bounds", metavar="LOW,HIGH")
    boundary: Boundary = option("smooth",
        "how the box is kept",
        "--boundary", choices=("smooth", "reflect", "project", "wrap"))
    integrality: npt.ArrayLike | None = option(None,
        "variables that are integers: all, or their numbers from 0 on, such as 3,7-12",
        "--integers", "integers", metavar="WHICH")
    space: Space | Tree | None = option(None,
        "named variables of all kinds, and options of the run if you like, from a TOML file",
        "--space", "space", metavar="FILE")
    constraints: Any = option(None,
        "limits on more than a box: what SciPy takes, or functions g(x) <= 0; on the command line "
        "module:name of such a function or list. fun may also return (f, g)",
        "--constraints", "constraints", metavar="MODULE:NAME")
    constraint_handling: Handling = option("lagrange",
        "an augmented Lagrangian, or ranks alone where only the order of values means something or a "
        "constraint says yes or no",
        "--constraint-handling", choices=("lagrange", "rank"))
    feasibility_tol: float = option(1e-8,
        "the largest violation of a constraint at a point that counts as feasible",
        "--feasibility-tol", "not negative", metavar="EPS")
    popsize: int | None = option(None,
        "candidates per generation; by default 4 + floor(3 ln n)",
        "--popsize", "count", metavar="N")
    rng: Seed = option(None,
        "source of randomness: the same seed gives the same run; by default drawn",
        "--seed", "seed", metavar="N")
    noise: Treatment | None = option(None,
        "values that differ from call to call: auto looks for them by two evaluations in twenty generations "
        "and treats them as mix does; average evaluates candidates more often, population takes more of "
        "them; none does not look",
        "--noise", choices=("auto", "none", "mix", "average", "population"))
    common_random_numbers: bool | None = option(None,
        "call fun with seed= and generation=, the same for all candidates of a generation; by default if its "
        "signature demands them",
        library_only="the signature of a function of Python says it")
    maxfevals: int | None = option(None,
        "stop before more evaluations than this, over all restarts; such as 1e6",
        "--max-evaluations", "count", metavar="N", group="when to stop")
    maxiter: int | None = option(None,
        "stop after so many generations, over all restarts",
        "--max-generations", "count", metavar="N", group="when to stop")
    maxtime: float | None = option(None,
        "stop after so many seconds",
        "--max-time", "positive", metavar="SECONDS", group="when to stop")
    ftarget: float | None = option(None,
        "stop when a generation has reached a value as low as this",
        "--target", "number", metavar="VALUE", group="when to stop")
    tolx: float = option(1e-11,
        "stop when steps in x are smaller; 0 never",
        "--tolx", "not negative", metavar="EPS", group="when to stop")
    tolfun: float = option(1e-11,
        "stop when the recent values of fun vary by less; 0 never",
        "--tolfun", "not negative", metavar="EPS", group="when to stop")
    stagnation: bool = option(True,
        "stop when half of the run has brought no progress",
        "--stagnation", "switch", group="when to stop")
    restarts: int | str | Schedule = option(0,
        "start again after convergence or stagnation: a number or ipop (each time with twice the population),"
        " bipop (large and small ones in turn), or bipop:5",
        "--restarts", "restarts", metavar="HOW")
    polish: bool = option(False,
        "end a search of a smooth function with SciPy's BFGS, begun at the best point with the learned "
        "metric; it has what is left of the evaluations, a fifth or more, and the better of both is kept",
        "--polish", "switch")
    inject: npt.ArrayLike | None = option(None,
        "points known to be good, evaluated in the first generation: a .npy, .txt or .csv file, one a row",
        "--inject", "rows", metavar="FILE")
    vectorized: bool = option(False,
        "fun takes a whole generation, one candidate a row, and returns as many values",
        "--vectorized", "switch", group="how to evaluate")
    workers: object = option(1,
        "evaluate in so many processes; -1: one for each core",
        "--workers", "workers", metavar="N", group="how to evaluate")
    timeout: float | None = option(None,
        "give up an evaluation that takes longer; it counts as failed",
        "--timeout", "positive", metavar="SECONDS", group="how to evaluate")
    quorum: float = option(1.0,
        "close a generation when this share of it has returned, such as 0.85",
        "--quorum", "positive", metavar="SHARE", group="how to evaluate")
    on_error: OnError = option("worst",
        "a failed evaluation ranks last, ends the run, or is drawn anew",
        "--on-error", choices=("worst", "raise", "resample"), group="how to evaluate")
    callback: Callback | None = option(None,
        "called after each generation; StopIteration or a returned True ends the run",
        library_only="a function of Python; --log is a program's record of a run")
    on_interrupt: OnInterrupt = option("return",
        "Ctrl-C ends the run with the best so far, or also raises KeyboardInterrupt (raise)",
        library_only="the best so far is printed, the exit status is 130")
    checkpoint: str | os.PathLike[str] | Checkpoint | None = option(None,
        "save the run in this .npz file now and then, and go on from it if it is there",
        "--checkpoint", "file", metavar="FILE", group="how to evaluate")
    history: bool | int = option(False,
        "keep so many snapshots (True: 1000) in result.history",
        library_only="--plot and --log show the same")
    log: str | os.PathLike[str] | None = option(None,
        "write records of the run as JSON lines, for lmma plot",
        "--log", "file", metavar="FILE", group="how to evaluate")
    progress: bool = option(False,
        "show a line of progress on standard error",
        library_only="shown unless --quiet is given")
    dtype: Precision = option("float64",
        "precision of the candidates and of the state",
        "--dtype", choices=("float64", "float32"))
    threads: int | None = option(None,
        "threads that draw and transform candidates; by default LMMA_NUM_THREADS or one for each core; the "
        "result does not depend on it",
        "--threads", "count", metavar="N")
    constants: dict[str, Any] = option({},
        "constants of the method, such as m=20 for lm-ma-es; may be repeated",
        "--set", "constant", metavar="NAME=VALUE")
    # fmt: on

    def __post_init__(self) -> None:
        from lmma.strategies.parts.checks import (
            checked_choice,
            checked_number,
            checked_popsize,
            checked_tolerance,
            shown,
        )
        from lmma.strategies.parts.noise import checked_treatment

        for name in ("maxfevals", "maxiter", "maxtime"):
            limit = getattr(self, name)
            if limit is not None and not checked_number(name, limit, ", or None for no limit") > 0:
                raise ValueError(f"{name} must be positive, or None for no limit; got {shown(limit)}")
        if self.ftarget is not None:
            checked_number("ftarget", self.ftarget, ", or None for no target")
        checked_tolerance("tolx", self.tolx)
        checked_tolerance("tolfun", self.tolfun)
        checked_popsize(self.popsize, 2)
        if not isinstance(self.history, bool) and checked_number("history", self.history) < 0:
            raise ValueError(f"history must be a number of snapshots, or True; got {shown(self.history)}")
        for name in ("stagnation", "vectorized", "progress", "polish"):
            switch = getattr(self, name)
            if not isinstance(switch, int | np.bool_) or switch not in (0, 1):
                raise TypeError(f"{name} must be True or False, got {shown(switch)}")
        checked_treatment(self.noise)
        if not isinstance(self.common_random_numbers, bool | None):
            raise TypeError(
                "common_random_numbers must be True, False or None (by the signature of fun); "
                f"got {shown(self.common_random_numbers)}"
            )
        checked_choice("on_interrupt", self.on_interrupt, ("return", "raise"))
        checked_choice("on_error", self.on_error, ("worst", "raise", "resample"))
        if not isinstance(self.args, tuple):
            object.__setattr__(self, "args", (self.args,))
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be a function, or None; got {shown(self.callback)}")
        self._check_files()
        if self.space is not None:
            from lmma.run.variables import check_space

            check_space(self)

    def _check_files(self) -> None:
        """Raise for a file that is none, or that would be written for two purposes."""
        from lmma.strategies.parts.checks import shown

        saved: Any = getattr(self.checkpoint, "file", self.checkpoint)  # of a Checkpoint
        for name, file in (("checkpoint", saved), ("log", self.log)):
            if not isinstance(file, str | os.PathLike | None) or (file is not None and "\0" in str(file)):
                raise TypeError(f"{name} must be the path of a file, or None; got {shown(file)}")
        if saved is not None and self.log is not None and _same_file(saved, self.log):
            raise ValueError(
                f"checkpoint and log must be two files, got {os.fspath(saved)!r} for both: one would destroy "
                "the other"
            )

    def replaced(self, **changes: Any) -> RunOptions:
        """Return these options with some of them changed."""
        return dataclasses.replace(self, **changes)


def _same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def spellings() -> Iterator[tuple[str, Spelling, Any]]:
    """Yield name, command-line spelling and default of every argument of a run, in the order of minimize."""
    for declared in dataclasses.fields(RunOptions):
        default = {} if declared.default is dataclasses.MISSING else declared.default
        yield declared.name, declared.metadata["spelling"], default


# What a user who says nothing gets

# What method="auto" goes by; docs/research.md, "Which method", has the table it was decided by.
FULL_MATRIX_UP_TO = 300  # variables: beyond, a generation with a matrix costs more than its evaluations save
FEW = 6  # variables: with constraints active CMA-ES needs fewer evaluations there; docs/constraints.md
FEW_DISCRETE = 12  # variables, some of them integers or choices: likewise; docs/mixed_variables.md


def choose_method(
    n: int, *, popsize: int | None = None, constrained: bool = False, discrete: bool = False
) -> str:
    """Return what ``method="auto"`` means for ``n`` variables on this machine.

    ``"pulse-full"`` for up to 300 variables; ``"pulse"`` beyond, which has O(log n) directions in place of
    a matrix and needs as few evaluations on most functions. ``"d-lm-ma-es"`` where the vectors of
    ``"pulse"`` would fill half of the free memory. ``"acma-es"`` for up to 6 real variables with
    ``constraints=`` (those that ``fun`` returns unasked are not known when a method is chosen), and for up
    to 12 of which some are integers or choices, without constraints.
    """
    from lmma.strategies import strategy_class
    from lmma.strategies.parts.checks import checked_popsize
    from lmma.strategies.parts.memory import available_memory
    from lmma.strategies.parts.recombination import default_popsize

    if (constrained and n <= FEW) or (discrete and n <= FEW_DISCRETE):
        return "acma-es"
    method = "pulse-full" if n <= FULL_MATRIX_UP_TO else "pulse"
    needed = strategy_class(method).memory(n, checked_popsize(popsize, default_popsize(n)))
    there = available_memory()
    return method if there is None or needed < there / 2 else "d-lm-ma-es"


def default_sigma0(x0: npt.NDArray[np.floating], box: Box | None = None) -> float | npt.NDArray[np.floating]:
    """Return the step size for a user who knows none: 0.3 times the larger of 1 and the scale of x0.

    A coordinate that is bounded on both sides has 0.3 times its width instead, as units may differ; one
    number is returned where that is the same for all. Fixed coordinates take no part.
    """
    plain = 0.3 * max(1.0, math.sqrt(float(np.mean(np.square(x0)))))
    if box is None:
        return plain
    width = (box.upper - box.lower).astype(np.float64)
    closed = np.isfinite(width) & ~box.fixed
    if np.array_equal(closed, ~box.fixed) and np.ptp(width[closed]) == 0.0:
        return 0.3 * math.exp(float(np.mean(np.log(width[closed]))))
    steps = np.where(closed, 0.3 * width, plain)
    typical = math.exp(float(np.mean(np.log(steps[~box.fixed]))))
    steps[box.fixed] = typical
    return plain if np.all(steps == plain) else steps
