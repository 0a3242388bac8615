"""What every strategy shows its user: ask, tell, stop, result.

Not Algorithm 1 yet (that is ``es.py``): checks of arguments and call order, bounds, the best so far,
failures, convergence, state. A strategy of one's own needs ``_sample``, ``_update`` and ``memory``.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from lmma.strategies.noisy import NoisyHooks
from lmma.strategies.parts.bounds import DEFAULT as DEFAULT_BOUNDARY
from lmma.strategies.parts.bounds import Boundary, Bounds, Box, Values, opened
from lmma.strategies.parts.bounds import box as make_box
from lmma.strategies.parts.checks import (
    Precision,
    Seed,
    checked_dtype,
    checked_injected,
    checked_out,
    checked_popsize,
    checked_rows,
    checked_sigma0,
    checked_threads,
    checked_tolerance,
    checked_values,
    checked_x0,
    key_from,
    refuse_unknown_options,
)
from lmma.strategies.parts.constraints import (
    FEASIBILITY_TOL,
    Constrained,
    ConstraintOptions,
    Handling,
    as_flags,
    checked_constraints,
)
from lmma.strategies.parts.integers import Integers, checked_integrality
from lmma.strategies.parts.integers import integers as make_integers
from lmma.strategies.parts.memory import SMALL, refuse_what_does_not_fit
from lmma.strategies.parts.noise import Treatment
from lmma.strategies.parts.recombination import Array, Indices, default_popsize
from lmma.strategies.parts.settling import Settling
from lmma.strategies.parts.state import State, collect, labels, restore
from lmma.strategies.parts.subspace import checked_subspace
from lmma.strategies.parts.ties import Ties

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DEFAULT_TOLERANCE = 1e-11
CONVERGED = frozenset(("tolx", "tolfun", "settled"))  # what stop() says of a search that is done
DIVERGED = 1e20  # steps grown by this factor have no optimum to find
FLAT = 150  # generations without a difference between values: ranks have carried no information
SMALL_VALUES = 1e-8  # a function that begins below has a tolfun by its own scale


class _Recorded:
    """Keeps the options that an object was made with, whoever's ``__init__`` takes them."""

    options: dict[str, Any]

    def __new__(cls, *args: object, **given: object) -> Self:
        self = super().__new__(cls)
        self.options = {name: value for name, value in given.items() if name not in COMMON}
        return self


