"""The function :func:`minimize`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt

from lmma.methods.registry import choose_method
from lmma.run.options import Callback, OnInterrupt, RunOptions, default_sigma0

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.evaluation.base import OnError
    from lmma.layers.bounds import Boundary, Bounds
    from lmma.layers.constraints import Handling
    from lmma.layers.noise import Treatment
    from lmma.methods import Strategy
    from lmma.methods.constants import Constants
    from lmma.numerics.checks import Precision, Seed
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.options import Values
    from lmma.run.restarts import Schedule
    from lmma.run.result import RunResult
    from lmma.space import Space, Tree

__all__ = ["choose_method", "default_sigma0", "minimize"]


def minimize(
    fun: Callable[..., Any],
    x0: npt.ArrayLike | OptimizeResult | Space | Tree | Mapping[str, Any] | Any | None = None,
    sigma0: float | npt.ArrayLike | Mapping[str, Any] | None = None,
    *,
    args: tuple[Any, ...] = (),
    method: str | type[Strategy] = "auto",
    values: Values = "auto",
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
    noise: Treatment | None = "auto",
    common_random_numbers: bool | None = None,
    maxfevals: int | None = None,
    maxiter: int | None = None,
    maxtime: float | None = None,
    ftarget: float | None = None,
    tolx: float = 1e-11,
    tolfun: float = 1e-11,
    stagnation: bool = True,
    restarts: int | str | Schedule = 0,
    polish: bool = False,
    inject: npt.ArrayLike | str | os.PathLike[str] | None = None,
    vectorized: bool = False,
    workers: object = 1,
    timeout: float | None = None,
    quorum: float = 1.0,
    on_error: OnError = "worst",
    callback: Callback | None = None,
    on_interrupt: OnInterrupt = "return",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    archive: str | os.PathLike[str] | None = None,
    archive_new: bool = False,
    history: bool | int = True,
    log: str | os.PathLike[str] | None = None,
    progress: bool = False,
    dtype: Precision = "float64",
    threads: int | None = None,
    **options: Unpack[Constants],
) -> RunResult:
    """Minimise a function of many variables without its gradient.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> float``; with ``vectorized=True``, ``fun(X, *args) -> (rows,)`` for rows X. With a
        space, ``fun(speed=..., gear=...)`` or ``fun({"speed": ..., "gear": ...}, *args)``, depending on its
        signature; if vectorized, each value is an array with one entry per candidate. If ``x0`` is a
        structure, ``fun`` receives one like it; if vectorized, one of stacked arrays. It may also return
        constraints, ``(f, g)``, with g <= 0 for feasible points.
    x0 : array_like, (n,), OptimizeResult, structure, Space, Tree or None
        The start of the search. An earlier result also provides its step size and learned transform. A
        structure is a dict, list or dataclass of arrays, or a PyTorch module: see :class:`lmma.Tree`. A
        :class:`lmma.Space` starts at its centre. With ``space=``, a dict of values (missing ones start at
        the centre), or None. Without a space, None starts at the centre of ``bounds``, which must be finite.
    sigma0 : float or array_like, (n,), optional
        Initial step size, about a third of the expected distance to the optimum; one number or one per
        coordinate. By default 0.3 times the larger of 1 and the root mean square of ``x0``; for a
        coordinate with two bounds, 0.3 times its width. With a space, a fraction of each variable's width,
        0.3 by default: one number, or a dict of name: fraction. For a structure also a dict of path: step,
        such as ``{"layers.0": 0.1, "bias": 0.01}``.
    args : tuple
        Additional arguments passed to ``fun``.
    method : str or Strategy class
        One of :func:`lmma.methods`; ``"auto"``, see :func:`choose_method`; or a user-defined strategy, as a
        class or as ``"module:Class"``.
    values : {"auto", "ranks"}
        Use of function values by ``method="auto"``. By default it uses slopes where ``fun`` is smooth and
        ranks elsewhere; "ranks" selects an evolution strategy, which is invariant under increasing
        transformations of ``fun``.
    bounds : Bounds, list of (low, high), or [low, high], optional
        Box that contains all evaluated points. Use None or infinity for no bound; low == high fixes a
        coordinate. With two variables, two pairs are read as one per variable; two NumPy vectors are
        ambiguous and raise an error. For a structure also a dict of path: (low, high).
    boundary : {"reflect", "smooth", "project", "wrap"}
        Mapping of candidates outside the bounds into the box, see :mod:`lmma.layers.bounds`; "wrap" is for
        periodic variables.
    integrality : bool or array_like, (n,), optional
        1 for integer variables, 0 for others, as in SciPy's ``differential_evolution``. ``fun`` receives
        integers there.
    space : Space or Tree, optional
        Named variables of any type, instead of bounds and integrality; see :class:`lmma.Space`. Or the
        structure that the numbers of ``x0`` belong to.
    constraints : constraint, or list of constraints, optional
        As in SciPy: ``NonlinearConstraint``, ``LinearConstraint``, dicts with ``type`` ("ineq", fun >= 0, or
        "eq"), ``fun`` and ``args``. Or functions g with g(x) <= 0, or :class:`lmma.constraints.Returned` for
        constraints that ``fun`` returns with its value. Functions are called in the same process and form as
        ``fun``: with many rows if ``vectorized``, with named values if there is a space. Every candidate
        satisfies linear equalities, unless some variables are integers.
    constraint_handling : {"lagrange", "rank"}
        Augmented Lagrangian, or ranks only. Use "rank" if only the order of the values of ``fun`` matters,
        or for yes/no constraints.
    feasibility_tol : float
        Largest constraint violation of a feasible point.
    popsize : int, optional
        Candidates per generation; ``4 + floor(3 ln n)`` by default.
    rng, seed : None, int, SeedSequence, Generator or key
        Source of randomness; the same seed gives the same run. The two names are synonyms. A key is a tuple
        of two 64-bit integers, such as ``strategy.key``.
    noise : {"auto", "mix", "average", "population"} or None
        Handling of values that differ between calls. By default, ``"auto"``, two candidates are evaluated
        again every twenty generations, and all of them once values differ; not with ``polish=``,
        ``archive=`` or discrete variables alone. If noise changes the ranks, the search continues as
        ``"mix"``: a smaller learning rate of the mean with longer steps. ``"average"`` evaluates each
        candidate several times, ``"population"`` increases the population. None neither detects nor treats
        noise. With noise, ``x`` is the mean of the search and ``fun`` an average of new evaluations.
    common_random_numbers : bool, optional
        Whether ``fun`` is called with ``seed=`` and ``generation=``, integers that are the same for all
        candidates in one generation, for mini-batches or episodes. By default True if its signature has them
        without a default.
    maxfevals, maxiter, maxtime : optional
        Budgets over all restarts: evaluations (never exceeded), generations, seconds.
    ftarget : float, optional
        Stop when ``fun`` reaches this value, checked after each generation.
    tolx, tolfun : float
        Stop when steps in x, or recent values of fun, vary by less; 0 disables a rule.
    stagnation : bool
        Stop when there was no progress in the last half of the run.
    restarts : int, str or Schedule
        Restarts after convergence or stagnation: a number or ``"ipop"`` to double the population each time,
        ``"bipop"`` or ``"bipop:5"`` to alternate between large and small populations.
    polish : bool
        Whether to refine the best point by quasi-Newton steps in the learned metric, for an evolution
        strategy on a smooth function without noise; ``method="auto"`` does so by itself. It gets a fifth of
        ``maxfevals``, or more if the search leaves more; without ``maxfevals``, a quarter of the evaluations
        of the search. The better of both results is kept.
    inject : array_like, (n,) or (rows, n), str or Path, optional
        Known good points, evaluated in the first generation. A path is that of an archive: its best points,
        up to half the population, are taken.
    vectorized : bool
        Whether ``fun`` takes a whole generation, one candidate per row, which it must not modify. Objectives
        of ``lmma.integrations``, and others with an attribute ``vectorized = True``, always do.
    workers : int, callable, Executor, cluster or Replicated
        Number of worker processes (-1: one per core), a map-like callable, an object with ``submit``, or a
        cluster: a ``dask.distributed.Client``, ``ray``, an ``MPIPoolExecutor``, or an address such as
        ``"dask://host:port"``. With :class:`lmma.cluster.Replicated`, only values are transmitted.
    timeout : float, optional
        Time limit of one evaluation in seconds; if exceeded, it counts as failed.
    quorum : float
        Fraction of a generation to wait for; later results are dropped. Below 1, a run depends on timing.
    on_error : {"worst", "raise", "resample"}
        Handling of a failed evaluation (an exception, NaN, infinity, a timeout): rank the candidate last,
        end the run with the exception, or draw another candidate. Before ``fun`` has returned any value,
        its programming errors are raised, and an exception of the whole first generation.
    callback : callable, optional
        Called after each generation with the best x so far or, if its only parameter is named
        ``intermediate_result``, with an ``OptimizeResult``. To end the run, return True or raise
        ``StopIteration``.
    on_interrupt : {"return", "raise"}
        On Ctrl-C, return the best point so far with the reason "interrupted", or raise
        ``KeyboardInterrupt``. Either happens after the current update and after the checkpoint is written. A
        second Ctrl-C raises immediately.
    checkpoint : str, Path or Checkpoint, optional
        File to which the run is saved periodically. If it exists, the run resumes from it and gives the same
        result as without the interruption; budgets may be changed.
    archive : str or Path, optional
        SQLite file in which every evaluation is kept as soon as it returns: variables in the user's units,
        value, constraint values, status, time. A point in the file is not evaluated again, unless ``noise=``
        is set or ``fun`` takes seeds; its value counts in ``nfev`` like any other. So a killed run that is
        started again with the same seed or checkpoint loses no finished evaluation. See :mod:`lmma.archive`.
    archive_new : bool
        Rename an existing archive and start a new one, after a change of ``fun``. Ignored if a checkpoint is
        resumed.
    history : bool or int
        Maximum number of snapshots to keep in ``result.history``, which ``result.plot()`` draws (True: 1000,
        False: none).
    log : str or Path, optional
        File for a log of the run as JSON lines.
    progress : bool
        Show a progress line on standard error.
    dtype : {"float64", "float32"}
        Precision of candidates and state. A float32 structure is searched in float32.
    threads : int, optional
        Threads that sample and transform candidates; by default LMMA_NUM_THREADS from the environment, or
        one per core. Does not affect the result.
    **options
        Constants of the method, such as ``m`` for ``"lm-ma-es"``.

    Returns
    -------
    RunResult
        A ``scipy.optimize.OptimizeResult``: ``x``, ``fun``, ``nfev``, ``nit``, ``success``, ``status``,
        ``message`` as in SciPy. Further fields: ``reason`` (the stopping rule), ``method``, ``sigma``,
        ``mean``, ``hess_inv`` (the learned metric as a LinearOperator), ``failures`` (number of failed
        evaluations), ``failed`` (the same by kind), ``errors`` (the first few), ``late`` and ``deaths`` (of
        workers), ``runs`` (one entry per restart), ``learned`` (for a warm start), ``history`` and
        ``warnings``.

        With a space, ``x`` is a dict of values, with a structure one like it, and ``vector`` is the encoded
        array. With constraints, ``x`` is the best feasible point, ``maxcv`` its largest violation,
        ``constr`` the values of each constraint, and ``multipliers`` the Lagrange multipliers. If no point is
        feasible, ``x`` has the smallest violation and ``success`` is False.

        Unless ``noise`` is None, ``noise`` has quality, repeats, rate and spread. If there is noise, and no
        constraints, ``x_seen`` and ``fun_seen`` are the best observed evaluation, and ``fun_error`` is the
        standard error of ``fun``.

        With ``archive=``, or if all variables are discrete, ``calls`` is the number of calls of ``fun`` in
        this process, without values that were known; ``archive`` is the :class:`lmma.archive.Archive`.

        ``result.save(path)`` saves it for :func:`lmma.load`, ``result.to_csv()``, ``to_json()`` and
        ``to_dict()`` export it, ``result.plot()`` plots ``history``, and ``result.importance`` estimates
        which variables mattered.

    Raises
    ------
    ValueError, TypeError
        For an invalid argument; the message names it, its value and the remedy. Also if the first
        values of ``fun`` are not numbers.
    Exception
        An exception of ``fun`` before it has returned any value, see ``on_error``. Later, a failed evaluation
        is not an error, unless ``on_error="raise"``.
    MemoryError
        If the method does not fit into the free memory; the message names one that does.
    CheckpointError
        If the checkpoint is damaged or belongs to another run.
    ArchiveError
        If the archive is damaged or belongs to another objective.

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
        raise ValueError("pass either rng or seed, not both: they are synonyms")
    from lmma.run.run import Run  # imported here to keep `import lmma` fast

    given = RunOptions(
        args=args, method=method, values=values, bounds=bounds, boundary=boundary, integrality=integrality,
        space=space, constraints=constraints, constraint_handling=constraint_handling,
        feasibility_tol=feasibility_tol, popsize=popsize, rng=rng if seed is None else seed, noise=noise,
        common_random_numbers=common_random_numbers, maxfevals=maxfevals, maxiter=maxiter, maxtime=maxtime,
        ftarget=ftarget, tolx=tolx, tolfun=tolfun, stagnation=stagnation, restarts=restarts, polish=polish,
        inject=inject, vectorized=vectorized, workers=workers, timeout=timeout, quorum=quorum,
        on_error=on_error, callback=callback, on_interrupt=on_interrupt, checkpoint=checkpoint,
        archive=archive, archive_new=archive_new, history=history, log=log, progress=progress, dtype=dtype,
        threads=threads, constants={**options},
    )  # fmt: skip
    return Run(fun, x0, sigma0, given).execute()
