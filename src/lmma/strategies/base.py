"""What every strategy shows its user: ask, tell, stop, result.

Not Algorithm 1 yet (that is ``es.py``): checks of arguments and call order, bounds, the best so far,
failures. What it builds on, each in a file: ``hooks.py`` (what a method fills in), ``noisy.py``,
``constrained.py``, ``convergence.py``, ``candidates.py``, ``stateful.py``. A strategy of one's own needs
``_sample``, ``_update`` and ``memory``.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from lmma.strategies.convergence import DIVERGED
from lmma.strategies.fitting import refuse_strategy_that_does_not_fit
from lmma.strategies.parts.bounds import DEFAULT as DEFAULT_BOUNDARY
from lmma.strategies.parts.bounds import Boundary, Bounds, Box, opened
from lmma.strategies.parts.bounds import box as make_box
from lmma.strategies.parts.checks import (
    Precision,
    Seed,
    checked_dtype,
    checked_out,
    checked_popsize,
    checked_sigma0,
    checked_threads,
    checked_tolerance,
    checked_values,
    checked_x0,
    key_from,
    refuse_steps_without_room,
    refuse_unknown_options,
)
from lmma.strategies.parts.constraints import Constrained, ConstraintOptions
from lmma.strategies.parts.integers import Integers, checked_integrality
from lmma.strategies.parts.integers import integers as make_integers
from lmma.strategies.parts.noise import Treatment
from lmma.strategies.parts.recombination import Array, Indices, default_popsize
from lmma.strategies.parts.settling import Settling
from lmma.strategies.parts.ties import Ties
from lmma.strategies.parts.trace import Trace, draw
from lmma.strategies.stateful import Stateful

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DEFAULT_TOLERANCE = 1e-11


class _Recorded:
    """Keeps the options that an object was made with, whoever's ``__init__`` takes them."""

    options: dict[str, Any]

    def __new__(cls, *args: object, **given: object) -> Self:
        self = super().__new__(cls)
        self.options = {name: value for name, value in given.items() if name not in COMMON}
        return self


