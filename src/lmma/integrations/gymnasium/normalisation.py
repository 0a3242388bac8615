"""Observations brought to mean 0 and variance 1, by what all episodes of earlier generations have seen."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEAST_STD = 1e-7  # of an observation that varies; one that does not is left out


@final
class Moments:
    """Count, mean and squared deviations of observations, merged part by part.

    The result depends on the order of the parts in its last bits: they are merged in the order of candidates.
    """

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean: Array = np.zeros(size)
        self.deviations: Array = np.zeros(size)  # sums of squares around the mean

    def merge(self, count: int, sums: Array, squares: Array, origin: Array) -> None:
        """Take in ``count`` observations: sums and sums of squares of their differences from ``origin``."""
        if count < 1:
            return
        centre = sums / count
        mean = origin + centre
        inside = np.maximum(squares - sums * centre, 0.0)
        total = self.count + count
        apart = mean - self.mean
        self.deviations += inside + np.square(apart) * (self.count * count / total)
        self.mean = self.mean + apart * (count / total)
        self.count = total

    @property
    def scale(self) -> Array:
        """Factors that bring deviations to variance 1; 0 for what never varies, 1 before all episodes."""
        if self.count == 0:
            return np.ones_like(self.mean)
        std = np.sqrt(self.deviations / self.count)
        return np.where(std > LEAST_STD, 1.0 / np.maximum(std, LEAST_STD), 0.0)

    def get_state(self) -> dict[str, Any]:
        """Return what is known, as named arrays and numbers."""
        return {"count": self.count, "mean": self.mean.copy(), "deviations": self.deviations.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        mean, deviations = np.array(state["mean"], float), np.array(state["deviations"], float)
        if mean.shape != self.mean.shape or deviations.shape != mean.shape:
            raise ValueError(f"moments of {self.mean.size} observations were expected, got {mean.shape}")
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(deviations)) and np.all(deviations >= 0)):
            raise ValueError("moments of observations must be finite, and squares not negative")
        self.count, self.mean, self.deviations = int(state["count"]), mean, deviations
