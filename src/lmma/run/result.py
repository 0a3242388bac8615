"""Run results: printing, construction, and the data for a later warm start."""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import OptimizeResult

from lmma._text import Spell, in_python, one_line, plural, shown
from lmma.numerics.state import State, collect

if TYPE_CHECKING:
    from lmma.evaluation import Failure
    from lmma.evaluation.base import Array
    from lmma.methods import Strategy
    from lmma.run.archive.reader import Archive
    from lmma.run.finishers import Update
    from lmma.run.importance import Importance
    from lmma.run.options import RunOptions
    from lmma.run.state import RunState, SingleRun
    from lmma.run.stopping import Stop
    from lmma.space import Space, Tree
    from lmma.space.point import Point

LINES = 25  # maximum number of lines of a printed result
WIDTH = 96  # of a line, without its label
MESSAGE = 4  # maximum number of lines of the message
FIRST = (
    "message", "success", "reason", "fun", "x", "nfev", "nit", "method", "sigma", "failures", "runs",
    "warnings",
)  # fmt: skip
LATER = ("history", "learned", "hess_inv", "mean", "status", "space", "tree", "leaves")  # omitted first
SHOWN = (*FIRST, "maxcv", "fun_error", "fun_seen")  # in the table of a notebook
TABLE = 20  # variables in that table
INTERNAL = ("learned", "hess_inv", "tree", "space", "leaves", "archive")  # have no counterpart in JSON


