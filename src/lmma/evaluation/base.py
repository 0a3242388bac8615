"""What an evaluator promises: a value for each candidate in the same order, failures as NaN."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
OnError = Literal["worst", "raise", "resample"]

KEPT = 5  # failures kept with their traceback


class EvaluationError(RuntimeError):
    """An evaluation gave no number and ``on_error="raise"`` asked to hear of it."""


@dataclass(frozen=True)
class Failure:
    """One evaluation that gave no number, with what is known about why."""

    kind: str  # the exception's class, or "nan", "inf", "timeout", "died"
    message: str
    traceback: str = ""


class Evaluator(ABC):
    """Turns candidates into values, counts failures by kind and keeps the first few of them."""

    answered = False  # whether there has been any number at all
    late: npt.NDArray[np.bool_] | None = None  # rows of the last call that were not waited for

    def __init__(self, on_error: OnError = "worst") -> None:
        if on_error not in ("worst", "raise", "resample"):
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

    # An evaluator that makes candidates itself must know all that a strategy goes through

    def attend(self, strategy: Any, box: Any) -> None:  # noqa: B027 (most see candidates alone)
        """Take note that ``strategy`` is about to be asked, and its candidates moved into ``box``."""

    def redrawn(self, rows: npt.NDArray[np.intp], attempt: int) -> None:  # noqa: B027
        """Take note that candidates at ``rows`` were drawn again, and are evaluated next, in this order."""

    def told(self, values: Values) -> None:  # noqa: B027
        """Take note of what the strategy is about to be told."""

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Let go of processes and memory; an evaluator may be closed twice."""

    def failed(self, error: BaseException, trace: str = "") -> float:
        """Note that an evaluation raised; return NaN, or raise again if ``on_error`` says so."""
        if self.on_error == "raise":
            raise error
        trace = trace or "".join(traceback.format_exception(error))
        self.note(type(error).__name__, str(error), trace)
        return float("nan")

    def refuse_mistake(self, kind: str, message: str) -> None:
        """Raise TypeError if ``fun`` has never returned a number: no failure but a mistake, so say it now."""
        if kind == WrongType.__name__ and not self.answered:
            raise WrongType(message)

    def note(self, kind: str, message: str, trace: str = "", count: int = 1) -> None:
        """Count ``count`` failures of one kind, and keep the failure if it is among the first few."""
        self.failures[kind] += count
        if len(self.errors) < KEPT:
            self.errors.append(Failure(kind, message, trace))

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
                self.note(kind, f"fun returned {words}", count=count)
        return np.where(np.isfinite(values), values, np.nan)


def as_number(value: Any) -> float:
    """Return an objective's value as a float, or say what it should have been."""
    if isinstance(value, float | int | np.floating | np.integer):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "fiub":
        return float(value)
    what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)[:80]
    raise WrongType(
        f"fun must return one real number for each candidate, got {what}: return float(...), "
        "NaN for a failed evaluation, or pass vectorized=True if fun takes many rows at once"
    )


def as_numbers(value: Any, rows: int) -> Values:
    """Return what a vectorised objective gave for ``rows`` candidates as floats, or say what is wrong."""
    raw = np.asarray(value)
    if raw.dtype.kind not in "fiub" or raw.shape != (rows,):
        raise WrongType(
            f"fun with vectorized=True must return {rows} real numbers, shape ({rows},), for {rows} rows; "
            f"got dtype {raw.dtype}, shape {raw.shape}"
        )
    return raw.astype(np.float64)


class WrongType(TypeError):
    """An objective returned something other than a number."""
