"""Failed evaluations and their causes, in this process or in a worker."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from dataclasses import dataclass
from typing import Any


class WorkersError(RuntimeError):
    """Worker processes cannot be started, or exit before they have loaded the objective."""


class EvaluationError(RuntimeError):
    """An evaluation failed and ``on_error="raise"`` was set."""


class WrongType(TypeError):
    """An objective returned something other than a number."""


class WorksInPlace(ValueError):
    """A vectorised objective modified the candidates passed to it."""


# Raised, whatever on_error is, if the objective has not returned a number before
MISTAKES: dict[str, type[Exception]] = {cls.__name__: cls for cls in (WrongType, WorksInPlace)}
# Caused by the code of the objective rather than by the point at which it is evaluated
PROGRAMMING_ERRORS = (AttributeError, ImportError, NameError, NotImplementedError, SyntaxError, TypeError)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, even if its ``__str__`` raises."""
    try:
        return str(error)
    except Exception as second:
        return f"(its __str__ raises {type(second).__name__})"


def is_failure(error: BaseException) -> bool:
    """Return whether an exception of the objective is a failed evaluation, not a request to exit.

    Includes asyncio's ``CancelledError`` (compared by name to avoid the import) and ``GeneratorExit``, which
    concern a task or generator inside the objective.
    """
    return isinstance(error, Exception | GeneratorExit) or type(error).__name__ == "CancelledError"


# Kinds of failures that are not exceptions
WITHOUT_CLASS = ("nan", "inf", "constraint", "timeout", "died")


@dataclass(frozen=True)
class Failure:
    """One failed evaluation and its cause."""

    kind: str  # the exception's class, or one of WITHOUT_CLASS
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        """Return the message, after the class of an exception."""
        return self.message if self.kind in WITHOUT_CLASS else f"{self.kind}: {self.message}"

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure that describes an exception."""
        try:
            lines = "".join(traceback.format_exception(error))
        except Exception:  # formatting calls methods of the exception, which may raise
            lines = ""
        return cls(type(error).__name__, message_of(error), lines)


@dataclass(frozen=True)
class TaskFailure:
    """The failure of a task; can be pickled whatever the exception is."""

    failure: Failure
    error: BaseException | bytes | None = None  # the exception; pickled if it comes from another process
    programming_error: bool = False

    @classmethod
    def of(cls, error: BaseException) -> TaskFailure:
        """Return the failure of a task that raised ``error``."""
        return cls(Failure.of(error), error, isinstance(error, PROGRAMMING_ERRORS))

    def exception(self) -> BaseException:
        """Return the exception to raise: the original if available, with the traceback of its process."""
        if isinstance(self.error, BaseException):
            return self.error
        error: BaseException = EvaluationError(f"{self.failure.kind}: {self.failure.message}")
        if self.error is not None:
            with contextlib.suppress(Exception):  # its class may not be importable here
                error = pickle.loads(self.error)
        if self.failure.traceback:
            error.add_note(f"In a worker process:\n{self.failure.traceback}")
        return error

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; the exception is pickled separately, in case it cannot be loaded."""
        error = self.error
        if isinstance(error, BaseException):
            try:
                pickled = pickle.dumps(error)
                pickle.loads(pickled)  # some exceptions can be pickled but not unpickled
            except Exception:
                pickled = None
            error = pickled
        return vars(self) | {"error": error}
