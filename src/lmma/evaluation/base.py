"""What an evaluator promises: a value for each candidate in the same order, failures as NaN."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
OnError = Literal["worst", "raise"]

KEPT = 5  # failures kept with their traceback


@dataclass(frozen=True)
class Failure:
    """One evaluation that gave no number, with what is known about why."""

    kind: str  # the exception's class, or "nan"
    message: str
    traceback: str = ""


class Evaluator(ABC):
    """Turns candidates into values and remembers the first few failures."""

    def __init__(self, on_error: OnError = "worst") -> None:
        if on_error not in ("worst", "raise"):
            raise ValueError(f"on_error must be 'worst' or 'raise', got {on_error!r}")
        self.on_error = on_error
        self.errors: list[Failure] = []

    @abstractmethod
    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row, NaN where the evaluation failed."""

    def failed(self, error: Exception) -> float:
        """Note that an evaluation raised; return NaN, or raise again if ``on_error`` says so."""
        if self.on_error == "raise":
            raise error
        self.note(type(error).__name__, str(error), "".join(traceback.format_exception(error)))
        return float("nan")

    def note(self, kind: str, message: str, trace: str = "") -> None:
        """Keep a failure, if it is among the first few."""
        if len(self.errors) < KEPT:
            self.errors.append(Failure(kind, message, trace))


def as_number(value: Any) -> float:
    """Return an objective's value as a float, or say what it should have been."""
    if isinstance(value, float | int | np.floating | np.integer):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "fiub":
        return float(value)
    what = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)[:80]
    raise TypeError(
        f"fun must return one real number for each candidate, got {what}: return float(...), "
        "NaN for a failed evaluation, or pass vectorized=True if fun takes many rows at once"
    )
