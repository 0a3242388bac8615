"""Progress display: a status line updated in place on a terminal, occasional lines on other streams."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

REFRESH = 0.1  # seconds between updates on a terminal
_CLEAR = "\r\x1b[K"  # return to the start of the line and erase it


class StatusLine:
    """A line updated in place on a terminal; occasional lines on other streams.

    Parameters
    ----------
    stream : text stream, optional
        Output stream; standard error by default.
    every : float
        Minimum number of seconds between lines if the stream is not a terminal.

    Attributes
    ----------
    live : bool
        Whether the stream is a terminal.

    Notes
    -----
    The caller checks :meth:`due` before composing the text, which may be expensive. Lines are truncated to
    the width of the terminal, because a wrapped line cannot be updated in place. After a write error (full
    disk, closed stream) nothing more is written, so that the display cannot end the program.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self.stream: TextIO | None = sys.stderr if stream is None else stream  # sys.stderr may be None
        self.live = _is_terminal(self.stream)
        self.every = REFRESH if self.live else every
        self._next = 0.0
        self._open = False  # whether the terminal shows a line to be updated

    @property
    def width(self) -> int | None:
        """Maximum number of characters of a line, or None without a limit."""
        columns = _width(self.stream) if self.live else 0
        return columns - 1 if columns > 4 else None  # some terminals wrap a line that fills the width

    def due(self) -> bool:
        """Return whether the next update is due."""
        return self.stream is not None and time.monotonic() >= self._next

    def wait(self) -> None:
        """Postpone the next update by a full interval."""
        self._next = time.monotonic() + self.every

    def show(self, text: str) -> None:
        """Update the line on a terminal; write a new line on other streams."""
        self.wait()
        self._write(f"{_CLEAR}{truncate(text, self.stream)}" if self.live else f"{text}\n")
        self._open = self.live

    def print_line(self, text: str) -> None:
        """Write a permanent line; on a terminal it replaces the status line."""
        self._write(f"{_CLEAR}{text}\n" if self.live else f"{text}\n")
        self._open = False

    def close(self, *, erase: bool = False) -> None:
        """End the status line with a newline, or erase it."""
        if self._open:
            self._write(_CLEAR if erase else "\n")
            self._open = False

    def _write(self, text: str) -> None:
        if self.stream is None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # ValueError: the stream is closed
            self.stream = None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def truncate(text: str, stream: TextIO | None) -> str:
    """Truncate ``text`` to the width of the terminal; return it unchanged if the width is unknown."""
    width = _width(stream) - 1  # some terminals wrap a line that fills the width
    return text if width < 4 or len(text) <= width else f"{text[: width - 3]}..."


def _width(stream: TextIO | None) -> int:
    """Return the number of columns of a terminal: as reported by it, else COLUMNS, else 0."""
    try:
        columns = 0 if stream is None else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # not backed by a terminal device
        columns = 0
    variable = os.environ.get("COLUMNS", "")
    return columns or (int(variable) if variable.isdigit() else 0)


def bar(share: float, length: int = 24) -> str:
    """Return a progress bar of ``length`` characters, filled to ``share`` (0 to 1)."""
    filled = round(length * min(max(share, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (length - filled)}]"