class RunResult(OptimizeResult):  # type: ignore[misc]  # SciPy has no types
    """Result of a run, as a dictionary whose keys are also attributes.

    ``print(result)`` prints at most 25 lines. See :func:`lmma.minimize` for the keys. Those after
    ``history`` exist only if they apply.
    """

    x: Any  # an array, or with a space or a structure a dict or a structure
    fun: float
    nfev: int
    nit: int
    success: bool
    status: int
    message: str
    reason: str
    method: str
    sigma: float
    mean: Array
    hess_inv: Any  # LinearOperator or None
    failures: int
    failed: Mapping[str, int]
    errors: list[Failure]
    late: int
    deaths: int
    runs: list[SingleRun]
    learned: Learned
    warnings: list[str]
    history: dict[str, list[Any]]
    # ---
    vector: Array  # with a space or a structure
    space: Space
    tree: Tree
    maxcv: float  # with constraints
    constr: list[Array]
    multipliers: list[Array] | None
    noise: dict[str, Any]  # with noise=
    parts: dict[str, int]  # with a portfolio
    fun_error: float
    fun_seen: float
    x_seen: Any
    polish: dict[str, Any]  # with polish=True
    archive: Archive  # with archive=
    calls: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the result to a file for :func:`lmma.load`, without pickle.

        The file is written atomically. Fields that cannot be stored as numbers, texts or containers of these
        are omitted, and named in the ``warnings`` of the loaded result.
        """
        from lmma.run.result_file import save

        save(self, path)

    def plot(self, *, target: float | None = None, title: str | None = None) -> Any:
        """Return a ``matplotlib.figure.Figure`` of the best value and the step size over evaluations.

        A notebook displays it. In a script, ``result.plot().show()`` opens a window, and
        ``result.plot().savefig("run.png")`` writes a file. With noise, the figure also shows the average of
        recent candidates, the result, the agreement of repeated rankings, and the treatment.
        """
        history = self.get("history")
        if not history:
            raise ValueError("result.plot() needs result.history: call minimize(..., history=True)")
        from lmma.output.plotting import convergence

        if title is None:
            title = f"{self.get('method', 'run')}, n = {len(self.get('vector', self['x']))}"
        return convergence(history, target=target, title=title, answer=answer_of(self))

    @property
    def importance(self) -> Importance:
        """Share of each real variable in the value of the first candidates, the largest first.

        ``print(result.importance)`` and ``result.importance.plot()`` draw bars. Integers and choices are not
        rated. See :mod:`lmma.run.importance` for the estimate.
        """
        learned = self.get("learned")
        if learned is None:
            raise ValueError("the importance of variables is estimated from result.learned, which is missing")
        from lmma.run.importance import named, shares_of

        return named(shares_of(learned, self["mean"], self.get("hess_inv")), names_of(self))

    # Export

    def to_dict(self, *, history: bool = False) -> dict[str, Any]:
        """Return the result as plain numbers, strings, lists and dicts.

        ``learned`` and ``hess_inv`` are omitted, and ``history`` unless it is asked for. With a space, ``x``
        has the values in the user's units, and ``units`` their units.
        """
        from lmma._plain import to_json

        omitted = INTERNAL if history else (*INTERNAL, "history")
        plain = {name: to_json(self[name]) for name in self._names() if name not in omitted}
        point = point_of(self)
        return plain | ({"units": dict(point.units)} if point is not None and point.units else {})

    def to_json(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        history: bool = False,
        indent: int | None = 1,
    ) -> str:
        """Return :meth:`to_dict` as JSON, with null for numbers that are not finite; write it to ``path``."""
        from lmma._plain import finite

        text = json.dumps(finite(self.to_dict(history=history)), indent=indent, allow_nan=False)
        return _written(text + "\n", path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the best point as CSV, one line ``name,value,unit`` per entry; write it to ``path``."""
        from lmma.space.point import Point

        point = point_of(self) or Point(self["x"], {"x": self["x"]})
        return _written(point.to_csv(), path)

    def __repr__(self) -> str:
        found = f"fun={_number(self['fun'])}" if "fun" in self else "no value"
        parts = [f"<result: {found}"]
        if "nfev" in self:
            parts.append(f"after {self['nfev']:,} evaluations")
        if "method" in self:
            parts.append(f"by {one_line(self['method'], 40)}")
        if "x" in self:
            parts.append(f"(n={np.size(self.get('vector', self['x']))})")
        ended = f", {one_line(self['reason'], 40)}" if "reason" in self else ""
        return " ".join(parts) + ended + ">"

    def __str__(self) -> str:
        lines = list(self._lines())
        if len(lines) > LINES:
            lines = [*lines[: LINES - 1], f"{'...':>10}  more: list(result) has all names"]
        return "\n".join(lines)

    def _lines(self) -> Iterator[str]:
        for name in self._names():
            label = f"{one_line(name, 24):>10}: "
            if name == "message":
                lines = textwrap.wrap(one_line(self[name], MESSAGE * WIDTH), WIDTH) or [""]
                yield label + lines[0]
                yield from (" " * len(label) + line for line in lines[1 : MESSAGE + 1])
            elif name == "x" and (point := point_of(self)) is not None:
                yield label + one_line(", ".join(point.lines(TABLE)), WIDTH)
            else:
                yield label + summary(name, self[name])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:right'>{escape(one_line(name, 24))}</th>"
            f"<td style='text-align:left'>{escape(one_line(text, 400))}</td></tr>"
            for name, text in self._table()
        )
        return f"<table>{rows}</table>"

    def _table(self) -> Iterator[tuple[str, str]]:
        """Yield name and text of the fields that matter; with a space, one row per variable."""
        for name in self._names():
            point = point_of(self) if name == "x" else None
            if point is not None:
                lines = point.lines(TABLE)
                yield "x", lines[0]
                yield from (("", line) for line in lines[1:])
                if (more := len(point.values) - len(point.fixed) - len(lines)) > 0:
                    yield "", f"and {more:,} more: result.x"
            elif name in SHOWN and self._matters(name):
                yield name, summary(name, self[name])

    def _matters(self, name: str) -> bool:
        """Return False for fields with their usual value: no failures, no warnings, a single run."""
        return bool(self[name]) if name in ("failures", "warnings") else name != "runs" or len(self[name]) > 1

    def _names(self) -> list[str]:
        """Return the keys, the most important ones first."""
        omitted = {"noise"} if not self.get("noise", {}).get("found", True) else set()
        middle = [name for name in self if name not in FIRST and name not in LATER]
        return [name for name in (*FIRST, *middle, *LATER) if name in self and name not in omitted]

    def __dir__(self) -> list[str]:
        return [*self.keys(), "importance", "plot", "save", "to_csv", "to_dict", "to_json"]


def names_of(result: Mapping[str, Any]) -> Any:
    """Return the space, tree or leaves that the coordinates of a result belong to; None without names."""
    if (leaves := result.get("leaves")) is not None:
        from lmma.space.description import Leaves

        return Leaves(leaves)
    return result.get("tree", result.get("space"))


def point_of(result: Mapping[str, Any]) -> Point | None:
    """Return the best point of a result with its names; None without a space."""
    names = names_of(result)
    if names is None or "vector" not in result:
        return None
    from lmma.space import Space
    from lmma.space.point import Point

    return Point.of(names, result["vector"], result["x"] if isinstance(names, Space) else None)


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Return ``text``, after writing it to ``path`` unless that is None."""
    if path is not None:
        from lmma._files import write_text

        write_text(Path(path), text)
    return text


def answer_of(result: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return evaluations, value and standard error of a noisy result; None without noise."""
    error = result.get("fun_error", math.nan)
    return (result["nfev"], result["fun"], error) if math.isfinite(error) else None


