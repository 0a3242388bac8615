"""One call with good defaults."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.defaults import choose_method, default_sigma0
from lmma.strategies import Strategy, methods, strategy_class
from lmma.strategies.arguments import checked_x0, nearest
from lmma.strategies.es import ES

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.bounds import Box
    from lmma.checkpoint import Checkpoint
    from lmma.evaluation.base import OnError
    from lmma.kernels import Key
    from lmma.restarts import Schedule


def minimize(
    fun: Callable[..., Any],
    x0: npt.ArrayLike | OptimizeResult,
    sigma0: float | npt.ArrayLike | None = None,
    *,
    args: tuple[Any, ...] = (),
    method: str = "auto",
    bounds: Any = None,
    boundary: str = "smooth",
    popsize: int | None = None,
    rng: Any = None,
    seed: int | None = None,
    maxfevals: int | None = None,
    maxiter: int | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolx: float = 1e-11,
    tolfun: float = 1e-11,
    stagnation: bool = True,
    restarts: int | str | Schedule = 0,
    inject: npt.ArrayLike | None = None,
    vectorized: bool = False,
    workers: Any = 1,
    timeout: float | None = None,
    quorum: float = 1.0,
    on_error: OnError = "worst",
    callback: Callable[..., Any] | None = None,
    checkpoint: Any = None,
    history: bool | int = False,
    log: Any = None,
    progress: bool = False,
    dtype: npt.DTypeLike = "float64",
    **options: Any,
) -> OptimizeResult:
    """Minimise a function of many variables without its gradient.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> float``; with ``vectorized=True``, ``fun(X, *args) -> (rows,)`` for rows X.
    x0 : array_like, (n,), or OptimizeResult
        Where the search starts. An earlier result also hands over its step size and learned transform.
    sigma0 : float or array_like, (n,), optional
        Initial step size, about a third of the distance to the optimum you expect; one number or one
        for each coordinate. By default 0.3 times the larger of 1 and the root mean square of ``x0``, at
        most a third of the box if there are bounds.
    args : tuple
        Further arguments of ``fun``.
    method : str
        One of :func:`lmma.methods`, or ``"auto"``, see :func:`choose_method`.
    bounds : Bounds, list of (low, high), or [low, high], optional
        A box no evaluation leaves; None or infinity for no bound, low == high fixes a coordinate.
    boundary : {"reflect", "smooth", "project"}
        How the box is kept, see :mod:`lmma.bounds`.
    popsize : int, optional
        Candidates a generation.
    rng, seed : None, int, SeedSequence or Generator
        Source of randomness; the same seed gives the same run. The two names mean the same.
    maxfevals, maxiter, maxtime : optional
        Budgets over all restarts: evaluations (never exceeded), generations, seconds.
    ftarget : float, optional
        Stop as soon as a generation has reached this value.
    tolx, tolfun : float
        Stop when steps in x, or the recent values of fun, vary by less; 0 switches a rule off.
    stagnation : bool
        Stop when half of the run has brought no progress.
    restarts : int, str or Schedule
        How often to start again after convergence or stagnation, each time with twice the population
        (a number or ``"ipop"``), or with large and small ones in turn (``"bipop"``, ``"bipop:5"``).
    inject : array_like, (n,) or (rows, n), optional
        Points known to be good, evaluated in the first generation.
    vectorized : bool
        Whether ``fun`` takes a whole generation, one candidate a row.
    workers : int, callable or Executor
        Evaluate in that many processes (-1: one a core), through a map-like callable, or through
        anything with ``submit``.
    timeout : float, optional
        Seconds after which an evaluation is given up and counts as failed.
    quorum : float
        Share of a generation that is waited for; later results are dropped. Below 1 a run depends on time.
    on_error : {"worst", "raise", "resample"}
        What a failed evaluation (an exception, NaN, infinity, a time-out) means: the candidate ranks last,
        the run ends with it, or another candidate is drawn in its place.
    callback : callable, optional
        Called after each generation with the best x so far, or, if its only parameter is named
        ``intermediate_result``, with an ``OptimizeResult``. ``StopIteration`` or a returned True ends
        the run.
    checkpoint : str, Path or Checkpoint, optional
        File the run is saved in now and then. If it is there already, the run goes on from it, to the same
        end as without the interruption; budgets may have changed.
    history : bool or int
        Keep a record of at most that many snapshots (True: 1000) in ``result.history``.
    log : str or Path, optional
        File for records of the run as JSON lines.
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
        metric as a LinearOperator), ``failures`` (how many evaluations failed), ``failed`` (by kind),
        ``errors`` (the first few of them), ``late`` and ``deaths`` (of workers), ``legs`` (the runs between
        restarts), ``learned`` (for a warm start) and ``warnings``.
    """
    # Imported here, as `import lmma` is to cost little where strategies alone are used
    from lmma.bounds import box as make_box
    from lmma.evaluation import evaluator
    from lmma.history import JsonLog, Recorder
    from lmma.outcome import conduct, resume
    from lmma.restarts import schedule as make_schedule
    from lmma.session import Session
    from lmma.stopping import Limits
    from lmma.warm import warm_start

    if not callable(fun):
        raise TypeError(f"fun must be callable, got {fun!r}")
    if seed is not None:
        if rng is not None:
            raise ValueError("pass rng or seed, not both: they mean the same")
        rng = seed
    if not isinstance(args, tuple):
        args = (args,)
    limits = Limits(maxfevals, maxiter, maxtime, ftarget)
    schedule = make_schedule(restarts)
    saved = _checkpoint(checkpoint)
    x0, warm_sigma, learned, warm_method = warm_start(x0)
    start = checked_x0(x0, np.float64)
    if method == "auto":
        method = warm_method or choose_method(len(start), popsize=popsize)
    cls = strategy_class(method)
    _suggest_for_misspelt(cls, options)
    if on_error == "resample" and not issubclass(cls, ES):
        raise ValueError(f"{method} cannot draw single candidates anew: use on_error='worst'")
    box = make_box(bounds, start, boundary=boundary, dtype=dtype)
    step = sigma0 if sigma0 is not None else warm_sigma or default_sigma0(start, box)

    def make(x: Any, sigma: Any, size: int | None, key: Key | None) -> Strategy:
        es = cls(
            x, sigma, popsize=size, rng=rng if key is None else 0, dtype=dtype, tolx=tolx, tolfun=tolfun,
            **options,
        )  # fmt: skip
        if key is not None:
            es._take_key(key)
        return es

    first = make(start if box is None else box.outside(start), step, popsize, None)
    limits.refuse_less_than_a_generation(first.popsize)
    if learned is not None:
        learned.teach(first)
    if inject is not None:
        _inject(first, inject, box)
    session = Session(
        first, make, start, step,
        evaluate=evaluator(
            fun, args, on_error, workers=workers, vectorized=vectorized, timeout=timeout, quorum=quorum
        ),
        limits=limits, box=box, schedule=schedule, stagnation=stagnation,
        recorder=Recorder(1000 if history is True else history) if history else None,
        identity=None if saved is None else _identity(fun, first, start, step, box, options),
    )  # fmt: skip
    resumed = saved is not None and saved.file.exists()
    if saved is not None and resumed:
        resume(session, saved, any_key=rng is None)
    records = None if log is None else JsonLog(log, after=session.tally.evaluations if resumed else None)
    return conduct(session, saved=saved, log=records, progress=progress, callback=callback)


def _checkpoint(given: Any) -> Checkpoint | None:
    if given is None:
        return None
    from lmma.checkpoint import Checkpoint

    return Checkpoint(given) if isinstance(given, str | os.PathLike) else given


def _identity(
    fun: Any, first: Strategy, start: Any, step: Any, box: Box | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return what must be the same for a checkpoint to be continued."""
    from lmma.fingerprint import digest_of, name_of

    return {
        "fun": name_of(fun),
        "method": first.name,
        "n": first.n,
        "popsize": first.popsize,
        "dtype": first.dtype.name,
        "options": repr(sorted(options.items())),
        "boundary": None if box is None else box.name,
        "bounds (digest)": None if box is None else digest_of(box.lower, box.upper),
        "x0 or sigma0 (digest)": digest_of(start, step),
    }


def _inject(first: Strategy, points: npt.ArrayLike, box: Box | None) -> None:
    if not isinstance(first, ES):
        raise ValueError(f"{first.name} takes no injected points: leave inject out")
    rows = np.atleast_2d(np.asarray(points, dtype=first.dtype))
    if box is not None and rows.shape[-1] == first.n:
        if np.any((rows < box.lower) | (rows > box.upper)):
            raise ValueError("inject must lie within bounds")
        rows = np.array([box.outside(row) for row in rows])
    first.inject(rows)


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


__all__ = ["choose_method", "default_sigma0", "methods", "minimize"]
