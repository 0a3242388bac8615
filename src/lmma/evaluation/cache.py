"""Caches of evaluations: points with a known outcome are not evaluated again.

An evaluator with a ``cache`` looks up every candidate first. It adds the outcome of an evaluation as soon as
the evaluation ends, not when its generation does. A known outcome is used as if it had just been evaluated,
so a cache changes neither the sequence of candidates nor any counters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array, Values
from lmma.evaluation.failures import TaskFailure

LARGEST = 64 << 20  # bytes of points that a run keeps in memory
LARGEST_SAVED = 4 << 20  # bytes of points in a checkpoint


@dataclass(frozen=True)
class Outcome:
    """The outcome of one evaluation: the value and constraints that fun returned, or a failure."""

    value: float = math.nan
    constraint_values: Values | None = None
    failed: TaskFailure | None = None


class Evaluated(NamedTuple):
    """A finished evaluation."""

    key: bytes
    x: Array
    outcome: Outcome
    seconds: float = math.nan  # NaN: unknown
    worker: str = ""


class Cache(ABC):
    """Known outcomes by point.

    Attributes
    ----------
    reuses : bool
        False if values vary between calls: evaluations are then only recorded.
    calls : int
        The number of evaluations added.
    spool : str or None
        Path prefix of the files in which workers keep values until these are added; see
        ``evaluation/pool/spool.py``.
    """

    reuses = True
    calls = 0
    spool: str | None = None

    def key(self, x: Array) -> bytes:
        """Return the key of a point; equal only for equal points."""
        return (x + 0.0).tobytes()  # -0.0 and 0.0 are equal

    @abstractmethod
    def find(self, key: bytes) -> Outcome | None:
        """Return the known outcome of the point with this key, or None."""

    @abstractmethod
    def add(self, evaluated: Sequence[Evaluated]) -> None:
        """Add evaluations that have just ended."""


@final
class Designs(Cache):
    """The outcomes of a run whose variables are all discrete, in memory.

    When ``LARGEST`` bytes are used, further points are not remembered. A checkpoint saves plain values, so
    that a resumed run remembers them too.
    """

    def __init__(self) -> None:
        self._outcomes: dict[bytes, Outcome] = {}
        self._room = LARGEST

    def find(self, key: bytes) -> Outcome | None:
        """Return the known outcome of a design, or None."""
        return self._outcomes.get(key)

    def add(self, evaluated: Sequence[Evaluated]) -> None:
        """Remember the outcomes of designs."""
        self.calls += len(evaluated)
        for one in evaluated:
            if self._room > 0:
                self._room -= len(one.key)
                failed = one.outcome.failed
                if failed is not None:  # without the exception, which refers to the stack of the call
                    self._outcomes[one.key] = Outcome(failed=TaskFailure(failed.failure))
                else:
                    self._outcomes[one.key] = one.outcome

    def get_state(self) -> dict[str, Any]:
        """Return the designs with a value and no constraints, as bytes and values."""
        plain = {
            key: outcome.value
            for key, outcome in self._outcomes.items()
            if outcome.failed is None and outcome.constraint_values is None
        }
        width = len(next(iter(plain), b"")) or 1
        most = LARGEST_SAVED // width
        keys = list(plain)[-most:]
        designs = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), width)
        return {"designs": designs, "values": np.array([plain[key] for key in keys], dtype=np.float64)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`; raise ValueError if it is invalid."""
        designs, values = state["designs"], state["values"]
        if not (_is_array(designs, np.uint8, 2) and _is_array(values, np.float64, 1)):
            raise ValueError("designs")
        if len(designs) != len(values):
            raise ValueError("designs")
        for design, value in zip(designs, values.tolist(), strict=True):
            self._outcomes[design.tobytes()] = Outcome(value)
        self._room = LARGEST - designs.size


def _is_array(found: Any, dtype: npt.DTypeLike, axes: int) -> bool:
    return isinstance(found, np.ndarray) and found.dtype == dtype and found.ndim == axes
