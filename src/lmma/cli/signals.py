"""Ctrl-C and SIGTERM end a run where nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from lmma.evaluation import Evaluator
from lmma.evaluation.base import Array, Values
from lmma.run.observers import Progress

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context in which a signal raises ``KeyboardInterrupt``, but never inside ``tell``.

    Evaluations, which may take long, are cut short; a strategy in the middle of an update finishes it
    first, so that the best so far is whole. Used as an observer and through :meth:`guard`.
    """

    def __init__(self) -> None:
        self.asked = False
        self._cuts_short = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for number in CAUGHT:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            with contextlib.suppress(TypeError):  # a handler set outside Python cannot be put back
                signal.signal(number, handler)

    def __call__(self, progress: Progress) -> None:
        """End the run if a signal came while the strategy was at work."""
        if self.asked:
            raise KeyboardInterrupt

    def guard(self, evaluate: Evaluator, candidates: Array) -> Values:
        """Evaluate such that signals cut it short."""
        if self.asked:
            raise KeyboardInterrupt
        self._cuts_short = True
        try:
            return evaluate(candidates)
        finally:
            self._cuts_short = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if self._cuts_short or again:
            raise KeyboardInterrupt