class Strategy(_Recorded, Stateful):
    """A minimiser that is asked for candidates and told their values.

    Parameters
    ----------
    x0 : array_like, (n,)
        Where the search starts. It is copied.
    sigma0 : float or array_like, (n,)
        Initial step size, one number or one for each coordinate.
    popsize : int, optional
        Candidates per generation, at least 2; ``4 + floor(3 ln n)`` by default.
    bounds : Bounds, list of (low, high), or [low, high], optional
        A box no candidate leaves; None or infinity for no bound, low == high fixes a coordinate.
    boundary : {"smooth", "reflect", "project", "wrap"}
        How the box is kept, see :mod:`lmma.bounds`.
    integrality : bool or array_like, (n,), optional
        1 for coordinates that are integers, 0 for others; one for all. Candidates hold whole numbers there.
    rng : None, int, SeedSequence, Generator or (int, int)
        Source of the run's 128-bit key, or the key itself. The run is a pure function of the key and of the
        values told.
    dtype : {"float64", "float32"}
        Precision of the state and of the candidates.
    tolx, tolfun : float
        Tolerances of :meth:`stop`.
    threads : int, optional
        Threads the compiled kernels may use; by default what the environment variable LMMA_NUM_THREADS says,
        else one for each core. Results do not depend on it, not in a single bit.
    noise : {None, "auto", "mix", "average", "population"}
        What is done about values that differ from call to call, see :attr:`again`.
    **options
        Constants of the method.

    Attributes
    ----------
    n, popsize : int
        Variables, and candidates per generation.
    mean : ndarray, (n,)
        Centre of the search. With bounds it may lie outside the box; ``result.mean`` is inside.
    sigma : float
        Global step size; ``scale`` multiplies it where ``sigma0`` was given for each coordinate, else None.
    spread, spread_fun : float
        How far a typical candidate of the last generation lay from the others' centre, per coordinate, and
        how far its values were apart.
    generation, evaluations, failures : int
        What has been done; failures are values that were NaN.
    best_x, best_fun
        The best candidate so far and its value. With constraints the best feasible one; while there is none,
        the one with the smallest violation and infinity.
    box : Box or None
        The bounds; those of integers are kept by ``integers``.
    integers : Integers or None
        The integer coordinates.
    ranked_values : ndarray
        The values of the last generation in increasing order, without those that failed.
    constraints : Constrained or None
        What is known of constraints, once there are any.
    ties : Ties
        Whether the best candidates of the last generation had equal values, and how often that was so.
    noise : Noise
        What is known of the noise in the values.
    options : dict
        The constants that were given.
    key : (int, int)
        All randomness comes from it.

    Notes
    -----
    A subclass provides :meth:`_sample`, :meth:`_update` and :meth:`memory`. It may set up what it needs in
    :meth:`_initialise`, and names in ``STATE`` the arrays and numbers it changes from generation to
    generation. Random numbers come from :meth:`generator`. Generations, evaluations, failures, the best, the
    spread and bounds are seen to here. ``can_inject``, ``can_resample`` and ``can_stream`` say which of
    :meth:`inject`, :meth:`resample` and :meth:`ask_blocks` a method has; it then provides ``_place``,
    ``_resample`` or ``_blocks``. :func:`lmma.testing.check_strategy` judges the whole.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "mean", "sigma", "sigma0", "max_sigma", "generation", "evaluations", "failures", "best_x", "best_fun",
        "spread", "spread_fun", "first_scale", "flat_for",
    )  # fmt: skip

    def __init__(
        self,
        x0: npt.ArrayLike,
        sigma0: float | npt.ArrayLike,
        *,
        popsize: int | None = None,
        bounds: Bounds | None = None,
        boundary: Boundary = DEFAULT_BOUNDARY,
        integrality: npt.ArrayLike | None = None,
        rng: Seed = None,
        dtype: Precision = "float64",
        tolx: float = DEFAULT_TOLERANCE,
        tolfun: float = DEFAULT_TOLERANCE,
        threads: int | None = None,
        noise: Treatment | None = None,
        **options: Any,
    ) -> None:
        refuse_unknown_options(self.name, options, self.known_options(), COMMON)
        self.dtype = checked_dtype(dtype)
        self.threads = checked_threads(threads)
        start = checked_x0(x0, self.dtype if bounds is None else np.float64)
        closed = make_box(bounds, start, boundary=boundary, dtype=self.dtype)
        self.integers = _integers(integrality, closed, len(start))
        self.box: Box | None = closed
        if closed is not None and self.integers is not None:
            self.box = opened(closed, self.integers.columns)
        self.mean = start if self.box is None else checked_x0(self.box.outside(start), self.dtype)
        self.n = len(self.mean)
        self.popsize = checked_popsize(popsize, default_popsize(self.n))
        refuse_strategy_that_does_not_fit(self)
        self.sigma, self.scale = checked_sigma0(sigma0, self.n, self.dtype)
        self.sigma0 = self.sigma
        self.max_sigma = math.inf  # sigma grows no further: a box has an end
        if closed is not None:
            self.max_sigma = max(self.sigma, closed.largest_sigma(self.scale))
        if math.isinf(self.max_sigma):  # it must overflow no sooner than it is noticed to diverge
            refuse_steps_without_room(sigma0, self.dtype, DIVERGED)
        if self.integers is not None and self.scale is None:
            self.scale = np.ones(self.n, dtype=self.dtype)  # which keeps their steps from vanishing
        self.key = key_from(rng)
        self.tolx, self.tolfun = checked_tolerance("tolx", tolx), checked_tolerance("tolfun", tolfun)
        self.constraint_options = ConstraintOptions()
        self.constraints: Constrained | None = None
        self.told_places = False  # in place of values, by a strategy that has this one inside
        self.generation = 0
        self.evaluations = 0
        self.failures = 0
        self.best_x: Array = self._inside(self.mean)
        self.best_fun = math.inf
        self.spread = math.inf  # as is the next, until a generation has values
        self.spread_fun = math.inf
        self.first_scale = 0.0  # the largest |value| of the first generation in which values differed
        self.flat_for = 0  # generations in a row in which all values were equal
        self.ties = Ties()
        self.trace = Trace()
        self.ranked_values: npt.NDArray[np.float64] = np.empty(0)
        # Where discrete coordinates are made to change now and then, the better candidates tell convergence
        self.judged = 1.0 if self.integers is None else 0.6
        self.settling: Settling | None = None
        if self.integers is not None:
            self.settling = Settling(2 * len(self.integers.columns), self.popsize)
        self._asked: Array | None = None
        self._injected: list[Array] = []  # points that are to be candidates
        self._placed = 0  # so many of them are among the candidates that were asked for last
        self._recent: deque[float] = self._fresh_record()
        self.handle_noise(noise)
        self._initialise()

    def __repr__(self) -> str:
        return (
            f"<{self.name}: n={self.n}, generation={self.generation}, best_fun={self.best_fun:.6g}, "
            f"sigma={self.sigma:.6g}>"
        )

    @property
    def candidates(self) -> Array | None:
        """The candidates of the last :meth:`ask` until they are told, (popsize, n)."""
        return self._asked

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the keywords that this strategy takes besides those of every strategy."""
        names: dict[str, None] = {}
        for owner in cls.__mro__:
            if "__init__" in vars(owner) and owner not in Strategy.__mro__:
                for parameter in list(inspect.signature(vars(owner)["__init__"]).parameters.values())[3:]:
                    if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                        names[parameter.name] = None
        return tuple(name for name in names if name not in COMMON)

    # What a user calls

    def ask(self, out: Array | None = None) -> Array:
        """Return the candidates of this generation, (popsize, n), one per row.

        The array is the caller's; pass an earlier one as ``out`` to spare the allocation. What its rows
        hold when :meth:`tell` is called is taken as what was evaluated. Injected points are its last rows.
        """
        self._refuse_to_ask_twice("ask")
        out = checked_out(out, (self.popsize, self.n), self.dtype)
        self._sample(out)
        if self._injected:
            points = self._injected[: self.popsize]
            self._place(points if self.box is None else [self.box.outside(x) for x in points], out)
            self._placed = len(points)
        if self.box is not None:
            self.box.repair(out)
        if self.integers is not None:
            self.integers.expect(self.popsize, self.dtype)
            self.integers.round(out)
        if self.constraint_options.subspace is not None:
            self.constraint_options.subspace.keep(out, self.box)
        self._asked = out
        return out

    def tell(
        self,
        values: npt.ArrayLike,
        *,
        constraints: npt.ArrayLike | None = None,
        again: npt.ArrayLike | None = None,
    ) -> None:
        """Learn from the values of the last candidates, in the order of :meth:`ask`.

        NaN marks a failed evaluation: it ranks last and takes no part in the update. If all failed,
        the state stays as it is and the next candidates are drawn anew. ``constraints``, (popsize, p), are
        to become 0 or less, all of them; :meth:`constrain` says otherwise. ``again`` are the values of the
        rows in :attr:`again`, evaluated once more.
        """
        if self._asked is None:
            raise ValueError("tell() has no candidates to judge: call ask() first")
        raw = checked_values(values, self.popsize)
        if self.noise.treatment is not None or again is not None:
            raw = self._take_repeats(raw, again)
        told, new_best = raw, None
        if constraints is not None or self.constraints is not None:
            told, new_best = self._in_the_light_of(constraints, raw)
        values = told if self.box is None else self.box.penalised(told)
        order = values.argsort(kind="stable")  # NaN goes last
        ranked = values[order]
        if ranked[-1] != ranked[-1]:
            valid = self.popsize - int(np.count_nonzero(np.isnan(ranked)))
            self.failures += self.popsize - valid
            order, ranked = order[:valid], ranked[:valid]
        self.ranked_values = ranked if values is raw else np.sort(raw[order])
        self.evaluations += self.popsize
        generation = self.generation
        if len(order):
            if self.constraints is None:
                best = order.item(0 if values is raw else np.argmin(raw[order]))
                new_best = best if raw.item(best) < self.best_fun else None
            if new_best is not None:
                self.best_fun = raw.item(new_best) if self._is_feasible else math.inf
                self.best_x[...] = self._candidate(new_best)
            if self.settling is not None:
                better = new_best is not None and not self._is_feasible  # nearer to what is feasible
                self.settling.look(self.best_fun, self.least_difference, better=better)
            least = ranked.item(0)
            judged = ranked if self.judged == 1.0 else ranked[: math.ceil(self.judged * len(ranked))]
            if self.constraints is None:
                self._recent.append(least)
                self.spread_fun = judged.item(-1) - least
                self._note_differences(self.ranked_values)
            else:
                self._recent.append(self.constraints.merit)
                self.spread_fun = self.constraints.spread
                self._note_differences(ranked if values is told else np.sort(told[order]))
            self.ties.look(judged, self.least_difference)
            if self.integers is None:
                self._update(order, ranked)
            else:
                self._update_with_integers(self.integers, order, ranked)
            self.spread = self._measure_spread()
            if self.noise.treatment is not None:
                self._treat_noise(raw)
            self.sigma = min(self.sigma, self.max_sigma)
        self.generation = generation + 1  # [A1:20]
        self.trace.take(generation, self)
        self._asked = None
        if self.noise.treatment is not None and self.noise.wanted_popsize != self.popsize:
            self._resize(self.noise.wanted_popsize)
        if self._placed:
            del self._injected[: self._placed]
            self._placed = 0

    def plot(self, *, target: float | None = None, title: str | None = None) -> Any:
        """Return a ``matplotlib.figure.Figure`` of the best value and the step size over evaluations.

        It shows what this object has been told, in at most a thousand points; under noise also the average of
        recent candidates, how far ranks can be trusted, and what is done about it.
        """
        if not self.generation:
            raise ValueError("es.plot() draws what was told: nothing was yet")
        return draw(self.trace.columns(self), target, title or f"{self.name}, n = {self.n}")

    @property
    def result(self) -> OptimizeResult:
        """What is known so far, as SciPy presents it.

        Once noise is found ``x`` is the averaged mean and ``fun`` the average of recent candidates; the
        luckiest candidate is ``x_seen`` with ``fun_seen``.
        """
        from scipy.optimize import OptimizeResult

        known = self.constraints
        result = OptimizeResult(
            x=self.best_x.copy(),
            fun=self.best_fun if known is None else known.fun,
            nfev=self.evaluations,
            nit=self.generation,
            failures=self.failures,
            mean=self._inside(self.mean),
            sigma=self.sigma,
            hess_inv=self._hess_inv(),
            success=self._has_converged() and math.isfinite(self.best_fun),
            method=self.name,
        )
        result.update(self._without_luck())
        if known is not None:
            result.update(maxcv=known.violation, constr=known.at_best.copy(), multipliers=known.multipliers)
        return result

    def _update_with_integers(self, integers: Integers, order: Indices, values: Array) -> None:
        """Learn; then see to it that integers can still change, by their mean and their steps."""
        old = self.mean[integers.columns]  # a copy
        self._update(order, values)
        assert self.scale is not None  # where there are integers
        weights, deviation = self._selection_weights(), self._deviations(integers.columns, old)
        integers.settle(self.mean, self.scale, old, order, weights, deviation)

    def _candidate(self, row: int) -> Array:
        """Return one of the candidates that were asked for last."""
        if self._asked is None:
            raise ValueError("there are no candidates: call ask() first")
        candidate: Array = self._asked[row]
        return candidate

    def _inside(self, x: Array) -> Array:
        """Return a copy of ``x``, in the box and where linear equalities hold, its integers rounded."""
        inside = x.copy() if self.box is None else self.box.inside(x)
        if self.constraint_options.subspace is not None:
            self.constraint_options.subspace.keep(inside[np.newaxis], self.box)
        return inside if self.integers is None else self.integers.rounded(inside)


def _integers(integrality: npt.ArrayLike | None, box: Box | None, n: int) -> Integers | None:
    """Return the integer coordinates that a user asks for, within ``box``; None if there are none."""
    if integrality is None:
        return None
    lower = np.full(n, -math.inf) if box is None else box.lower.astype(np.float64)
    upper = np.full(n, math.inf) if box is None else box.upper.astype(np.float64)
    return make_integers(checked_integrality(integrality, n), lower, upper, n)


# Arguments of every strategy, after x0 and sigma0 and before its options
COMMON = tuple(inspect.signature(Strategy).parameters)[2:-1]
