"""What tells one run from another, so that a checkpoint is not continued with a different one."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np


def digest_of(*arrays: Any) -> str:
    """Return a short text that is different for different arrays of numbers."""
    state = hashlib.sha256()
    for array in arrays:
        values = np.asarray(np.nan if array is None else array, dtype=np.float64)
        state.update(f"{values.shape}".encode())
        state.update(np.ascontiguousarray(values).tobytes())
    return state.hexdigest()[:16]


def name_of(fun: Any) -> str:
    """Return what an objective is called, as far as one can tell; the module does not count.

    A script is ``__main__`` when it is run and has its own name when it is imported. Lambdas are told apart
    by their code.
    """
    if isinstance(fun, functools.partial):
        return f"partial({name_of(fun.func)})"
    inner = getattr(fun, "__self__", None)
    if inner is not None and not hasattr(inner, "__path__") and hasattr(fun, "__func__"):
        return f"{type(inner).__qualname__}.{fun.__name__}"
    name = getattr(fun, "__qualname__", None)
    if name is None:
        label = getattr(fun, "name", "")
        return f"{type(fun).__qualname__} {label}".strip()
    code = getattr(fun, "__code__", None)
    if code is not None and "<lambda>" in name:
        constants = [c for c in code.co_consts if isinstance(c, int | float | str | bool | None)]
        text = repr((code.co_names, constants, code.co_code))
        return f"{name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return str(name)


def differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Return in words how two fingerprints differ."""
    words = []
    for label in here:
        old, new = there.get(label), here[label]
        if old != new:
            if label.endswith("(digest)"):
                words.append(f"{label.removesuffix(' (digest)')} differs")
            else:
                words.append(f"{label} is {old!r} there and {new!r} here")
    return words
