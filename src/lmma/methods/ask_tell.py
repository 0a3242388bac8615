"""Strategies: a method with layers around it, with the interface ask, tell, stop and result.

Methods are defined in ``base.py``, layers in ``lmma.layers`` and stopping rules in ``convergence.py``. A
subclass of :class:`Strategy` either sets ``METHOD``, as those of lmma do, or implements ``_sample``,
``_update`` and ``memory`` itself; :class:`UserMethod` then wraps it as a method.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Never, Self, TypeVar, final

import numpy as np
import numpy.typing as npt

from lmma.kernels import Key
from lmma.layers.bounds import (
    BOXES,
    DEFAULT as DEFAULT_BOUNDARY,
    Boundary,
    Bounds,
    Box,
    box as make_box,
    read_bounds,
    without_bounds,
)
from lmma.layers.layer import NO_NOISE, ORDER, Layer, NoNoise, Told
from lmma.methods.base import Method, Settings
from lmma.methods.convergence import CONVERGED, DIVERGED, Convergence, ConvergenceRecord
from lmma.numerics.checks import (
    Precision,
    Seed,
    check_option_names,
    check_step_range,
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
)
from lmma.numerics.memory import UNCHECKED_BELOW
from lmma.numerics.recombination import Array, Indices, default_popsize, log_weights
from lmma.numerics.state import COUNT, FINITE, VALUE, Declared, State, collect, labels, restore, state_names

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse.linalg import LinearOperator

    from lmma.layers.choices import Categories, Choices
    from lmma.layers.constraints import Constrained, ConstraintOptions, Handling
    from lmma.layers.injection import Injection
    from lmma.layers.integers import Integers, NeighbourSearch
    from lmma.layers.noise import Noise, Treatment

DEFAULT_TOLERANCE = 1e-11
NO_ROWS: Indices = np.arange(0)
OF_METHOD = (  # attributes that a strategy takes from the class of its method
    "name", "can_inject", "can_resample", "can_stream", "can_damp", "fixed_step", "uses_values", "supports",
    "keeps_bounds",
)  # fmt: skip
LayerType = TypeVar("LayerType", bound=Layer)


class Division(NamedTuple):
    """The beginning of a portfolio, the evaluations of its parts, and the share that slopes deserve."""

    begin: str = ""
    by_slopes: int = 0
    by_looks: int = 0
    share: float = 0.0
    by_rivals: int = 0
    by_coordinates: int = 0


@final
class Record:
    """The counters and the best candidate of a strategy."""

    STATE: ClassVar[Declared] = {"evaluations": COUNT, "failures": COUNT, "best_x": FINITE, "best_fun": VALUE}

    def __init__(self, best_x: Array) -> None:
        self.evaluations = 0
        self.failures = 0
        self.best_x = best_x
        self.best_fun = math.inf
        self.ranked_values: npt.NDArray[np.float64] = np.empty(0)
        self.snapshots = ConvergenceRecord()


class Strategy:
    """A minimiser with an ask/tell interface.

    Parameters
    ----------
    x0 : array_like, (n,)
        Starting point; it is copied.
    sigma0 : float or array_like, (n,)
        Initial step size, one number or one for each coordinate.
    popsize : int, optional
        Candidates per generation, at least 2; ``4 + floor(3 ln n)`` by default.
    bounds : Bounds, list of (low, high), or [low, high], optional
        Bounds that all candidates satisfy. None or infinity means no bound; low == high fixes a variable.
    boundary : {"smooth", "reflect", "project", "wrap"}
        Bound handling, see :mod:`lmma.bounds`.
    integrality : bool or array_like, (n,), optional
        1 for integer coordinates, 0 for others; a single value applies to all.
    rng : None, int, SeedSequence, Generator or (int, int)
        Seed from which the 128-bit key of the run is derived, or the key itself. The run is a pure function
        of the key and the values passed to :meth:`tell`.
    dtype : {"float64", "float32"}
        Precision of the state and of the candidates.
    tolx, tolfun : float
        Tolerances of :meth:`stop`.
    threads : int, optional
        Number of threads of the compiled kernels; by default the environment variable LMMA_NUM_THREADS, or
        one per core. Results are bitwise identical for every number of threads.
    noise : {None, "auto", "mix", "average", "population"}
        Treatment of noisy values, see :attr:`rows_to_repeat`.
    categories : mapping, optional
        Coordinate -> range of values, for categorical coordinates.
    **options
        Constants of the method.

    Attributes
    ----------
    method : Method
        The search distribution, which draws candidates and learns from their ranks.
    layers : tuple of Layer
        The active layers, from the innermost to the outermost.
    convergence : Convergence
        Convergence statistics used by :meth:`stop`.
    options : dict
        The constants given by the user.

    Notes
    -----
    A subclass provides :meth:`_sample`, :meth:`_update` and :meth:`memory`. It may create further state in
    :meth:`_initialise`, and lists in ``STATE`` the arrays and numbers that change between generations. Random
    numbers come from :meth:`generator`. This class keeps track of generations, evaluations, failures, the
    best candidate and the spread, and handles bounds. To support :meth:`inject`, :meth:`resample` or
    :meth:`ask_blocks`, set ``can_inject``, ``can_resample`` or ``can_stream`` and provide ``_place``,
    ``_resample`` or ``_blocks``. :func:`lmma.testing.check_strategy` tests a subclass.
    """

    METHOD: ClassVar[type[Method] | None] = None  # None: the subclass is the method
    name: ClassVar[str] = ""  # the name of the class, unless set or registered
    can_inject: ClassVar[bool] = False
    can_resample: ClassVar[bool] = False
    can_stream: ClassVar[bool] = False
    can_damp: ClassVar[bool] = False
    fixed_step: ClassVar[bool] = False
    uses_values: ClassVar[bool] = False  # learns from the values, not only from their ranks
    supports: ClassVar[frozenset[str]] = frozenset(ORDER)  # layers that may be put around the method
    keeps_bounds: ClassVar[bool] = False  # its candidates lie inside the box; ``boundary`` has no effect
    cuts_batches: ClassVar[bool] = False  # True if the first rows of a batch may be evaluated alone
    STATE: ClassVar[Declared] = ()

    options: dict[str, Any]
    method: Method
    convergence: Convergence

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        state_names(cls)  # validates STATE
        if "METHOD" in vars(cls) and cls.METHOD is not None:
            for name in OF_METHOD:
                setattr(cls, name, getattr(cls.METHOD, name))
        elif "name" not in vars(cls):
            cls.name = cls.__name__

    def __new__(cls, *args: object, **given: object) -> Self:
        """Store the options of the constructor, for any ``__init__`` of a subclass."""
        self = super().__new__(cls)
        self.options = {name: value for name, value in given.items() if name not in COMMON}
        return self

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
        categories: Categories | None = None,
        **options: Any,
    ) -> None:
        cls = type(self)
        if missing := cls.missing():
            raise TypeError(f"{cls.__name__} is incomplete: it must define {', '.join(missing)}")
        check_option_names(self.name, options, self.known_options(), COMMON)
        precision = checked_dtype(dtype)
        if integrality is not None and np.any(np.asarray(integrality)):
            cls.require_support("integers", "integers (integrality=)")
        if categories:
            cls.require_support("choices", "choices (categories=)")
        if bounds is not None:
            cls.require_support("bounds", "bounds=")
        if cls.keeps_bounds and isinstance(boundary, str) and boundary in BOXES:
            boundary = "reflect"  # changes no point inside, adds no penalty, and costs least
        start = _start(x0, sigma0, bounds, boundary, integrality, categories, precision)
        mean, sigma, scale, _, box, integers, choices = start
        n = len(mean) if choices is None else len(mean) + len(choices.columns)
        lam = checked_popsize(popsize, default_popsize(n))
        if len(mean) and cls._needed(len(mean), lam, precision.itemsize, self.options) >= UNCHECKED_BELOW:
            from lmma.methods.memory_check import check_memory

            check_memory(cls, len(mean), lam, precision.itemsize, self.options)
        limits = None if box is None else (box.lower, box.upper)
        settings = Settings(
            lam, key_from(rng), precision, checked_threads(threads), self.options, integers, limits
        )
        self.layers: tuple[Layer, ...] = tuple(
            layer for layer in (box, integers, choices) if layer is not None
        )
        self.convergence = Convergence(
            checked_tolerance("tolx", tolx), checked_tolerance("tolfun", tolfun), _tolfun_window(n, lam),
            _neighbours(integers, choices, lam, fixed_step=cls.fixed_step),
        )  # fmt: skip
        self._constraint_options: ConstraintOptions | None = None
        self._asked: Array | None = None
        self._polled: Indices = NO_ROWS  # numbers of the neighbours in ``_asked``, if it consists of some
        if cls.METHOD is None or not len(mean):
            from lmma.methods.user_method import EmptyMethod, UserMethod

            given = mean, sigma, scale, settings
            self.method = UserMethod(self, *given) if len(mean) else EmptyMethod(*given)
        else:
            self.method = cls.METHOD(mean, sigma, scale, settings)
        self.method.max_sigma = start.max_sigma
        self.record = Record(self._inside(self.method.mean))
        self.handle_noise(noise)
        self._initialise()

    def __repr__(self) -> str:
        return (
            f"<{self.name}: n={self.n}, generation={self.generation}, best_fun={self.best_fun:.6g}, "
            f"sigma={self.sigma:.6g}>"
        )

    @classmethod
    def missing(cls) -> list[str]:
        """Return the names of required methods that this class does not define."""
        if cls.METHOD is not None:
            return []
        return [
            name
            for name in ("_sample", "_update", "memory")
            if inspect.getattr_static(cls, name) is inspect.getattr_static(Strategy, name)
        ]

    @classmethod
    def require_support(cls, layer: str, argument: str) -> None:
        """Raise ValueError if this strategy does not support the layer that ``argument`` requires."""
        if layer not in cls.supports:
            raise ValueError(f"{cls.name} does not support {argument}: remove it, or set method='auto'")

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the options of this strategy, beyond those common to all strategies."""
        names: dict[str, None] = {}
        for owner in cls.__mro__:
            if "__init__" in vars(owner) and owner not in Strategy.__mro__:
                for parameter in list(inspect.signature(vars(owner)["__init__"]).parameters.values())[3:]:
                    if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                        names[parameter.name] = None
        of_method = () if cls.METHOD is None else cls.METHOD.known_options()
        return (*of_method, *(name for name in names if name not in COMMON))

    # Candidates

    @property
    def batch_size(self) -> int:
        """Number of rows that the next :meth:`ask` returns."""
        return len(self._neighbours_to_poll()) or self.method.batch_size

    def ask(self, out: Array | None = None) -> Array:
        """Return the candidates to evaluate, (batch_size, n), one per row.

        For an evolution strategy this is one generation. The caller owns the array; pass an earlier one as
        ``out`` to avoid the allocation. :meth:`tell` assumes that the rows, as they are when it is called,
        were evaluated. Injected points are the last rows.

        Before a search with integers or choices ends, it asks for all neighbours of the best point, points
        that differ from it by one in one integer or in one choice. If one of them is better, the search
        continues from there.
        """
        self._check_no_pending("ask")
        if self.convergence.neighbours is not None and len(neighbours := self._neighbours_to_poll()):
            return self._ask_neighbours(neighbours, out)
        rows, method = self.batch_size, self.method
        choices = self.choices if self.layers else None
        out = checked_out(out, (rows, len(self.record.best_x)), method.settings.dtype)
        X = out if choices is None else choices.allocate(rows, out.dtype)
        method.sample(X)
        for layer in self.layers:
            layer.on_ask(method, X, 0, rows)
        if choices is not None:
            choices.fill(out)
        self._asked = out
        return out

    def _neighbours_to_poll(self) -> Indices:
        """Return the neighbours of the best point that the next :meth:`ask` returns; empty for most calls."""
        if self._asked is not None:
            return self._polled
        neighbours = self.convergence.neighbours
        if neighbours is None or not neighbours.exhausted or len(self.injected):
            return NO_ROWS
        return self._missing_neighbours(self._reasons(), self.popsize)

    def _missing_neighbours(self, reasons: Mapping[str, float], most: int) -> Indices:
        """Return neighbours of the best point that must be evaluated before the search ends for ``reasons``.

        Once noise is found there are none: comparing single values would mean little.
        """
        neighbours = self.convergence.neighbours
        if neighbours is None or self.noise.found or CONVERGED.isdisjoint(reasons):
            return NO_ROWS
        return neighbours.remaining(self.record.best_x, most)

    def _ask_neighbours(self, numbers: Indices, out: Array | None) -> Array:
        neighbours = self.convergence.neighbours
        assert neighbours is not None
        out = checked_out(out, (len(numbers), self.n), self.dtype)
        out[...] = neighbours.points(self.record.best_x, numbers)
        self._asked, self._polled = out, numbers
        return out

    @property
    def steady(self) -> bool:
        """True if the next batch comes from the distribution of one search, as stopping rules assume."""
        return True

    def limit(self, evaluations: float) -> None:
        """Take into account that so many more ``evaluations`` are allowed; by default nothing changes."""

    @property
    def division(self) -> Division:
        """The evaluations of each part of a portfolio."""
        return Division()

    @property
    def active(self) -> Strategy:
        """The strategy that makes the next batch: itself, unless it consists of several."""
        return self

    @property
    def asks_for_neighbours(self) -> bool:
        """True if the candidates, of the last or the next :meth:`ask`, are neighbours of the best point."""
        return len(self._neighbours_to_poll()) > 0

    def resample(self, rows: npt.ArrayLike, attempt: int = 1) -> None:
        """Redraw the candidates at ``rows`` of the last :meth:`ask`, in place.

        ``attempt`` counts the calls for these rows, from 1. Each attempt uses different random numbers, a
        pure function of (seed, generation, attempt, row). Neighbours of the best point are not random and
        stay as they are.
        """
        if not self.can_resample:
            raise TypeError(
                f"{self.name} does not support resample(): pass NaN to tell() for failed candidates "
                "(on_error='worst')"
            )
        if self._asked is None:
            raise ValueError("resample() called before ask()")
        if attempt < 1:
            raise ValueError(f"attempt must be at least 1, got {attempt}")
        chosen, method, choices = (
            checked_rows(rows, len(self._asked) or self.popsize),
            self.method,
            self.choices,
        )
        if len(self._polled):
            return
        X = self._asked if choices is None else choices.candidates
        method.resample(chosen, attempt, X)
        for layer in self.layers:
            layer.on_resample(method, X, chosen, attempt)
        if choices is not None:
            choices.fill(self._asked)

    def ask_blocks(self, rows: int | None = None) -> Iterator[Array]:
        """Return an iterator over the candidates of this generation, ``rows`` at a time.

        Each block is an array (up to ``rows``, n) that the next one overwrites, so that the generation is
        never stored. After the last block, pass all values to :meth:`tell`, in order. The candidates are
        those of :meth:`ask`; their random numbers are generated a second time in :meth:`tell`.
        """
        if not self.can_stream:
            raise TypeError(f"{self.name} does not support ask_blocks(): use ask(), or method='lm-ma-es'")
        self._check_no_pending("ask_blocks")
        if len(self.injected):
            raise ValueError("ask_blocks() does not support injected points: use ask() for this generation")
        if self.constraint_options.subspace is not None:
            raise ValueError("ask_blocks() does not support linear equalities: use ask() instead")
        if self.choices is not None:
            raise ValueError("ask_blocks() does not support choices: use ask() instead")
        if self.asks_for_neighbours:
            return self._blocks_of_neighbours(rows)
        return self._stream(self.method.blocks(rows))

    def _stream(self, blocks: Iterator[tuple[int, Array]]) -> Iterator[Array]:
        for first, block in blocks:
            for layer in self.layers:
                layer.on_ask(self.method, block, first, self.popsize)
            if first + len(block) >= self.popsize:
                self._asked = block[:0]
            yield block

    def _blocks_of_neighbours(self, rows: int | None) -> Iterator[Array]:
        X = self.ask()
        for first in range(0, len(X), rows or len(X)):
            yield X[first : first + (rows or len(X))]

    def inject(self, points: npt.ArrayLike) -> None:
        """Add ``points``, one or one per row, to the next candidates.

        A good point moves the mean towards it. The step to a distant point is shortened to a typical length
        for the update, so that it cannot disrupt the search (Hansen 2011, Injecting external solutions into
        CMA-ES).
        """
        if not self.can_inject:
            raise TypeError(
                f"{self.name} does not support inject(): use the point as x0, or method='lm-ma-es'"
            )
        checked = self._checked_points(points)
        if len(checked):
            self._injection().add(checked)

    @property
    def injected(self) -> Array:
        """Injected points whose values are not yet known, (rows, n)."""
        found = self._layer("injection")
        return np.empty((0, self.n), self.dtype) if found is None else found.points.copy()

    @property
    def candidates(self) -> Array | None:
        """Candidates of the last :meth:`ask`, one per row; None after :meth:`tell`."""
        return self._asked

    # Learning

    def tell(
        self,
        values: npt.ArrayLike,
        *more: Never,
        constraints: npt.ArrayLike | None = None,
        repeats: npt.ArrayLike | None = None,
    ) -> None:
        """Learn from the values of the last candidates, in the order of :meth:`ask`.

        NaN marks a failed evaluation, which ranks last and is excluded from the update. If all failed, only
        the counters change and the next generation draws new candidates. ``constraints``, (rows, p), are
        satisfied at 0 or less, unless :meth:`constrain` declares them as equalities. ``repeats`` are the
        values of the rows in :attr:`rows_to_repeat`, evaluated again.

        Notes
        -----
        Values pass through the layers from the outermost to the innermost: *noise* averages the values of
        repeated rows, *constraints* combines values and violations, *integers* stores the mean, *bounds* adds
        penalties, *injection* removes the points that were evaluated. Then the values are ranked, the
        convergence statistics are updated and the method learns. Finally the layers are called from the
        innermost to the outermost: *integers* keeps its coordinates mutable, *choices* learns from the same
        ranks, *noise* changes the step size. With bounds, the step size is limited last.
        """
        if more:
            raise TypeError("tell() takes the values alone, in the order of ask(): es.tell(values)")
        if self._asked is None:
            raise ValueError("tell() called before ask()")
        rows = len(self._asked) or self.popsize
        raw = checked_values(values, rows)
        if len(self._polled):
            self._tell_neighbours(raw, constraints, repeats)
            return
        if self.layers or constraints is not None or repeats is not None:
            told = self._through_layers(raw, constraints, repeats)
        else:
            told = None
        ranking = raw if told is None else told.values
        order = ranking.argsort(kind="stable")  # NaN sorts last
        ranked = ranking[order]
        record, method = self.record, self.method
        if ranked[-1] != ranked[-1]:
            valid = rows - int(np.count_nonzero(np.isnan(ranked)))
            record.failures += rows - valid
            order, ranked = order[:valid], ranked[:valid]
        if told is None:
            told = Told(raw, raw, raw, order=order, ranked=ranked)
        else:
            told = told._replace(order=order, ranked=ranked)
        record.ranked_values = ranked if ranking is told.raw else np.sort(told.raw[order])
        record.evaluations += rows
        if len(order):
            new_best = self._update_best(told)
            if not method.continues:
                self.convergence.update(told, record.best_fun, new_best=new_best)
            method.update(told._replace(tied=True) if self.convergence.ties.significant else told)
            if rows > 1:  # a single row has no spread
                self.convergence.spread = method.spread(self._asked)
            for layer in self.layers:
                layer.after_update(method, told)
            if method.sigma > method.max_sigma:
                method.sigma = method.max_sigma
        else:
            method.failed(rows)
        method.generation += 1  # [A1:20]
        record.snapshots.take(method.generation - 1, self)
        self._asked = None
        noise = self._layer("noise") if self.layers else None
        if noise is not None and noise.wanted_popsize != self.popsize:
            self._resize(noise.wanted_popsize)

    def _tell_neighbours(
        self, raw: npt.NDArray[np.float64], constraints: npt.ArrayLike | None, repeats: npt.ArrayLike | None
    ) -> None:
        """Compare neighbours of the best point with it; continue the search from one that is better.

        The method does not learn from them: they are not drawn from its distribution.
        """
        assert self._asked is not None
        if repeats is not None:
            checked_values(repeats, 0, "repeats", "row in es.rows_to_repeat")
        record, neighbours, constrained = self.record, self.convergence.neighbours, self.constraints
        assert neighbours is not None
        new_best: int | None = None
        if constrained is not None:
            known, new_best = constrained.compare(raw, constraints)
        else:
            known = ~np.isnan(raw)
            if np.any(known) and np.nanmin(raw) < record.best_fun:
                new_best = int(np.nanargmin(raw))
        record.evaluations += len(raw)
        record.failures += len(raw) - int(np.count_nonzero(known))
        if new_best is None:
            neighbours.evaluated = int(self._polled[-1]) + 1
        else:
            feasible = constrained is None or constrained.feasible
            record.best_fun = raw.item(new_best) if feasible else math.inf
            record.best_x[...] = self._asked[new_best]
            neighbours.restart(record.best_fun)
            self._move_to_best()
        # With the point they were compared with: if all neighbours fail, the search has not failed
        record.ranked_values = np.sort(np.append(raw[known], record.best_fun))
        self.method.generation += 1
        if (noise := self._layer("noise")) is not None:
            noise.rounds += 1
        record.snapshots.take(self.method.generation - 1, self)
        self._asked, self._polled = None, NO_ROWS

    def _move_to_best(self) -> None:
        """Move the centre of the search to the integers and choices of the best point."""
        x, choices, integers = self.record.best_x, self.choices, self.integers
        if integers is not None:
            integers.move_mean(self.method.mean, x if choices is None else x[choices.numbers])
        if choices is not None:
            choices.move_to(x)

    def _through_layers(
        self, raw: npt.NDArray[np.float64], constraints: npt.ArrayLike | None, repeats: npt.ArrayLike | None
    ) -> Told:
        """Pass values, constraints and repeats through the layers."""
        told = Told(raw, raw, raw, constraints)
        if repeats is not None:
            checked = checked_values(repeats, len(self.rows_to_repeat), "repeats", "row in es.rows_to_repeat")
            self.record.evaluations += len(checked)
            self.record.failures += int(np.count_nonzero(np.isnan(checked)))
            told = told._replace(repeats=checked)
        if constraints is not None and self.constraints is None:
            self.require_support("constraints", "constraints=")
            from lmma.layers.constraints import checked_constraints

            self._constrain(checked_constraints(constraints, len(told.raw), None).shape[1])
        for layer in reversed(self.layers):
            told = layer.on_tell(self.method, told)
        return told

    def _update_best(self, told: Told) -> bool:
        """Store the best candidate of a batch if it is the best so far; return True if so."""
        record, raw = self.record, told.raw
        if told.report is not None:
            new_best = told.report.new_best
        else:
            new_best = told.order.item(0 if told.values is raw else np.argmin(raw[told.order]))
            new_best = new_best if raw.item(new_best) < record.best_fun else None
        if new_best is None:
            return False
        feasible = told.report is None or told.report.feasible
        record.best_fun = raw.item(new_best) if feasible else math.inf
        record.best_x[...] = self._candidate(new_best)
        return True

    def _candidate(self, row: int) -> Array:
        """Return the candidate at ``row`` of the last :meth:`ask`."""
        if self._asked is None:
            raise ValueError("no candidates are pending: call ask() first")
        candidate: Array = self._asked[row] if len(self._asked) else self._inside(self.method.candidate(row))
        return candidate

    # Noise

    def handle_noise(self, noise: Treatment | None) -> None:
        """Enable noise detection with the treatment ``noise``; None disables it."""
        if noise is None:
            self._drop("noise")
            return
        self.require_support("noise", "noise=")
        from lmma.layers.noise import Noise, checked_treatment

        treatment, choices = checked_treatment(noise), self.choices
        assert treatment is not None
        if treatment == "population" and choices is not None:
            raise ValueError("noise='population' cannot be combined with choices: use noise='average'")
        self._add(
            Noise(
                treatment, self.method.n, self.popsize, damps=self.can_damp and choices is None,
                convergence=self.convergence,
            )
        )  # fmt: skip

    @property
    def noise(self) -> Noise | NoNoise:
        """Noise estimates and treatment."""
        found: Noise | None = self._layer("noise") if self.layers else None
        return NO_NOISE if found is None else found

    @property
    def rows_to_repeat(self) -> Indices:
        """Rows of the candidates to evaluate again, for ``tell(values, repeats=...)``.

        Without noise, two rows or all rows in some generations. Once noise is found, all rows, several times
        if averages are needed. Empty with ``noise=None``. Repeats are optional; without them noise is not
        detected.
        """
        found: Noise | None = self._layer("noise")
        if found is None or self.asks_for_neighbours:
            return NO_ROWS
        return found.rows(self.generation, self.batch_size if self._asked is None else len(self._asked))

    @property
    def generation_seed(self) -> int:
        """Seed for a random objective, the same for all candidates within one generation."""
        return self.round_seed()

    @property
    def repeat_seeds(self) -> npt.NDArray[np.int64]:
        """Seeds for the rows in :attr:`rows_to_repeat`, different for each repeated evaluation."""
        repeats = 1 + np.arange(len(self.rows_to_repeat)) // self.popsize
        seeds = {int(repeat): self.round_seed(int(repeat)) for repeat in np.unique(repeats)}
        return np.array([seeds[int(repeat)] for repeat in repeats], dtype=np.int64)

    def round_number(self, repeat: int = 0) -> int:
        """Return the number of the current generation, counting repeats of earlier ones as generations."""
        found: Noise | None = self._layer("noise")
        return (self.generation if found is None else found.rounds) + repeat

    def round_seed(self, repeat: int = 0) -> int:
        """Return the seed of the current generation, or of one of its repeats."""
        words = np.random.SeedSequence((*self.key, self.round_number(repeat))).generate_state(1)
        return int(words[0])

    @property
    def average_fun(self) -> float:
        """Fading mean of the values of all candidates since noise was found; NaN without noise.

        Also NaN with constraints, because values of infeasible candidates are not meaningful.
        """
        found: Noise | None = self._layer("noise") if self.layers else None
        return math.nan if found is None or self.constraints is not None else found.average

    def averaged_mean(self) -> Array:
        """Return the mean, averaged over recent generations since noise was found, within the bounds."""
        found: Noise | None = self._layer("noise")
        centre = np.zeros(self.method.n) if found is None else found.centre
        return self._inside(centre.astype(self.dtype))

    # Constraints

    def constrain(
        self,
        *,
        equality: Iterable[bool] | None = None,
        handling: Handling = "lagrange",
        feasibility_tol: float | None = None,
        linear: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        """Configure constraint handling, before the first :meth:`ask`.

        Parameters
        ----------
        equality : iterable of bool, optional
            True for equality constraints (= 0), False for inequalities (<= 0), in the order of :meth:`tell`.
        handling : {"lagrange", "rank"}
            Augmented Lagrangian, or ranks only; see :mod:`lmma.layers.constraints`.
        feasibility_tol : float
            Largest violation of a feasible point; 1e-8 by default.
        linear : (A, b), optional
            Linear equalities A x = b, which every candidate then satisfies.
        """
        from lmma.layers.constraints import FEASIBILITY_TOL, ConstraintOptions, as_flags
        from lmma.layers.equalities import checked_subspace

        if self.generation or self._asked is not None:
            raise ValueError("constrain() must be called before the first ask()")
        self.require_support("constraints", "constraints=")
        if linear is not None and self.convergence.neighbours is not None:
            raise ValueError(
                "linear= cannot be combined with integers or choices: pass the equalities to "
                "tell(constraints=) instead"
            )
        subspace = None if linear is None else checked_subspace(*linear, self.n)
        tolerance = FEASIBILITY_TOL if feasibility_tol is None else feasibility_tol
        self.constraint_options = ConstraintOptions(handling, as_flags(equality), tolerance, subspace)

    @property
    def constraint_options(self) -> ConstraintOptions:
        """Configuration of constraint handling."""
        if self._constraint_options is None:
            from lmma.layers.constraints import ConstraintOptions

            return ConstraintOptions()
        return self._constraint_options

    @constraint_options.setter
    def constraint_options(self, options: ConstraintOptions) -> None:
        self._constraint_options = options
        if options.subspace is None:
            self._drop("equalities")
        else:
            from lmma.layers.equalities import Equalities

            self._add(Equalities(options.subspace, self.box))

    @property
    def constraints(self) -> Constrained | None:
        """The constraint layer; None until constraints are given."""
        found: Constrained | None = self._layer("constraints")
        return found

    def _constrain(self, count: int) -> None:
        """Add the layer for ``count`` constraints."""
        from lmma.layers.constraints import Constrained

        convergence = self.convergence
        self._add(
            Constrained(
                self.n, self.popsize, count, self.constraint_options, convergence_share=convergence.share,
                neighbours=convergence.neighbours,
            )
        )  # fmt: skip

    # Stopping and result

    def stop(self) -> dict[str, float]:
        """Return the reasons to stop, as reason -> value; empty if the search should continue.

        If all values so far are equal, the reason is ``flat``, not convergence. A search with integers or
        choices has converged when all neighbours of the best point were evaluated and none is better.
        """
        reasons = self._reasons()
        if reasons and len(self._missing_neighbours(reasons, 1)):
            return {reason: value for reason, value in reasons.items() if reason not in CONVERGED}
        return reasons

    def _reasons(self) -> dict[str, float]:
        """Return the reasons to stop, without checking whether neighbours were evaluated."""
        averaged = not math.isnan(self.average_fun)
        reasons = self.convergence.stop(self.sigma, self.method.sigma0, averaged=averaged)
        return reasons | self.method.stop()

    def _has_converged(self) -> bool:
        try:
            return not CONVERGED.isdisjoint(self.stop())
        except Exception:  # overridden by a user; a run that calls stop() reports the error
            return False

    @property
    def result(self) -> OptimizeResult:
        """Current result in SciPy's format.

        Once noise is found, ``x`` is the averaged mean and ``fun`` the average of recent candidates. The best
        observed candidate is ``x_seen`` with the value ``fun_seen``.
        """
        from scipy.optimize import OptimizeResult

        known = self.constraints
        result = OptimizeResult(
            x=self.best_x.copy(),
            fun=self.best_fun if known is None else known.fun,
            nfev=self.evaluations,
            nit=self.generation,
            failures=self.failures,
            mean=self._inside(self.method.mean),
            sigma=self.sigma,
            hess_inv=self.method.hess_inv(),
            success=self._has_converged() and math.isfinite(self.best_fun),
            method=self.name,
        )
        if not math.isnan(self.average_fun):
            result.update(
                x=self.averaged_mean(),
                fun=self.average_fun,
                x_seen=self.best_x.copy(),
                fun_seen=self.best_fun,
            )
        if known is not None:
            result.update(maxcv=known.violation, constr=known.at_best.copy(), multipliers=known.multipliers)
        return result

    def plot(self, *, target: float | None = None, title: str | None = None) -> Any:
        """Return a ``matplotlib.figure.Figure`` of the best value and the step size over evaluations.

        It shows the generations since this object was created, in at most 1000 points. Under noise it also
        shows the average of recent candidates, the quality of the ranks, and the learning rate or repeats.
        """
        if not self.generation:
            raise ValueError("plot() called before the first tell()")
        from lmma.output.plotting.convergence import convergence

        columns = self.record.snapshots.columns(self)
        return convergence(columns, target=target, title=title or f"{self.name}, n = {self.n}")

    # State

    def get_state(self) -> State:
        """Return the state needed to continue, as named arrays and numbers (copies).

        Between :meth:`ask` and :meth:`tell`, it is the state before :meth:`ask`.
        """
        return collect(self._all_parts())

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state` of a strategy with the same method and size."""
        if "noise.popsize" in state and int(state["noise.popsize"]) != self.popsize:
            from lmma.methods.memory_check import check_saved_popsize

            check_saved_popsize(self, int(state["noise.popsize"]))
            self._resize(int(state["noise.popsize"]))
        self._drop("constraints")
        if "constraints.at_best" in state:
            self._constrain(len(state["constraints.at_best"]))
        self._drop("injection")
        if "injection.points" in state:
            self._injection()
        parts = self._all_parts()
        if odd := sorted(set(state) ^ labels(parts)):
            raise ValueError(
                f"state does not match this {self.name} strategy; missing or unexpected: {', '.join(odd)}"
            )
        restore(parts, state)
        self.method.restored()
        self._asked, self._polled = None, NO_ROWS

    def recipe(self) -> tuple[type[Strategy], dict[str, Any]]:
        """Return the class and the arguments, except ``x0`` and ``sigma0``, to create an equal strategy."""
        given: dict[str, Any] = {
            "popsize": self.popsize, "dtype": self.dtype.name, "tolx": self.tolx, "tolfun": self.tolfun,
            **self.options,
        }  # fmt: skip
        box, integers, choices = self.box, self.integers, self.choices
        columns = np.arange(self.n) if choices is None else choices.numbers
        lower, upper = np.full(self.n, -math.inf), np.full(self.n, math.inf)
        if box is not None:
            lower[columns], upper[columns], given["boundary"] = box.lower, box.upper, box.boundary
        if integers is not None:
            integral = columns[integers.columns]
            given["integrality"] = np.isin(np.arange(self.n), integral)
            lower[integral], upper[integral] = integers.lower, integers.upper
        if box is not None or np.isfinite(lower).any() or np.isfinite(upper).any():
            given["bounds"] = SimpleNamespace(lb=lower, ub=upper)
        if choices is not None:
            given["categories"] = choices.categories
        return type(self), given

    def _all_parts(self) -> dict[str, object]:
        parts: dict[str, object] = {"": self.method, "record": self.record, **self.convergence.parts()}
        for layer in self.layers:
            parts |= layer.parts()
        return {**parts, **self.method.parts()}

    def _resize(self, popsize: int) -> None:
        """Change the number of candidates per generation and keep the learned state."""
        self.method.resize(popsize)
        noise: Noise | None = self._layer("noise")
        if noise is not None:
            noise.popsize = popsize
        self.convergence.set_window(_tolfun_window(self.n, popsize))

    # Layers

    def _layer(self, name: str) -> Any:
        for layer in self.layers:
            if layer.name == name:
                return layer
        return None

    def _add(self, layer: LayerType) -> LayerType:
        """Insert a layer in its place in the order, replacing one of the same name."""
        others = [other for other in self.layers if other.name != layer.name]
        self.layers = tuple(sorted([*others, layer], key=lambda each: ORDER.index(each.name)))
        return layer

    def _drop(self, name: str) -> None:
        self.layers = tuple(layer for layer in self.layers if layer.name != name)

    def _injection(self) -> Injection:
        from lmma.layers.injection import Injection

        found: Injection | None = self._layer("injection")
        return found or self._add(Injection(self.n, self.box, self.choices))

    @property
    def box(self) -> Box | None:
        """The layer for bounds of continuous coordinates; ``integers`` handles those of integers."""
        found: Box | None = self._layer("bounds")
        return found

    @property
    def integers(self) -> Integers | None:
        """The layer for integer coordinates, or None."""
        found: Integers | None = self._layer("integers")
        return found

    @property
    def choices(self) -> Choices | None:
        """The layer for categorical coordinates, or None."""
        found: Choices | None = self._layer("choices")
        return found

    def _inside(self, x: Array) -> Array:
        """Return the feasible point that corresponds to ``x`` in the coordinates of the method."""
        inside = x.copy()
        for layer in self.layers:
            layer.move_inside(inside)
        choices = self.choices
        return inside if choices is None else choices.complete(inside)

    def _checked_points(self, points: npt.ArrayLike) -> Array:
        """Return the points to inject, one per row, after validation."""
        rows = checked_injected(points, self.n, self.dtype)
        box, integers, choices = self.box, self.integers, self.choices
        if choices is not None and not choices.accepts(rows):
            raise ValueError("injected points must have the index of a value (from 0) for each choice")
        numbers = rows if choices is None else rows[:, choices.numbers]
        if box is not None and np.any((numbers < box.lower) | (numbers > box.upper)):
            raise ValueError("injected points must lie within bounds: try numpy.clip(points, low, high)")
        if integers is not None and not integers.accepts(numbers):
            raise ValueError("injected points must be integers within bounds where integrality is 1")
        return rows

    def _check_no_pending(self, call: str) -> None:
        if self._asked is not None:
            raise ValueError(
                f"{call}() called before tell(): pass the values of the last candidates to tell() first"
            )

    # Properties

    @property
    def n(self) -> int:
        """Number of variables, including choices."""
        return len(self.record.best_x)

    @property
    def popsize(self) -> int:
        """Number of candidates per generation."""
        return self.method.settings.popsize

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the state and of the candidates."""
        return self.method.settings.dtype

    @property
    def key(self) -> Key:
        """Seed of all random numbers, two integers."""
        return self.method.settings.key

    @property
    def threads(self) -> int:
        """Number of kernel threads; 0 for the default."""
        return self.method.settings.threads

    @property
    def mean(self) -> Array:
        """Centre of the search; it may lie outside the bounds, unlike ``result.mean``."""
        choices = self.choices
        return self.method.mean if choices is None else choices.complete(self.method.mean)

    @mean.setter
    def mean(self, mean: Array) -> None:
        self.method.mean = mean

    @property
    def sigma(self) -> float:
        """Global step size. With one ``sigma0`` per coordinate, that of a coordinate is sigma * scale."""
        return self.method.sigma

    @sigma.setter
    def sigma(self, sigma: float) -> None:
        self.method.sigma = sigma

    @property
    def sigma0(self) -> float:
        """Initial step size."""
        return self.method.sigma0

    @property
    def max_sigma(self) -> float:
        """Upper limit of the step size, finite with bounds."""
        return self.method.max_sigma

    @property
    def scale(self) -> Array | None:
        """Factors of the step size, one for each coordinate, or None."""
        return self.method.scale

    @scale.setter
    def scale(self, scale: Array | None) -> None:
        self.method.scale = scale

    @property
    def steps(self) -> float | Array:
        """Step size: sigma, or sigma times ``scale`` if ``sigma0`` was given for each coordinate."""
        return self.method.steps

    @property
    def generation(self) -> int:
        """Number of completed generations."""
        return self.method.generation

    @property
    def evaluations(self) -> int:
        """Number of values passed to :meth:`tell`, including repeats."""
        return self.record.evaluations

    @property
    def failures(self) -> int:
        """Number of values passed to :meth:`tell` that were NaN."""
        return self.record.failures

    @property
    def best_x(self) -> Array:
        """Best candidate so far.

        With constraints, the best feasible one, or the one with the smallest violation if none is feasible.
        """
        return self.record.best_x

    @property
    def best_fun(self) -> float:
        """Value of the best candidate; infinite until a candidate is feasible."""
        return self.record.best_fun

    @property
    def ranked_values(self) -> npt.NDArray[np.float64]:
        """Values of the last generation in increasing order, without failed ones."""
        return self.record.ranked_values

    @property
    def spread(self) -> float:
        """Typical distance of a candidate from the centre of all, per coordinate."""
        return self.convergence.spread

    @property
    def spread_fun(self) -> float:
        """Range of the values of the last generation."""
        return self.convergence.spread_fun

    @property
    def tolx(self) -> float:
        """Tolerance of :attr:`spread`."""
        return self.convergence.tolx

    @property
    def tolfun(self) -> float:
        """Tolerance of differences between values."""
        return self.convergence.tolfun

    # For subclasses by users

    def generator(self, stream: int = 0) -> np.random.Generator:
        """Return a random generator for this generation, a pure function of (key, generation, stream).

        Every call starts at the same number. Use another ``stream``, 0 or more, for independent numbers.
        """
        return self.method.generator(stream)

    def _sample(self, out: Array) -> None:
        """Fill ``out``, (batch_size, n), with the next candidates."""
        raise NotImplementedError(f"{self.name} does not implement _sample()")

    def _update(self, order: Indices, values: Array) -> None:
        """Learn from the candidates at ``order``, best first, and their ``values``, increasing.

        Candidates without a value are excluded. Values may include penalties for bounds: only their ranks are
        meaningful.
        """
        raise NotImplementedError(f"{self.name} does not implement _update()")

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the approximate memory of a run in bytes, including candidates."""
        if cls.METHOD is None:
            raise NotImplementedError(f"{cls.name} does not implement memory()")
        return cls.METHOD.memory(n, popsize, itemsize)

    @classmethod
    def _needed(cls, n: int, popsize: int, itemsize: int, options: Mapping[str, Any]) -> int:
        """Return the approximate memory of a run in bytes, including what ``options`` require."""
        return cls.memory(n, popsize, itemsize) + cls.memory_of_options(n, popsize, itemsize, options)

    @classmethod
    def memory_of_options(cls, n: int, popsize: int, itemsize: int, options: Mapping[str, Any]) -> int:
        """Return the approximate memory in bytes that :meth:`memory` omits and ``options`` require."""
        if cls.METHOD is None or not options:
            return 0
        return cls.METHOD.memory_of_options(n, popsize, itemsize, options)

    def _initialise(self) -> None:
        """Create the state beyond mean and sigma; called at the end of ``__init__``."""

    def _measure_spread(self) -> float:
        """Return the typical distance of a candidate from the centre of all, per coordinate."""
        return math.inf if self._asked is None else Method.spread(self.method, self._asked)

    def _selection_weights(self) -> Array:
        """Return the weights of the better candidates, best first; by default those of Algorithm 1."""
        return log_weights(self.popsize, self.popsize // 2)

    def _place(self, points: list[Array], out: Array) -> None:
        """Write ``points``, in the coordinates of the method, to the last rows of ``out``."""
        raise NotImplementedError(f"{self.name} sets can_inject but does not implement _place()")

    def _resample(self, rows: Indices, attempt: int, out: Array) -> None:
        """Redraw the candidates at ``rows`` of ``out``."""
        raise NotImplementedError(f"{self.name} sets can_resample but does not implement _resample()")

    def _blocks(self, rows: int | None) -> Iterator[Array]:
        """Return an iterator over blocks of up to ``rows`` candidates."""
        raise NotImplementedError(f"{self.name} sets can_stream but does not implement _blocks()")

    def _parts(self) -> Mapping[str, object]:
        """Return the stateful components, by name."""
        return {}

    def _hess_inv(self) -> LinearOperator | None:
        """Return the learned metric as an operator, or None."""
        return None


class _Start(NamedTuple):
    """Starting point of a method, and the layers for its coordinates."""

    mean: Array
    sigma: float
    scale: Array | None
    max_sigma: float
    box: Box | None
    integers: Integers | None
    choices: Choices | None


def _start(
    x0: npt.ArrayLike,
    sigma0: float | npt.ArrayLike,
    bounds: Bounds | None,
    boundary: Boundary,
    integrality: npt.ArrayLike | None,
    categories: Categories | None,
    dtype: np.dtype[Any],
) -> _Start:
    """Validate the arguments; return the starting point and the layers for its coordinates."""
    start = checked_x0(x0, dtype if bounds is None else np.float64)
    choices = None
    if categories:
        choices, integrality = _choices(categories, start, integrality)
        if bounds is not None:
            lower, upper = read_bounds(bounds, len(start))
            bounds = SimpleNamespace(lb=lower[choices.numbers], ub=upper[choices.numbers])
        if np.size(sigma0) == len(start):
            sigma0 = np.broadcast_to(np.asarray(sigma0), (len(start),))[choices.numbers]
        start = start[choices.numbers]
        if not len(start):
            return _Start(start.astype(dtype), 1.0, None, math.inf, None, None, choices)
    closed = None
    if bounds is not None or boundary != DEFAULT_BOUNDARY:
        closed = make_box(bounds, start, boundary=boundary, dtype=dtype)
    integers = _integers(integrality, closed, len(start))
    box = closed if closed is None or integers is None else without_bounds(closed, integers.columns)
    mean = start if box is None else checked_x0(box.outside(start), dtype)
    sigma, scale = checked_sigma0(sigma0, len(mean), dtype)
    max_sigma = math.inf if closed is None else max(sigma, closed.largest_sigma(scale))
    if math.isinf(max_sigma):  # divergence must be detected before sigma overflows
        check_step_range(sigma0, dtype, DIVERGED)
    if integers is not None:  # their lower limit on steps is applied to the scale
        scale = np.ones(len(mean), dtype=dtype) if scale is None else scale
        if choices is not None:
            integers.set_discrete_count(choices.discrete)
    return _Start(mean.astype(dtype, copy=False), sigma, scale, max_sigma, box, integers, choices)


def _choices(
    categories: Categories, start: Array, integrality: npt.ArrayLike | None
) -> tuple[Choices, npt.ArrayLike | None]:
    """Return the layer of choices, and a mask of integers among the other columns, or None."""
    from lmma.layers.choices import Choices
    from lmma.layers.integers import checked_integrality

    n = len(start)
    columns = checked_integrality(0 if integrality is None else integrality, n)
    integers = np.setdiff1d(columns, np.array(sorted(categories), dtype=np.intp))
    made = Choices(categories, start, len(integers))
    return made, np.isin(made.numbers, integers) if len(integers) else None


def _integers(integrality: npt.ArrayLike | None, box: Box | None, n: int) -> Integers | None:
    """Return the layer of integer coordinates within ``box``, or None."""
    if integrality is None:
        return None
    from lmma.layers.integers import checked_integrality, integers

    lower = np.full(n, -math.inf) if box is None else box.lower.astype(np.float64)
    upper = np.full(n, math.inf) if box is None else box.upper.astype(np.float64)
    return integers(checked_integrality(integrality, n), lower, upper, n)


def _neighbours(
    integers: Integers | None, choices: Choices | None, popsize: int, *, fixed_step: bool
) -> NeighbourSearch | None:
    """Return the search for better neighbours, or None without discrete coordinates."""
    if integers is None and choices is None:
        return None
    from lmma.layers.integers import NeighbourSearch

    return NeighbourSearch(integers, choices, popsize, fixed_step=fixed_step)


def _tolfun_window(n: int, popsize: int) -> int:
    """Return the number of generations that ``tolfun`` considers."""
    return 10 + math.ceil(30 * n / popsize)


# Arguments common to all strategies, except x0 and sigma0
COMMON = tuple(inspect.signature(Strategy.__init__).parameters)[3:-1]
