"""Evaluator interface: one value per candidate, in the same order, NaN for a failed evaluation."""

from __future__ import annotations

import contextlib
import math
import numbers
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, get_args

import numpy as np
import numpy.typing as npt

from lmma._text import plural, shown
from lmma.evaluation.failures import (
    MISTAKES,
    EvaluationError,
    Failure,
    TaskFailure,
    WorksInPlace,
    WrongType,
    message_of,
)
from lmma.numerics.state import is_count

if TYPE_CHECKING:
    from lmma.evaluation.cache import Cache

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
Function = Callable[..., object]  # fun(x, *args); its return value is validated
OnError = Literal["worst", "raise", "resample"]
Answer = tuple[float, Values | None]  # a value and its constraints
Answers = tuple[Values, Values | None]  # (rows,) and (rows, constraints)
RandomNumbers = tuple[int, int]  # seed and generation, for objectives that accept them

INFINITY = math.inf
FLOAT64 = np.dtype(np.float64)
MIN_TIMEOUT = 0.001  # seconds
IN_PLACE = "fun with vectorized=True must not modify its argument: work on a copy, X = X.copy()"
NOT_WRITABLE = re.compile("read-?only|write?able", re.IGNORECASE)  # in errors of NumPy, Cython, Numba, ctypes


@dataclass(frozen=True)
class EvaluationOptions:
    """Options common to all evaluators.

    Parameters
    ----------
    on_error : {"worst", "raise", "resample"}
        Treatment of a failed evaluation.
    vectorized : bool
        Whether ``fun`` takes many candidates at once, one per row.
    timeout : float, optional
        Seconds after which an evaluation is abandoned.
    quorum : float
        Share of a generation that must have returned before it is closed; later results are dropped.
    """

    on_error: OnError = "worst"
    vectorized: bool = False
    timeout: float | None = None
    quorum: float = 1.0

    def __post_init__(self) -> None:
        for name in ("timeout", "quorum"):
            value = getattr(self, name)
            if name == "timeout" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"{name} must be a number, got {shown(value)}")
            try:
                float(value)
            except OverflowError:
                raise ValueError(f"{name} is too large, got {shown(value)}") from None
        if self.timeout is not None and 0 < self.timeout < MIN_TIMEOUT:
            raise ValueError(
                f"timeout must be at least {MIN_TIMEOUT} seconds, got {shown(self.timeout)}: "
                "sending a candidate to a process takes longer"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(
                f"timeout must be a positive number of seconds, or None; got {shown(self.timeout)}"
            )
        if not 0 < self.quorum <= 1:
            raise ValueError(
                f"quorum must be a fraction of the generation in (0, 1], got {shown(self.quorum)}"
            )


class FailureRecord:
    """Counts of failed evaluations by kind and of worker deaths, with the first few errors.

    Attributes
    ----------
    failures : Counter
        Kind -> number of failed evaluations.
    errors : list of Failure
        The first failures, with their tracebacks.
    deaths : int
        Workers that died during an evaluation, which was then repeated.
    """

    MAX_ERRORS = 5  # failures kept with their traceback

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.errors: list[Failure] = []
        self.deaths = 0

    def count(self, failure: Failure, rows: int = 1) -> None:
        """Count ``rows`` failed evaluations."""
        self.failures[failure.kind] += rows
        if len(self.errors) < self.MAX_ERRORS:
            self.errors.append(failure)

    def get_state(self) -> dict[str, Any]:
        """Return the record as JSON-compatible values."""
        errors = [asdict(error) for error in self.errors]
        return {"failures": dict(self.failures), "errors": errors, "deaths": self.deaths}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state from :meth:`get_state`; raise ValueError if it is invalid."""
        failures, errors, deaths = state.get("failures"), state.get("errors"), state.get("deaths")
        counts = [deaths, *(failures.values() if isinstance(failures, dict) else ("none",))]
        if not all(is_count(count) for count in counts):
            raise ValueError("counts of failures")
        texts = [text for error in errors for text in error.values()] if isinstance(errors, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("errors")
        self.failures, self.deaths = Counter(failures), int(deaths)  # type: ignore[arg-type]
        self.errors = [Failure(**error) for error in errors]  # type: ignore[union-attr]


class StrategyObserver(Protocol):
    """Callbacks for each step of a run's strategy, whose type is not known here."""

    def on_ask(self, strategy: Any) -> None:
        """Prepare for the next ``ask`` of ``strategy``, whose candidates are evaluated next."""

    def on_resample(self, rows: npt.NDArray[np.intp], attempt: int) -> None:
        """Handle resampled candidates at ``rows``, which are evaluated next, in this order."""

    def on_repeat(self, rows: npt.NDArray[np.intp]) -> None:
        """Handle candidates at ``rows`` that are evaluated again next, in this order."""

    def on_tell(self, values: Values, more: Mapping[str, Values]) -> None:
        """Prepare for the next ``tell`` with ``values`` and the keyword arguments ``more``."""


class Evaluator(ABC):
    """Evaluates candidates, counts failures by kind and keeps the first few of them.

    If the workers generate the candidates themselves, the evaluator has a ``strategy_observer``, which the
    run calls at each step of its strategy.
    """

    strategy_observer: StrategyObserver | None = None
    cache: Cache | None = None  # known evaluations, which are not repeated
    answered = False  # whether fun has ever returned a number
    untested = False  # set by a new run: errors of fun are raised, see fail() and check_first_generation()
    raised: BaseException | None = None  # the exception of fun that ends the run
    _first_failure: TaskFailure | None = None  # while untested
    late: npt.NDArray[np.bool_] | None = None  # rows of the last call dropped by quorum
    constraint_values: Values | None = None  # of the last call, (rows, constraints)
    constraint_names: tuple[str, ...] = ()  # of constraint functions, whose counts precede their values
    _constraint_count: int | None = None  # constraints per candidate, once known
    _buffer: Array | None = None

    def __init__(self, on_error: OnError = "worst") -> None:
        if not isinstance(on_error, str) or on_error not in get_args(OnError):
            raise ValueError(f"on_error must be 'worst', 'raise' or 'resample', got {shown(on_error)}")
        self.on_error = on_error
        self.record = FailureRecord()
        self.warnings: list[str] = []

    @abstractmethod
    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row, NaN if the evaluation failed.

        ``seed`` determines the random numbers of an objective that accepts them.
        """

    def _with_seed(self, candidates: Array, seed: RandomNumbers) -> Array:
        """Return candidates with the seed attached."""
        from lmma.evaluation.objective import with_seed

        return with_seed(candidates, *seed)

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array | None:
        """Return an array to write candidates to, or None if the caller should allocate one."""
        return None

    def _reused_buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the first rows of an array that is reused for every batch and grows as needed."""
        held = self._buffer
        if held is None or held.shape[1] != n or held.dtype != dtype or len(held) < rows:
            held = self._buffer = np.empty((rows, n), dtype=dtype)
        return held if len(held) == rows else held[:rows]

    def close(self) -> None:  # noqa: B027 (most evaluators hold no resources)
        """Release processes and memory; may be called more than once."""

    # Failures

    def fail(self, failed: TaskFailure, rows: int = 1) -> None:
        """Count ``rows`` failed evaluations; raise the exception if ``on_error="raise"``.

        If ``fun`` has not returned a number before, an error in ``MISTAKES`` is raised in any case, and a
        programming error in a new run.
        """
        failure = failed.failure
        if failure.kind in MISTAKES and not self.answered:
            self._raise(MISTAKES[failure.kind](failure.message))
        if self.on_error == "raise":
            self._raise(failed.exception())
        if self.untested and not self.answered:
            if failed.programming_error:
                self._raise(
                    failed.exception(),
                    "lmma: fun raised this before it had returned any value; if it fails only at some "
                    "points, return NaN there; a program prints nan",
                )
            self._first_failure = self._first_failure or failed
        self.record.count(failure, rows)

    def check_first_generation(self) -> None:
        """Raise the error of ``fun`` if it has raised the same one in every evaluation of a new run."""
        self.untested = False
        first, self._first_failure = self._first_failure, None
        if self.answered or first is None or len(self.record.failures) > 1 or not first.failure.traceback:
            return
        self._raise(
            first.exception(),
            "lmma: every evaluation of the first generation failed with this error; at points where fun "
            "cannot be evaluated, return NaN; a program prints nan",
        )

    def _raise(self, error: BaseException, note: str = "") -> NoReturn:
        """End the run with an exception of the objective, which gets ``note`` as its last line."""
        self.close()
        cause = error.__cause__
        if isinstance(error, StopIteration):  # would end the search as a callback does
            error, cause = RuntimeError("fun raised StopIteration"), error
        if note:
            error.add_note(note)
        self.raised = error
        raise error from cause

    def mark_nonfinite(self, values: Values) -> Values:
        """Count non-finite ``values`` as failed; return the values with NaN in their place."""
        if not len(values):
            return values
        if values.item(values.argmin()) > -INFINITY and values.item(values.argmax()) < INFINITY:
            return values  # argmin and argmax both return the first NaN
        for kind, bad in (("nan", np.isnan(values)), ("inf", np.isinf(values))):
            count = int(np.count_nonzero(bad))
            if count:
                row = int(np.flatnonzero(bad)[0])
                name = "NaN" if kind == "nan" else f"{values[row]:g}"
                if self.on_error == "raise":
                    self._raise(
                        EvaluationError(
                            f"fun returned {name} for candidate {row}; "
                            "set on_error='worst' to rank such candidates last"
                        )
                    )
                self.record.count(Failure(kind, f"fun returned {name}"), count)
        return np.where(np.isfinite(values), values, np.nan)

    def store_constraint_values(self, values: Values, constraint_values: Mapping[int, Values]) -> Values:
        """Store constraints by row in :attr:`constraint_values`; return ``values``.

        A candidate with a different number of constraints, or none, counts as failed. In the first
        generation with constraints it raises ValueError.
        """
        known, self.constraint_values = self._constraint_count, None
        if not constraint_values and known is None:
            return values
        count = known if known is not None else len(constraint_values[min(constraint_values)])
        self.constraint_values = np.full((len(values), count), np.nan)
        wrong = {
            row: constraint_values[row] for row in constraint_values if len(constraint_values[row]) != count
        }
        missing = [row for row in np.flatnonzero(~np.isnan(values)).tolist() if row not in constraint_values]
        if wrong or missing:
            right = min(constraint_values.keys() - wrong.keys(), default=0)
            self._report_wrong_counts((right, count), wrong, missing)
            values = values.copy()
            values[[*wrong, *missing]] = np.nan
        self._constraint_count = count
        for row in constraint_values.keys() - wrong.keys():
            self.constraint_values[row] = constraint_values[row]
        return self._mark_nonfinite_constraints(values)

    def _report_wrong_counts(
        self, right: tuple[int, int], wrong: Mapping[int, Values], missing: Sequence[int]
    ) -> None:
        """Count rows with a wrong number of constraints as failed; raise in the first generation.

        ``right`` is a row with the expected number of constraints, and that number.
        """
        row = next(iter(wrong), missing[0] if missing else 0)
        got = f"{len(wrong[row]) - self._counts}" if row in wrong else "none"
        before = f"for candidate {right[0]}" if self._constraint_count is None else "before"
        noun = "value" if self.constraint_names else "constraint value"
        message = (
            f"{'constraints' if self.constraint_names else 'fun'} returned "
            f"{plural(right[1] - self._counts, noun)} {before} but {got} for candidate {row}: "
            "return the same number for every candidate"
        )
        if self._constraint_count is None:
            self.close()
            raise ValueError(message)
        self.fail(TaskFailure(Failure("WrongLength", message)), len(wrong) + len(missing))

    def _mark_nonfinite_constraints(self, values: Values) -> Values:
        """Count rows with a non-finite constraint as failed; return ``values`` with NaN there."""
        assert self.constraint_values is not None
        bad = ~np.isnan(values) & ~np.isfinite(self.constraint_values).all(axis=1)
        if not np.any(bad):
            return values
        row = int(np.flatnonzero(bad)[0])
        message = self._nonfinite_constraint(self.constraint_values[row])
        if self.on_error == "raise":
            self._raise(
                EvaluationError(
                    f"{message} for candidate {row}; set on_error='worst' to rank such candidates last"
                )
            )
        self.record.count(Failure("constraint", message), int(np.count_nonzero(bad)))
        return np.where(bad, np.nan, values)

    @property
    def _counts(self) -> int:
        """The number of leading entries of constraint values that are counts, see ``WithConstraints``."""
        return len(self.constraint_names) + 1 if self.constraint_names else 0

    def _nonfinite_constraint(self, found: Values) -> str:
        """Return a description of the first constraint value that is not finite."""
        at = int(np.flatnonzero(~np.isfinite(found))[0]) - self._counts
        sizes = found[: self._counts].astype(int).tolist() or [len(found)]
        names = ("the constraint returned by fun", *self.constraint_names)
        part = 0
        while part < len(sizes) - 1 and at >= sizes[part]:
            at -= sizes[part]
            part += 1
        place = f", number {at}," if sizes[part] > 1 else ""
        value = found[~np.isfinite(found)][0]
        return f"{names[part]}{place} is {'NaN' if np.isnan(value) else f'{value:g}'}"


def as_number(value: object) -> float:
    """Return the value of an objective as a float; raise WrongType if it is not one real number.

    Accepts anything that holds one number and converts to float: an array or tensor of size 1, a
    ``numpy.bool``, a ``Decimal``.
    """
    if isinstance(value, float | int | np.floating | np.integer):
        return float(value)
    if _holds_one_real_number(value):
        with contextlib.suppress(Exception):  # libraries raise various exceptions if the conversion fails
            return float(value.item() if hasattr(value, "item") else value)  # type: ignore[arg-type]
    shape = getattr(value, "shape", None)
    what = f"an array of shape {tuple(shape)}" if shape else _shown(value)
    raise WrongType(
        f"fun must return one real number for each candidate, got {what}: return float(...), "
        "NaN for a failed evaluation, or pass vectorized=True if fun takes many rows at once"
    )


def _holds_one_real_number(value: object) -> bool:
    """Return whether ``value`` is a library's own kind of real number, neither text nor complex."""
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, str | bytes) or not hasattr(value, "__float__") or kind in "cSUOMm":
        return False
    try:
        return math.prod(getattr(value, "shape", ())) == 1
    except TypeError:
        return False