def summary(name: str, value: Any) -> str:
    """Return one field of a result as a single line."""
    if isinstance(value, np.ndarray):
        return vector(value)
    if isinstance(value, bool | np.bool_) or value is None:
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return _number(value)
    if isinstance(value, str):
        return one_line(value, MESSAGE * WIDTH if name == "message" else WIDTH)
    if name == "noise" and isinstance(value, Mapping):
        known = (f"{each} {v if isinstance(v, bool) else _number(v, 3)}" for each, v in value.items())
        return one_line(", ".join(known), WIDTH)
    if name == "history" and isinstance(value, Mapping):
        snapshots = max((len(column) for column in value.values()), default=0)
        return f"{snapshots:,} snapshots of {one_line(', '.join(map(str, value)), WIDTH - 24)}"
    if name in ("runs", "errors", "warnings") and isinstance(value, Sequence) and value:
        more = f" (the first of {len(value):,})" if len(value) > 1 else ""
        first = value[0]
        return one_line(first, WIDTH - len(more)) + more
    return one_line(shown(value), WIDTH)


def vector(x: Any) -> str:
    """Return an array on one line; the middle of a long one is omitted."""
    x = np.asarray(x)
    if x.ndim != 1:
        return f"array of shape {x.shape}"
    text = np.array2string(x, threshold=6, edgeitems=3, precision=6, max_line_width=10**6)
    return f"{one_line(text, WIDTH)}{f' (n = {len(x):,})' if len(x) > 6 else ''}"


def _number(value: Any, digits: int = 10) -> str:
    if not isinstance(value, int | float | np.number):
        return one_line(shown(value), WIDTH)
    return f"{value:.{digits}g}" if math.isfinite(value) else str(float(value))


# Construction


def final_result(
    state: RunState, stop: Stop, options: RunOptions, updates: Sequence[Update], warnings: list[str]
) -> RunResult:
    """Return the result of a run that ended with ``stop``, including the updates of finishers."""
    result = intermediate_result(state, options.space)
    result.update(
        success=succeeded(state, stop, options, updates),
        status=stop.ending.status,
        message=message(state, stop, options, updates),
        reason=stop.reason,
        errors=list(state.failures.errors),
        runs=state.single_runs(stop.reason, sum(update.evaluations for update in updates)),
        learned=Learned(state.strategy.active, state.start),
        warnings=warnings,
    )
    if (runs := result["runs"])[0].begin:
        result["parts"] = _parts(runs)
    if state.averaged is not None:
        from lmma.run.finishers.verdict import summary as summary_of_noise

        result["noise"] = summary_of_noise(state.strategy.noise, state.strategy.noise.found)
    for update in updates:
        if update.keeps_seen:
            result.setdefault("x_seen", result.x)
        if update.x is not None:
            result.update(**_point(update.x, options.space), fun=update.fun)
        result.update(update.fields)
    if state.recorder is not None:
        result["history"] = state.recorder.columns()
    return result


def _parts(runs: Sequence[SingleRun]) -> dict[str, int]:
    """Return the evaluations of each part of a portfolio; rivals and coordinates only if there were any."""
    slopes, looks = sum(run.by_slopes for run in runs), sum(run.by_looks for run in runs)
    more = {
        "rivals": sum(run.by_rivals for run in runs),
        "coordinates": sum(run.by_coordinates for run in runs),
    }
    ranks = sum(run.evaluations for run in runs) - slopes - looks - sum(more.values())
    found = {name: count for name, count in more.items() if count}
    return {"slopes": slopes, "ranks": ranks, "looks": looks, **found}


def intermediate_result(state: RunState, space: Space | Tree | None) -> RunResult:
    """Return the result so far: the state of the current strategy, and counts over all restarts."""
    counters, strategy = state.counters, state.strategy
    result = RunResult(strategy.result)
    result.update(
        fun=counters.best_fun,
        nfev=counters.evaluations,
        nit=counters.generation,
        failures=counters.failures,
        failed=UserDict(state.failures.failures),  # SciPy cannot print an empty dict
        late=counters.late,
        deaths=state.failures.deaths,
    )
    if counters.best_x is not None:
        result["x"] = counters.best_x.copy()
    result.update(_point(result.x, space))
    if state.averaged is not None and math.isfinite(strategy.average_fun):
        result.update(x_seen=result.x, fun_seen=counters.best_fun)
        level, x = state.averaged.best(strategy)
        result.update(fun=level, **_point(x, space))
    if counters.raw_at_best is not None:
        assert state.constraints is not None
        known = strategy.constraints
        result.update(
            fun=counters.fun_at_best,
            maxcv=counters.violation,
            constr=state.constraints.by_constraint(counters.raw_at_best.copy()),
            multipliers=state.constraints.multipliers(None if known is None else known.multipliers),
        )
    return result