class Strategy(_Recorded, NoisyHooks):
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
        self._refuse_what_does_not_fit()
        self.sigma, self.scale = checked_sigma0(sigma0, self.n, self.dtype)
        self.sigma0 = self.sigma
        self.max_sigma = math.inf  # sigma grows no further: a box has an end
        if closed is not None:
            self.max_sigma = max(self.sigma, closed.largest_sigma(self.scale))
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
        self._asked = None
        if self.noise.treatment is not None and self.noise.wanted_popsize != self.popsize:
            self._resize(self.noise.wanted_popsize)
        if self._placed:
            del self._injected[: self._placed]
            self._placed = 0

    def stop(self) -> dict[str, float]:
        """Return why to stop, as reason -> value; empty while the search is worth going on.

        Values that have never differed are no convergence, whatever the steps: they end as ``flat``.
        """
        sigma, spread, least = self.sigma, self.spread, self.least_difference
        if not 0.0 < sigma < math.inf:
            return {"numerical": sigma}
        reasons = {}
        if self.settling is not None and not self.settling.settled:
            return self._endless()
        if self.settling is not None and spread == math.inf and self.first_scale > 0.0:
            reasons["settled"] = float(self.settling.unimproved)
        if spread < self.tolx and self.first_scale > 0.0:
            reasons["tolx"] = spread
        plateau = self.spread_fun == 0.0 and self.ties.hinder  # fun does differ, by more than that
        if self.spread_fun < least and not plateau and len(self._recent) == self._recent.maxlen:
            span = max(max(self._recent) - min(self._recent), self.spread_fun)
            if span < least:
                reasons["tolfun"] = span
        return reasons | self._endless()

    def _endless(self) -> dict[str, float]:
        """Return why a search that has not converged never will."""
        sigma, spread = self.sigma, self.spread
        reasons: dict[str, float] = {}
        if self.flat_for >= FLAT:
            reasons["flat"] = self.flat_for
        # infinite before the first generation with values
        largest = spread if sigma < spread < math.inf else sigma
        if largest > DIVERGED * self.sigma0:
            reasons["diverged"] = largest
        return reasons

    def constrain(
        self,
        *,
        equality: Iterable[bool] | None = None,
        handling: Handling = "lagrange",
        feasibility_tol: float = FEASIBILITY_TOL,
        linear: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        """Say what constraints mean, before the first candidates are asked for.

        Parameters
        ----------
        equality : iterable of bool, optional
            Which of the constraints that :meth:`tell` is given are to become 0; others are to be 0 or less.
        handling : {"lagrange", "rank"}
            By an augmented Lagrangian, or by ranks alone: see :mod:`lmma.strategies.parts.constraints`.
        feasibility_tol : float
            The largest violation of a point that counts as feasible.
        linear : (A, b), optional
            Linear equalities A x = b, which every candidate then meets.
        """
        if self.generation or self._asked is not None:
            raise ValueError("constrain() comes before the first ask()")
        if linear is not None and self.settling is not None:
            raise ValueError("linear equalities cannot be kept by integers: tell() them among constraints")
        subspace = None if linear is None else checked_subspace(*linear, self.n)
        self.constraint_options = ConstraintOptions(handling, as_flags(equality), feasibility_tol, subspace)

    @property
    def least_difference(self) -> float:
        """The difference between values that ``tolfun`` means; 0 until values have differed.

        It is ``tolfun``, unless the values of the first generation all lie below 1e-8: then eleven digits
        are too few, and it is ``tolfun`` times a ten-thousandth of the largest of them. With constraints it
        is no less than the rounding of their sum.
        """
        small = self.first_scale < SMALL_VALUES
        least = self.tolfun * self.first_scale * 1e-4 if small else self.tolfun
        return least if self.constraints is None or not self.tolfun else max(least, self.constraints.floor)

    @property
    def result(self) -> OptimizeResult:
        """What is known so far, as SciPy presents it."""
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
        if known is not None:
            result.update(maxcv=known.violation, constr=known.at_best.copy(), multipliers=known.multipliers)
        return result

    def _has_converged(self) -> bool:
        try:
            return not CONVERGED.isdisjoint(self.stop())
        except Exception:  # of a user's own; a run that asks it ends with its words
            return False

    def inject(self, points: npt.ArrayLike) -> None:
        """Have ``points``, one or one per row, evaluated among the next candidates.

        A good one pulls the search towards it. Far ones are learned from as if they were at the edge of
        what the search would have tried itself, so that they cannot throw it off (Hansen 2011, Injecting
        external solutions into CMA-ES).
        """
        if not self.can_inject:
            raise TypeError(f"{self.name} takes no injected points: start at the point, or use lm-ma-es")
        self._injected += list(self._checked_points(points))

    @property
    def injected(self) -> Array:
        """The injected points that have not been told yet, (rows, n)."""
        return np.array(self._injected, dtype=self.dtype).reshape(-1, self.n)

    def resample(self, rows: npt.ArrayLike, attempt: int = 1) -> None:
        """Draw the candidates at ``rows`` of the last :meth:`ask` anew, in place.

        ``attempt`` counts how often that has been done: like all candidates, the new ones are a pure
        function of (seed, generation, number), numbered on from those of the generation.
        """
        if not self.can_resample:
            raise TypeError(
                f"{self.name} cannot draw single candidates anew: tell NaN for failed ones (on_error='worst')"
            )
        if self._asked is None:
            raise ValueError("there are no candidates to draw again: call ask() first")
        if attempt < 1:
            raise ValueError(f"attempt counts from 1, got {attempt}")
        rows = checked_rows(rows, self.popsize)
        self._resample(rows, attempt, self._asked)
        if self.box is not None:
            self.box.repair(self._asked, rows)
        if self.integers is not None:
            self.integers.round_rows(self._asked, rows)
        if self.constraint_options.subspace is not None:
            kept = self._asked[rows]
            self.constraint_options.subspace.keep(kept, self.box)
            self._asked[rows] = kept

    def ask_blocks(self, rows: int | None = None) -> Iterator[Array]:
        """Return an iterator over the candidates of this generation, ``rows`` of them at a time.

        Each block is an array (up to ``rows``, n) that the next one overwrites, so that a generation is
        never held as a whole; after the last one :meth:`tell` takes all values, in order. The candidates
        are those of :meth:`ask`; their random numbers are drawn a second time for it.
        """
        if not self.can_stream:
            raise TypeError(f"{self.name} cannot give its candidates in blocks: use ask(), or lm-ma-es")
        self._refuse_to_ask_twice("ask_blocks")
        if self._injected:
            raise ValueError("injected points cannot be given in blocks: call ask() for this generation")
        if self.constraint_options.subspace is not None:
            raise ValueError("linear equalities are not kept in blocks: call ask() instead")
        return self._blocks(rows)

    # State

    def get_state(self) -> State:
        """Return all that a run needs to go on, as named arrays and numbers (copies).

        Between :meth:`ask` and :meth:`tell` it is that of before the candidates were asked for.
        """
        state = collect(self._all_parts())
        state["recent"] = np.array(self._recent, dtype=np.float64)
        state["key"] = np.array(self.key, dtype=np.uint64)
        state["scale"] = np.empty(0) if self.scale is None else self.scale.copy()
        state["injected"] = self.injected
        if self.box is not None:
            state |= {f"box.{name}": value for name, value in self.box.get_state().items()}
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`, taken from a strategy of the same kind and size."""
        if "noise.popsize" in state and int(state["noise.popsize"]) != self.popsize:
            self._resize(int(state["noise.popsize"]))
        constrained = [np.shape(state[name]) for name in state if name == "constraints.at_best"]
        self.constraints = self._new_constraints(int(constrained[0][0])) if constrained else None
        parts = self._all_parts()
        boxed = set() if self.box is None else {f"box.{name}" for name in self.box.get_state()}
        if odd := sorted(set(state) ^ (labels(parts) | boxed | {"recent", "key", "scale", "injected"})):
            raise ValueError(f"state is not of a {self.name} strategy like this one: {', '.join(odd)}")
        restore(parts, state)
        self._recent.clear()
        self._recent.extend(float(value) for value in state["recent"])
        self.key = (int(state["key"][0]), int(state["key"][1]))
        self.scale = np.array(state["scale"], dtype=self.dtype) if len(state["scale"]) else None
        self._injected = list(np.array(state["injected"], dtype=self.dtype).reshape(-1, self.n))
        if self.box is not None:
            self.box.set_state({name.removeprefix("box."): state[name] for name in boxed})
        self._asked, self._placed = None, 0

    def recipe(self) -> tuple[type[Strategy], dict[str, Any]]:
        """Return a class and arguments besides ``x0`` and ``sigma0`` that make a strategy like this one."""
        given: dict[str, Any] = {
            "popsize": self.popsize, "dtype": self.dtype.name, "tolx": self.tolx, "tolfun": self.tolfun,
            **self.options,
        }  # fmt: skip
        lower, upper = np.full(self.n, -math.inf), np.full(self.n, math.inf)
        if self.box is not None:
            lower[:], upper[:], given["boundary"] = self.box.lower, self.box.upper, self.box.name
        if self.integers is not None:
            columns = self.integers.columns
            given["integrality"] = np.isin(np.arange(self.n), columns)
            lower[columns], upper[columns] = self.integers.lower, self.integers.upper
        if self.box is not None or np.isfinite(lower).any() or np.isfinite(upper).any():
            given["bounds"] = SimpleNamespace(lb=lower, ub=upper)
        return type(self), given

    # Helpers

    def _fresh_record(self) -> deque[float]:
        """Return an empty record of the best values of recent generations, for ``tolfun``."""
        return deque(maxlen=10 + math.ceil(30 * self.n / self.popsize))

    def _resize(self, popsize: int) -> None:
        """Go on with another number of candidates per generation, and with all that was learned."""
        state = self.get_state()
        self.popsize = self.noise.popsize = popsize
        self._recent = self._fresh_record()
        self._initialise()
        fresh = self.get_state()  # what has a place for each candidate starts anew
        kept = {name: old for name, old in state.items() if np.shape(old) == np.shape(fresh.get(name, old))}
        kept["noise.popsize"] = popsize
        self.set_state(fresh | kept)

    def _all_parts(self) -> dict[str, object]:
        discrete = {"integers": self.integers, "settling": self.settling}
        used = {name: part for name, part in discrete.items() if part is not None}
        constrained = {} if self.constraints is None else self.constraints.parts()
        watched = {} if self.noise.treatment is None else {"noise": self.noise}
        return {"": self, "ties": self.ties, **used, **constrained, **watched, **self._parts()}

    @property
    def _by_ranks_alone(self) -> bool:
        """Whether constraints are treated by ranks alone, here or by whoever has this strategy inside."""
        own = self.constraints is not None and self.constraints.lagrangian is None
        return own or self.told_places

    @property
    def _is_feasible(self) -> bool:
        return self.constraints is None or self.constraints.feasible

    def _new_constraints(self, count: int) -> Constrained:
        return Constrained(self.n, self.popsize, count, self.constraint_options, judged=self.judged)

    def _in_the_light_of(
        self, constraints: npt.ArrayLike | None, values: Values
    ) -> tuple[Values, int | None]:
        """Return the values that are ranked where there are constraints, and the row of a new best point."""
        if constraints is None:
            raise ValueError("constraints were told before: tell them in every generation")
        known = self.constraints
        given = checked_constraints(constraints, self.popsize, None if known is None else known.count)
        if known is None:
            known = self.constraints = self._new_constraints(given.shape[1])
        return known.told(values, given)

    def _update_with_integers(self, integers: Integers, order: Indices, values: Array) -> None:
        """Learn; then see to it that integers can still change, by their mean and their steps."""
        select = integers.select
        old = self.mean[select].copy()
        self._update(order, values)
        integers.centre(self.mean, old, order, self._selection_weights())
        deviation = np.maximum(self._deviations(integers.columns, old), np.finfo(self.dtype).tiny)
        mean, wanted = integers.bounded(self.mean[select].astype(np.float64), deviation)
        assert self.scale is not None  # where there are integers
        self.mean[select] = mean
        self.scale[select] *= (wanted / deviation).astype(self.dtype)

    def _checked_points(self, points: npt.ArrayLike) -> Array:
        """Return points that are to be candidates, one per row, or say what is wrong with them."""
        rows = checked_injected(points, self.n, self.dtype)
        if self.box is not None and np.any((rows < self.box.lower) | (rows > self.box.upper)):
            raise ValueError("injected points must lie within bounds: numpy.clip(points, low, high)")
        if self.integers is not None and not self.integers.hold(rows):
            raise ValueError("injected points must be integers within bounds where integrality is 1")
        return rows

    def _candidate(self, row: int) -> Array:
        """Return one of the candidates that were asked for last."""
        if self._asked is None:
            raise ValueError("there are no candidates: call ask() first")
        candidate: Array = self._asked[row]
        return candidate

    def _note_differences(self, ranked: Array) -> None:
        """Take note of whether the values of a generation differ at all, and of how large they are."""
        least, most = ranked.item(0), ranked.item(-1)
        if least == most:
            self.flat_for = self.flat_for + 1 if len(ranked) > 1 else 0
            return
        self.flat_for = 0
        if self.first_scale == 0.0:
            self.first_scale = max(abs(least), abs(most))

    def _inside(self, x: Array) -> Array:
        """Return a copy of ``x``, in the box and where linear equalities hold, its integers rounded."""
        inside = x.copy() if self.box is None else self.box.inside(x)
        if self.constraint_options.subspace is not None:
            self.constraint_options.subspace.keep(inside[np.newaxis], self.box)
        return inside if self.integers is None else self.integers.rounded(inside)

    def _refuse_to_ask_twice(self, call: str) -> None:
        if self._asked is not None:
            raise ValueError(f"{call}() came before tell(): tell() the values of the last candidates first")

    def _refuse_what_does_not_fit(self) -> None:
        needed = self.memory(self.n, self.popsize, self.dtype.itemsize)
        if needed < SMALL:
            return
        refuse_what_does_not_fit(
            f"{self.name} with n={self.n}, popsize={self.popsize}", needed, self._leaner()
        )

    def _leaner(self) -> dict[str, int]:
        """Return what needs less memory than this strategy, as arguments to give, and how much each needs."""
        from lmma.strategies.registry import strategy_class

        lean, usual = strategy_class("lm-ma-es"), default_popsize(self.n)
        methods = {"": type(self).memory} if self.name == lean.name else {"method='lm-ma-es'": lean.memory}
        if self.popsize > usual:
            methods = {"": type(self).memory} | methods
        sizes = {"": self.popsize} | ({f"popsize={usual}": usual} if self.popsize > usual else {})
        single = {"": self.dtype.itemsize} | ({"dtype='float32'": 4} if self.dtype.itemsize > 4 else {})
        return {
            " with ".join(filter(None, (" and ".join(filter(None, (method, size))), precision))): (
                memory(self.n, popsize, itemsize)
            )
            for precision, itemsize in single.items()
            for size, popsize in sizes.items()
            for method, memory in methods.items()
            if method or size or precision
        }


def _integers(integrality: npt.ArrayLike | None, box: Box | None, n: int) -> Integers | None:
    """Return the integer coordinates that a user asks for, within ``box``; None if there are none."""
    if integrality is None:
        return None
    lower = np.full(n, -math.inf) if box is None else box.lower.astype(np.float64)
    upper = np.full(n, math.inf) if box is None else box.upper.astype(np.float64)
    return make_integers(checked_integrality(integrality, n), lower, upper, n)


# Arguments of every strategy, after x0 and sigma0 and before its options
COMMON = tuple(inspect.signature(Strategy).parameters)[2:-1]
