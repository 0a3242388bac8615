"""What a run has done so far, over all its restarts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class SingleRun:
    """One strategy's part of a run with restarts: from its start to the rule that ended it."""

    popsize: int
    evaluations: int
    best_fun: float
    reason: str
    small: bool = False  # whether it belonged to BIPOP's small populations


@dataclass
class Counters:
    """Count evaluations, generations and failures over all restarts, and keep the best evaluation."""

    evaluations: int = 0
    generation: int = 0
    failures: int = 0  # evaluations that gave no finite value
    late: int = 0  # evaluations that were not waited for
    failing: int = 0  # generations in a row in which nothing succeeded
    best_fun: float = math.inf
    best_x: Array | None = None
    seconds: float = 0.0  # spent so far, also by earlier processes
    finished: list[SingleRun] = field(default_factory=list)  # the runs between restarts that have ended
    consistent: bool = True  # False in the middle of an update, when nothing may be saved

    def count(self, values: npt.NDArray[np.float64], late: npt.NDArray[np.bool_] | None) -> int:
        """Count one evaluation for each value, and what failed or was late; return how many have no value."""
        self.evaluations += len(values)
        missing = int(np.count_nonzero(np.isnan(values)))
        if missing:
            dropped = 0 if late is None else int(np.count_nonzero(late))
            self.failures += missing - dropped
            self.late += dropped
        return missing

    def take(
        self, candidates: Array, values: npt.NDArray[np.float64], late: npt.NDArray[np.bool_] | None
    ) -> None:
        """Count one evaluation for each row and keep the best."""
        if (missing := self.count(values, late)) == len(values):
            return
        best = int(np.nanargmin(values) if missing else values.argmin())
        if values[best] < self.best_fun:
            self.best_fun = float(values[best])
            if self.best_x is None or len(self.best_x) != candidates.shape[1]:
                self.best_x = candidates[best].copy()
            else:
                np.copyto(self.best_x, candidates[best])
