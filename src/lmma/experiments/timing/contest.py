"""Timing that is fair on a busy machine: contenders take turns, the best of many turns counts."""

from __future__ import annotations

import time
from collections.abc import Callable

Step = Callable[[], object]
TURN = 0.003  # seconds


def best_times(steps: dict[str, Step], repeat: int, patience: float) -> dict[str, float]:
    """Return the best time of each in seconds; one that has used up ``patience`` seconds gets no more turns.

    A turn is a few milliseconds of generations in a row, as in a run: the first of them finds its arrays and
    its code out of the caches, which the others' turns have filled.
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