def _shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return f"a {type(value).__name__}"


def as_numbers(value: object, rows: int) -> Values:
    """Return the values of a vectorised objective as floats; raise WrongType on a wrong dtype or shape."""
    raw = np.asarray(value)
    if raw.dtype is FLOAT64 and raw.shape == (rows,):
        return raw.copy()
    if raw.dtype.kind not in "fiub" or raw.shape != (rows,):
        got = f"dtype {raw.dtype}, shape {raw.shape}" if raw.shape else _shown(value)
        raise WrongType(
            f"fun with vectorized=True must return {rows} real numbers, shape ({rows},), for {rows} rows; "
            f"got {got}"
        )
    return raw.astype(np.float64)


def as_answer(value: object) -> Answer:
    """Return the value of an objective and, if it returned a pair ``(f, g)``, its constraints."""
    if not (isinstance(value, tuple) and len(value) == 2):
        return as_number(value), None
    number = as_number(value[0])
    constraint_values = np.asarray(value[1])
    if constraint_values.dtype.kind not in "fiub" or constraint_values.ndim > 1:
        raise WrongType(
            "fun returned (f, g), but the constraints g must be a number or a vector; got g of "
            f"dtype {constraint_values.dtype}, shape {constraint_values.shape}"
        )
    return number, np.atleast_1d(constraint_values).astype(np.float64)


