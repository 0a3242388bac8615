"""Evaluation by episodes: many candidates at once in this process, or one a task where ``workers=`` says."""

from __future__ import annotations

import functools
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation import evaluator
from lmma.evaluation.base import Array, Evaluator, OnError, Values
from lmma.evaluation.failures import Failure, TaskFailure
from lmma.integrations.gymnasium.episodes import Episodes
from lmma.integrations.gymnasium.normalisation import Moments


@final
class EpisodesEvaluator(Evaluator):
    """Evaluates candidates by episodes and takes in what they have observed, once a generation.

    Parameters
    ----------
    episodes : Episodes
        The objective.
    normalise : bool
        Whether the normalisation of observations goes on learning.
    on_error, workers, timeout
        As :func:`lmma.minimize` has them.

    Attributes
    ----------
    moments : Moments
        What candidates' observations are normalised by; :meth:`learn` brings it up to date.
    count, steps : int
        Episodes and their steps so far, of finished generations.
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
        self.fixed = (self.moments.mean, self.moments.scale)  # what is used if nothing is learned
        self.count = self.steps = 0
        self._new: list[Values] = []  # what stands beside values that learn() has not taken in
        self._alone = isinstance(workers, int) and workers == 1 and timeout is None
        self._hire = functools.partial(evaluator, episodes.one, workers=workers, timeout=timeout)
        self._inner = None if self._alone else self._hire()

    @property
    def normal(self) -> tuple[Values, Values]:
        """Means and scales that observations are normalised by."""
        if not self.normalise:
            return self.fixed
        return self.moments.mean, self.moments.scale

    def take_over(self, mean: Values, scale: Values, count: int) -> None:
        """Begin with the normalisation of an earlier training, which has seen ``count`` observations."""
        self.fixed = (mean.copy(), scale.copy())
        if count:
            spread = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
            self.moments.set_state({"count": count, "mean": mean, "deviations": count * np.square(spread)})

    def with_seed(self, candidates: Array, seed: int, generation: int) -> Array:
        """Return rows as episodes need them: weights, normalisation, seed and generation."""
        return self.episodes.layout.rows(candidates, self.normal, seed, generation)

    def __call__(self, candidates: Array) -> Values:
        """Return minus the mean reward of each row of :meth:`with_seed`, and keep what it has observed."""
        values, beside, failures = self._evaluated(candidates)
        for failed, rows in failures:
            self.fail(failed, rows)
        self.answered = self.answered or bool(np.any(np.isfinite(values)))
        self._new.append(beside[np.isfinite(values)])
        return values

    def rewards(self, weights: npt.ArrayLike, normal: tuple[Values, Values], seeds: list[int]) -> Values:
        """Return the rewards of fresh episodes of one policy, NaN for those that failed; nothing is counted.

        There are as many as ``seeds`` times the episodes of a candidate.
        """
        rows = self.episodes.layout.rows(np.tile(weights, (len(seeds), 1)), normal, seeds)
        values, beside, _ = self._evaluated(rows)
        rewards: Values = beside[:, 1 : 1 + self.episodes.count].copy()
        rewards[~np.isfinite(values)] = np.nan
        return rewards.ravel()

    def learn(self) -> None:
        """Take in what the candidates of a generation have observed, in their order."""
        inputs = self.episodes.network.inputs
        origin = self.normal[0].copy()
        for beside in self._new:
            for row in beside:
                steps = int(row[0])
                self.count += self.episodes.count
                self.steps += steps
                if self.normalise:
                    self.moments.merge(steps, row[-2 * inputs : -inputs], row[-inputs:], origin)
        self._new.clear()

    def close(self) -> None:
        """Let go of environments and of processes; others are made if it is called again."""
        self.episodes.close()
        if self._inner is not None:
            self._inner.close()
            self._inner = None

    def _evaluated(self, rows: Array) -> tuple[Values, Values, list[tuple[TaskFailure, int]]]:
        """Return values, what stands beside them, and what failed how often."""
        if self._alone:
            values, beside, errors = self.episodes.many(rows)
            return values, beside, [(TaskFailure.of(error), 1) for error in errors.values()]
        inner = self._inner = self._inner or self._hire()
        values = inner(rows)
        width = 1 + self.episodes.count + 2 * self.episodes.network.inputs
        beside = np.full((len(rows), width), np.nan) if inner.beside is None else inner.beside
        kept = {failure.kind: failure for failure in reversed(inner.errors)}
        failures = [
            (TaskFailure(kept.get(kind, Failure(kind, kind))), rows) for kind, rows in inner.failures.items()
        ]
        self.late = inner.late
        self.dropped += inner.dropped
        self.deaths += inner.deaths
        inner.errors.clear()
        inner.failures.clear()
        inner.dropped = inner.deaths = 0
        return values, beside, failures

    def get_state(self) -> dict[str, Any]:
        """Return what was learned from finished generations, as named arrays and numbers."""
        moments = {f"moments.{name}": value for name, value in self.moments.get_state().items()}
        return {"count": self.count, "steps": self.steps, **moments}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        prefix = "moments."
        self.moments.set_state(
            {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        )
        self.count, self.steps = int(state["count"]), int(state["steps"])
