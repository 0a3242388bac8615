"""What a run has done so far, over all its restarts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.constraints import better

if TYPE_CHECKING:
    from lmma.run.constraints import Judged

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
    violation: float = math.inf  # at best_x; of interest where there are constraints, as are the next two
    fun_at_best: float = math.inf  # the value at best_x, also while that is not feasible
    raw_at_best: npt.NDArray[np.float64] | None = None  # what the constraints gave there
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
        self,
        candidates: Array,
        values: npt.NDArray[np.float64],
        late: npt.NDArray[np.bool_] | None,
        judged: Judged | None = None,
    ) -> None:
        """Count one evaluation for each row and keep the best, in the light of constraints."""
        best = values.argmin()  # that of a NaN where there is one
        value = values.item(best)
        if value == value:
            self.evaluations += len(values)
        elif self.count(values, late) == len(values):
            return
        else:
            best = np.nanargmin(values)
            value = values.item(best)
        if judged is not None:
            self._take_in_the_light_of(judged, candidates, values)
        elif value < self.best_fun:
            self.best_fun = value
            if self.best_x is None or len(self.best_x) != candidates.shape[1]:
                self.best_x = candidates[best].copy()
            else:
                self.best_x[...] = candidates[best]

    def _take_in_the_light_of(
        self, judged: Judged, candidates: Array, values: npt.NDArray[np.float64]
    ) -> None:
        """Keep the best of candidates that have constraints."""
        best = judged.best(values)
        violation, value = judged.violations.item(best), values.item(best)
        if not better((violation, value), (self.violation, self.fun_at_best), judged.tolerance):
            return
        self.violation, self.fun_at_best = violation, value
        self.raw_at_best, self.best_x = judged.raw[best].copy(), candidates[best].copy()
        self.best_fun = value if violation <= judged.tolerance else math.inf
