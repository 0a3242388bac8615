"""Evaluation by episodes: many candidates at once in this process, or one task per candidate on workers."""

from __future__ import annotations

import functools
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation import evaluator
from lmma.evaluation.base import Array, Evaluator, FailureRecord, OnError, RandomNumbers, Values
from lmma.evaluation.failures import Failure, TaskFailure
from lmma.integrations.gymnasium.episodes import Episodes, Moments


@final
class EpisodesEvaluator(Evaluator):
    """Evaluate candidates by episodes, and update the normalisation of observations once per generation.

    Parameters
    ----------
    episodes : Episodes
        The objective.
    normalise : bool
        Update the normalisation of observations during the training.
    on_error, workers, timeout
        As in :func:`lmma.minimize`.

    Attributes
    ----------
    moments : Moments
        Statistics by which observations are normalised; :meth:`learn` updates them.
    count, steps : int
        Numbers of episodes and steps in finished generations.
    """

    def __init__(
        self,
        episodes: Episodes,
        normalise: bool = True,
        on_error: OnError = "worst",
        *,
        workers: object = 1,
        timeout: float | None = None,
    ) -> None:
        super().__init__(on_error)
        self.episodes, self.normalise = episodes, normalise
        self.moments = Moments(episodes.network.inputs)
        self.fixed = (self.moments.mean, self.moments.scale)  # used if normalise is False
        self.count = self.steps = 0
        self._new: list[Values] = []  # statistics of candidates not yet used by learn()
        self._in_process = isinstance(workers, int) and workers == 1 and timeout is None
        self._make_inner = functools.partial(evaluator, episodes.one, workers=workers, timeout=timeout)
        self._inner = None if self._in_process else self._make_inner()

    @property
    def normalisation(self) -> tuple[Values, Values]:
        """Means and scales by which observations are normalised."""
        if not self.normalise:
            return self.fixed
        return self.moments.mean, self.moments.scale

    def start_from(self, mean: Values, scale: Values, count: int) -> None:
        """Start with the normalisation of an earlier training, based on ``count`` observations."""
        self.fixed = (mean.copy(), scale.copy())
        if count:
            spread = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
            self.moments.set_state({"count": count, "mean": mean, "deviations": count * np.square(spread)})

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return minus the mean reward of each row of weights over the episodes given by ``seed``."""
        rows = self.episodes.layout.rows(candidates, self.normalisation, *(seed or (0, 0)))
        values, statistics, failures = self._evaluated(rows)
        self.answered = self.answered or bool(np.any(np.isfinite(values)))  # before fail(), which reads it
        for failed, count in failures:
            self.fail(failed, count)
        self._new.append(statistics[np.isfinite(values)])
        return values

    def rewards(
        self, weights: npt.ArrayLike, normalisation: tuple[Values, Values], seeds: list[int]
    ) -> Values:
        """Return the rewards of fresh episodes of one policy, NaN for failed ones; counters are not changed.

        The number of episodes is that of ``seeds`` times the episodes per candidate.
        """
        rows = self.episodes.layout.rows(np.tile(weights, (len(seeds), 1)), normalisation, seeds)
        values, statistics, _ = self._evaluated(rows)
        rewards: Values = statistics[:, 1 : 1 + self.episodes.count].copy()
        rewards[~np.isfinite(values)] = np.nan
        return rewards.ravel()

    def learn(self) -> None:
        """Update counters and normalisation with the generation's observations, in candidate order."""
        inputs = self.episodes.network.inputs
        origin = self.normalisation[0].copy()
        for statistics in self._new:
            for row in statistics:
                steps = int(row[0])
                self.count += self.episodes.count
                self.steps += steps
                if self.normalise:
                    self.moments.merge(steps, row[-2 * inputs : -inputs], row[-inputs:], origin)
        self._new.clear()

    def close(self) -> None:
        """Close environments and worker processes; a later call creates new ones."""
        self.episodes.close()
        if self._inner is not None:
            self._inner.close()
            self._inner = None

    def _evaluated(self, rows: Array) -> tuple[Values, Values, list[tuple[TaskFailure, int]]]:
        """Return values, statistics, and failures with their counts."""
        if self._in_process:
            values, statistics, errors = self.episodes.many(rows)
            return values, statistics, [(TaskFailure.of(error), 1) for error in errors.values()]
        inner = self._inner = self._inner or self._make_inner()
        values = inner(rows)
        width = 1 + self.episodes.count + 2 * self.episodes.network.inputs
        statistics = (
            np.full((len(rows), width), np.nan)
            if inner.constraint_values is None
            else inner.constraint_values
        )
        found, inner.record = inner.record, FailureRecord()
        kept = {failure.kind: failure for failure in reversed(found.errors)}
        failures = [
            (TaskFailure(kept.get(kind, Failure(kind, kind))), rows) for kind, rows in found.failures.items()
        ]
        self.late = inner.late
        self.record.deaths += found.deaths
        return values, statistics, failures

    def get_state(self) -> dict[str, Any]:
        """Return counters and statistics of finished generations as named arrays and numbers."""
        moments = {f"moments.{name}": value for name, value in self.moments.get_state().items()}
        return {"count": self.count, "steps": self.steps, **moments}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`."""
        prefix = "moments."
        self.moments.set_state(
            {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        )
        self.count, self.steps = int(state["count"]), int(state["steps"])
