"""Standard streams whose failures do not end the program: a full disk, a closed terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class TolerantStream:
    """A text stream that stores a failure in ``error`` instead of raising it.

    With ``raise_broken_pipe``, BrokenPipeError is raised: the reader has closed the pipe, so the program
    can end.
    """

    def __init__(self, stream: TextIO, *, raise_broken_pipe: bool = False) -> None:
        self.stream = stream
        self.raise_broken_pipe = raise_broken_pipe
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write ``text``; do nothing after an earlier failure."""
        return self._do("write", text) or len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._do("flush")

    def discard_output(self) -> None:
        """Redirect the stream to the null device, because Python flushes it again at exit and would fail."""
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.stream.fileno())
            os.close(null)

    def _do(self, call: str, *args: Any) -> Any:
        if self.error is not None:
            return None
        try:
            return getattr(self.stream, call)(*args)
        except BrokenPipeError as error:
            if self.raise_broken_pipe:
                raise
            self.error = error
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.error = error
        return None


@contextlib.contextmanager
def tolerant_streams() -> Iterator[tuple[TolerantStream, TolerantStream]]:
    """Replace standard output and error by tolerant streams; writing to a closed one stores an error."""
    before = sys.stdout, sys.stderr
    null = _fill_closed_descriptors() if None in before else None
    out = TolerantStream(before[0] or null, raise_broken_pipe=True)  # type: ignore[arg-type]
    err = TolerantStream(before[1] or null)  # type: ignore[arg-type]
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr = before
        err.flush()
        for stream in (out, err):
            if stream.error is not None:
                stream.discard_output()
        if null is not None:
            with contextlib.suppress(OSError):  # text that was not flushed
                null.close()


def _fill_closed_descriptors() -> TextIO:
    """Open the null device for descriptors 0 to 2 if they are closed; return a stream that fails on output.

    Otherwise the next file to be opened could get the descriptor of standard error and receive its messages.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # open for reading only, so that flushing fails as it would on the closed descriptor
    return os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
