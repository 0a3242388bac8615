"""The last digits of a smooth function: SciPy's quasi-Newton methods, begun where a search has ended.

The search hands over its best point and its metric C = L L^T. BFGS then works on u, x = best + L u, in which
a well-learned function is nearly a sphere; inside a box L is diagonal and L-BFGS-B keeps the bounds. Slopes
are central differences, evaluated as generations are: by the same workers, many at a time.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.run.noise import IN_A_HURRY, evaluator_of_points

if TYPE_CHECKING:
    from lmma.run.options import RunOptions
    from lmma.run.run import Run

Values = npt.NDArray[np.float64]

SHARE = 0.2  # of maxfevals that the search leaves
WITHOUT_LIMIT = 0.25  # of the evaluations of the search, where there is no maxfevals
DENSE_UP_TO = 1000  # variables for which L is made
RISE = 1e-10  # by this share of its value, or a little more, a step of the differences changes fun
FACTOR = 8.0  # by which that step is lengthened or shortened until it does
TRIALS = 25


def check_polish(options: RunOptions, limits: dict[str, Any]) -> None:
    """Raise ValueError where a quasi-Newton method cannot work."""
    if not options.polish:
        return
    discrete = limits.get("categories") or (
        limits.get("integrality") is not None and np.any(np.asarray(limits["integrality"]))
    )
    for wrong, why in (
        (discrete, "integer variables or choices have no slopes"),
        (options.constraints is not None, "constraints are not known to the method that polishes"),
        (options.noise is not None, f"noise={options.noise!r} means values that differ from call to call"),
        (options.common_random_numbers, "common_random_numbers means values that differ from call to call"),
        (options.dtype != "float64", f"finite differences need all digits, dtype={options.dtype!r} has few"),
        (options.quorum < 1, f"quorum={options.quorum:g} leaves values out"),
    ):
        if wrong:
            raise ValueError(f"polish=True cannot be had here: {why}; drop one of them")


def left_for_polishing(options: RunOptions) -> int:
    """Return how many evaluations of the budget the search leaves."""
    return int(SHARE * options.maxfevals) if options.polish and options.maxfevals is not None else 0


@dataclass(frozen=True)
class Polished:
    """What polishing came to: a better point, or the old one."""

    x: Values
    fun: float
    before: float
    evaluations: int
    method: str
    refused: str = ""  # why it was not done

    def words(self) -> str:
        """Return it as a sentence."""
        if self.refused:
            return f"Not polished: {self.refused}."
        calls = f"in {self.evaluations:,} evaluations"
        if self.fun < self.before:
            return f"Polished by {self.method} {calls}: fun fell from {self.before:.6g} to {self.fun:.6g}."
        return f"Polishing by {self.method} found nothing better {calls}."

    def summary(self) -> dict[str, Any]:
        """Return ``result.polish``."""
        return {
            "before": self.before, "fun": self.fun, "gained": self.before - self.fun,
            "nfev": self.evaluations, "method": self.method, "refused": self.refused,
        }  # fmt: skip


class _Enough(Exception):
    """Nothing more is to be evaluated."""


def polish(run: Run, reason: str) -> Polished | None:
    """Return what a quasi-Newton method makes of the end of a search; None where nobody asked for it.

    Nothing is done after a target is reached, or in a hurry. The checkpoint has been written before: a run
    that goes on from it is polished again, to the same end.
    """
    if not run.options.polish or reason in (*IN_A_HURRY, "ftarget") or run.counters.best_x is None:
        return None
    work = _Polishing(run)
    if (why := work.unfit()) is not None:
        return work.outcome(why)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's, about line searches that end at the last digit
            work.go()
    except _Enough:
        pass
    except KeyboardInterrupt:
        if run.options.on_interrupt == "raise" or run.interrupts.count > 1:
            raise
    finally:
        work.close()
    return work.outcome()


class _Polishing:
    """Evaluates for a quasi-Newton method, counts, and keeps the best."""

    def __init__(self, run: Run) -> None:
        counters, options = run.counters, run.options
        assert counters.best_x is not None
        self.run = run
        self.before = counters.best_fun
        self.x: Values = counters.best_x.astype(np.float64)
        self.fun = counters.best_fun
        self.used = 0
        self.evaluate = evaluator_of_points(run)
        n, spent = len(self.x), counters.evaluations
        free = max(int(WITHOUT_LIMIT * spent), 20 * (2 * n + 1))
        self.budget = free if options.maxfevals is None else options.maxfevals - spent
        left = math.inf if options.maxtime is None else options.maxtime - counters.seconds
        self._end = time.monotonic() + left
        box = run.setup.box
        bounded = box is not None and box.finite
        self.lower = box.lower.astype(float) if box is not None and bounded else np.full(n, -np.inf)
        self.upper = box.upper.astype(float) if box is not None and bounded else np.full(n, np.inf)
        self.bounded = bounded
        self.method = "L-BFGS-B" if bounded or n > DENSE_UP_TO else "BFGS"

    def unfit(self) -> str | None:
        """Return why the function cannot be polished, if so: looked at with one evaluation."""
        if self.run.counters.raw_at_best is not None:
            return "fun returns constraints"
        if self.budget < 2 * len(self.x) + 2:
            return f"{self.budget:,} evaluations are left, fewer than one gradient takes"
        try:
            again = float(self._values(self.x[np.newaxis])[0])
        except (_Enough, KeyboardInterrupt):
            return "the run was stopped"
        if again != self.before and not math.isclose(again, self.before, rel_tol=1e-13):
            return f"values differ from call to call, {self.before:.10g} and {again:.10g}"
        return None

    def outcome(self, refused: str = "") -> Polished:
        """Return what it came to."""
        return Polished(self.x, self.fun, self.before, self.used, self.method, refused)

    def close(self) -> None:
        """Let go of an evaluator that was made for this alone."""
        if self.evaluate is not self.run.evaluate:
            self.evaluate.close()

    # Evaluations

    def _values(self, rows: Values) -> Values:
        """Return the values of rows, a generation at a time, and keep the best."""
        found, size = np.empty(len(rows)), self.run.strategy.popsize
        target = self.run.options.ftarget
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            if self.used + len(some) > self.budget or time.monotonic() > self._end:
                raise _Enough
            values = self.run.interrupts.cut_short(self.evaluate, some)
            self.used += len(some)
            self.run.counters.count(values, None)
            found[first : first + size] = values
            if np.isfinite(values).any() and np.nanmin(values) < self.fun:
                best = int(np.nanargmin(values))
                self.x, self.fun = some[best].copy(), float(values[best])
            if target is not None and self.fun <= target:
                raise _Enough
        return found

    # From u to x and back

    def go(self) -> None:
        """Polish until nothing is gained or the evaluations are spent."""
        from scipy.optimize import minimize

        origin = self.x.copy()
        axes = self._axes()
        n = len(origin)

        def at(u: Values) -> Values:
            moved = origin + (axes @ u if axes.ndim == 2 else axes * u)
            return np.asarray(np.clip(moved, self.lower, self.upper))

        def value(u: Values) -> float:
            found = float(self._values(at(u)[np.newaxis])[0])
            return found if math.isfinite(found) else math.inf

        step, curvature = self._step(at)

        def slopes(u: Values) -> Values:
            found = np.empty(n)
            block = max(1, self.run.strategy.popsize // 2)
            for first in range(0, n, block):
                some = np.arange(first, min(n, first + block))
                moved = np.repeat(u[np.newaxis], 2 * len(some), axis=0)
                moved[np.arange(len(some)), some] += step
                moved[len(some) + np.arange(len(some)), some] -= step
                points = np.array([at(row) for row in moved])
                up, down = np.split(self._values(points), 2)
                if not np.isfinite(up - down).all():
                    raise _Enough
                apart = np.full(len(some), 2 * step)
                if self.bounded:  # at a bound the difference is one-sided
                    right, left = np.split(points, 2)
                    apart = (right - left)[np.arange(len(some)), some] / axes[some]
                found[some] = np.where(apart > 0, (up - down) / np.where(apart > 0, apart, 1.0), 0.0)
            return found

        if self.method == "BFGS":
            options: dict[str, Any] = {"gtol": 0.0, "hess_inv0": np.eye(n) / curvature}
            minimize(value, np.zeros(n), jac=slopes, method="BFGS", options=options)
            return
        limits = None
        if self.bounded:
            limits = list(zip((self.lower - origin) / axes, (self.upper - origin) / axes, strict=True))
        # in units of the first step: L-BFGS-B begins with the slope itself as its step
        unit = math.sqrt(curvature)
        minimize(
            lambda v: value(v / unit), np.zeros(n), jac=lambda v: slopes(v / unit) / unit, method="L-BFGS-B",
            bounds=None if limits is None else [(low * unit, high * unit) for low, high in limits],
            options={"ftol": 0.0, "gtol": 0.0, "maxfun": 10**9, "maxiter": 10**9, "maxcor": 20},
        )  # fmt: skip

    def _axes(self) -> Values:
        """Return L, or its diagonal alone: the learned metric, as long as the last steps of the search."""
        strategy, n = self.run.strategy, len(self.x)
        metric = self.run.strategy.result.hess_inv
        if metric is None or n > DENSE_UP_TO:
            scale = getattr(strategy, "scale", None)
            return np.ones(n) if scale is None or np.size(scale) != n else np.asarray(scale, dtype=np.float64)
        covariance = np.asarray(metric @ np.eye(n), dtype=np.float64)
        covariance = (covariance + covariance.T) / 2
        diagonal = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
        if self.bounded:
            return np.asarray(diagonal)
        try:
            return np.asarray(np.linalg.cholesky(covariance))
        except np.linalg.LinAlgError:
            return np.diag(diagonal)

    def _step(self, at: Any) -> tuple[float, float]:
        """Return the step of the differences in u, by which fun rises by a small share, and the curvature."""
        n = len(self.x)
        # a fixed direction: the same run is polished in the same way
        direction = np.where(np.arange(n) % 2, -1.0, 1.0)
        step, middle = float(self.run.strategy.sigma), self.fun
        for _ in range(TRIALS):
            up, down = self._values(np.array([at(step * direction), at(-step * direction)])).tolist()
            rise = (up + down - 2 * middle) / 2
            size = RISE * max(abs(middle), abs(up), abs(down))
            if not math.isfinite(rise) or rise > 1e4 * n * size:
                step /= FACTOR
            elif rise < n * size:
                step *= FACTOR
            else:
                return step, 2 * rise / (n * step**2)
        raise _Enough
