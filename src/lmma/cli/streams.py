"""Standard streams that may fail: nothing dies of a full disk or a closed terminal that it prints to."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class Unfailing:
    """A text stream whose failures are kept in ``error`` instead of being raised.

    A reader of a pipe that has seen enough is no failure: where it is to end the program, it does.
    """

    def __init__(self, stream: TextIO, *, ends_with_its_reader: bool = False) -> None:
        self.stream = stream
        self.ends_with_its_reader = ends_with_its_reader
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write ``text``, unless an earlier one has failed."""
        return self._do("write", text) or len(text)

    def flush(self) -> None:
        """Hand on what has been written."""
        self._do("flush")

    def abandon(self) -> None:
        """Have what could not be written go nowhere: Python would try again at its exit, and complain."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)

    def _do(self, call: str, *args: Any) -> Any:
        if self.error is not None:
            return None
        try:
            return getattr(self.stream, call)(*args)
        except BrokenPipeError as error:
            if self.ends_with_its_reader:
                raise
            self.error = error
        except (OSError, ValueError) as error:  # ValueError: it is closed
            self.error = error
        return None


@contextlib.contextmanager
def unfailing_streams() -> Iterator[tuple[Unfailing, Unfailing]]:
    """Have standard output and standard error that never raise; those that are closed lead nowhere."""
    before = sys.stdout, sys.stderr
    nowhere = _fill_closed_descriptors() if None in before else None
    out = Unfailing(before[0] or nowhere, ends_with_its_reader=True)  # type: ignore[arg-type]
    err = Unfailing(before[1] or nowhere)  # type: ignore[arg-type]
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr = before
        err.flush()
        for stream in (out, err):
            if stream.error is not None:
                stream.abandon()
        if nowhere is not None:
            nowhere.close()


def _fill_closed_descriptors() -> TextIO:
    """Return a stream that leads nowhere, after filling the places of closed ones.

    The next file to be opened would get the number of standard error, and messages not meant for it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    return os.fdopen(descriptor, "w", encoding="utf-8")
