"""What an evaluator promises: a value for each candidate in the same order, failures as NaN."""

from __future__ import annotations

import contextlib
import math
import numbers
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from lmma.evaluation.failures import (
    MISTAKES,
    EvaluationError,
    Failure,
    TaskFailure,
    WorksInPlace,
    WrongType,
    words_of,
)
from lmma.kernels.words import shown

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
Function = Callable[..., object]  # fun(x, *args); what it returns is checked, not trusted
OnError = Literal["worst", "raise", "resample"]
Answer = tuple[float, Values | None]  # a value, and the constraints beside it
Answers = tuple[Values, Values | None]  # (rows,) and (rows, constraints)

INFINITY = math.inf
FLOAT64 = np.dtype(np.float64)
KEPT = 5  # failures kept with their traceback
SHORTEST = 0.001  # seconds that can be allowed for an evaluation


@dataclass(frozen=True)
class EvaluationOptions:
    """How candidates are evaluated, whoever does it.

    Parameters
    ----------
    on_error : {"worst", "raise", "resample"}
        What a failed evaluation means.
    vectorized : bool
        Whether ``fun`` takes many candidates at once, one per row.
    timeout : float, optional
        Seconds after which an evaluation is given up.
    quorum : float
        Share of a generation that must have returned before it closes; what comes later is dropped.
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
        if self.timeout is not None and 0 < self.timeout < SHORTEST:
            raise ValueError(
                f"timeout={shown(self.timeout)} is shorter than it takes to hand a candidate to a process: "
                f"give at least {SHORTEST} seconds"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(
                f"timeout must be a positive number of seconds, or None; got {shown(self.timeout)}"
            )
        if not 0 < self.quorum <= 1:
            raise ValueError(f"quorum must be a share of the generation in (0, 1], got {shown(self.quorum)}")


class Evaluator(ABC):
    """Turns candidates into values, counts failures by kind and keeps the first few of them."""

    answered = False  # whether there has been any number at all
    makes_candidates = False  # whether it can evaluate candidates of the strategy alone
    late: npt.NDArray[np.bool_] | None = None  # rows of the last call that were not waited for
    beside: Values | None = None  # what fun returned beside the values of the last call, one row for each
    _beside_count: int | None = None  # how many numbers that is, once it is known
    _buffer: Array | None = None

    def __init__(self, on_error: OnError = "worst") -> None:
        if not isinstance(on_error, str) or on_error not in get_args(OnError):
            raise ValueError(f"on_error must be 'worst', 'raise' or 'resample', got {shown(on_error)}")
        self.on_error = on_error
        self.errors: list[Failure] = []
        self.failures: Counter[str] = Counter()  # kind -> how many evaluations failed so
        self.dropped = 0  # evaluations that came too late for their generation
        self.deaths = 0  # workers that died under an evaluation, which then was begun again
        self.warnings: list[str] = []

    @abstractmethod
    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row, NaN where the evaluation failed."""

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array | None:
        """Return an array this evaluator likes candidates to be put in, or None for a fresh one."""
        return None

    def _reused_buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the same array for every generation of that shape."""
        if self._buffer is None or self._buffer.shape != (rows, n) or self._buffer.dtype != dtype:
            self._buffer = np.empty((rows, n), dtype=dtype)
        return self._buffer

    # An evaluator that makes candidates itself must know all that a strategy goes through. Strategies are
    # unknown to this package, hence Any.

    def attend(self, strategy: Any) -> None:  # noqa: B027 (most see candidates alone)
        """Take note that ``strategy`` is about to be asked."""

    def redrawn(self, rows: npt.NDArray[np.intp], attempt: int) -> None:  # noqa: B027
        """Take note that candidates at ``rows`` were drawn again, and are evaluated next, in this order."""

    def repeated(self, rows: npt.NDArray[np.intp]) -> None:  # noqa: B027
        """Take note that candidates at ``rows`` are evaluated once more, next and in this order."""

    def with_seed(self, candidates: Array, seed: int, generation: int) -> Array:
        """Return candidates that bring ``fun`` a seed and the number of a generation."""
        from lmma.evaluation.seeded import with_seed

        return with_seed(candidates, seed, generation)

    def told(  # noqa: B027
        self, values: Values, *, constraints: Values | None = None, again: Values | None = None
    ) -> None:
        """Take note of what the strategy is about to be told."""

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Let go of processes and memory; an evaluator may be closed twice."""

    # Failures

    def fail(self, failed: TaskFailure, rows: int = 1) -> None:
        """Count ``rows`` failed evaluations; raise what failed if ``on_error`` says so.

        If ``fun`` has never returned a number but something else, or writes into candidates that it is to
        look at, that is a mistake and raises TypeError or ValueError.
        """
        failure = failed.failure
        if failure.kind in MISTAKES and not self.answered:
            self.close()
            raise MISTAKES[failure.kind](failure.message)
        if self.on_error == "raise":
            self.close()
            raise failed.exception()
        self._count(failure, rows)

    def _count(self, failure: Failure, rows: int) -> None:
        self.failures[failure.kind] += rows
        if len(self.errors) < KEPT:
            self.errors.append(failure)

    def finite(self, values: Values) -> Values:
        """Return ``values`` with what is not finite counted as failed and set to NaN."""
        if not len(values):
            return values
        if values.item(values.argmin()) > -INFINITY and values.item(values.argmax()) < INFINITY:
            return values  # a NaN is what both searches find first
        for kind, words, bad in (
            ("nan", "NaN", np.isnan(values)),
            ("inf", "an infinite value", np.isinf(values)),
        ):
            count = int(np.count_nonzero(bad))
            if count:
                if self.on_error == "raise":
                    row = int(np.flatnonzero(bad)[0])
                    raise EvaluationError(
                        f"fun returned {words} for candidate {row}; on_error='worst' ranks it last instead"
                    )
                self._count(Failure(kind, f"fun returned {words}"), count)
        return np.where(np.isfinite(values), values, np.nan)

    def with_beside(self, values: Values, beside: Mapping[int, Values]) -> Values:
        """Return ``values`` after keeping what stands beside them, by row, as :attr:`beside`.

        A value without it, or with too few or too many numbers, is failed; in the first generation that has
        any, it is a mistake.
        """
        known, self.beside = self._beside_count, None
        if not beside and known is None:
            return values
        count = known if known is not None else len(beside[min(beside)])
        self.beside = np.full((len(values), count), np.nan)
        odd = {row: beside[row] for row in beside if len(beside[row]) != count}
        bare = [row for row in np.flatnonzero(~np.isnan(values)).tolist() if row not in beside]
        if odd or bare:
            self._refuse_length(count, odd, bare)
            values = values.copy()
            values[[*odd, *bare]] = np.nan
        self._beside_count = count
        for row in beside.keys() - odd.keys():
            self.beside[row] = beside[row]
        return self._finite_beside(values)

    def _refuse_length(self, count: int, odd: Mapping[int, Values], bare: Sequence[int]) -> None:
        """Count rows with another number of constraints as failed, or raise if there was none before."""
        row, got = next(((row, f"{len(odd[row])}") for row in odd), (0, ""))
        if not got:
            row, got = bare[0], "none"
        words = (
            f"constraints must be the same number for each candidate: {count} numbers were returned for one, "
            f"{got} for candidate {row}"
        )
        if self._beside_count is None:
            self.close()
            raise ValueError(words)
        self.fail(TaskFailure(Failure("WrongLength", words)), len(odd) + len(bare))

    def _finite_beside(self, values: Values) -> Values:
        """Return ``values``, NaN where a constraint is not finite, which counts as failed."""
        assert self.beside is not None
        bad = ~np.isnan(values) & ~np.isfinite(self.beside).all(axis=1)
        if not np.any(bad):
            return values
        row = int(np.flatnonzero(bad)[0])
        found = self.beside[row][~np.isfinite(self.beside[row])][0]
        words = f"a constraint is {found}"
        if self.on_error == "raise":
            raise EvaluationError(f"{words} for candidate {row}; on_error='worst' ranks it last instead")
        self._count(Failure("constraint", words), int(np.count_nonzero(bad)))
        return np.where(bad, np.nan, values)


