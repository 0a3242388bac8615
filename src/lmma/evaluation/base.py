"""What an evaluator promises: a value for each candidate in the same order, failures as NaN."""

from __future__ import annotations

import contextlib
import math
import numbers
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
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

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
Function = Callable[..., object]  # fun(x, *args); what it returns is checked, not trusted
OnError = Literal["worst", "raise", "resample"]

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
                raise TypeError(f"{name} must be a number, got {value!r}")
        if self.timeout is not None and 0 < self.timeout < SHORTEST:
            raise ValueError(
                f"timeout={self.timeout!r} is shorter than it takes to hand a candidate to a process: "
                f"give at least {SHORTEST} seconds"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, or None; got {self.timeout!r}")
        if not 0 < self.quorum <= 1:
            raise ValueError(f"quorum must be a share of the generation in (0, 1], got {self.quorum!r}")


class Evaluator(ABC):
    """Turns candidates into values, counts failures by kind and keeps the first few of them."""

    answered = False  # whether there has been any number at all
    makes_candidates = False  # whether it can evaluate candidates of the strategy alone
    late: npt.NDArray[np.bool_] | None = None  # rows of the last call that were not waited for
    _buffer: Array | None = None

    def __init__(self, on_error: OnError = "worst") -> None:
        if on_error not in get_args(OnError):
            raise ValueError(f"on_error must be 'worst', 'raise' or 'resample', got {on_error!r}")
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

    def told(self, values: Values, again: Values | None = None) -> None:  # noqa: B027
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
        if np.isfinite(values).all():
            return values
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
    if raw.dtype.kind not in "fiub" or raw.shape != (rows,):
        raise WrongType(
            f"fun with vectorized=True must return {rows} real numbers, shape ({rows},), for {rows} rows; "
            f"got dtype {raw.dtype}, shape {raw.shape}"
        )
    return raw.astype(np.float64)


def call_with_rows(fun: Function, rows: Array, args: tuple[object, ...]) -> Values:
    """Return what a vectorised ``fun`` says of ``rows``, which it may look at but not change.

    What it changed would be taken for what it evaluated.
    """
    shown = rows.view()
    shown.flags.writeable = False
    try:
        return as_numbers(fun(shown, *args), len(rows))
    except ValueError as error:
        if "read-only" not in words_of(error):
            raise
        raise WorksInPlace(
            "fun with vectorized=True must not change the candidates it is given, the search's own: "
            f"work on a copy, X = X.copy() ({words_of(error)})"
        ) from error
