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


class WorksInPlace(ValueError):
    """A vectorised objective wrote into the candidates it was shown."""


# What an objective that has never returned a number does wrong: a mistake, no failure
MISTAKES: dict[str, type[Exception]] = {cls.__name__: cls for cls in (WrongType, WorksInPlace)}


def words_of(error: BaseException) -> str:
    """Return what an exception says, also where it fails to."""
    try:
        return str(error)
    except Exception as second:
        return f"(its __str__ raises {type(second).__name__})"


def is_failure(error: BaseException) -> bool:
    """Return whether what an objective raised is a failed evaluation, rather than a wish to end the program.

    Besides every ``Exception`` these are asyncio's ``CancelledError``, not imported for it, and
    ``GeneratorExit``: they mean a task and a generator of the objective's own.
    """
    return isinstance(error, Exception | GeneratorExit) or type(error).__name__ == "CancelledError"


@dataclass(frozen=True)
class Failure:
    """One evaluation that gave no number, with what is known about why."""

    kind: str  # the exception's class, or "nan", "inf", "timeout", "died"
    message: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure that an exception means."""
        try:
            lines = "".join(traceback.format_exception(error))
        except Exception:  # an exception may bring its own ways of failing
            lines = ""
        return cls(type(error).__name__, words_of(error), lines)


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
