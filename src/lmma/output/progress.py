"""How far work is, on a stream: one line renewed in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

RENEWED = 0.1  # seconds between two states of a line on a terminal
_CLEAR = "\r\x1b[K"  # back to the start of the line, and erase it


class StatusLine:
    """One line renewed in place on a terminal, a line now and then elsewhere.

    Parameters
    ----------
    stream : text stream, optional
        Where to write; standard error by default.
    every : float
        Least number of seconds between two lines where the stream is no terminal.

    Attributes
    ----------
    live : bool
        Whether the stream is a terminal.

    Notes
    -----
    The caller asks :meth:`due` before making up the text, which may cost something. A line is cut where the
    terminal ends, as a wrapped line could not be renewed in place. A stream that fails, on a full disk or
    because it is closed, is left alone from then on: work never dies of its display.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self.stream: TextIO | None = sys.stderr if stream is None else stream  # Python may have none
        self.live = _is_terminal(self.stream)
        self.every = RENEWED if self.live else every
        self._next = 0.0
        self._open = False  # whether the terminal shows a line that is to be renewed

    @property
    def width(self) -> int | None:
        """How many signs a line may have; None where there is no limit."""
        columns = _width(self.stream) if self.live else 0
        return columns - 1 if columns > 4 else None  # a full line already wraps on some terminals

    def due(self) -> bool:
        """Return whether it is time to :meth:`show` again."""
        return self.stream is not None and time.monotonic() >= self._next

    def wait(self) -> None:
        """Be due only after a full interval."""
        self._next = time.monotonic() + self.every

    def show(self, text: str) -> None:
        """Renew the line on a terminal; write a line elsewhere."""
        self.wait()
        self._write(f"{_CLEAR}{cut(text, self.stream)}" if self.live else f"{text}\n")
        self._open = self.live

    def say(self, text: str) -> None:
        """Write a line that stays; on a terminal it takes the place of the one being renewed."""
        self._write(f"{_CLEAR}{text}\n" if self.live else f"{text}\n")
        self._open = False

    def close(self, *, erase: bool = False) -> None:
        """Leave the terminal at the start of a line, the last state above it or erased."""
        if self._open:
            self._write(_CLEAR if erase else "\n")
            self._open = False

    def _write(self, text: str) -> None:
        if self.stream is None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # ValueError: it is closed
            self.stream = None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def cut(text: str, stream: TextIO | None) -> str:
    """Return ``text`` no wider than the terminal behind ``stream``; whole where the width is unknown."""
    width = _width(stream) - 1  # a full line already wraps on some terminals
    return text if width < 4 or len(text) <= width else f"{text[: width - 3]}..."


def _width(stream: TextIO | None) -> int:
    """Return the columns of a terminal: what it says itself, else what COLUMNS says, else 0."""
    try:
        columns = 0 if stream is None else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # a stream that merely says it is a terminal
        columns = 0
    said = os.environ.get("COLUMNS", "")
    return columns or (int(said) if said.isdigit() else 0)


def bar(share: float, length: int = 24) -> str:
    """Return ``share`` of a whole as a bar of ``length`` signs."""
    filled = round(length * min(max(share, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (length - filled)}]"


def readable(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"
