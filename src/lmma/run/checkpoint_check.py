"""Whether a checkpoint with a right checksum says what a run can have said.

A checksum shows that a file is as it was written, not that it was written by lmma. What follows is checked
before anything is continued; arrays that do not fit a strategy are refused by the strategy itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lmma.run.checkpoint_file import Arrays, CheckpointError, Header
from lmma.strategies.registry import METHODS

MOST = 2**53  # of anything that is counted: JSON's numbers are exact up to here
POSITIVE = (  # and finite
    "strategy.sigma", "strategy.sigma0", "strategy.noise.rate", "strategy.noise.repeats",
)  # fmt: skip
FINITE = (
    "strategy.mean", "strategy.best_x", "strategy.scale", "strategy.injected", "best_x", "raw_at_best",
    "centre.x",
)  # fmt: skip
# infinite before there is a value, a spread or a bound; failures in a list of values are infinite too
UNBOUNDED = (
    "max_sigma", "spread", "spread_fun", "best_fun", "recent", "step.previous", "settling.best",
    "constraints.violation", "constraints.fun", "constraints.merit", "constraints.spread", "lagrangian.far",
    "noise.level", "noise.wide",
)  # fmt: skip


def check_content(header: Header, arrays: Arrays) -> None:
    """Raise CheckpointError with the reason if header or arrays hold what no run can have saved."""
    _want(isinstance(header.get("identity"), dict), "identity")
    _want(isinstance(header.get("kernels"), str), "kernels")
    key = header.get("key")
    _want(isinstance(key, list) and len(key) == 2 and all(_is_word64(word) for word in key), "key")
    _plan(header.get("plan"))
    _counters(header.get("counters"), arrays)
    for place, single in enumerate(_list(header, "finished")):
        name = f"finished[{place}]"
        _want(isinstance(single, dict) and isinstance(single.get("reason"), str), name)
        _want(is_count(single.get("popsize"), 1) and is_count(single.get("evaluations")), name)
        _want(_is_value(single.get("best_fun")) and isinstance(single.get("small"), bool), name)
    failures = header.get("failures")
    _want(isinstance(failures, dict) and all(is_count(count) for count in failures.values()), "failures")
    for place, error in enumerate(_list(header, "errors")):
        strings = isinstance(error, dict) and all(isinstance(words, str) for words in error.values())
        _want(strings, f"errors[{place}]")
    sizes = header.get("constraints", [])
    _want(isinstance(sizes, list) and all(is_count(size) for size in sizes), "constraints")
    for name in ("dropped", "deaths"):
        _want(is_count(header.get(name)), name)
    _want(isinstance(header.get("extra", {}), dict), "extra")
    _want(isinstance(header.get("ended", ""), str | None), "ended")
    best, mean = arrays.get("best_x"), arrays.get("strategy.mean")
    _want(best is None or (mean is not None and _like(best) == _like(mean)), "array best_x")
    ours = header["identity"].get("method") in METHODS
    for name, array in arrays.items():
        _want(is_sound(name, array, ours), f"array {name}")


def _plan(plan: Any) -> None:
    _want(isinstance(plan, dict), "plan")
    _want(is_count(plan.get("number")) and is_count(plan.get("popsize"), 1), "plan")
    factor, allowance = plan.get("sigma_factor"), plan.get("allowance")
    _want(is_number(factor) and 0 < factor < math.inf, "plan: sigma_factor")
    _want(allowance is None or is_count(allowance), "plan: allowance")
    _want(isinstance(plan.get("small"), bool), "plan: small")


def _counters(counters: Any, arrays: Arrays) -> None:
    _want(isinstance(counters, dict), "counters")
    for name, value in counters.items():
        if name == "best_fun":
            # there is a best point exactly where there is a value
            constrained = "raw_at_best" in arrays
            there = constrained or math.isfinite(value)
            _want(_is_value(value) and there == ("best_x" in arrays), "counters: best_fun")
        elif name in ("violation", "fun_at_best"):
            _want(_is_value(value) and (name != "violation" or value >= 0), f"counters: {name}")
        elif name == "seconds":
            _want(is_number(value) and 0 <= value < math.inf, "counters: seconds")
        else:
            _want(is_count(value), f"counters: {name}")


def is_sound(name: str, array: np.ndarray[Any, Any], ours: bool) -> bool:
    """Return whether an array holds numbers that a run can go on with; of users' strategies less is known."""
    if array.dtype.kind not in "biuf" and (ours or not name.startswith("strategy.")):
        return False  # complex numbers, texts
    name = name.replace("strategy.inner.", "strategy.", 1)  # that of a strategy with choices beside it
    if array.dtype.kind in "iu":
        least = 1 if name.endswith(".stride") else -1  # -1 is customary for never
        return name == "strategy.key" or bool(np.all((array >= least) & (array <= MOST)))
    if array.dtype.kind == "b":
        return True
    if name in POSITIVE:
        return bool(np.all(np.isfinite(array) & (array > 0)))
    known = name.startswith("strategy.") and ours
    if known and name.endswith((".variances", ".scales")) and np.any(array < 0):
        return False
    if name in FINITE or (known and name.removeprefix("strategy.") not in UNBOUNDED):
        return bool(np.all(np.isfinite(array)))
    if name == "strategy.max_sigma" and not np.all(array > 0):
        return False
    return not known or not np.any(np.isnan(array) | (array == -math.inf))


def _like(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return array.shape, array.dtype


def _list(header: Header, name: str) -> list[Any]:
    found = header.get(name)
    _want(isinstance(found, list), name)
    return list(found or [])


def is_count(value: Any, least: int = 0) -> bool:
    """Return whether it can be a number of things."""
    return type(value) is int and least <= value <= MOST


def is_number(value: Any) -> bool:
    """Return whether it is a number, infinity included."""
    return type(value) in (int, float) and value == value


def _is_value(value: Any) -> bool:
    """Return whether it can be the best of a run: a finite number, or infinity before there is one."""
    return is_number(value) and -math.inf < value


def _is_word64(word: Any) -> bool:
    return (
        isinstance(word, str) and word.isascii() and word.isdigit() and len(word) <= 20 and int(word) < 2**64
    )


def _want(holds: bool, what: str) -> None:
    if not holds:
        raise CheckpointError(f"it says what no run of lmma can have saved ({what})")
