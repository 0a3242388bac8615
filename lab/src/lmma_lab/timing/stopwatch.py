"""Timing that tolerates a busy machine: the steps alternate, and the best of many rounds counts."""

from __future__ import annotations

import time
from collections.abc import Callable

Step = Callable[[], object]
TURN = 0.003  # seconds


def best_times(steps: dict[str, Step], repeat: int, patience: float) -> dict[str, float]:
    """Return the best time of each step in seconds, from up to ``repeat`` turns.

    A turn repeats the step for a few milliseconds. The first repetition is slower, because the turns of the
    other steps have evicted its arrays and code from the caches. After three turns, a step that has taken
    more than ``patience`` seconds gets no more.
    """
    best = dict.fromkeys(steps, float("inf"))
    spent = dict.fromkeys(steps, 0.0)
    for turn in range(repeat):
        for name, step in steps.items():
            if turn >= 3 and spent[name] > patience:
                continue
            until = time.perf_counter() + TURN
            while True:
                begin = time.perf_counter()
                step()
                end = time.perf_counter()
                spent[name] += end - begin
                best[name] = min(best[name], end - begin)
                if end > until:
                    break
    return best
