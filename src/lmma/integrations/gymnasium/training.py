"""What goes along with a search for a policy: looks at its mean, the learning curve, the best so far."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.integrations.gymnasium.environments import Actions
from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator
from lmma.integrations.gymnasium.policies import Policy
from lmma.run.endings import Stop
from lmma.run.run import Run

Array = npt.NDArray[np.float64]

SHARE = 5  # episodes of candidates for one of a look at the mean policy
LOOK, CONFIRM, FINAL = 1, 2, 3  # which episodes: each purpose has seeds of its own
CURVE = ("generation", "evaluations", "episodes", "steps", "seconds", "reward", "error")


@final
class Training:
    """Looks at the mean policy when enough episodes have passed, keeps the best, says when to stop.

    Parameters
    ----------
    evaluate : EpisodesEvaluator
        What evaluates candidates, and means.
    actions : Actions
        How outputs become actions.
    threshold : float, optional
        The mean reward at which the environment counts as solved.
    test_episodes : int
        Fresh episodes that confirm it; a look takes a tenth of them.

    Attributes
    ----------
    curve : dict
        Name -> list: generation, evaluations, episodes, steps and seconds at each look, and the mean policy's
        reward over fresh episodes with its standard error.
    tested : int
        Fresh episodes of mean policies so far.
    """

    def __init__(
        self, evaluate: EpisodesEvaluator, actions: Actions, threshold: float | None, test_episodes: int
    ) -> None:
        self.evaluate, self.actions = evaluate, actions
        self.threshold, self.test_episodes = threshold, test_episodes
        self.curve: dict[str, list[float]] = {name: [] for name in CURVE}
        self.tested = 0
        self.confirmed = math.nan  # the reward that has reached the threshold
        network = evaluate.episodes.network
        self.best_reward = -math.inf
        self.best_weights: Array = np.zeros(network.n)
        self.best_normal: tuple[Array, Array] = (np.zeros(network.inputs), np.ones(network.inputs))
        self.best_seen = 0  # observations that it is made of

    def check(self, run: Run) -> Stop | None:
        """Look at the mean policy if it is time to; return why to stop if it has solved the environment."""
        if math.isnan(self.confirmed) and self._due():
            self.look(run)
        if self.threshold is not None and self.confirmed >= self.threshold:
            return Stop("solved", "solved", self.confirmed, self.threshold)
        return None

    def _due(self) -> bool:
        looked_at = self.curve["episodes"]
        return not looked_at or self.evaluate.count - looked_at[-1] >= SHARE * self.look_episodes

    @property
    def look_episodes(self) -> int:
        """Fresh episodes of one look."""
        return max(1, self.test_episodes // 10)

    def look(self, run: Run) -> None:
        """Evaluate the mean policy over fresh episodes, over more of them if it may have solved it all."""
        mean = np.asarray(run.strategy.mean, dtype=np.float64)
        centre, scale = self.evaluate.normal
        normal = (centre.copy(), scale.copy())
        rewards = self.rewards(run, mean, normal, self.look_episodes, LOOK)
        if self.threshold is not None and _mean(rewards) >= self.threshold:
            rewards = self.rewards(run, mean, normal, self.test_episodes, CONFIRM)
            if _mean(rewards) >= self.threshold:
                self.confirmed = _mean(rewards)
        reward, counters = _mean(rewards), run.counters
        point = (
            counters.generation, counters.evaluations, self.evaluate.count, self.evaluate.steps,
            counters.seconds, reward, standard_error(rewards),
        )  # fmt: skip
        for name, value in zip(CURVE, point, strict=True):
            self.curve[name].append(float(value))
        if reward > self.best_reward or not math.isnan(self.confirmed):
            self.best_reward, self.best_weights, self.best_normal = reward, mean.copy(), normal
            self.best_seen = self.evaluate.moments.count

    def rewards(self, run: Run, weights: Array, normal: Any, episodes: int, purpose: int) -> Array:
        """Return the rewards of fresh episodes of one policy; Ctrl-C cuts it short."""
        rows = -(-episodes // self.evaluate.episodes.count)
        words = [*run.key, purpose, run.counters.generation]
        seeds = [int(word) for word in np.random.SeedSequence(words).generate_state(rows)]
        rewards = run.interrupts.cut_short(self.evaluate.rewards, weights, normal, seeds)[:episodes]
        self.tested += len(rewards)
        return rewards

    def best(self) -> Policy:
        """Return the mean policy that did best when it was looked at."""
        episodes = self.evaluate.episodes
        mean, scale = self.best_normal
        label = episodes.environment.label
        return Policy(episodes.network, self.actions, self.best_weights, mean, scale, label, self.best_seen)

    def get_state(self) -> dict[str, Any]:
        """Return everything as named arrays and numbers."""
        return {
            **{f"evaluate.{name}": value for name, value in self.evaluate.get_state().items()},
            **{f"curve.{name}": np.array(column) for name, column in self.curve.items()},
            "tested": self.tested,
            "confirmed": self.confirmed,
            "best_reward": self.best_reward,
            "best_weights": self.best_weights,
            "best_mean": self.best_normal[0],
            "best_scale": self.best_normal[1],
            "best_seen": self.best_seen,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        prefix = "evaluate."
        self.evaluate.set_state(
            {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        )
        self.curve = {name: [float(v) for v in np.asarray(state[f"curve.{name}"])] for name in CURVE}
        if len({len(column) for column in self.curve.values()}) > 1:
            raise ValueError("the columns of the learning curve differ in length")
        inputs, n = self.evaluate.episodes.network.inputs, self.evaluate.episodes.network.n
        for name, length in (("best_weights", n), ("best_mean", inputs), ("best_scale", inputs)):
            if np.shape(state[name]) != (length,) or not np.all(np.isfinite(state[name])):
                raise ValueError(f"{name} must be {length} finite numbers")
        self.tested, self.best_seen = int(state["tested"]), int(state["best_seen"])
        self.confirmed, self.best_reward = float(state["confirmed"]), float(state["best_reward"])
        self.best_weights = np.array(state["best_weights"], float)
        self.best_normal = (np.array(state["best_mean"], float), np.array(state["best_scale"], float))


def _mean(rewards: Array) -> float:
    """Return the mean reward, minus infinity if an episode failed: such a policy solves nothing."""
    return float(rewards.mean()) if np.all(np.isfinite(rewards)) else -math.inf


def standard_error(rewards: Array) -> float:
    """Return the standard error of the mean reward, NaN where it is not known."""
    known = rewards[np.isfinite(rewards)]
    return float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else math.nan
