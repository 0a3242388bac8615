"""Polishing of a smooth function by quasi-Newton steps, started where the search ended.

The search provides its best point and its metric; the quasi-Newton strategy of ``methods/quasi_newton.py``
continues from there. Its batches are evaluated by the same workers as those of the search.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma._text import one_line
from lmma.run.finishers import Update

if TYPE_CHECKING:
    from lmma.layers.bounds import Box
    from lmma.methods.quasi_newton import QuasiNewton
    from lmma.run.generation import Evaluation
    from lmma.run.options import RunOptions
    from lmma.run.state import RunState
    from lmma.run.stopping import Ending

Values = npt.NDArray[np.float64]

SHARE = 0.2  # of maxfevals, reserved for polishing
WITHOUT_LIMIT = 0.25  # of the evaluations of the search, if there is no maxfevals
NAME = "quasi-newton"


def check_polish(options: RunOptions, limits: dict[str, Any]) -> None:
    """Raise ValueError for options that polishing does not support."""
    if not options.polish:
        return
    discrete = limits.get("categories") or (
        limits.get("integrality") is not None and np.any(np.asarray(limits["integrality"]))
    )
    for given, what in (
        (discrete, "integer variables or choices"),
        (options.constraints is not None, "constraints"),
        (options.noise not in (None, "auto"), f"noise={options.noise!r}"),
        (options.common_random_numbers, "common_random_numbers=True"),
        (options.quorum < 1, f"quorum={options.quorum:g}, which drops values"),
    ):
        if given:
            raise ValueError(f"polish=True cannot be combined with {what}: remove one of them")


class _StopPolishing(Exception):
    """Raised to stop polishing: budget, time or target reached."""


def polish(
    state: RunState, evaluation: Evaluation, ending: Ending, options: RunOptions, box: Box | None
) -> Update | None:
    """Return the result of a quasi-Newton search started from the end of another search.

    Return None if the target is already reached or nothing more may be evaluated. Ctrl-C ends polishing with
    the best point so far, and so does an exception after a better point was found.
    """
    if ending.urgent or ending.target_reached or state.counters.best_x is None:
        return None
    work = _Polishing(state, evaluation, options, box)
    if (why := work.reason_not_to_polish()) is not None:
        return work.outcome(why)
    try:
        work.run()
    except _StopPolishing:
        pass
    except KeyboardInterrupt:
        if options.on_interrupt == "raise" or evaluation.interrupts.count > 1:
            raise
    except Exception as error:
        if not work.fun < work.before:
            raise
        return work.outcome(failed=one_line(f"{type(error).__name__}: {error}"))
    return work.outcome()


class _Polishing:
    """One polishing run: evaluates points, counts them, and keeps the best."""

    def __init__(self, state: RunState, evaluation: Evaluation, options: RunOptions, box: Box | None) -> None:
        self.counters, self.strategy, self.evaluation = state.counters, state.strategy, evaluation
        assert self.counters.best_x is not None
        self.key, self.box = state.key, box
        self.target = options.ftarget
        self.before = self.fun = self.counters.best_fun
        self.x: Values = self.counters.best_x.astype(np.float64)
        self.used = 0
        n, spent = len(self.x), self.counters.evaluations
        free = max(int(WITHOUT_LIMIT * spent), 20 * (2 * n + 1))
        self.budget = free if options.maxfevals is None else options.maxfevals - spent
        left = math.inf if options.maxtime is None else options.maxtime - self.counters.seconds
        self._end = time.monotonic() + left

    def reason_not_to_polish(self) -> str | None:
        """Return why the function cannot be polished, or None; needs one evaluation."""
        if self.counters.raw_at_best is not None:
            return "fun returns constraints"
        if self.budget < 2 * len(self.x) + 2:
            return f"the {self.budget:,} remaining evaluations are too few for one gradient"
        try:
            repeated = float(self._values(self.x[np.newaxis])[0])
        except (_StopPolishing, KeyboardInterrupt):
            return "the run was stopped"
        if repeated != self.before and not math.isclose(repeated, self.before, rel_tol=1e-13):
            return f"values differ between calls, {self.before:.10g} and {repeated:.10g}"
        return None

    def outcome(self, refused: str = "", failed: str = "") -> Update:
        """Return the update; ``refused`` is the reason if the function was not polished.

        ``failed`` is the error that ended polishing after it had found a better point.
        """
        calls = f"in {self.used:,} evaluations"
        if refused:
            text = f"Not polished: {refused}."
        elif self.fun < self.before:
            text = f"Polished by {NAME} {calls}: fun fell from {self.before:.6g} to {self.fun:.6g}."
        else:
            text = f"Polishing by {NAME} found no better point {calls}."
        text += f" Then polishing failed: {failed}." if failed else ""
        summary = {
            "before": self.before, "fun": self.fun, "gained": self.before - self.fun, "nfev": self.used,
            "method": NAME, "refused": refused,
        }  # fmt: skip
        return Update(text, self.x, self.fun, {"polish": summary}, exact=True, evaluations=self.used)

    def run(self) -> None:
        """Continue until quasi-Newton ends or the budget is used."""
        search = self._search()
        while not search.stop():
            search.tell(self._values(np.asarray(search.ask())))

    def _search(self) -> QuasiNewton:
        """Return a quasi-Newton search at the best point, in the metric of the search if it has one."""
        from lmma.methods.quasi_newton import MATRIX_UP_TO, QuasiNewton

        n = len(self.x)
        metric = self.strategy.method.metric() if n <= MATRIX_UP_TO else None
        scale = self.strategy.scale
        known = scale is not None and np.size(scale) == n
        steps = float(self.strategy.sigma) * (np.asarray(scale, dtype=np.float64) if known else np.ones(n))
        bounds = None
        if self.box is not None:
            bounds = np.column_stack((self.box.lower, self.box.upper)).astype(np.float64)
        search = QuasiNewton(
            self.x, np.maximum(steps, np.finfo(np.float64).tiny), bounds=bounds, rng=self.key,
            dtype=self.strategy.dtype,
        )  # fmt: skip
        if metric is None:
            search.method.begin_at(self.fun)
        else:
            search.method.begin_from(metric, self.fun)
        return search

    def _values(self, rows: npt.NDArray[Any]) -> Values:
        """Return the values of rows, evaluated in batches of ``popsize``, and keep the best."""
        found, size = np.empty(len(rows)), self.strategy.popsize
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            if self.used + len(some) > self.budget or time.monotonic() > self._end:
                raise _StopPolishing
            values = self.evaluation(self.strategy, some)
            self.used += len(some)
            self.counters.count(values, None)
            found[first : first + size] = values
            if np.isfinite(values).any() and np.nanmin(values) < self.fun:
                best = int(np.nanargmin(values))
                self.x, self.fun = some[best].copy(), float(values[best])
            if self.target is not None and self.fun <= self.target:
                raise _StopPolishing
        return found
