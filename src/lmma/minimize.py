"""One call with good defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from lmma.run.options import (
    Callback,
    Method,
    OnInterrupt,
    RunOptions,
    choose_method,
    default_sigma0,
)

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.evaluation.base import OnError
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.restarts import Schedule
    from lmma.space import Space, Tree
    from lmma.strategies import Strategy
    from lmma.strategies.parts.bounds import Boundary, Bounds
    from lmma.strategies.parts.checks import Precision, Seed
    from lmma.strategies.parts.constraints import Handling
    from lmma.strategies.parts.noise import Treatment

__all__ = ["choose_method", "default_sigma0", "minimize"]


def minimize(
    fun: Callable[..., Any],
    x0: npt.ArrayLike | OptimizeResult | Space | Tree | Mapping[str, Any] | Any | None,
    sigma0: float | npt.ArrayLike | Mapping[str, Any] | None = None,
    *,
    args: tuple[Any, ...] = (),
    method: Method | str | type[Strategy] = "auto",
    bounds: Bounds | Mapping[str, Any] | None = None,
    boundary: Boundary = "smooth",
    integrality: npt.ArrayLike | None = None,
    space: Space | Tree | None = None,
    constraints: Any = None,
    constraint_handling: Handling = "lagrange",
    feasibility_tol: float = 1e-8,
    popsize: int | None = None,
    rng: Seed = None,
    seed: int | None = None,
    noise: Treatment | None = None,
    common_random_numbers: bool | None = None,
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
    workers: object = 1,
    timeout: float | None = None,
    quorum: float = 1.0,
    on_error: OnError = "worst",
    callback: Callback | None = None,
    on_interrupt: OnInterrupt = "return",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    history: bool | int = False,
    log: str | os.PathLike[str] | None = None,
    progress: bool = False,
    dtype: Precision = "float64",
    threads: int | None = None,
    **options: Any,
) -> OptimizeResult:
    """Minimise a function of many variables without its gradient.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> float``; with ``vectorized=True``, ``fun(X, *args) -> (rows,)`` for rows X. With a
        space ``fun(speed=..., gear=...)`` or ``fun({"speed": ..., "gear": ...}, *args)``, as its signature
        asks; if vectorized, each value is an array with one entry a candidate. Where ``x0`` is a structure,
        ``fun`` is given one like it; if vectorized, one of stacked arrays. It may return constraints as well,
        ``(f, g)``, of which each is to become 0 or less.
    x0 : array_like, (n,), OptimizeResult, structure, Space, Tree or None
        Where the search starts. An earlier result also hands over its step size and learned transform. A
        structure is a dict, list or dataclass of arrays, or a module of PyTorch: see :class:`lmma.Tree`. A
        :class:`lmma.Space` starts in its middle; with ``space=`` also a dict of values (what it leaves out
        starts in the middle), or None.
    sigma0 : float or array_like, (n,), optional
        Initial step size, about a third of the distance to the optimum you expect; one number or one
        for each coordinate. By default 0.3 times the larger of 1 and the root mean square of ``x0``; for
        a coordinate with two bounds, 0.3 times its width. With a space it is a share of each variable's
        width, 0.3 by default: one number, or a dict of name: share. For a structure also a dict of path:
        step, such as ``{"layers.0": 0.1, "bias": 0.01}``.
    args : tuple
        Further arguments of ``fun``.
    method : str or Strategy class
        One of :func:`lmma.methods`; ``"auto"``, see :func:`choose_method`; or a strategy of your own, as a
        class or as ``"module:Class"``.
    bounds : Bounds, list of (low, high), or [low, high], optional
        A box no evaluation leaves; None or infinity for no bound, low == high fixes a coordinate. With two
        variables, two pairs are one for each; two NumPy vectors could mean either and are refused. For a
        structure also a dict of path: (low, high).
    boundary : {"reflect", "smooth", "project", "wrap"}
        How the box is kept, see :mod:`lmma.strategies.parts.bounds`; "wrap" is for periodic variables.
    integrality : bool or array_like, (n,), optional
        1 for variables that are integers, 0 for others, as in SciPy's ``differential_evolution``. ``fun`` is
        given whole numbers there.
    space : Space or Tree, optional
        Named variables of all kinds, in place of bounds and integrality; see :class:`lmma.Space`. Or the form
        of a structure whose numbers ``x0`` has.
    constraints : constraint, or list of constraints, optional
        What SciPy takes: ``NonlinearConstraint``, ``LinearConstraint``, dicts with ``type`` ("ineq", fun >= 0
        or "eq"), ``fun`` and ``args``; or functions g with g(x) <= 0; or :class:`lmma.constraints.Returned`,
        limits of what ``fun`` returns beside its value. Functions are called wherever ``fun`` is, as it is:
        with many rows if ``vectorized``, with values by name if there is a space. Every candidate keeps
        linear equalities, unless some variables are integers.
    constraint_handling : {"lagrange", "rank"}
        By an augmented Lagrangian, or by ranks alone: for values of which only the order means something, and
        for constraints that say yes or no.
    feasibility_tol : float
        The largest violation at a point that counts as feasible.
    popsize : int, optional
        Candidates per generation; ``4 + floor(3 ln n)`` by default.
    rng, seed : None, int, SeedSequence, Generator or key
        Source of randomness; the same seed gives the same run. The two names mean the same. A key is a
        tuple of two integers of 64 bits, as ``strategy.key`` is.
    noise : {"auto", "mix", "average", "population"}, optional
        What is done about values that differ from call to call. ``"auto"`` evaluates two candidates again
        every twenty generations, all of them once values differ, and treats noise that hides the ranks as
        ``"mix"`` does: a smaller learning rate of the mean with longer steps. ``"average"`` evaluates
        candidates more often, ``"population"`` takes more of them. None neither looks nor treats. Under noise
        ``x`` is the mean of the search and ``fun`` an average of fresh values.
    common_random_numbers : bool, optional
        Whether ``fun`` is called with ``seed=`` and ``generation=``, integers that are the same for all
        candidates of a generation, for mini-batches or episodes. By default if its signature names them
        without a default.
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
        Whether ``fun`` takes a whole generation, one candidate a row; it may look at them, not change them.
    workers : int, callable, Executor, cluster or Replicated
        Evaluate in that many processes (-1: one for each core), through a map-like callable, through anything
        with ``submit``, or on a cluster: a ``dask.distributed.Client``, ``ray``, an ``MPIPoolExecutor``, an
        address such as ``"dask://host:port"``; with :class:`lmma.cluster.Replicated` only values travel.
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
    on_interrupt : {"return", "raise"}
        What Ctrl-C does, never in the middle of an update and after the checkpoint is written: the run ends
        with the best so far and the reason "interrupted", or ``KeyboardInterrupt`` is raised. A second one
        is always raised, at once.
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
        Precision of the candidates and the state. A structure of single precision is searched in it.
    threads : int, optional
        Threads that draw and transform candidates; by default what the environment variable LMMA_NUM_THREADS
        says, else one for each core. The result does not depend on it.
    **options
        Constants of the method, such as ``m`` for ``"lm-ma-es"``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x``, ``fun``, ``nfev``, ``nit``, ``success``, ``status``, ``message`` as SciPy has them; also
        ``reason`` (the stopping rule), ``method``, ``sigma``, ``mean``, ``hess_inv`` (the learned metric as a
        LinearOperator), ``failures`` (how many evaluations failed), ``failed`` (by kind), ``errors`` (the
        first few of them), ``late`` and ``deaths`` (of workers), ``runs`` (those between restarts),
        ``learned`` (for a warm start) and ``warnings``. With a space ``x`` is a dict of values, with a
        structure one like it, and ``vector`` the array that stands for it. With constraints x is the best
        feasible point, and ``maxcv`` the largest violation there, ``constr`` what each constraint gave, and
        ``multipliers`` the Lagrange multipliers; while nothing is feasible, x is violated least, and
        ``success`` is False. Unless switched off, ``noise`` has quality, repeats, rate and spread; under
        noise, and without constraints, ``x_seen`` and ``fun_seen`` are the luckiest evaluation, and
        ``fun_error`` is the standard error of ``fun``. ``result.save(path)`` keeps it for :func:`lmma.load`,
        ``result.plot()`` draws its history, and printed it takes at most 25 lines.

    Raises
    ------
    ValueError, TypeError
        For an argument that cannot be meant; the message names it, its value and the remedy. Also where
        ``fun`` has never returned a number. A failing ``fun`` is no error, unless ``on_error="raise"``.
    MemoryError
        If the method does not fit into the free memory; the message names one that does.
    CheckpointError
        If the checkpoint is damaged or belongs to another run.

    References
    ----------
    I. Loshchilov, T. Glasmachers, H.-G. Beyer: Large Scale Black-Box Optimization by Limited-Memory Matrix
    Adaptation. IEEE Transactions on Evolutionary Computation 23(2), 2019. Each method names its own.

    Examples
    --------
    >>> import lmma
    >>> def rosenbrock(x):
    ...     return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()
    >>> result = lmma.minimize(rosenbrock, [0.0] * 10, 0.3, rng=1)
    >>> result.success, round(float(result.x[-1]), 6)
    (True, 1.0)

    A whole generation at a time, inside a box, within a budget:

    >>> result = lmma.minimize(
    ...     lambda X: (X**2).sum(axis=1), [3.0] * 5, bounds=(1, 4), vectorized=True, maxfevals=2000, rng=1
    ... )
    >>> [round(float(x), 3) for x in result.x]
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    if seed is not None and rng is not None:
        raise ValueError("pass rng or seed, not both: they mean the same")
    from lmma.run.run import Run  # imported here: where strategies alone are used, it costs nothing

    given = RunOptions(
        args=args, method=method, bounds=bounds, boundary=boundary, integrality=integrality, space=space,
        constraints=constraints, constraint_handling=constraint_handling, feasibility_tol=feasibility_tol,
        popsize=popsize, rng=rng if seed is None else seed, noise=noise,
        common_random_numbers=common_random_numbers, maxfevals=maxfevals, maxiter=maxiter, maxtime=maxtime,
        ftarget=ftarget, tolx=tolx, tolfun=tolfun, stagnation=stagnation, restarts=restarts, inject=inject,
        vectorized=vectorized, workers=workers, timeout=timeout, quorum=quorum, on_error=on_error,
        callback=callback, on_interrupt=on_interrupt, checkpoint=checkpoint, history=history, log=log,
        progress=progress, dtype=dtype, threads=threads, constants=options,
    )  # fmt: skip
    return Run(fun, x0, sigma0, given).execute()