def as_number(value: object) -> float:
    """Return an objective's value as a float, or say what it should have been.

    Anything that converts to a float and holds one number is one: an array or a tensor of size 1, a
    ``numpy.bool``, a ``Decimal``.
    """
    if isinstance(value, float | int | np.floating | np.integer):
        return float(value)
    if _holds_one_real_number(value):
        with contextlib.suppress(Exception):  # whatever a library says of numbers it cannot give
            return float(value.item() if hasattr(value, "item") else value)  # type: ignore[arg-type]
    shape = getattr(value, "shape", None)
    what = f"an array of shape {tuple(shape)}" if shape else _shown(value)
    raise WrongType(
        f"fun must return one real number for each candidate, got {what}: return float(...), "
        "NaN for a failed evaluation, or pass vectorized=True if fun takes many rows at once"
    )


def _holds_one_real_number(value: object) -> bool:
    """Return whether ``value`` is a number of some library's own kind, no text and no complex number."""
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
    """Return what a vectorised objective gave for ``rows`` candidates as floats, or say what is wrong."""
    raw = np.asarray(value)
    if raw.dtype is FLOAT64 and raw.shape == (rows,):
        return raw.copy()
    if raw.dtype.kind not in "fiub" or raw.shape != (rows,):
        raise WrongType(
            f"fun with vectorized=True must return {rows} real numbers, shape ({rows},), for {rows} rows; "
            f"got dtype {raw.dtype}, shape {raw.shape}"
        )
    return raw.astype(np.float64)