def _point(x: Array, space: Space | Tree | None) -> dict[str, Any]:
    """Return the fields of a result for a point: with a space, values by name and the encoded vector.

    With a tree, ``x`` is a structure of views of the vector.
    """
    if space is None:
        return {"x": x}
    from lmma.space import Tree

    found = {"x": space.decode(x), "vector": x}
    return found | {"tree" if isinstance(space, Tree) else "space": space}


def succeeded(state: RunState, stop: Stop, options: RunOptions, updates: Sequence[Update] = ()) -> bool:
    """Return whether the run reached its target or, without a target, converged."""
    if _target_reached(options, updates):
        return True
    missed = _target_missed(stop, options, updates)
    return stop.ending.success and not missed and math.isfinite(state.counters.best_fun)


def message(
    state: RunState, stop: Stop, options: RunOptions, updates: Sequence[Update] = (), spell: Spell = in_python
) -> str:
    """Return the final message; ``spell`` writes the names of arguments."""
    counters, missed = state.counters, _target_missed(stop, options, updates)
    # The default tolerances are so small that smaller ones would not help to reach the target
    elsewhere = (
        missed and stop.advice and getattr(options, stop.reason) <= getattr(type(options), stop.reason)
    )
    sentences = [stop.message(spell, with_advice=not elsewhere)]
    if missed:
        advice = f"; set {spell('restarts', '=')} to search elsewhere" if elsewhere else ""
        sentences.append(
            f"The target {spell('ftarget', '')} = {options.ftarget:.6g} was not reached{advice}."
        )
    nothing_found = False
    if counters.raw_at_best is not None and math.isinf(counters.best_fun):
        assert state.constraints is not None
        which, violation = state.constraints.worst(counters.raw_at_best)
        sentences.append(
            f"No feasible point was found; x has the smallest violation, {violation:.3g}: {which}."
        )
    elif nothing_found := counters.evaluations > 0 and not math.isfinite(counters.best_fun):
        sentences.append("No evaluation returned a finite value.")
    sentences += [update.sentence for update in updates if update.sentence]
    if stop.ending.ties_may_explain and (often := _ties_sentence(state)):
        sentences.append(often)
    if (stop.ending.shows_first_error or nothing_found) and state.failures.errors:
        sentences.append(f"First failure: {str(state.failures.errors[0]).rstrip('.')}.")
    if state.finished:
        sentences.append(_restarts_sentence([run.begin for run in state.single_runs("")[1:]]))
    return " ".join(sentences)


def _restarts_sentence(begins: Sequence[str]) -> str:
    """Return the number of restarts; those of quasi-Newton are not among the ones that the user allowed."""
    by_slopes = begins.count("slopes")
    count = len(begins) - by_slopes
    text = "1 restart was made" if count == 1 else f"{count} restarts were made"
    return text + (
        f", and quasi-newton started from {plural(by_slopes, 'other point')}." if by_slopes else "."
    )


def _ties_sentence(state: RunState) -> str:
    """Return a hint on rounding if the best candidates were tied in at least 1% of the generations."""
    strategy = state.strategy
    constraints = strategy.constraints
    if constraints is not None and (constraints.by_ranks or not constraints.feasible):
        return ""  # constraints decide the ranks
    ties = strategy.convergence.ties.count
    if not ties or 100 * ties < strategy.generation:
        return ""
    source = "fun or float32" if strategy.dtype == np.float32 else "fun"
    return (
        f"In {ties} of {strategy.generation} generations the best candidates had equal values: {source} may "
        "have too few digits."
    )


def _target_missed(stop: Stop, options: RunOptions, updates: Sequence[Update]) -> bool:
    """Return whether a run with a target converged without reaching it."""
    converged = stop.ending.success and not stop.ending.target_reached
    return options.ftarget is not None and converged and not _target_reached(options, updates)


