"""Ctrl-C ends a run where nothing is lost; on the command line SIGTERM does so too."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Interrupts:
    """A context in which a signal raises ``KeyboardInterrupt``, but never inside ``tell``.

    Evaluations and callbacks, which may take long, are cut short; a strategy in the middle of an update
    finishes it first, so that the best so far is whole. A second signal is raised at once, wherever that is.

    Parameters
    ----------
    *signals : int
        Those that are caught. By default Ctrl-C, unless the program has a handler of its own for it.
    """

    def __init__(self, *signals: int) -> None:
        self.signals = signals
        self.count = 0
        self._cuts_short = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():  # elsewhere Python allows no handlers
            return self
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        for number in self.signals or ((signal.SIGINT,) if usual else ()):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            if signal.getsignal(number) == self._handle:  # unless somebody has set another one meanwhile
                with contextlib.suppress(TypeError):  # a handler set outside Python cannot be put back
                    signal.signal(number, handler)

    def check(self) -> None:
        """Raise if a signal came while the strategy was at work."""
        if self.count:
            raise KeyboardInterrupt

    def cut_short(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what ``work`` returns, unless a signal comes, which cuts it short."""
        if self.count:
            raise KeyboardInterrupt
        self._cuts_short = True
        try:
            return work(*args, **named)
        finally:
            self._cuts_short = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._cuts_short or self.count > 1:
            raise KeyboardInterrupt
