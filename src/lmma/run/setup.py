"""From the arguments of ``minimize`` to a session that is ready to run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.evaluation import evaluator
from lmma.evaluation.base import OnError
from lmma.kernels import Key
from lmma.run.defaults import choose_method, default_sigma0
from lmma.run.restarts import Schedule
from lmma.run.restarts import schedule as make_schedule
from lmma.run.run import Session
from lmma.run.stopping import Limits
from lmma.run.warm_start import warm_start
from lmma.strategies import Strategy, strategy_class
from lmma.strategies.parts.bounds import Boundary, Box
from lmma.strategies.parts.bounds import box as make_box
from lmma.strategies.parts.checks import Precision, checked_x0, nearest

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


def prepare(
    fun: Callable[..., Any],
    x0: npt.ArrayLike | OptimizeResult,
    sigma0: float | npt.ArrayLike | None = None,
    *,
    args: tuple[Any, ...] = (),
    method: str = "auto",
    bounds: Any = None,
    boundary: Boundary = "smooth",
    popsize: int | None = None,
    rng: Any = None,
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
    dtype: Precision = "float64",
    threads: int | None = None,
    options: dict[str, Any] | None = None,
) -> Session:
    """Return a session with all its parts, after checking what the user gave; see :func:`lmma.minimize`."""
    options = options or {}
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {fun!r}")
    limits = Limits(maxfevals, maxiter, maxtime, ftarget)
    schedule = make_schedule(restarts)
    x0, warm_sigma, learned, warm_method = warm_start(x0)
    start = checked_x0(x0, np.float64)
    if method == "auto":
        method = warm_method or choose_method(len(start), popsize=popsize, maxfevals=maxfevals)
    cls = strategy_class(method)
    _suggest_for_misspelt(cls, options)
    if on_error == "resample" and not cls.can_resample:
        raise ValueError(f"{method} cannot draw single candidates anew: use on_error='worst'")
    box = make_box(bounds, start, boundary=boundary, dtype=dtype)
    step = sigma0 if sigma0 is not None else warm_sigma or default_sigma0(start, box)

    team: dict[str, Any] = {} if threads is None else {"threads": threads}

    def make(x: Any, sigma: Any, size: int | None, key: Key | None) -> Strategy:
        es = cls(
            x, sigma, popsize=size, rng=rng if key is None else key, dtype=dtype, tolx=tolx, tolfun=tolfun,
            **team, **options,
        )  # fmt: skip
        if box is not None:
            es.max_sigma = max(es.sigma, box.largest_sigma(es.scale))
        return es

    first = make(start if box is None else box.outside(start), step, popsize, None)
    limits.refuse_less_than_a_generation(first.popsize)
    if learned is not None:
        learned.teach(first)
    if inject is not None:
        _inject(first, inject, box)
    args = args if isinstance(args, tuple) else (args,)
    return Session(
        first, make, start, step,
        evaluate=evaluator(
            fun, args, on_error, workers=workers, vectorized=vectorized, timeout=timeout, quorum=quorum
        ),
        limits=limits, box=box, schedule=schedule, stagnation=stagnation,
        identity=lambda: _identity(fun, first, start, step, box, options),
    )  # fmt: skip


def _identity(
    fun: Any, first: Strategy, start: Any, step: Any, box: Box | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return what must be the same for a checkpoint to be continued."""
    from lmma.run.fingerprint import digest_of, name_of

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
    if not first.can_inject:
        raise ValueError(f"{first.name} takes no injected points: leave inject out")
    rows = np.atleast_2d(np.asarray(points, dtype=first.dtype))
    if box is not None and rows.shape[-1] == first.n:
        if np.any((rows < box.lower) | (rows > box.upper)):
            raise ValueError("inject must lie within bounds")
        rows = np.array([box.outside(row) for row in rows])
    first.inject(rows)


def _suggest_for_misspelt(cls: type[Strategy], options: dict[str, Any]) -> None:
    """Raise TypeError for an option that is near an argument of ``minimize``, naming it."""
    known = [name for name in inspect.signature(prepare).parameters if name != "options"]
    own = cls.known_options()
    for option in options:
        if option not in own:
            raise TypeError(
                f"unknown option {option!r} for method {cls.name!r}{nearest(option, [*known, *own])}; "
                f"{cls.name} takes {', '.join(own)}"
            )
