"""The default: quasi-Newton search where values are smooth, an evolution strategy elsewhere, and races.

=========  =====================  ===========================================================================
stage      who searches           what follows
=========  =====================  ===========================================================================
LOOK       -                      the gate at x0 (``gate.py``): smooth -> SLOPES, rough -> RANKS
SLOPES     quasi-Newton           CHALLENGE after 100 n, 200 n, 400 n ... evaluations; at its end see below
CHALLENGE  evolution strategy     from the point and metric of quasi-Newton, for a tenth of the evaluations:
                                  it takes over if it gains more than quasi-Newton did in as many
DUEL       evolution strategy     beyond 100 variables, once quasi-Newton has used 20 n: from x0 for as many
                                  evaluations; RANKS if it is never behind quasi-Newton at the same age
RANKS      evolution strategy     LOOK_AGAIN after 20 n evaluations, and then every quarter of them
LOOK_AGAIN -                      the gate at the scale of the steps: smooth -> ATTEMPT
ATTEMPT    quasi-Newton           from the best point in the learned metric, 5 n + 12 evaluations; RACE if it
                                  gains more per evaluation than the evolution strategy in its last 10 n
RACE       quasi-Newton           for max(15 n, a tenth) evaluations, then
REPLY      evolution strategy     for as many; twice as many in the next round, while quasi-Newton is ahead
LAST_LOOK  -                      the gate and parabolas where quasi-Newton has converged: rough, or
                                  lower far away -> RANKS from x0; lower nearby -> SLOPES again; else ENDED,
                                  or RANKS around this point if values have errors
MODEL      interpolation          in place of quasi-Newton, from its point and metric: if values have errors,
                                  at the first challenge, or where quasi-Newton is stuck or has converged
SPLIT      -                      is the function a sum over coordinates (``gate.py``)? Asked once: before an
                                  evolution strategy starts from x0, or when quasi-Newton does not find it
                                  smooth in single coordinates
SUMS       coordinates            if it is, until that search ends: ENDED if it has converged, else RANKS
COVER      -                      if the function is rough and the budget is small: n points that cover the
                                  box, then RANKS from the best of them, with smaller steps
RIVAL      evolution strategy     if restarts are allowed and the one in RANKS creeps: a generation of another
                                  elsewhere, which takes over if it finds a lower value (``rivals.py``)
ENDED      quasi-Newton           ``stop()`` has its reason
=========  =====================  ===========================================================================

A race that the evolution strategy wins leaves its state untouched: a quasi-Newton search that ends in one of
many valleys costs its evaluations and nothing else.

At the end of quasi-Newton in SLOPES: if it has *converged*, the function is looked at once more, with steps
of sigma0. If it is rough there, or lower at this distance, this was one valley among many, or a kink: an
evolution strategy searches from x0. If a point nearby is lower, this was no minimum, but the metric had
collapsed: slopes begin again. Otherwise, if values are exact, the portfolio has converged, too. If they have
errors, interpolation continues, whose points are farther apart, and then an evolution strategy. If
quasi-Newton is *stuck*, an evolution strategy continues from the best point with equal steps in all
directions; if values have errors, interpolation comes before it.

The portfolio consists of complete strategies, each with its own bounds, noise handling and convergence. Its
own record counts all evaluations and keeps the best point of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Never, cast, final

import numpy as np
import numpy.typing as npt

from lmma.kernels import Key
from lmma.layers.bounds import DEFAULT as DEFAULT_BOUNDARY, Boundary, Bounds, read_bounds
from lmma.layers.layer import ORDER
from lmma.methods import gate, rivals
from lmma.methods.ask_tell import COMMON, DEFAULT_TOLERANCE, NO_ROWS, Division, Record, Strategy
from lmma.methods.convergence import CONVERGED
from lmma.methods.coordinates import Coordinates
from lmma.methods.es import ES
from lmma.methods.interpolation import Interpolation, InterpolationMethod
from lmma.methods.pulse.method import Pulse, PulseFull
from lmma.methods.quasi_newton import NEAR, Phase, QuasiNewton, QuasiNewtonMethod
from lmma.methods.rivals import Trace
from lmma.numerics.checks import (
    Precision,
    Seed,
    check_choice,
    check_option_names,
    checked_out,
    checked_values,
    key_from,
)
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import (
    ANY,
    COUNT,
    FINITE,
    FLAG,
    POSITIVE,
    VALUE,
    Declared,
    Range,
    State,
    collect,
    labels,
    restore,
)
from lmma.numerics.value_noise import ValueNoise

if TYPE_CHECKING:
    from lmma.layers.constraints import ConstraintOptions
    from lmma.layers.noise import Treatment
    from lmma.numerics.metric import Metric

Vector = npt.NDArray[np.float64]

MODEL_UP_TO = 100  # variables for interpolation; beyond, its steps take longer than most evaluations
FULL_MATRIX_UP_TO = 300  # variables; beyond, the cost of a matrix exceeds the evaluations it saves
SHORT = 6  # evaluations per variable: with fewer left, none is spent on the noise of values
FIRST_CHALLENGE = 100  # evaluations per variable before the first challenge
CHALLENGE_SHARE = 0.1  # of the evaluations so far, for a challenge
FIRST_PART = 0.25  # of the turn of a challenger, after which it may be given up
HOPELESS = 0.2  # of the gain needed by then: with less, it is
NEARLY = 0.5  # of the gain of quasi-Newton: a challenger that gains as much moves it
FIRST_LOOK = 20  # evaluations per variable between looks
LOOK_SHARE = 0.25  # of the evaluations of the evolution strategy, between looks
ATTEMPT = (5, 12)  # evaluations of an attempt: per variable, and in addition
WINDOW = 10  # evaluations per variable, over which the gain of the evolution strategy is measured
FIRST_RACE = 15  # evaluations per variable of the first round of a race
RACE_SHARE = 0.1  # of all evaluations, for the first round of a race
EXACT = 1e-13  # relative error of values up to which they count as exact
UNDERFLOW = 1e-250  # errors below are of values that vanish
AROUND = 3.0  # step size after quasi-Newton has used the last digits, in steps that change f by its error
RECENT_STEPS = 10.0  # step size after quasi-Newton is stuck, in its last steps
ROUGH_SHARE = 0.25  # of the evaluations in restarts, for quasi-Newton on a rough function
COVER_UP_TO = 30  # evaluations per variable, of the budget, up to which points cover the box
COVERED_STEP = 0.5  # step size from the best of them, in units of sigma0
DUEL_FROM = 100  # variables; with fewer, a challenge comes soon enough
DUEL_AT = 20  # evaluations per variable before a duel
DUEL_FIRST = 2.5  # evaluations per variable of the evolution strategy before it is compared
POSSIBLE = 1e-3  # interaction that the errors of values may explain, which are then measured
SPLIT_AFTER = (3, 300)  # evaluations, per variable and at least, before a look at additivity
WITHIN = 3.0  # standard deviations of an evolution strategy within which its valley extends
LEAST_STEP = 1e-3  # the same, at least, in units of sigma0


class Stage(IntEnum):
    """Use of the next batch."""

    LOOK = 0
    SLOPES = 1
    CHALLENGE = 2
    RANKS = 3
    LOOK_AGAIN = 4
    ATTEMPT = 5
    RACE = 6
    REPLY = 7
    ENDED = 8
    LAST_LOOK = 9
    MODEL = 10
    RIVAL = 11
    COVER = 12
    SPLIT = 13
    SUMS = 14
    DUEL = 15


LOOKS = frozenset((Stage.LOOK, Stage.LOOK_AGAIN, Stage.LAST_LOOK, Stage.COVER, Stage.SPLIT))
WITH_SLOPES = frozenset((Stage.SLOPES, Stage.MODEL, Stage.ATTEMPT, Stage.RACE, Stage.LAST_LOOK, Stage.ENDED))


@final
class Course:
    """The numbers that decide which search comes next.

    Attributes
    ----------
    stage : int
        A :class:`Stage`.
    step : int
        Number of batches of the current look.
    batches, made : int
        Number of batches, and of searches created.
    next_at : int
        Evaluations, of all in SLOPES and of the evolution strategy in RANKS, at which the next challenge or
        look is due.
    mark_at, mark : int, float
        Evaluations before that, from which the gain is measured, and the best value there.
    gain : float
        Gain of the search that is challenged, in the window before.
    until : int
        Evaluations of the current search at which its turn ends.
    turn : int
        Evaluations of each search in this round of a race.
    handed : bool
        True if the evolution strategy started from the metric of quasi-Newton, whose convergence then counts.
    only_ranks : bool
        True if values must not be used: constraints, injected points, or noise.
    score : float
        Score of the last look.
    by_slopes, by_ranks, by_looks : int
        Evaluations of each part.
    converged : int
        How often quasi-Newton has converged.
    modelled : bool
        True if interpolation has taken the place of quasi-Newton.
    rugged : bool
        True if the function is rough at the scale of sigma0.
    duelled : bool
        True if quasi-Newton has been compared with an evolution strategy from x0.
    split : bool
        True if additivity has been looked at.
    by_sums : int
        Evaluations of the search by coordinates.
    rivals, by_rivals : int
        Number of rivals, and their evaluations.
    judged_at : int
        Evaluations of the rival at which it is judged next.
    popsize, rival_popsize : int
        Populations of the evolution strategy, once a rival has taken over, and of the rival; 0 for the usual.
    own_best : float
        Best value without those of the present rival.
    turns : list of float
        Evaluations and stage at each change of the search, alternately.
    """

    STATE: ClassVar[Declared] = {
        "stage": Range("the number of a stage", least=0, most=len(Stage) - 1, integer=True),
        "step": COUNT, "batches": COUNT, "made": COUNT, "next_at": COUNT, "mark_at": COUNT, "mark": VALUE,
        "gain": Range("a number, or infinity", infinite=True), "until": COUNT, "turn": COUNT, "handed": FLAG,
        "only_ranks": FLAG, "score": Range("a number, or infinity", infinite=True), "by_slopes": COUNT,
        "by_ranks": COUNT, "by_looks": COUNT, "converged": COUNT, "turns": COUNT, "modelled": FLAG,
        "duelled": FLAG, "split": FLAG, "by_sums": COUNT, "rugged": FLAG, "rivals": COUNT, "by_rivals": COUNT,
        "judged_at": COUNT, "popsize": COUNT, "rival_popsize": COUNT, "own_best": VALUE,
    }  # fmt: skip

    def __init__(self) -> None:
        self.stage = int(Stage.LOOK)
        self.step, self.batches, self.made = 0, 0, 0
        self.next_at, self.mark_at, self.mark = 0, 0, math.inf
        self.gain, self.until, self.turn = 0.0, 0, 0
        self.handed, self.only_ranks = False, False
        self.score = 0.0
        self.by_slopes, self.by_ranks, self.by_looks = 0, 0, 0
        self.converged = 0
        self.modelled, self.rugged, self.split, self.duelled = False, False, False, False
        self.by_sums = 0
        self.rivals, self.by_rivals, self.judged_at = 0, 0, 0
        self.popsize, self.rival_popsize, self.own_best = 0, 0, math.inf
        self.turns: list[float] = [0.0, float(Stage.LOOK)]

    def enter(self, stage: Stage, evaluations: int) -> None:
        """Change the stage after ``evaluations``."""
        if stage != self.stage:
            self.turns = [*self.turns, float(evaluations), float(stage)]
        self.stage, self.step = int(stage), 0


@final
class Site:
    """The point around which the portfolio looks, and what is known of the values there.

    Attributes
    ----------
    x, f : ndarray, float
        The point and its value, infinite until it is known.
    start : ndarray, (n,)
        Best point of the first look.
    lines : ndarray, (q, n)
        Directions of the look.
    one_sided : bool
        True if both points of a line lie on the same side of x.
    joint : ndarray, (q,) or (0,)
        Values at the far ends of the lines, if known when additivity is looked at.
    steps : ndarray, (n,)
        sigma0 of each coordinate.
    key : (int, int)
        Source of all randomness.
    """

    STATE: ClassVar[Declared] = {
        "x": FINITE, "f": VALUE, "start": FINITE, "lines": FINITE, "one_sided": FLAG, "joint": ANY,
        "steps": POSITIVE, "key": ANY,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("lines", "joint")

    def __init__(self, x: Vector, steps: Vector, key: Key) -> None:
        self.x, self.start, self.steps, self.key = x, x.copy(), steps, key
        self.f = math.inf
        self.lines: Vector = np.empty((0, len(x)))
        self.one_sided = False
        self.joint: Vector = np.empty(0)


class Portfolio(Strategy):
    """Quasi-Newton where values are smooth, an evolution strategy elsewhere: the default, O(n^2).

    A look at 13 or 21 points decides which begins. Then the other one is tried now and then, and takes over
    if it gains more. On smooth functions this needs a fraction of the evaluations of an evolution strategy;
    on others, a little more than its evaluations. Unlike an evolution strategy it uses the values: it is not
    invariant under increasing transformations of fun.

    Up to 1000 variables it stores matrices, in all about 10 n^2 numbers. Beyond, it needs O(n log n), and the
    two searches hand over only the scales of coordinates.

    Integers, choices and equality constraints are not supported; ``method="auto"`` then selects another
    method. If constraints are told or points are injected, the evolution strategy continues alone.

    Arguments are those of :class:`lmma.Strategy`; ``popsize``, ``boundary`` and ``noise`` apply to the
    evolution strategy. Batches differ in size.

    Parameters
    ----------
    begin : {"look", "slopes", "ranks"}
        What to begin with. With "slopes", the search ends when quasi-Newton does.
    rivals : bool
        Whether other evolution strategies start elsewhere once one creeps, and whether a search ends at the
        first minimum that it finds. True if restarts can follow.
    cover : bool
        Whether an evolution strategy with a small budget may start at the best of n points in the box. True
        if sigma0 is the default.

    Examples
    --------
    >>> es = lmma.strategy("auto", np.full(8, 3.0), 1.0, rng=1)
    >>> while not es.stop():
    ...     es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> es.best_fun < 1e-9, es.evaluations < 120
    (True, True)

    References
    ----------
    Moré and Wild, *Estimating computational noise*, SIAM Journal on Scientific Computing 33 (2011), for the
    errors of values. The gate, the races and the hand-over of the metric are new in lmma.
    """

    name = "portfolio"
    can_inject = True
    uses_values = True
    supports = frozenset(ORDER) - {"integers", "choices"}

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
        categories: Mapping[int, Any] | None = None,
        begin: str = "look",
        rivals: bool = False,
        cover: bool = False,
        **options: Any,
    ) -> None:
        cls = type(self)
        check_option_names(self.name, options, self.known_options(), COMMON)
        if integrality is not None and np.any(np.asarray(integrality)):
            cls.require_support("integers", "integers (integrality=)")
        if categories:
            cls.require_support("choices", "choices (categories=)")
        check_choice("begin", begin, ("look", "slopes", "ranks"))
        self._common: dict[str, Any] = {
            "popsize": popsize, "bounds": bounds, "boundary": boundary, "dtype": dtype, "tolx": tolx,
            "tolfun": tolfun, "threads": threads,
        }  # fmt: skip
        self._noise: Treatment | None = None
        self._budget = math.inf  # evaluations that the run allows
        self._constraint_options: ConstraintOptions | None = None
        self._polled, self._asked = NO_ROWS, None
        self._waiting: list[Array] = []  # points injected between ask() and tell()
        self.course, self.errors = Course(), ValueNoise()
        self.slopes: QuasiNewton | Interpolation | None = None
        self.sums: Coordinates | None = None
        self.rival: Strategy | None = None
        self._rivals, self._cover = bool(rivals), bool(cover)
        self.trace, self.rival_trace = Trace(), Trace()
        key = key_from(rng)
        self.ranks: Strategy | None = self._new_ranks(x0, sigma0, key)
        self._follow(self.ranks)
        start = self.ranks._inside(self.ranks.mean)
        self._common["popsize"] = self.ranks.popsize
        steps = np.broadcast_to(np.asarray(self.ranks.steps, dtype=np.float64), start.shape).copy()
        self._limits = None
        if bounds is not None:
            lower, upper = read_bounds(bounds, len(start))
            self._limits = (lower.astype(np.float64), upper.astype(np.float64))
        self.record = Record(start.copy())
        self.site = Site(start.astype(np.float64), steps, key)
        self._begin = begin
        if begin == "ranks":
            self._begin_ranks()
        elif begin == "look":
            self._place_lines(gate.random_lines(self.generator(), gate.line_count(self.n), steps))
        self.handle_noise(noise)
        self._initialise()

    @classmethod
    def missing(cls) -> list[str]:
        """Return the names of required methods that this class does not define: none."""
        return []

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the options of this strategy, beyond those common to all strategies."""
        return ("begin", "rivals", "cover")

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the approximate memory of a run in bytes: that of both searches."""
        model = Interpolation.memory(n, popsize, itemsize) if n <= MODEL_UP_TO else 0
        ranks = _ranks_class(n).memory(n, popsize, itemsize)
        return ranks + max(model, QuasiNewton.memory(n, popsize, itemsize))

    # Searches

    @property
    def active(self) -> Strategy:
        """The strategy that makes the next batch, or would make it without a look."""
        return self._active

    def _follow(self, search: Strategy) -> None:
        """Take method, layers and convergence from ``search``, which makes the next batch."""
        self._active = search
        self.method, self.layers, self.convergence = search.method, search.layers, search.convergence

    def _next_key(self) -> Key:
        self.course.made += 1
        words = np.random.SeedSequence((*self.site.key, self.course.made)).generate_state(2, np.uint64)
        return int(words[0]), int(words[1])

    def _new_ranks(
        self, x0: npt.ArrayLike, sigma0: float | npt.ArrayLike, key: Key, popsize: int = 0
    ) -> Strategy:
        """Return a new evolution strategy, with the usual population if ``popsize`` is 0."""
        options = self._common | ({"popsize": popsize} if popsize else {})
        search = _ranks_class(np.size(np.asarray(x0)))(x0, sigma0, rng=key, **options)
        search.record.snapshots.stop()
        search.handle_noise(self._noise)
        if self._constraint_options is not None:
            search.constraint_options = self._constraint_options
        return search

    def _new_slopes(self, x: Array, f: float) -> QuasiNewton:
        """Return a new quasi-Newton search at ``x``, with value ``f``."""
        search = QuasiNewton(x, self.site.steps, rng=self._next_key(), **self._common)
        search.record.snapshots.stop()
        search.record.best_fun = f
        self.course.modelled = False
        return search

    def _new_model(self, x: Array, f: float) -> Interpolation:
        """Return a new search by interpolation at ``x``, with value ``f``."""
        search = Interpolation(x, self.site.steps, rng=self._next_key(), **self._common)
        search.record.snapshots.stop()
        search.record.best_fun = f
        self.course.modelled = True
        return search

    def _new_sums(self, x: Array, f: float) -> Coordinates:
        """Return a new search by coordinates at ``x``, with value ``f``."""
        search = Coordinates(x, self.site.steps, rng=self._next_key(), **self._common)
        search.record.snapshots.stop()
        search.record.best_fun = f
        return search

    @property
    def _slopes_method(self) -> QuasiNewtonMethod | InterpolationMethod:
        assert self.slopes is not None
        return self.slopes.method

    @property
    def _quasi_newton(self) -> QuasiNewtonMethod:
        assert isinstance(self.slopes, QuasiNewton)
        return self.slopes.method

    def _both(self) -> tuple[QuasiNewton | Interpolation, Strategy]:
        assert self.slopes is not None
        assert self.ranks is not None
        return self.slopes, self.ranks

    def _es(self) -> ES:
        assert self.ranks is not None
        return cast(ES, self.ranks.method)

    # Candidates

    @property
    def batch_size(self) -> int:
        """Number of rows that the next :meth:`ask` returns."""
        if self._asked is not None:
            return len(self._asked)
        stage, step = self.course.stage, self.course.step
        if stage == Stage.LOOK and step == 1:
            return len(NEAR)
        if stage == Stage.LAST_LOOK and step == 1:
            return len(self.site.lines)
        if stage == Stage.COVER:
            return self.n
        if stage == Stage.SPLIT:
            return (2 if len(self.site.joint) else 3) * len(self.site.lines)
        if stage in LOOKS:
            return 4 * len(self.site.lines) + (stage == Stage.LOOK and step == 0)
        return self.active.batch_size

    def ask(self, out: Array | None = None) -> Array:
        """Return the candidates to evaluate, (batch_size, n), one per row."""
        self._check_no_pending("ask")
        if self.course.stage not in LOOKS:
            self._asked = self.active.ask(out)
            return self._asked
        out = checked_out(out, (self.batch_size, self.n), self.dtype)
        out[...] = self._points_to_look_at()
        self._asked = out
        return out

    def _points_to_look_at(self) -> Vector:
        site, course = self.site, self.course
        if course.stage == Stage.LOOK and course.step == 1:
            normal = self.generator().standard_normal((len(NEAR), self.n))
            near: Vector = site.x + np.array(NEAR)[:, None] * normal * self.site.steps
            return near if self._limits is None else np.clip(near, *self._limits)
        if course.stage == Stage.LAST_LOOK and course.step == 1:
            return site.x + site.lines
        if course.stage == Stage.COVER:
            return self._points_in_box()
        if course.stage == Stage.SPLIT:
            return self._points_to_split()
        scales = gate.NEARBY if course.stage == Stage.LOOK_AGAIN else gate.AT_START
        around = gate.points(site.x, site.lines, scales, self._limits, one_sided=site.one_sided)
        return np.vstack((site.x, around)) if course.stage == Stage.LOOK and course.step == 0 else around

    def generator(self, stream: int = 0) -> np.random.Generator:
        """Return a random generator for this batch, a pure function of (key, batch, stream)."""
        counter = np.array([0, self.course.batches, 1 + stream, 1], dtype=np.uint64)  # word 3 is 0 in methods
        return np.random.Generator(
            np.random.Philox(key=np.array(self.site.key, dtype=np.uint64), counter=counter)
        )

    # Learning

    def tell(
        self,
        values: npt.ArrayLike,
        *more: Never,
        constraints: npt.ArrayLike | None = None,
        repeats: npt.ArrayLike | None = None,
    ) -> None:
        """Learn from the values of the last candidates, in the order of :meth:`ask`."""
        if more:
            raise TypeError("tell() takes the values alone, in the order of ask(): es.tell(values)")
        if self._asked is None:
            raise ValueError("tell() called before ask()")
        stage = Stage(self.course.stage)
        if stage in LOOKS:
            raw = checked_values(values, len(self._asked))
            self._count_look(raw)
            self._asked = None
            if constraints is None:
                self._look(raw)
            else:
                self._leave_values()
        else:
            search = self.active
            before = search.evaluations, search.failures
            search.tell(values, constraints=constraints, repeats=repeats)
            self._count(search, *before)
            self._asked = None
            self._after_batch(stage)
        self._fit_budget()
        if self._waiting:
            self._leave_values()
            self.active.inject(np.vstack(self._waiting))
            self._waiting.clear()
        self.course.batches += 1
        self._follow(self.active)
        self.record.snapshots.take(self.course.batches - 1, self)

    def _count_look(self, raw: Vector) -> None:
        """Count the evaluations of a look, and keep the best of them."""
        assert self._asked is not None
        record, course = self.record, self.course
        known = ~np.isnan(raw)
        record.evaluations += len(raw)
        record.failures += len(raw) - int(np.count_nonzero(known))
        record.ranked_values = np.sort(raw[known])
        course.by_looks += len(raw)
        self.errors.remember(np.where(np.isfinite(raw), raw, math.nan))
        if known.any() and np.nanmin(raw) < record.best_fun:
            best = int(np.nanargmin(raw))
            record.best_fun, record.best_x[...] = raw.item(best), self._asked[best]
            course.own_best = min(course.own_best, record.best_fun)

    def _count(self, search: Strategy, evaluations: int, failures: int) -> None:
        """Count what ``search`` has evaluated, beyond the given numbers, and keep the best of it."""
        record, course = self.record, self.course
        used = search.evaluations - evaluations
        record.evaluations += used
        record.failures += search.failures - failures
        record.ranked_values = search.ranked_values
        if search is self.slopes or search is self.sums:
            course.by_slopes += used if search is self.slopes else 0
            if course.stage == Stage.SLOPES:
                self.trace.add(search)
            course.by_sums += used if search is self.sums else 0
            course.own_best = min(course.own_best, search.best_fun)
        else:
            course.by_ranks += used
            self._trace(search, used)
        if search.best_fun < record.best_fun or search.constraints is not None:
            record.best_fun = search.best_fun
            record.best_x[...] = search.best_x

    # The look at x0

    def _look(self, raw: Vector) -> None:
        """Learn the values of a look, and decide who searches."""
        course, site, finite = self.course, self.site, np.where(np.isfinite(raw), raw, math.nan)
        if course.stage == Stage.LOOK_AGAIN:
            self._decide_on_attempt(self._is_smooth(finite, gate.NEARBY))
        elif course.stage == Stage.LAST_LOOK:
            self._last_look(finite)
        elif course.stage == Stage.COVER:
            self._begin_at_best()
        elif course.stage == Stage.SPLIT:
            self._decide_on_sums(finite)
        elif course.step == 1 or (course.step == 0 and math.isnan(finite[0])):
            self._find_start(finite)
        elif self._begin == "slopes":
            site.f = raw.item(0)
            self._begin_slopes()
        else:
            if course.step == 0:
                site.f = raw.item(0)
            around = finite[len(finite) - 4 * len(site.lines) :]
            if not self._is_smooth(around, gate.AT_START):
                course.rugged = True
                if self._may_split():
                    self._split(around[: len(site.lines)])
                elif self._may_cover():
                    self._enter(Stage.COVER, self.active)
                else:
                    self._begin_ranks()
                return
            row = int(np.nanargmin(finite))
            if finite[row] < site.f:
                site.x[...], site.f = self._points_to_look_at()[row], raw.item(row)
            self._begin_slopes()

    def _find_start(self, values: Vector) -> None:
        """Look around the best point found near an x0 that failed; try closer points if all failed."""
        course, site = self.course, self.site
        if np.isnan(values).all():
            if course.step:
                self._begin_ranks()
            course.step = 1
            return
        row = int(np.nanargmin(values))
        site.x[...] = self._points_to_look_at()[row]
        site.f, course.step = values.item(row), 2
        if self._begin == "slopes":
            self._begin_slopes()
        else:
            self._place_lines(gate.random_lines(self.generator(1), gate.line_count(self.n), site.steps))

    def _place_lines(self, lines: Vector, scales: tuple[float, float] = gate.AT_START) -> None:
        """Set the directions of a look, inside the box."""
        site = self.site
        site.lines, site.one_sided = gate.inside(site.x, lines, scales[0], self._limits)

    def _is_smooth(self, values: Vector, scales: tuple[float, float]) -> bool:
        if not self.errors.measured_at:
            self.errors.measure(np.empty(0), self.site.f)  # digits and float32; noise is measured by slopes
        verdict = gate.judge(values, self.site.f, scales, self.errors, one_sided=self.site.one_sided)
        self.course.score = verdict.score
        return verdict.smooth

    def _begin_slopes(self) -> None:
        site = self.site
        site.start[...] = site.x
        self.trace.clear()
        self.slopes, self.ranks = self._new_slopes(site.x, site.f), None
        self._quasi_newton.begin_at(site.f, self.errors.recent if self._left() < SHORT * self.n else None)
        self._enter(Stage.SLOPES, self.slopes)
        self._set_challenge(FIRST_CHALLENGE * self.n)

    def _begin_ranks(self) -> None:
        assert self.ranks is not None
        self._enter(Stage.RANKS, self.ranks)
        self._set_look(FIRST_LOOK * self.n)

    # Sums over coordinates

    def _may_split(self) -> bool:
        """Return whether to look at additivity: once, and if the budget suffices to use it."""
        return not self.course.split and self._left() > COVER_UP_TO * self.n

    def _split(self, joint: Vector) -> None:
        """Look at additivity along the lines, at whose far ends fun is ``joint``; none if unknown."""
        self.site.joint = joint.copy()
        self._enter(Stage.SPLIT, self.active)

    def _points_to_split(self) -> Vector:
        """Return the far ends of the lines, if their values are unknown, and those of the halves of each."""
        site = self.site
        ends = gate.points(site.x, site.lines, gate.AT_START, self._limits, one_sided=site.one_sided)
        ends = ends[: len(site.lines)]
        halves = gate.halves(self.generator(4), site.x, ends)
        return halves if len(site.joint) else np.concatenate((ends, halves))

    def _decide_on_sums(self, values: Vector) -> None:
        """Search by coordinates if fun is a sum over them; continue as before if not."""
        site, course, q = self.site, self.course, len(self.site.lines)
        course.split = True
        joint = site.joint if len(site.joint) else values[:q]
        verdict = gate.judge_additivity(joint, values[len(values) - 2 * q :], site.f, self.errors)
        if verdict.interaction > POSSIBLE:
            self._continue_without_sums()
            return
        self.sums = self._new_sums(site.x, site.f)
        self.sums.limit(self._left())
        if verdict.additive:
            self.sums.method.begin_at(site.f, self.errors, additive=True)
        else:
            self.sums.method.begin_at(site.f)
        self._enter(Stage.SUMS, self.sums)

    def _continue_without_sums(self) -> None:
        """Continue the search from before the look at additivity."""
        self.sums = None
        if self.slopes is None:
            self._begin_ranks()
        elif self.slopes.stop():
            self._continue_from_start()
        else:
            self._enter(Stage.SLOPES, self.slopes)

    def _after_sums(self) -> None:
        """Accept the end of the search by coordinates, or let an evolution strategy continue.

        It continues, too, if the gains of all coordinates together once fell short of their sum.
        """
        sums = self.sums
        assert sums is not None
        reasons = sums.stop()
        if sums.method.known and not sums.method.additive:
            self._continue_without_sums()
            return
        if not reasons:
            return
        self.slopes = None
        error = sums.method.errors.error(sums.best_fun)
        exact = error <= max(EXACT * abs(sums.best_fun), UNDERFLOW)
        if exact and not sums.method.sweep.shortfalls and not CONVERGED.isdisjoint(reasons):
            self._enter(Stage.ENDED, sums)
        else:
            self._continue_with(self._ranks_after_sums())

    def _ranks_after_sums(self) -> Strategy:
        """Return an evolution strategy at the best point, with the steps that coordinates have learned."""
        assert self.sums is not None
        steps, self.sums = self.sums.method.root(), None
        return self._new_ranks(self.record.best_x, steps, self._next_key())

    def _may_cover(self) -> bool:
        """Return whether points that cover the box may replace its centre as the start."""
        limits, left = self._limits, self._left()
        closed = limits is not None and bool(np.isfinite(limits[1] - limits[0]).all())
        return self._cover and closed and 2 * self.n <= left <= COVER_UP_TO * self.n

    def _points_in_box(self) -> Vector:
        """Return n points of Sobol's sequence, shifted at random, in the box."""
        from scipy.stats.qmc import Sobol

        assert self._limits is not None
        lower, upper = self._limits
        regular = Sobol(self.n, scramble=False).random_base2(math.ceil(math.log2(max(self.n, 2))))[: self.n]
        points: Vector = lower + np.mod(regular + self.generator(3).random(self.n), 1.0) * (upper - lower)
        return np.clip(points, lower, upper)

    def _begin_at_best(self) -> None:
        """Begin an evolution strategy at the best point so far, with smaller steps than from the centre."""
        record, steps = self.record, COVERED_STEP * self.site.steps
        if math.isfinite(record.best_fun):
            self.site.x[...], self.site.f = record.best_x, record.best_fun
            self.ranks = self._new_ranks(record.best_x, steps, self._next_key())
        self._begin_ranks()

    def _enter(self, stage: Stage, search: Strategy) -> None:
        self.course.enter(stage, self.record.evaluations)
        self._follow(search)

    # Decisions after a batch

    def _after_batch(self, stage: Stage) -> None:
        match stage:
            case Stage.SLOPES | Stage.MODEL:
                self._after_slopes()
            case Stage.CHALLENGE:
                if self._turn_is_over(self.ranks) or self._challenge_is_hopeless():
                    self._decide_challenge()
            case Stage.RANKS:
                self._after_ranks()
            case Stage.ATTEMPT:
                if self._turn_is_over(self.slopes):
                    self._decide_race()
            case Stage.RACE:
                self._after_race()
            case Stage.REPLY:
                self._after_reply()
            case Stage.RIVAL:
                self._after_rival()
            case Stage.SUMS:
                self._after_sums()
            case Stage.DUEL:
                self._after_duel()

    def _turn_is_over(self, search: Strategy | None) -> bool:
        assert search is not None
        return search.evaluations >= self.course.until or bool(search.stop())

    def _challenge_is_hopeless(self) -> bool:
        """Return whether the challenger has gained next to nothing in the first part of its turn."""
        (slopes, ranks), course = self._both(), self.course
        share = ranks.evaluations / course.until
        gain = slopes.best_fun - ranks.best_fun
        return share >= FIRST_PART and gain < HOPELESS * share * course.gain

    def _set_challenge(self, evaluations: int) -> None:
        """Set the number of evaluations at which quasi-Newton is challenged."""
        course = self.course
        course.next_at, course.mark = evaluations, math.inf
        course.mark_at = evaluations - max(int(CHALLENGE_SHARE * evaluations), 3 * self.n)

    def _set_look(self, evaluations: int) -> None:
        """Set the number of evaluations of the evolution strategy at which to look again."""
        course = self.course
        course.next_at, course.mark = evaluations, math.inf
        course.mark_at = max(0, evaluations - WINDOW * self.n)

    def _after_slopes(self) -> None:
        """Challenge quasi-Newton when it is due; decide who continues when it has ended."""
        slopes, course, done = self.slopes, self.course, self.record.evaluations
        assert slopes is not None
        if reasons := slopes.stop():
            self._slopes_have_ended(reasons)
        elif self._begin == "slopes":
            return
        elif self._slopes_may_split():
            self._split_at_slopes()
        elif self._may_duel():
            course.duelled = True
            self.ranks = self._new_ranks(self.site.start, self.site.steps, self._next_key())
            self._enter(Stage.DUEL, self.ranks)
        elif math.isinf(course.mark) and done >= course.mark_at:
            course.mark = slopes.best_fun
        elif done < course.next_at or not (course.modelled or self._quasi_newton.phase == Phase.TRIAL):
            return
        elif self._model_may_help():
            self._begin_model()
        else:
            course.gain = course.mark - slopes.best_fun
            course.until = max(int(CHALLENGE_SHARE * done), 3 * self.n)
            self.ranks = self._handed_ranks(self._slopes_method.typical_gain())
            self._enter(Stage.CHALLENGE, self.ranks)

    def _may_duel(self) -> bool:
        """Return whether to compare quasi-Newton with an evolution strategy that starts at x0."""
        enough = self.n > DUEL_FROM and self.record.evaluations >= DUEL_AT * self.n
        return enough and not (
            self.course.duelled or self.course.modelled or self._quasi_newton.model.separable
        )

    def _after_duel(self) -> None:
        """Let the evolution strategy take over that is ahead at each age; return to slopes otherwise."""
        slopes, ranks = self._both()
        age = ranks.evaluations
        behind = ranks.best_fun > self.trace.best_at(age)
        if ranks.stop() or (age >= DUEL_FIRST * self.n and behind):
            self.ranks = None
            self._enter(Stage.SLOPES, slopes)
        elif age >= slopes.evaluations:
            self.slopes, self.trace, self.rival_trace = None, self.rival_trace, Trace()
            self._enter(Stage.RANKS, ranks)
            self._set_look(2 * age)

    def _slopes_may_split(self) -> bool:
        """Return whether to look at additivity during slopes: not while they treat coordinates one by one."""
        per_variable, least = SPLIT_AFTER
        enough = self.record.evaluations >= max(per_variable * self.n, least)
        return (
            enough and self._may_split() and not (self.course.modelled or self._quasi_newton.model.separable)
        )

    def _split_at_slopes(self) -> None:
        """Look at additivity around the point of quasi-Newton."""
        method, site = self._slopes_method, self.site
        site.x[...], site.f = method.mean, method.f
        restore({"": self.errors}, collect({"": method.errors}))
        self._place_lines(gate.random_lines(self.generator(), gate.line_count(self.n), site.steps))
        self._split(np.empty(0))

    def _model_may_help(self) -> bool:
        """Return whether values have errors, and quasi-Newton searches."""
        method = self._slopes_method
        return (
            not self.course.modelled
            and self.n <= MODEL_UP_TO
            and method.errors.error(method.f) > max(EXACT * abs(method.f), UNDERFLOW)
        )

    def _begin_model(self) -> None:
        """Continue by interpolation, from the point and metric of quasi-Newton.

        The first stencil is as long as its last steps: errors of values are small against such changes.
        """
        method, site = self._slopes_method, self.site
        error = method.errors.error(method.f)
        search = self._new_model(method.mean, method.f)
        radius = math.sqrt(2 * max(method.typical_gain(), 4 * error))
        search.method.begin_from(method.root(), method.f, radius, method.errors)
        site.x[...], site.f = method.mean, method.f
        self.slopes = search
        self._enter(Stage.MODEL, search)
        self._set_challenge(self.record.evaluations + FIRST_CHALLENGE * self.n)

    def _handed_ranks(self, gain: float) -> Strategy:
        """Return an evolution strategy at the point and in the metric of quasi-Newton.

        Its steps are such that f changes by about ``gain``.
        """
        method = self._slopes_method
        gain = max(gain, method.errors.error(method.f))
        search = self._new_ranks(method.mean, self.site.steps, self._next_key())
        sigma = math.sqrt(2 * gain / self.n)
        cast(ES, search.method).begin_from(method.root(), sigma / 2)
        return search

    def _decide_challenge(self) -> None:
        """Let the winner of a challenge continue.

        If interpolation gains less than tolfun, it has converged without noticing, such as at a kink that it
        takes for errors of values: then the evolution strategy continues and ends the search.
        """
        (slopes, ranks), course = self._both(), self.course
        gain = slopes.best_fun - ranks.best_fun
        ended = course.modelled and max(course.gain, gain) <= float(self._common["tolfun"])
        if ended or gain > max(course.gain, 0.0):
            self.slopes, course.handed = None, True
            self._enter(Stage.RANKS, ranks)
            self._set_look(max(2 * course.until, ranks.evaluations + self.n))
            return
        if gain > NEARLY * course.gain:
            self._slopes_method.move_to(ranks.best_x, ranks.best_fun)
            slopes.record.best_fun = ranks.best_fun
            slopes.record.best_x[...] = ranks.best_x
        self.ranks = None
        self._enter(Stage.MODEL if course.modelled else Stage.SLOPES, slopes)
        self._set_challenge(2 * course.next_at)

    def _slopes_have_ended(self, reasons: Mapping[str, float]) -> None:
        """Accept the end of quasi-Newton, or let an evolution strategy continue."""
        method, course, site = self._slopes_method, self.course, self.site
        converged = not CONVERGED.isdisjoint(reasons)
        course.converged += converged
        if self._begin == "slopes" or "diverged" in reasons:
            self._enter(Stage.ENDED, self.active)
            return
        self._take_errors()
        if converged:
            site.x[...], site.f = self.record.best_x, self.record.best_fun
            lines = gate.random_lines(self.generator(), gate.line_count(self.n), site.steps)
            self._place_lines(lines)
            self._enter(Stage.LAST_LOOK, self.active)
            return
        if self._model_may_help():
            self._begin_model()
            return
        size = float(np.abs(method.step).max())
        factor = min(1.0, max(RECENT_STEPS * size, LEAST_STEP)) if size else 1.0
        self._continue_with(self._new_ranks(self.record.best_x, factor * site.steps, self._next_key()))

    def _last_look(self, values: Vector) -> None:
        """Decide whether quasi-Newton has found a minimum, from the points around it."""
        site, course = self.site, self.course
        limit = site.f - 2 * self.errors.error(site.f)
        if course.step:
            if np.nanmin(values, initial=math.inf) < site.f - self._tolerance() / 4:
                self._begin_anew(values)
            else:
                self._end_at_minimum()
        elif not self._is_smooth(values, gate.AT_START):
            self._leave_minimum(values)
        elif np.nanmin(values[len(values) // 2 :], initial=math.inf) < limit:
            self._begin_anew(values)
        elif np.nanmin(values, initial=math.inf) < limit:
            self._leave_minimum(values)
        elif not self._doubts_minimum(values):
            self._end_at_minimum()

    def _leave_minimum(self, values: Vector) -> None:
        """Leave a minimum among many, or a kink: by coordinates if fun is a sum, else from x0."""
        if self._may_split():
            self._split(values[: len(self.site.lines)])
        else:
            self._continue_from_start()

    def _continue_from_start(self) -> None:
        """Leave slopes for an evolution strategy that starts at x0."""
        self.course.rugged = True
        self.site.x[...] = self.site.start
        self._continue_with(self._new_ranks(self.site.start, self.site.steps, self._next_key()))

    def _doubts_minimum(self, values: Vector) -> bool:
        """Return whether parabolas along the lines of a look have lower points, to be evaluated next."""
        site = self.site
        if site.one_sided:
            return False
        a = gate.AT_START[1]
        ahead, behind = values.reshape(4, -1)[2:]
        with np.errstate(all="ignore"):
            slope, curvature = (ahead - behind) / (2 * a), (ahead + behind - 2 * site.f) / a**2
            t = -slope / curvature
            lower = (curvature > 0) & (np.abs(t) < a) & (slope**2 / (2 * curvature) > self._tolerance())
        site.lines = t[lower, None] * site.lines[lower]
        self.course.step = 1
        return bool(lower.any())

    def _tolerance(self) -> float:
        """Return the difference of values that tells two points apart."""
        return max(10 * self.errors.error(self.site.f), float(self._common["tolfun"]))

    def _begin_anew(self, values: Vector) -> None:
        """Begin slopes at the best point of a look, without a metric: where they ended was no minimum."""
        site, row = self.site, int(np.nanargmin(values))
        site.x[...], site.f = self._points_to_look_at()[row], values.item(row)
        self.slopes = self._new_slopes(site.x, site.f)
        self._quasi_newton.begin_at(site.f)
        self._enter(Stage.SLOPES, self.slopes)
        self._set_challenge(self.record.evaluations + FIRST_CHALLENGE * self.n)

    def _end_at_minimum(self) -> None:
        """End, or let an evolution strategy continue around the minimum if values have errors."""
        method = self._slopes_method
        error = method.errors.error(method.f)
        if error <= max(EXACT * abs(method.f), UNDERFLOW):
            self._enter(Stage.ENDED, self.active)
        elif self._model_may_help():
            self._begin_model()
        else:
            self.course.handed = True
            self._continue_with(self._handed_ranks((2 * AROUND) ** 2 * self.n * error), ATTEMPT[0])

    def _continue_with(self, search: Strategy, first_look: int = FIRST_LOOK) -> None:
        """Leave quasi-Newton for an evolution strategy."""
        self.ranks, self.slopes = search, None
        self._enter(Stage.RANKS, search)
        self._set_look(first_look * self.n)

    def _take_errors(self) -> None:
        """Keep what quasi-Newton knows about the errors of values."""
        restore({"": self.errors}, collect({"": self._slopes_method.errors}))

    def _after_ranks(self) -> None:
        """Look again when it is due."""
        ranks, course = self.ranks, self.course
        assert ranks is not None
        if course.only_ranks or ranks.noise.found or ranks.stop():
            return
        used = ranks.evaluations
        if math.isinf(course.mark) and used >= course.mark_at:
            course.mark = ranks.best_fun
        if used < course.next_at or not math.isfinite(ranks.best_fun):
            self._call_rival()
            return
        course.gain, site, method = course.mark - ranks.best_fun, self.site, self._es()
        site.x[...], site.f = ranks.best_x, ranks.best_fun
        normal = self.generator().standard_normal((gate.FEW_LINES, self.n)).astype(self.dtype)
        lines = np.asarray(method.transform.apply(normal) * method.steps, dtype=np.float64)
        self._place_lines(lines, gate.NEARBY)
        self._enter(Stage.LOOK_AGAIN, ranks)

    # Rivals

    def _trace(self, search: Strategy, used: int) -> None:
        """Take in a generation of an evolution strategy, for comparisons with rivals."""
        course = self.course
        second = search is self.rival or course.stage == Stage.DUEL
        trace = self.rival_trace if second else self.trace
        if search is self.rival:
            course.by_rivals += used
        else:
            course.own_best = min(course.own_best, search.best_fun)
        if search.evaluations == used:
            trace.clear()
        trace.add(search)

    def _call_rival(self) -> None:
        """Give a rival the next generation if it is due."""
        course, done = self.course, self.record.evaluations
        assert self.ranks is not None
        share = rivals.ON_RUGGED if course.rugged else rivals.ELSEWHERE
        if not self._rivals or course.by_rivals >= share * done:
            return
        if self._left() < self.n + max(rivals.POPULATIONS) * self.ranks.popsize:
            return
        if not rivals.creeps(self.trace, self.ranks, done, self._budget):
            return
        if self.rival is None:
            self.rival = self._new_rival(self.ranks.popsize)
            course.judged_at = rivals.first_judgement(self.rival, self.ranks.popsize)
        course.stage = int(Stage.RIVAL)
        self._follow(self.rival)

    def _new_rival(self, popsize: int) -> Strategy:
        """Return an evolution strategy that starts elsewhere, with populations of different sizes in turn."""
        course = self.course
        course.rival_popsize = popsize * rivals.POPULATIONS[course.rivals % len(rivals.POPULATIONS)]
        course.rivals += 1
        return self._new_ranks(self._elsewhere(), self.site.steps, self._next_key(), course.rival_popsize)

    def _elsewhere(self) -> Vector:
        """Return a random point: uniform between finite bounds, around x0 otherwise."""
        site, generator = self.site, self.generator(2)
        x: Vector = site.start + 2 * site.steps * generator.standard_normal(self.n)
        if self._limits is None:
            return x
        lower, upper = self._limits
        closed = np.isfinite(upper - lower)
        x[closed] = lower[closed] + generator.random(self.n)[closed] * (upper - lower)[closed]
        return np.clip(x, lower, upper)

    def _after_rival(self) -> None:
        """Let a rival take over that has found a lower value; drop one that has ended or falls behind."""
        (ranks, rival), course = (self.ranks, self.rival), self.course
        assert ranks is not None
        assert rival is not None
        course.stage = int(Stage.RANKS)
        if rival.best_fun < course.own_best and not rival.stop():
            self.ranks = ranks = rival
            self.rival = None
            self.trace, self.rival_trace = self.rival_trace, Trace()
            course.popsize, course.own_best = course.rival_popsize, rival.best_fun
            course.turns = [*course.turns, float(self.record.evaluations), float(Stage.RANKS)]
            course.handed = False
            self._set_look(max(2 * rival.evaluations, FIRST_LOOK * self.n))
        elif rival.stop() or rival.noise.found:
            self.rival = None
        elif rival.evaluations >= course.judged_at:
            if rivals.falls_behind(self.rival_trace, rival, self.trace, ranks):
                self.rival = None
            else:
                course.judged_at = rivals.next_judgement(rival)
        self._follow(ranks)

    def _decide_on_attempt(self, smooth: bool) -> None:
        """Try slopes if f is smooth at the scale of the steps, or continue and look again later."""
        ranks, site, course = self.ranks, self.site, self.course
        assert ranks is not None
        used = ranks.evaluations
        metric = self._es().metric()
        if not smooth or self._left() < 3 * self.n or not _usable(metric):
            self._enter(Stage.RANKS, ranks)
            self._set_look(used + max(FIRST_LOOK * self.n, int(LOOK_SHARE * used)))
            return
        self.slopes = self._new_slopes(site.x, site.f)
        self._quasi_newton.begin_from(metric, site.f, self.errors if self.errors.measured_at else None)
        course.until = ATTEMPT[0] * self.n + ATTEMPT[1]
        self._enter(Stage.ATTEMPT, self.slopes)

    def _decide_race(self) -> None:
        """Begin a race if slopes have gained more per evaluation than the evolution strategy."""
        slopes, course = self.slopes, self.course
        assert slopes is not None
        self._take_errors()
        gain = self.site.f - slopes.best_fun
        if gain > 0 and gain > course.gain * slopes.evaluations / (WINDOW * self.n):
            course.turn = max(FIRST_RACE * self.n, int(RACE_SHARE * self.record.evaluations))
            course.until = slopes.evaluations + course.turn
            self._enter(Stage.RACE, slopes)
            self._after_race()
        else:
            self._return_to_ranks()

    def _after_race(self) -> None:
        """Give the evolution strategy its turn, or end the race when quasi-Newton has ended."""
        (slopes, ranks), course = self._both(), self.course
        if reasons := slopes.stop():
            self._take_errors()
            converged = not CONVERGED.isdisjoint(reasons)
            course.converged += converged
            if converged and slopes.best_fun < ranks.best_fun and (course.handed or self._ends_within()):
                self._enter(Stage.ENDED, slopes)
            else:
                self._return_to_ranks()
        elif slopes.evaluations >= course.until:
            course.until = ranks.evaluations + course.turn
            self._enter(Stage.REPLY, ranks)

    def _ends_within(self) -> bool:
        """Return whether quasi-Newton has found the minimum of the valley that the evolution strategy is in.

        Then restarts, if they can follow, make better use of the evaluations that it would need to converge.
        """
        slopes, _ = self._both()
        if not self._rivals:
            return False
        metric = self._es().metric()
        return bool(np.all(np.abs(slopes.best_x - metric.mean) <= WITHIN * metric.deviations()))

    def _after_reply(self) -> None:
        """Begin the next round of a race, or end it if the evolution strategy is ahead."""
        (slopes, ranks), course = self._both(), self.course
        if ranks.best_fun < slopes.best_fun or ranks.stop() or ranks.noise.found:
            self._return_to_ranks()
        elif ranks.evaluations >= course.until:
            course.turn *= 2
            course.until = slopes.evaluations + course.turn
            self._enter(Stage.RACE, slopes)

    def _return_to_ranks(self) -> None:
        assert self.ranks is not None
        self.slopes = None
        self._enter(Stage.RANKS, self.ranks)
        self._set_look(2 * self.ranks.evaluations)

    # Limits

    def limit(self, evaluations: float) -> None:
        """Take into account that at most ``evaluations`` more are allowed.

        A batch of quasi-Newton that would not fit is replaced by generations of an evolution strategy.
        """
        self._budget = self.record.evaluations + evaluations
        if self.sums is not None:
            self.sums.limit(evaluations)
        self._fit_budget()
        self._follow(self.active)

    def _left(self) -> float:
        return self._budget - self.record.evaluations

    def _rows_needed(self) -> int:
        """Return the number of rows without which the next batch is of no use."""
        if self.course.stage not in LOOKS:
            for search in (self.slopes, self.sums):
                if search is not None and self.active is search:
                    return search.method.rows_left
        return self.batch_size

    def _fit_budget(self) -> None:
        """Leave quasi-Newton, or a look, if its next phase does not fit into the budget."""
        stage, left = self.course.stage, self._left()
        if self._asked is not None or self._rows_needed() <= left or stage in (Stage.RANKS, Stage.ENDED):
            return
        if self.active.popsize <= left or not self.record.evaluations:
            self._leave_values()

    def _leave_values(self) -> None:
        """Continue with an evolution strategy for good."""
        course = self.course
        course.only_ranks = True
        if course.stage == Stage.RANKS:
            return
        if self.sums is not None and course.stage == Stage.SUMS:
            self.ranks = self._ranks_after_sums()
        elif self.ranks is None:
            if self.course.modelled or self._quasi_newton.progress.iteration:
                self.ranks = self._handed_ranks(self._slopes_method.typical_gain())
            else:
                self.ranks = self._new_ranks(self.site.x, self.site.steps, self._next_key())
        self.slopes, self.rival = None, None
        self._enter(Stage.RANKS, self.ranks)

    # Layers of the evolution strategy

    def handle_noise(self, noise: Treatment | None) -> None:
        """Enable noise detection of the evolution strategy; None disables it.

        A treatment without detection means that noise is known: values are then not used.
        """
        self._noise = noise
        if self.ranks is not None:
            self.ranks.handle_noise(noise)
        if noise not in (None, "auto"):
            self._leave_values()
        self._follow(self.active)

    @property
    def constraint_options(self) -> ConstraintOptions:
        """Configuration of constraint handling."""
        return Strategy.constraint_options.fget(self)  # type: ignore[attr-defined,no-any-return]

    @constraint_options.setter
    def constraint_options(self, options: ConstraintOptions) -> None:
        self._constraint_options = options
        if options.subspace is not None:
            self._leave_values()
        if self.ranks is not None:
            self.ranks.constraint_options = options
        self._follow(self.active)

    def inject(self, points: npt.ArrayLike) -> None:
        """Add ``points``, one or one per row, to the next candidates of the evolution strategy.

        From then on it continues alone.
        """
        checked = self._checked_points(points)
        if not len(checked):
            return
        if self._asked is not None and self.course.stage != Stage.RANKS:
            self._waiting.append(checked)
            return
        self._leave_values()
        self.active.inject(checked)
        self._follow(self.active)

    # Properties

    @property
    def rows_to_repeat(self) -> Indices:
        """Rows of the candidates to evaluate again, as the evolution strategy asks for."""
        return NO_ROWS if self.course.stage in LOOKS else self.active.rows_to_repeat

    def round_number(self, repeat: int = 0) -> int:
        """Return a number for the current batch, different for each batch and repeat."""
        return self.record.evaluations + repeat

    @property
    def steady(self) -> bool:
        """True if the next batch comes from the distribution of one search, as stopping rules assume."""
        return self.course.stage == Stage.RANKS

    @property
    def key(self) -> Key:
        """Seed of all random numbers, two integers."""
        return self.site.key

    @property
    def generation(self) -> int:
        """Number of completed batches."""
        return self.course.batches

    @property
    def turns(self) -> list[tuple[int, str]]:
        """Evaluations after which a search began, and its name."""
        numbers = self.course.turns
        names = {stage: self._name_in(stage) for stage in Stage}
        return [
            (int(at), names[Stage(int(stage))]) for at, stage in zip(numbers[::2], numbers[1::2], strict=True)
        ]

    @property
    def shares(self) -> dict[str, int]:
        """Evaluations of each part."""
        course = self.course
        found = {
            "look": course.by_looks,
            self._name_in(Stage.SLOPES): course.by_slopes,
            self._name_in(Stage.SUMS): course.by_sums,
            self._name_in(Stage.RANKS): course.by_ranks,
        }
        return {name: count for name, count in found.items() if count}

    @property
    def division(self) -> Division:
        """The beginning, the evaluations of each part, and the share that slopes deserve in restarts.

        The share is relative to the evolution strategy: 1 if fun is smooth, less if it is rough but slopes
        have converged, else 0.
        """
        course = self.course
        smooth = self._begin == "look" and Stage.SLOPES in course.turns[1::2]
        share = 1.0 if smooth else ROUGH_SHARE if course.converged else 0.0
        return Division(
            self._begin, course.by_slopes, course.by_looks, share, course.by_rivals, course.by_sums
        )

    def _name_in(self, stage: Stage) -> str:
        if stage in LOOKS:
            return "look"
        if stage == Stage.MODEL:
            return Interpolation.name
        if stage == Stage.SUMS:
            return Coordinates.name
        return QuasiNewton.name if stage in WITH_SLOPES else _ranks_class(self.n).name

    def stop(self) -> dict[str, float]:
        """Return the reasons to stop, as reason -> value: those of the search that ends the portfolio."""
        if self.course.stage in (Stage.RANKS, Stage.ENDED):
            return self.active.stop()
        return {}

    # State

    def _own_parts(self) -> dict[str, object]:
        return {
            "course": self.course, "errors": self.errors, "site": self.site, "record": self.record,
            "trace": self.trace, "rival_trace": self.rival_trace,
        }  # fmt: skip

    def _searches(self) -> dict[str, Strategy]:
        """Return the present searches, by the prefix of their state."""
        found = {"slopes": self.slopes, "sums": self.sums, "ranks": self.ranks, "rival": self.rival}
        return {prefix: search for prefix, search in found.items() if search is not None}

    def get_state(self) -> State:
        """Return the state needed to continue, as named arrays and numbers (copies)."""
        state = collect(self._own_parts())
        for prefix, search in self._searches().items():
            state |= {f"{prefix}.{name}": value for name, value in search.get_state().items()}
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state` of a portfolio of the same size."""
        own = labels(self._own_parts())
        given: dict[str, dict[str, Any]] = {"slopes": {}, "sums": {}, "ranks": {}, "rival": {}}
        odd = own - set(state)
        for label, value in state.items():
            prefix, _, name = label.partition(".")
            if prefix in given:
                given[prefix][name] = value
            elif label not in own:
                odd.add(label)
        if odd:
            raise ValueError(
                f"state does not match this {self.name} strategy; missing or unexpected: "
                f"{', '.join(sorted(odd))}"
            )
        restore(self._own_parts(), {label: state[label] for label in own})
        words = np.asarray(self.site.key, dtype=np.uint64)
        self.site.key = int(words[0]), int(words[1])
        made, x = self.course.made, self.record.best_x
        new = self._new_model if self.course.modelled else self._new_slopes
        self.slopes = new(x, math.inf) if given["slopes"] else None
        self.sums = self._new_sums(x, math.inf) if given["sums"] else None
        steps, popsize, rival_popsize = self.site.steps, self.course.popsize, self.course.rival_popsize
        self.ranks = self._new_ranks(x, steps, self.key, popsize) if given["ranks"] else None
        self.rival = self._new_ranks(x, steps, self.key, rival_popsize) if given["rival"] else None
        self.course.made = made
        for prefix, search in self._searches().items():
            search.set_state(given[prefix])
        stage = self.course.stage
        active: Strategy | None = self.rival if stage == Stage.RIVAL else self.ranks
        if stage in WITH_SLOPES:
            active = self.slopes
        if self.sums is not None:
            active = self.sums
        elif stage == Stage.SPLIT:
            active = self.slopes or self.ranks
        both = stage in (Stage.CHALLENGE, Stage.DUEL, Stage.ATTEMPT, Stage.RACE, Stage.REPLY)
        if active is None or (both and None in (self.slopes, self.ranks)) or (self.rival and not self.ranks):
            raise ValueError("state['course.stage'] contradicts the rest of the state")
        self._asked = None
        self._waiting.clear()
        self._follow(active)

    def recipe(self) -> tuple[type[Strategy], dict[str, Any]]:
        """Return the class and the arguments, except ``x0`` and ``sigma0``, to create an equal strategy."""
        own = {"begin": self._begin, "rivals": self._rivals, "cover": self._cover}
        return type(self), self._common | own


def _ranks_class(n: int) -> type[Strategy]:
    """Return the class of the evolution strategy for ``n`` variables."""
    return PulseFull if n <= FULL_MATRIX_UP_TO else Pulse


def _usable(metric: Metric) -> bool:
    """Return whether the standard deviations of a search are finite and positive."""
    with np.errstate(all="ignore"):
        deviations = metric.deviations()
    return bool((np.isfinite(deviations) & (deviations > 0)).all())
