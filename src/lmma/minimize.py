"""One call with good defaults."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.evaluation import Evaluator, Serial, Vectorized
from lmma.history import Observer, Progress, ProgressLine
from lmma.loop import run
from lmma.stopping import Limits, Stop, describe
from lmma.strategies import Strategy, methods, strategy_class
from lmma.strategies.arguments import checked_x0, nearest
from lmma.strategies.memory import available_memory
from lmma.strategies.recombination import default_popsize

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

# Up to here a full matrix needs fewer evaluations than O(log n) vectors on ill-conditioned functions.
FULL_MATRIX_UP_TO = 1000


def minimize(
    fun: Callable[..., Any],
    x0: npt.ArrayLike,
    sigma0: float | npt.ArrayLike | None = None,
    *,
    args: tuple[Any, ...] = (),
    method: str = "auto",
    popsize: int | None = None,
    rng: Any = None,
    seed: int | None = None,
    maxfevals: int | None = None,
    maxiter: int | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolx: float = 1e-11,
    tolfun: float = 1e-11,
    vectorized: bool = False,
    on_error: Any = "worst",
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    dtype: npt.DTypeLike = "float64",
    **options: Any,
) -> OptimizeResult:
    """Minimise a function of many variables without its gradient.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> float``; with ``vectorized=True``, ``fun(X, *args) -> (rows,)`` for rows X.
    x0 : array_like, (n,)
        Where the search starts.
    sigma0 : float or array_like, (n,), optional
        Initial step size, about a third of the distance to the optimum you expect; one number or one
        for each coordinate. By default 0.3 times the larger of 1 and the root mean square of ``x0``.
    args : tuple
        Further arguments of ``fun``.
    method : str
        One of :func:`lmma.methods`, or ``"auto"``, see :func:`choose_method`.
    popsize : int, optional
        Candidates a generation.
    rng, seed : None, int, SeedSequence or Generator
        Source of randomness; the same seed gives the same run. The two names mean the same.
    maxfevals, maxiter, maxtime : optional
        Budgets: evaluations (never exceeded), generations, seconds.
    ftarget : float, optional
        Stop as soon as a generation has reached this value.
    tolx, tolfun : float
        Stop when steps in x, or the recent values of fun, vary by less; 0 switches a rule off.
    vectorized : bool
        Whether ``fun`` takes a whole generation, one candidate a row.
    on_error : {"worst", "raise"}
        What an exception in ``fun`` means: the candidate ranks last, or the run ends with it.
    callback : callable, optional
        Called after each generation with the best x so far, or, if its only parameter is named
        ``intermediate_result``, with an ``OptimizeResult``. ``StopIteration`` or a returned True ends
        the run.
    progress : bool
        Show a line of progress on standard error.
    dtype : {"float64", "float32"}
        Precision of the candidates and the state.
    **options
        Constants of the method, such as ``m`` for ``"lm-ma-es"``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x``, ``fun``, ``nfev``, ``nit``, ``success``, ``status``, ``message`` as SciPy has them;
        also ``reason`` (the stopping rule), ``method``, ``sigma``, ``mean``, ``hess_inv`` (the learned
        metric as a LinearOperator), ``failures`` (how many evaluations failed) and ``errors`` (the first
        few of them).
    """
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {fun!r}")
    if seed is not None:
        if rng is not None:
            raise ValueError("pass rng or seed, not both: they mean the same")
        rng = seed
    if not isinstance(args, tuple):
        args = (args,)
    limits = Limits(maxfevals, maxiter, maxtime, ftarget)
    start = checked_x0(x0, np.float64)
    if method == "auto":
        method = choose_method(len(start), popsize=popsize)
    cls = strategy_class(method)
    _suggest_for_misspelt(cls, options)
    es = cls(
        start, default_sigma0(start) if sigma0 is None else sigma0, popsize=popsize, rng=rng, dtype=dtype,
        tolx=tolx, tolfun=tolfun, **options,
    )  # fmt: skip
    limits.refuse_less_than_a_generation(es.popsize)
    evaluate = (Vectorized if vectorized else Serial)(fun, args, on_error)

    observers: list[Observer] = []
    line = ProgressLine(maxfevals) if progress else None
    if line is not None:
        observers.append(line)
    if callback is not None:
        observers.append(_calls_back(callback, es))
    try:
        stop = run(es, evaluate, limits, observers)
    finally:
        if line is not None:
            line.close()
    return finish(es, evaluate, stop, ftarget)


def finish(es: Strategy, evaluate: Evaluator, stop: Stop, ftarget: float | None) -> OptimizeResult:
    """Return the result of a run that ended for the reason ``stop``."""
    result = es.result
    result.update(describe(stop, ftarget))
    if not math.isfinite(es.best_fun):
        result["success"] = False
        result["message"] += " No evaluation gave a finite value."
    result["reason"] = stop.reason
    result["errors"] = list(evaluate.errors)
    return result


def choose_method(n: int, *, popsize: int | None = None) -> str:
    """Return what ``method="auto"`` means for ``n`` variables on this machine.

    ``"dd-ma-es"`` up to n = 1000 if its matrices fit in half of the free memory: it learns
    scales of coordinates quickly and rotated functions as well. ``"d-lm-ma-es"`` beyond: about the cost of
    ``"lm-ma-es"``, and far fewer evaluations where coordinates mean something (docs/research.md).
    """
    there = available_memory()
    needed = strategy_class("dd-ma-es").memory(n, popsize or default_popsize(n))
    fits = there is None or needed < there / 2
    return "dd-ma-es" if n <= FULL_MATRIX_UP_TO and fits else "d-lm-ma-es"


def default_sigma0(x0: npt.NDArray[np.floating]) -> float:
    """Return the step size for a user who knows none: 0.3 times the larger of 1 and the scale of x0."""
    return 0.3 * max(1.0, math.sqrt(float(np.mean(np.square(x0)))))


def _calls_back(callback: Callable[..., Any], es: Strategy) -> Observer:
    """Return an observer that calls ``callback`` as SciPy would."""
    try:
        wants_result = list(inspect.signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):  # a builtin without a signature
        wants_result = False

    def observe(progress: Progress) -> None:
        if wants_result:
            answer = callback(intermediate_result=es.result)
        else:
            answer = callback(es.best_x.copy())
        if answer is True:
            raise StopIteration

    return observe


def _suggest_for_misspelt(cls: type[Strategy], options: dict[str, Any]) -> None:
    """Raise TypeError for an option that is near an argument of ``minimize``, naming it."""
    known = [name for name in inspect.signature(minimize).parameters if name != "options"]
    own = list(inspect.signature(cls.define).parameters)[2:] if hasattr(cls, "define") else []
    for option in options:
        if option not in own:
            raise TypeError(
                f"unknown option {option!r} for method {cls.name!r}{nearest(option, known + own)}; "
                f"{cls.name} takes {', '.join(own)}"
            )


__all__ = ["choose_method", "default_sigma0", "finish", "methods", "minimize"]
