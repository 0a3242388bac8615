"""Safe interruption of a run by Ctrl-C and, on the command line, SIGTERM and SIGHUP."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def ending_signals() -> tuple[int, ...]:
    """Return the signals that end a command: SIGINT, SIGTERM and SIGHUP, which a closing terminal sends.

    SIGHUP is left out where the system has none, and where it is ignored, as under ``nohup``.
    """
    hangup = getattr(signal, "SIGHUP", None)
    listens = hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *((hangup,) if listens else ()))


class Interrupts:
    """A context in which a signal raises ``KeyboardInterrupt``, but never inside ``tell``.

    Evaluations and callbacks, which may take long, are interrupted. A strategy completes its update first, so
    that the best point so far is consistent. A second signal raises immediately. Repeated SIGHUPs count once,
    because both the system and the shell send one when a terminal closes.

    Parameters
    ----------
    *signals : int
        The signals to catch. By default SIGINT, unless the program has installed a handler for it.
    """

    def __init__(self, *signals: int) -> None:
        self.signals = signals
        self.count = 0
        self._interruptible = False
        self._hung_up: int | None = None  # SIGHUP, once received
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():  # Python allows handlers only there
            return self
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        for number in self.signals or ((signal.SIGINT,) if usual else ()):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            if number == self._hung_up:
                handler = signal.SIG_IGN  # the shell's SIGHUP may follow while the result is written
            if signal.getsignal(number) == self._handle:  # not replaced in the meantime
                with contextlib.suppress(TypeError):  # a handler set outside Python cannot be restored
                    signal.signal(number, handler)

    def check(self) -> None:
        """Raise if a signal was received since the start."""
        if self.count:
            raise KeyboardInterrupt

    def call_interruptibly(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return ``work(*args, **named)``; a signal interrupts it."""
        if self.count:
            raise KeyboardInterrupt
        self._interruptible = True
        try:
            return work(*args, **named)
        finally:
            self._interruptible = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == getattr(signal, "SIGHUP", None):
            if self._hung_up is not None:
                return
            self._hung_up = number
        self.count += 1
        if self._interruptible or self.count > 1:
            raise KeyboardInterrupt
