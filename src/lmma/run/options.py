"""Run options, each declared once: default, type, meaning and command-line spelling.

:func:`lmma.minimize` repeats names and defaults in its signature for readability. The command line and the
table in docs/options.md are generated from the fields. tests/run/test_options.py compares all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
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
    from lmma.layers.bounds import Boundary, Bounds, Box
    from lmma.layers.constraints import Handling
    from lmma.layers.noise import Treatment
    from lmma.methods import Strategy
    from lmma.numerics.checks import Precision, Seed
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.restarts import Schedule
    from lmma.space import Space, Tree

Callback = Callable[[npt.NDArray[np.floating]], object] | Callable[["OptimizeResult"], object]

OnInterrupt = Literal["return", "raise"]
Values = Literal["auto", "ranks"]

# Syntax of a value on the command line; lmma.cli.options has the parser of each.
Kind = Literal["word", "number", "positive", "not negative", "count", "switch", "bounds", "file", "rows",
               "restarts", "workers", "seed", "constant", "integers", "space", "constraints"]  # fmt: skip
Group = Literal["search options", "evaluation options", "stopping options"]


@dataclass(frozen=True)
class Spelling:
    """The command-line flag of an argument, its help text and the syntax of its value."""

    help: str
    flag: str = ""  # such as --max-evaluations; empty if the argument is library_only
    kind: Kind = "word"
    group: Group = "search options"
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    library_only: str = ""  # why there is no flag

    def in_python(self, name: str) -> str:
        """Return the flag spelled like the Python argument ``name``, an alias of ``flag``."""
        return self.flag if self.kind == "constant" else f"--{name.replace('_', '-')}"


def option(default: Any, help: str, flag: str = "", kind: Kind = "word", **more: Any) -> Any:
    """Return a field of :class:`RunOptions` with its meaning and its command-line spelling."""
    spelling = Spelling(help, flag, kind, **more)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"spelling": spelling})
    return field(default=default, metadata={"spelling": spelling})


@dataclass(frozen=True)
class RunOptions:
    """All run options: everything except the objective, the start and the initial step size."""

    # Default, meaning, command line
    # fmt: off
    args: tuple[Any, ...] = option((),
        "additional arguments passed to fun",
        library_only="Python values; bind them in a function instead")
    method: str | type[Strategy] = option("auto",
        "method, see lmma methods; auto: chosen from the problem and free memory; module:Class: user-defined",
        "--method", metavar="NAME")
    values: Values = option("auto",
        "use of function values by the automatic method; auto: slopes where fun is smooth, ranks elsewhere; "
        "ranks: only ranks",
        "--values", choices=("auto", "ranks"))
    bounds: Bounds | None = option(None,
        "box that contains all evaluated points: LOW,HIGH for all variables (inf and -inf: unbounded), or a "
        ".npy, .txt or .csv file with one row LOW HIGH per variable",
        "--bounds", "bounds", metavar="LOW,HIGH")
    boundary: Boundary = option("smooth",
        "mapping of candidates outside the bounds into the box",
        "--boundary", choices=("smooth", "reflect", "project", "wrap"))
    integrality: npt.ArrayLike | None = option(None,
        "integer variables: all, or their indices from 0, such as 3,7-12",
        "--integers", "integers", metavar="WHICH")
    space: Space | Tree | None = option(None,
        "TOML file with named variables of any type, and optionally other options",
        "--space", "space", metavar="FILE")
    constraints: Any = option(None,
        "a function g(x) <= 0, a SciPy constraint, or a list of these; alternatively, fun returns (f, g)",
        "--constraints", "constraints", metavar="MODULE:NAME")
    constraint_handling: Handling = option("lagrange",
        "handling of constraints; lagrange: augmented Lagrangian; rank: ranks only; use it for yes/no "
        "constraints, or if only the order of values matters",
        "--constraint-handling", choices=("lagrange", "rank"))
    feasibility_tol: float = option(1e-8,
        "largest constraint violation of a feasible point",
        "--feasibility-tol", "not negative", metavar="EPS")
    popsize: int | None = option(None,
        "candidates per generation (default: 4 + floor(3 ln n))",
        "--popsize", "count", metavar="N")
    rng: Seed = option(None,
        "random seed; the same seed gives the same run (default: drawn at random)",
        "--seed", "seed", metavar="N")
    noise: Treatment | None = option("auto",
        "handling of noisy values; auto: detect noise with two extra evaluations every twenty generations; "
        "if noise is found, continue as mix; mix: smaller learning rate of the mean, longer steps; average: "
        "more evaluations per candidate; population: more candidates; none: no detection",
        "--noise", choices=("auto", "none", "mix", "average", "population"))
    common_random_numbers: bool | None = option(None,
        "call fun with seed= and generation=, the same within each generation; by default if its "
        "signature requires them",
        library_only="determined by the signature of the Python function")
    maxfevals: int | None = option(None,
        "maximum number of evaluations over all restarts, such as 1e6",
        "--max-evaluations", "count", metavar="N", group="stopping options")
    maxiter: int | None = option(None,
        "maximum number of generations over all restarts",
        "--max-generations", "count", metavar="N", group="stopping options")
    maxtime: float | None = option(None,
        "maximum run time in seconds",
        "--max-time", "positive", metavar="SECONDS", group="stopping options")
    ftarget: float | None = option(None,
        "stop when fun reaches this value",
        "--target", "number", metavar="VALUE", group="stopping options")
    tolx: float = option(1e-11,
        "stop when steps in x are smaller than EPS (0: never)",
        "--tolx", "not negative", metavar="EPS", group="stopping options")
    tolfun: float = option(1e-11,
        "stop when recent values of fun vary by less than EPS (0: never)",
        "--tolfun", "not negative", metavar="EPS", group="stopping options")
    stagnation: bool = option(True,
        "stop when there was no progress in the last half of the run",
        "--stagnation", "switch", group="stopping options")
    restarts: int | str | Schedule = option(0,
        "restart after convergence or stagnation: a number or ipop (double the population each time), bipop "
        "(alternate large and small populations), or bipop:5",
        "--restarts", "restarts", metavar="HOW")
    polish: bool = option(False,
        "refine the best point of an evolution strategy by quasi-Newton steps and keep the better result; "
        "uses the remaining evaluations, at least a fifth of the budget; for smooth functions",
        "--polish", "switch")
    inject: npt.ArrayLike | str | os.PathLike[str] | None = option(None,
        "known good points, evaluated in the first generation: a .npy, .txt or .csv file, one point per row, "
        "or an archive (.db), of which the best points are taken",
        "--inject", "rows", metavar="FILE")
    vectorized: bool = option(False,
        "fun takes a whole generation, one candidate per row, and returns one value per row",
        "--vectorized", "switch", group="evaluation options")
    workers: object = option(1,
        "number of worker processes (-1: one per core)",
        "--workers", "workers", metavar="N", group="evaluation options")
    timeout: float | None = option(None,
        "time limit of one evaluation in seconds; if exceeded, it counts as failed",
        "--timeout", "positive", metavar="SECONDS", group="evaluation options")
    quorum: float = option(1.0,
        "fraction of a generation to wait for, such as 0.85",
        "--quorum", "positive", metavar="SHARE", group="evaluation options")
    on_error: OnError = option("worst",
        "handling of failed evaluations; worst: rank last; raise: end the run; resample: draw another "
        "candidate",
        "--on-error", choices=("worst", "raise", "resample"), group="evaluation options")
    callback: Callback | None = option(None,
        "called after each generation; StopIteration or a returned True ends the run",
        library_only="a Python function; use --log to record a run")
    on_interrupt: OnInterrupt = option("return",
        "Ctrl-C ends the run and returns the best point so far, or raises KeyboardInterrupt",
        library_only="Ctrl-C prints the best point so far and exits with status 130")
    checkpoint: str | os.PathLike[str] | Checkpoint | None = option(None,
        "save the run to this .npz file periodically, and resume from it if it exists",
        "--checkpoint", "file", metavar="FILE", group="evaluation options")
    archive: str | os.PathLike[str] | None = option(None,
        "keep every evaluation in this SQLite file, and take known ones from it instead of repeating them",
        "--archive", "file", metavar="FILE", group="evaluation options")
    archive_new: bool = option(False,
        "rename an existing archive and start a new one, for a changed objective; ignored if a checkpoint is "
        "resumed",
        "--archive-new", "switch", group="evaluation options")
    history: bool | int = option(True,
        "maximum number of snapshots in result.history (True: 1000, False: none)",
        library_only="--plot and --log show the same")
    log: str | os.PathLike[str] | None = option(None,
        "write a log of the run as JSON lines, for lmma plot and lmma watch",
        "--log", "file", metavar="FILE", group="evaluation options")
    progress: bool = option(False,
        "show a progress line on standard error",
        library_only="shown unless --quiet is given")
    dtype: Precision = option("float64",
        "precision of candidates and state",
        "--dtype", choices=("float64", "float32"))
    threads: int | None = option(None,
        "threads that sample and transform candidates (default: LMMA_NUM_THREADS, or one per core); does not "
        "affect the result",
        "--threads", "count", metavar="N")
    constants: dict[str, Any] = option({},
        "constant of the method, such as m=20 for lm-ma-es; may be repeated",
        "--set", "constant", metavar="NAME=VALUE")
    # fmt: on

    def __post_init__(self) -> None:
        from lmma._text import shown
        from lmma.numerics.checks import check_choice, checked_number, checked_popsize, checked_tolerance

        for name in ("maxfevals", "maxiter", "maxtime"):
            limit = getattr(self, name)
            if limit is not None and not checked_number(name, limit, ", or None for no limit") > 0:
                raise ValueError(f"{name} must be positive, or None for no limit; got {shown(limit)}")
        if self.ftarget is not None:
            target = checked_number("ftarget", self.ftarget, ", or None for no target")
            if target == math.inf:
                raise ValueError("ftarget must be finite, or None for no target; got inf")
        checked_tolerance("tolx", self.tolx)
        checked_tolerance("tolfun", self.tolfun)
        checked_popsize(self.popsize, 2)
        if not isinstance(self.history, bool) and checked_number("history", self.history) < 0:
            raise ValueError(f"history must be a number of snapshots, or True; got {shown(self.history)}")
        for name in ("stagnation", "vectorized", "progress", "polish", "archive_new"):
            switch = getattr(self, name)
            if not isinstance(switch, int | np.bool_) or switch not in (0, 1):
                raise TypeError(f"{name} must be True or False, got {shown(switch)}")
        if self.noise is not None:
            from lmma.layers.noise import checked_treatment

            checked_treatment(self.noise)
        if not isinstance(self.common_random_numbers, bool | None):
            raise TypeError(
                "common_random_numbers must be True, False or None (determined by the signature of fun); "
                f"got {shown(self.common_random_numbers)}"
            )
        check_choice("values", self.values, ("auto", "ranks"))
        check_choice("on_interrupt", self.on_interrupt, ("return", "raise"))
        check_choice("on_error", self.on_error, ("worst", "raise", "resample"))
        if not isinstance(self.args, tuple):
            object.__setattr__(self, "args", (self.args,))
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be a function, or None; got {shown(self.callback)}")
        self._check_files()
        if self.space is not None:
            self._check_space()
        if self.treats_constraints_specially:
            from lmma.layers.constraints import ConstraintOptions

            ConstraintOptions(self.constraint_handling, None, self.feasibility_tol)

    def _check_files(self) -> None:
        """Raise for an invalid path, or for one file used for two purposes."""
        from lmma._text import InvalidValue, shown

        saved: Any = getattr(self.checkpoint, "file", self.checkpoint)  # of a Checkpoint
        files = {"checkpoint": saved, "log": self.log, "archive": self.archive}
        for name, file in files.items():
            if not isinstance(file, str | os.PathLike | None) or (file is not None and "\0" in str(file)):
                raise TypeError(f"{name} must be the path of a file, or None; got {shown(file)}")
        for one, other in itertools.combinations([name for name in files if files[name] is not None], 2):
            if _same_file(files[one], files[other]):
                raise ValueError(
                    f"{one} and {other} must be different files, got {os.fspath(files[one])!r} for both: one "
                    "would overwrite the other"
                )
        if self.archive_new and self.archive is None:
            raise InvalidValue("{archive_new[True]} needs {archive[=]}")

    def _check_space(self) -> None:
        """Raise if a space contradicts other arguments; a tree defines neither bounds nor integers."""
        from lmma.space import Space, Tree

        if isinstance(self.space, Tree):
            return
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be an lmma.Space or an lmma.Tree, got {self.space!r:.80}")
        for name in ("bounds", "integrality"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} cannot be combined with space, which defines {name}: remove {name}")

    @property
    def treats_constraints_specially(self) -> bool:
        """True if constraints, declared or not, are handled differently from the default."""
        return (self.constraint_handling, self.feasibility_tol) != ("lagrange", 1e-8)

    def replaced(self, **changes: Any) -> RunOptions:
        """Return these options with some of them changed."""
        return dataclasses.replace(self, **changes)


def _same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def spellings() -> Iterator[tuple[str, Spelling, Any]]:
    """Yield name, command-line spelling and default of every argument, in the order of minimize()."""
    for declared in dataclasses.fields(RunOptions):
        default = {} if declared.default is dataclasses.MISSING else declared.default
        yield declared.name, declared.metadata["spelling"], default


# Defaults that depend on the problem


def default_sigma0(x0: npt.NDArray[np.floating], box: Box | None = None) -> float | npt.NDArray[np.floating]:
    """Return the default step size: 0.3 times the larger of 1 and the root mean square of x0.

    A coordinate with two bounds gets 0.3 times its width instead, because units may differ. The result is
    one number if it is the same for all coordinates. Fixed coordinates are ignored.
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