def _target_reached(options: RunOptions, updates: Sequence[Update]) -> bool:
    """Return whether a finisher reached the target."""
    target = options.ftarget
    return target is not None and any(update.exact and update.fun <= target for update in updates)


# Warm starts


class Learned:
    """The learned parameters of a strategy, for ``minimize(fun, result)``; part of every result.

    They are a reference to the strategy, not a copy: at n = 10^6 its vectors take hundreds of megabytes. A
    pickle contains only the learned parameters, without candidates.
    """

    def __init__(self, strategy: Strategy, start: tuple[Array, float | Array] | None = None) -> None:
        self.kind = type(strategy)
        self.start = start  # mean and steps, (n,) and of the coordinates that are not choices
        self.integers = _integers(strategy)
        self.size = (strategy.n, strategy.dtype)
        self.popsize = strategy.popsize
        self.options = strategy.options
        self.generation = strategy.generation
        self.scale = strategy.scale
        self.categories = None if strategy.choices is None else dict(strategy.choices.categories)
        self.first_scale = strategy.convergence.first_scale
        self.multipliers = _multipliers(strategy)
        self._strategy: Strategy | None = strategy
        self._parts: State = {}  # used without a strategy

    @property
    def strategy(self) -> Strategy | None:
        """The strategy itself; None after unpickling."""
        return self._strategy

    def __repr__(self) -> str:
        return f"<learned by {self.kind.name} in {self.generation} generations>"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_strategy": None, "_parts": self.parts()}

    def parts(self) -> State:
        """Return the learned parameters as named arrays and numbers, without copying."""
        return self._parts if self._strategy is None else _learned_by(self._strategy)

    def transfer_to(self, new: Strategy) -> bool:
        """Copy the learned parameters to ``new`` if its kind and size match; return whether they do."""
        if self.kind is not type(new) or self.size != (new.n, new.dtype):
            return False
        if self.categories != (None if new.choices is None else new.choices.categories):
            return False
        theirs, known = self.parts(), _learned_by(new)
        if theirs.keys() != known.keys() or any(np.shape(theirs[k]) != np.shape(known[k]) for k in known):
            return False  # another number of direction vectors, for instance
        new.set_state(new.get_state() | {name: theirs[name] for name in known})
        if self.scale is not None:  # steps per coordinate, applied after the learned transform
            new.scale = self.scale.copy()
        new.constraint_options = replace(new.constraint_options, multipliers=self.multipliers)
        # near the optimum, the first values do not show the scale of fun
        new.convergence.first_scale = self.first_scale
        return True


def _integers(strategy: Strategy) -> list[int]:
    """Return the integer coordinates."""
    if strategy.integers is None:
        return []
    columns = strategy.integers.columns
    found = columns if strategy.choices is None else strategy.choices.numbers[columns]
    return [int(column) for column in found]


def _multipliers(strategy: Strategy) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return gamma and mu of the augmented Lagrangian, one row each; None without one."""
    known = None if strategy.constraints is None else strategy.constraints.lagrangian
    return None if known is None else np.stack((known.gamma, known.mu))


def _learned_by(strategy: Strategy) -> State:
    """Return the learned state: that of the method and of choices, without counters and planned batches."""
    choices = {} if strategy.choices is None else strategy.choices.parts()
    return collect({**strategy.method.learned_parts(), **choices}, copy=False)


@dataclass(frozen=True)
class WarmStart:
    """The start of a run and, after an earlier run, its step size, learned parameters and method."""

    x0: Any
    sigma0: float | None = None
    learned: Learned | None = None
    method: str | None = None


def is_result(x0: Any) -> bool:
    """Return whether ``x0`` is an earlier result; one of a structure, loaded from a file, has no ``x``."""
    return hasattr(x0, "get") and (hasattr(x0, "x") or hasattr(x0, "vector"))


def warm_start(x0: Any) -> WarmStart:
    """Return the warm start from an earlier result; any other ``x0`` unchanged.

    The mean of the search is a better start than the best point, which is biased by selection. After
    restarts, the last search may not be the one that found x; then only x is used.
    """
    if not is_result(x0):
        return WarmStart(x0)
    learned = x0.get("learned")
    runs = x0.get("runs") or []
    if learned is None or (runs and min(run.best_fun for run in runs) < runs[-1].best_fun):
        return WarmStart(x0.get("vector", x0.get("x")))
    sigma = x0.get("sigma")
    return WarmStart(
        x0.get("mean", x0.get("x")), None if sigma is None else float(sigma), learned, x0.get("method")
    )