def as_answers(value: object, rows: int) -> Answers:
    """Return the values and constraints of a vectorised objective, as :func:`as_answer` does for one row."""
    if not (isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 1):
        return as_numbers(value, rows), None
    numbers = as_numbers(value[0], rows)
    constraint_values = np.asarray(value[1])
    if (
        constraint_values.dtype.kind not in "fiub"
        or constraint_values.ndim not in (1, 2)
        or len(constraint_values) != rows
    ):
        raise WrongType(
            f"fun with vectorized=True returned (f, g), but g must have shape ({rows}, constraints) for "
            f"{rows} rows; got dtype {constraint_values.dtype}, shape {constraint_values.shape}"
        )
    return numbers, constraint_values.reshape(rows, -1).astype(np.float64)


def packed(answers: Answers) -> bytes:
    """Return values and constraints as bytes, to be sent to another process."""
    values, constraint_values = answers
    return (values if constraint_values is None else np.column_stack((values, constraint_values))).tobytes()


def unpacked(content: bytes, rows: int) -> Answers:
    """Return the values and constraints passed to :func:`packed`."""
    numbers = np.frombuffer(content, np.float64).reshape(rows, -1)
    return numbers[:, 0], numbers[:, 1:] if numbers.shape[1] > 1 else None


class VectorizedCall:
    """Calls a vectorised ``fun`` with rows that it must not change.

    If ``fun`` changed them, its values would be attributed to the wrong candidates. It receives a read-only
    view. If it rejects that at the first call, as compiled code that needs a writable buffer does, it
    receives copies, which are compared with the rows afterwards.
    """

    def __init__(self, fun: Function, args: tuple[object, ...] = ()) -> None:
        self.fun, self.args = fun, args
        self._copies: bool | None = None  # whether fun needs a writable buffer, once known

    def __call__(self, rows: Array) -> Answers:
        """Return one value, and constraints if any, per row."""
        if not self._copies:
            try:
                answers = self._answers(rows.view(), writable=False)
            except Exception as error:
                if NOT_WRITABLE.search(message_of(error)) is None:
                    raise
                if self._copies is not None:  # it has accepted a read-only view before
                    raise WorksInPlace(f"{IN_PLACE} ({message_of(error)})") from error
            else:
                self._copies = False
                return answers
        copy = rows.copy()
        answers = self._answers(copy, writable=True)
        if not np.array_equal(copy, rows):
            raise WorksInPlace(IN_PLACE)
        self._copies = True
        return answers

    def _answers(self, rows: Array, *, writable: bool) -> Answers:
        rows.setflags(write=writable)
        return as_answers(self.fun(rows, *self.args), len(rows))
