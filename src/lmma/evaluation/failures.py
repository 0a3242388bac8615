"""Evaluations that gave no number: what is known about why, also where it happened in another process."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from dataclasses import dataclass
from typing import Any


class WorkersError(RuntimeError):
    """Worker processes cannot be started, or end before they are of use; the message says why."""


class EvaluationError(RuntimeError):
    """An evaluation gave no number and ``on_error="raise"`` asked to hear of it."""


class WrongType(TypeError):
    """An objective returned something other than a number."""


@dataclass(frozen=True)
class Failure:
    """One evaluation that gave no number, with what is known about why."""

    kind: str  # the exception's class, or "nan", "inf", "timeout", "died"
    message: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure that an exception means."""
        return cls(type(error).__name__, str(error), "".join(traceback.format_exception(error)))


@dataclass(frozen=True)
class TaskFailure:
    """Why a task gave no values; it can be sent to another process whatever the exception is."""

    failure: Failure
    error: BaseException | bytes | None = None  # the exception; pickled if it comes from another process

    @classmethod
    def of(cls, error: BaseException) -> TaskFailure:
        """Return the failure of a task that raised ``error``."""
        return cls(Failure.of(error), error)

    def exception(self) -> BaseException:
        """Return what to raise: the exception itself if it is at hand, with the traceback of its process."""
        if isinstance(self.error, BaseException):
            return self.error
        error: BaseException = EvaluationError(f"{self.failure.kind}: {self.failure.message}")
        if self.error is not None:
            with contextlib.suppress(Exception):  # its class may be unknown here
                error = pickle.loads(self.error)
        if self.failure.traceback:
            error.add_note(f"In a worker process:\n{self.failure.traceback}")
        return error

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with the exception as bytes that are only read where it is raised."""
        error = self.error
        if isinstance(error, BaseException):
            try:
                pickled = pickle.dumps(error)
                pickle.loads(pickled)  # some exceptions can be pickled but not made again
            except Exception:
                pickled = None
            error = pickled
        return {"failure": self.failure, "error": error}