def as_answer(value: object) -> Answer:
    """Return what an objective gave: its value, and the numbers beside it if it is a pair ``(f, g)``."""
    if not (isinstance(value, tuple) and len(value) == 2):
        return as_number(value), None
    number = as_number(value[0])
    beside = np.asarray(value[1])
    if beside.dtype.kind not in "fiub" or beside.ndim > 1:
        raise WrongType(
            "fun that returns (f, g) must have a number f and constraints g, a number or a vector; got g of "
            f"dtype {beside.dtype}, shape {beside.shape}"
        )
    return number, np.atleast_1d(beside).astype(np.float64)


def as_answers(value: object, rows: int) -> Answers:
    """Return what a vectorised objective gave for ``rows`` candidates, as :func:`as_answer` does for one."""
    if not (isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 1):
        return as_numbers(value, rows), None
    numbers = as_numbers(value[0], rows)
    beside = np.asarray(value[1])
    if beside.dtype.kind not in "fiub" or beside.ndim not in (1, 2) or len(beside) != rows:
        raise WrongType(
            f"fun with vectorized=True that returns (f, g) must return g of shape ({rows}, constraints) for "
            f"{rows} rows; got dtype {beside.dtype}, shape {beside.shape}"
        )
    return numbers, beside.reshape(rows, -1).astype(np.float64)


def packed(answers: Answers) -> bytes:
    """Return values and what stands beside them as bytes, to be sent to another process."""
    values, beside = answers
    return (values if beside is None else np.column_stack((values, beside))).tobytes()


def unpacked(content: bytes, rows: int) -> Answers:
    """Return what :func:`packed` was given."""
    numbers = np.frombuffer(content, np.float64).reshape(rows, -1)
    return numbers[:, 0], numbers[:, 1:] if numbers.shape[1] > 1 else None


def call_with_rows(fun: Function, rows: Array, args: tuple[object, ...]) -> Answers:
    """Return what a vectorised ``fun`` says of ``rows``, which it may look at but not change.

    What it changed would be taken for what it evaluated.
    """
    shown = rows.view()
    shown.setflags(write=False)
    try:
        return as_answers(fun(shown, *args), len(rows))
    except ValueError as error:
        if "read-only" not in words_of(error):
            raise
        raise WorksInPlace(
            "fun with vectorized=True must not change the candidates it is given, the search's own: "
            f"work on a copy, X = X.copy() ({words_of(error)})"
        ) from error
