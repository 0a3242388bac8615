"""Polishing of a smooth function with SciPy's quasi-Newton methods, started where the search ended.

The search provides its best point and its metric C = L L^T. BFGS then optimises u, with x = best + L u: in
these coordinates a well-learned function is nearly a sphere. With bounds, L is diagonal and L-BFGS-B keeps
them. Slopes are central differences, evaluated in batches by the same workers as generations.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma._text import one_line
from lmma.run.finishers import Update

if TYPE_CHECKING:
    from lmma.layers.bounds import Box
    from lmma.run.generation import Evaluation
    from lmma.run.options import RunOptions
    from lmma.run.state import RunState
    from lmma.run.stopping import Ending

Values = npt.NDArray[np.float64]

SHARE = 0.2  # of maxfevals, reserved for polishing
WITHOUT_LIMIT = 0.25  # of the evaluations of the search, if there is no maxfevals
DENSE_UP_TO = 1000  # variables for which L is a full matrix
RISE = 1e-10  # relative change of fun for a step of the finite differences
FACTOR = 8.0  # for increasing or reducing that step
TRIALS = 25


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
        (options.dtype != "float64", f"dtype={options.dtype!r}, which is too coarse for finite differences"),
        (options.quorum < 1, f"quorum={options.quorum:g}, which drops values"),
    ):
        if given:
            raise ValueError(f"polish=True cannot be combined with {what}: remove one of them")


class _StopPolishing(Exception):
    """Raised to stop polishing: budget, time or target reached, or values not finite."""


def polish(
    state: RunState, evaluation: Evaluation, ending: Ending, options: RunOptions, box: Box | None
) -> Update | None:
    """Return the result of a quasi-Newton method started from the end of a search.

    Return None if the target is already reached or nothing more may be evaluated. Ctrl-C ends polishing with
    the best point so far, and so does an exception after a better point was found.
    """
    if ending.urgent or ending.target_reached or state.counters.best_x is None:
        return None
    work = _Polishing(state, evaluation, options, box)
    if (why := work.reason_not_to_polish()) is not None:
        return work.outcome(why)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from SciPy, about line searches limited by rounding
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
        self.target = options.ftarget
        self.before = self.fun = self.counters.best_fun
        self.x: Values = self.counters.best_x.astype(np.float64)
        self.used = 0
        n, spent = len(self.x), self.counters.evaluations
        free = max(int(WITHOUT_LIMIT * spent), 20 * (2 * n + 1))
        self.budget = free if options.maxfevals is None else options.maxfevals - spent
        left = math.inf if options.maxtime is None else options.maxtime - self.counters.seconds
        self._end = time.monotonic() + left
        bounded = box is not None and box.finite
        self.lower = box.lower.astype(float) if box is not None and bounded else np.full(n, -np.inf)
        self.upper = box.upper.astype(float) if box is not None and bounded else np.full(n, np.inf)
        self.bounded = bounded
        self.method = "L-BFGS-B" if bounded or n > DENSE_UP_TO else "BFGS"

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
            text = f"Polished by {self.method} {calls}: fun fell from {self.before:.6g} to {self.fun:.6g}."
        else:
            text = f"Polishing by {self.method} found no better point {calls}."
        text += f" Then polishing failed: {failed}." if failed else ""
        summary = {
            "before": self.before, "fun": self.fun, "gained": self.before - self.fun, "nfev": self.used,
            "method": self.method, "refused": refused,
        }  # fmt: skip
        return Update(text, self.x, self.fun, {"polish": summary}, exact=True, evaluations=self.used)

    # Evaluations

    def _values(self, rows: Values) -> Values:
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

    # From u to x and back

    def run(self) -> None:
        """Polish until there is no improvement or the budget is used."""
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
            block = max(1, self.strategy.popsize // 2)
            for first in range(0, n, block):
                some = np.arange(first, min(n, first + block))
                moved = np.repeat(u[np.newaxis], 2 * len(some), axis=0)
                moved[np.arange(len(some)), some] += step
                moved[len(some) + np.arange(len(some)), some] -= step
                points = np.array([at(row) for row in moved])
                up, down = np.split(self._values(points), 2)
                if not np.isfinite(up - down).all():
                    raise _StopPolishing
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
        # scaled because L-BFGS-B uses the slope itself as its first step
        unit = math.sqrt(curvature)
        minimize(
            lambda v: value(v / unit), np.zeros(n), jac=lambda v: slopes(v / unit) / unit, method="L-BFGS-B",
            bounds=None if limits is None else [(low * unit, high * unit) for low, high in limits],
            options={"ftol": 0.0, "gtol": 0.0, "maxfun": 10**9, "maxiter": 10**9, "maxcor": 20},
        )  # fmt: skip

    def _axes(self) -> Values:
        """Return L, or only its diagonal: the learned metric with the final step lengths of the search."""
        n, metric = len(self.x), self.strategy.result.hess_inv
        if metric is None or n > DENSE_UP_TO:
            scale = self.strategy.scale
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
        """Return the finite-difference step in u, which changes fun by ``RISE``, and the curvature."""
        n = len(self.x)
        # a fixed direction keeps polishing deterministic
        direction = np.where(np.arange(n) % 2, -1.0, 1.0)
        step, middle = float(self.strategy.sigma), self.fun
        for _ in range(TRIALS):
            up, down = self._values(np.array([at(step * direction), at(-step * direction)])).tolist()
            rise = (up + down - 2 * middle) / 2
            size = RISE * max(abs(middle), abs(up), abs(down))
            if not math.isfinite(rise) or rise > 1e4 * n * size:
                step /= FACTOR
            elif rise <= n * size:  # both are 0 on a plateau of value 0
                step *= FACTOR
            else:
                return step, 2 * rise / (n * step**2)
        raise _StopPolishing
