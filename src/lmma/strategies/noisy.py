"""Values that differ from call to call, as a user of ask and tell meets them."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.strategies.hooks import Hooks
from lmma.strategies.parts.checks import checked_values
from lmma.strategies.parts.noise import Noise, Values, checked_treatment
from lmma.strategies.parts.recombination import Array, Indices
from lmma.strategies.parts.steady_metric import FullMetric, forget_lengths, pace, size_taken

if TYPE_CHECKING:
    from lmma.strategies.parts.constraints import Constrained
    from lmma.strategies.parts.noise import Treatment

REACH = 1e3  # times the initial step: so far noise may lengthen steps


class NoisyHooks(Hooks):
    """The part of :class:`lmma.Strategy` that deals with noise."""

    n: int
    popsize: int
    mean: Array
    z: Array
    sigma0: float
    noise: Noise
    evaluations: int
    failures: int
    best_fun: float
    best_x: Array
    constraints: Constrained | None
    _recent: deque[float]
    _noise_factor: float = 1.0  # what the treatment makes of sigma after this generation

    def handle_noise(self, noise: Treatment | None) -> None:
        """Begin to watch for noise and to treat it as ``noise`` says; None ends that."""
        treatment = checked_treatment(noise)
        self.noise = Noise(treatment, self.n, self.popsize, damps=self.can_damp)

    @property
    def again(self) -> Indices:
        """Which rows of the candidates are to be evaluated once more, for ``tell(values, again=...)``.

        Now and then two of them or all; under noise all, several times over where averages are needed; none
        with ``noise=None``. It may be left out: then nothing is learned about noise.
        """
        return self.noise.rows(self.generation)

    @property
    def generation_seed(self) -> int:
        """A seed for the random numbers of an objective, the same for all candidates of a generation."""
        return self.round_seed()

    @property
    def again_seeds(self) -> npt.NDArray[np.int64]:
        """Seeds for the rows in :attr:`again`: another one each time that a candidate is evaluated."""
        repeats = 1 + np.arange(len(self.again)) // self.popsize
        seeds = {int(repeat): self.round_seed(int(repeat)) for repeat in np.unique(repeats)}
        return np.array([seeds[int(repeat)] for repeat in repeats], dtype=np.int64)

    def round_number(self, repeat: int = 0) -> int:
        """Return the number of the present generation, repeats of earlier ones counted as generations."""
        return (self.generation if self.noise.treatment is None else self.noise.rounds) + repeat

    def round_seed(self, repeat: int = 0) -> int:
        """Return the seed of the present generation, or that of its repeats."""
        words = np.random.SeedSequence((*self.key, self.round_number(repeat))).generate_state(1)
        return int(words[0])

    @property
    def average_fun(self) -> float:
        """Fading mean of the values of all candidates, since noise was found; NaN where there is none.

        With constraints it is NaN, too: the values of infeasible candidates say nothing.
        """
        known = self.noise.found and self.constraints is None and math.isfinite(self.noise.level)
        return self.noise.level if known else math.nan

    def averaged_mean(self) -> Array:
        """Return the mean, averaged over the last generations since noise was found; inside the bounds."""
        return self._inside(self.noise.centre.astype(self.dtype))

    def _without_luck(self) -> dict[str, Any]:
        """Return what a result says in place of the luckiest candidate; empty while there is no noise."""
        if math.isnan(self.average_fun):
            return {}
        return {
            "x": self.averaged_mean(), "fun": self.average_fun,
            "x_seen": self.best_x.copy(), "fun_seen": self.best_fun,
        }  # fmt: skip

    def _take_repeats(self, raw: Values, again: npt.ArrayLike | None) -> Values:
        """Return the values to rank: means, where candidates were evaluated again."""
        repeats = (
            None if again is None else checked_values(again, len(self.again), "again", "row in es.again")
        )
        if repeats is not None:
            self.evaluations += len(repeats)
            self.failures += int(np.count_nonzero(np.isnan(repeats)))
        values, self._noise_factor = self.noise.take(raw, repeats, self.generation, self.sigma)
        if (metric := self._metric_to_steady()) is not None:
            metric.pace = pace(self.noise.rate)
            if self.noise.rate != 1.0 and len(metric.images) == self.popsize:
                forget_lengths(self.z, metric.images)
        return values

    def _metric_to_steady(self) -> FullMetric | None:
        """Return the metric if it has scales and a core that noise would shrink, else None."""
        return None

    def _treat_noise(self, values: Array) -> None:
        """Keep sigma times the learning rate of the mean, and follow the mean while there is noise."""
        there = values[np.isfinite(values)]
        average = float(there.mean()) if len(there) else self.noise.level
        self.noise.follow(self.mean, average)
        self._remember_average()
        if self.noise.rate != 1.0 and (metric := self._metric_to_steady()) is not None:
            self.sigma *= size_taken(metric) ** self.noise.rate
        longer = self.sigma * self._noise_factor
        self.sigma = min(longer, max(self.sigma, REACH * self.sigma0))

    def _remember_average(self) -> None:
        """Let ``tolfun`` look at averages in place of the luckiest values, from when noise was found on."""
        if math.isnan(self.average_fun):
            return
        if self.noise.found_for == 1:
            self._recent.clear()
        else:
            self._recent[-1] = self.average_fun
