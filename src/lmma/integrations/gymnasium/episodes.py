"""Episodes of many candidates at once, in separate environments with the same seeds."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from lmma.integrations.gymnasium.environments import LONGEST, Actions, Environment

if TYPE_CHECKING:
    from lmma.integrations.gymnasium.policies import Network

Array = npt.NDArray[np.float64]

SLOTS = 16  # environments of one process that advance together
LARGEST = 2**24  # maximum number of weights in all slots


@dataclass(frozen=True)
class Layout:
    """Layout of a candidate's row: weights, normalisation of observations, seed and generation."""

    network: Network

    @property
    def width(self) -> int:
        """Length of the rows."""
        return self.network.n + 2 * self.network.inputs + 2

    def rows(self, weights: Any, normalisation: tuple[Array, Array], seed: Any, generation: int = 0) -> Array:
        """Return rows for candidates ``(k, n)`` with a common seed or one seed each."""
        n, inputs = self.network.n, self.network.inputs
        wide = np.empty((len(weights), self.width))
        wide[:, :n] = weights
        wide[:, n : n + inputs], wide[:, n + inputs : n + 2 * inputs] = normalisation
        wide[:, -2], wide[:, -1] = seed, generation
        return wide

    def normalisation(self, rows: Array) -> tuple[Array, Array]:
        """Return means and scales of observations, one row per candidate."""
        n, inputs = self.network.n, self.network.inputs
        return rows[:, n : n + inputs], rows[:, n + inputs : n + 2 * inputs]


class EpisodeError(ValueError):
    """An episode with rewards or observations that are not finite."""


@final
class Episodes:
    """The objective: minus the mean reward of a candidate's episodes.

    Parameters
    ----------
    environment : Environment
        The environment.
    network, actions
        Network of the policy, and mapping of its outputs to actions.
    count : int
        Episodes per candidate.

    Notes
    -----
    The statistics of a candidate are its steps, the reward of each episode, and sums and sums of squares of
    its observations around the given means. They depend only on the row, neither on the process nor on the
    rest of the batch.
    """

    def __init__(self, environment: Environment, network: Network, actions: Actions, count: int) -> None:
        self.environment, self.network, self.actions, self.count = environment, network, actions, count
        self.layout = Layout(network)
        self.name = f"{environment.label} {network.spelling}" + (f" of {count} episodes" if count > 1 else "")
        self._free: list[Any] = []  # unused environments

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_free": []}

    def __call__(self, x: Array, seed: int, generation: int) -> float:
        """Return minus the mean reward of weights ``x``, without normalisation of observations."""
        inputs = self.network.inputs
        rows = self.layout.rows(np.atleast_2d(x), (np.zeros(inputs), np.ones(inputs)), seed, generation)
        return self.one(rows[0])[0]

    def one(self, row: Array) -> tuple[float, Array]:
        """Return value and statistics of one row; exceptions of the environment are raised."""
        values, statistics, errors = self.many(np.atleast_2d(row))
        if errors:
            raise errors[0]
        return float(values[0]), statistics[0]

    def many(self, rows: npt.NDArray[Any]) -> tuple[Array, Array, dict[int, Exception]]:
        """Return values, statistics, and the exceptions of failed candidates by row."""
        batch = Batch(self, rows)
        batch.run()
        values = np.where(batch.failed, np.nan, -batch.rewards.mean(axis=1))
        statistics = np.column_stack((batch.steps, batch.rewards, batch.sums, batch.squares))
        return values, statistics, dict(sorted(batch.errors.items()))

    def borrow_env(self) -> Any:
        """Return an unused environment, or a new one."""
        return self._free.pop() if self._free else self.environment.make()

    def return_env(self, env: Any) -> None:
        """Keep an environment for later use."""
        self._free.append(env)

    def close(self) -> None:
        """Close the environments."""
        while self._free:
            self._free.pop().close()


def episode_seeds(seed: int, count: int) -> list[int]:
    """Return the seeds of the episodes of a candidate with this seed."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(count)]


class Batch:
    """Simultaneous episodes of several rows; a finished one is followed by the next immediately."""

    def __init__(self, episodes: Episodes, rows: npt.NDArray[Any]) -> None:
        self.episodes, self.rows = episodes, rows
        self.network, count = episodes.network, episodes.count
        inputs = self.network.inputs
        self.rewards: Array = np.zeros((len(rows), count))
        self.steps = np.zeros(len(rows))
        self.failed = np.zeros(len(rows), dtype=bool)
        self.errors: dict[int, Exception] = {}
        self.part_sums: Array = np.zeros((len(rows), count, inputs))
        self.part_squares: Array = np.zeros((len(rows), count, inputs))
        self.part_steps = np.zeros((len(rows), count), dtype=np.int64)
        seeds = {int(seed): episode_seeds(int(seed), count) for seed in rows[:, -2]}
        self.jobs = [
            (row, number, seeds[int(rows[row, -2])][number])
            for row in range(len(rows))
            for number in range(count)
        ][::-1]  # taken from the end
        slots = max(1, min(len(self.jobs), SLOTS, LARGEST // self.network.n))
        self.active = 0
        self.envs: list[Any] = []
        self.owner: list[tuple[int, int]] = []  # row and episode of each slot
        self.age = [0] * slots
        self.layers = [np.empty((slots, out, into)) for out, into in self.network.shapes]
        self.mean, self.scale = np.empty((slots, inputs)), np.empty((slots, inputs))
        self.seen = np.empty((slots, inputs))  # current observations
        self.slots = slots

    def run(self) -> None:
        """Run all episodes."""
        try:
            while self.active < self.slots and self._begin(self.active):
                self.active += 1
            while self.active:
                self._step()
        finally:
            for env in self.envs:
                self.episodes.return_env(env)
        self.steps[:] = self.part_steps.sum(axis=1)
        self.sums, self.squares = self.part_sums.sum(axis=1), self.part_squares.sum(axis=1)

    def _begin(self, slot: int) -> bool:
        """Start the next episode in a slot; return False if there is none left."""
        while self.jobs:
            row, number, seed = self.jobs.pop()
            if self.failed[row]:
                continue
            if slot == len(self.envs):
                self.envs.append(self.episodes.borrow_env())
                self.owner.append((row, number))
            self.owner[slot] = (row, number)
            try:
                observation, _ = self.envs[slot].reset(seed=seed)
                self.seen[slot] = np.ravel(observation)
            except Exception as error:
                self._fail(slot, error)
                continue
            self.age[slot] = 0
            one = self.rows[row : row + 1]
            for layer, weights in zip(self.layers, self.network.split(one), strict=True):
                layer[slot] = weights[0]
            mean, scale = self.episodes.layout.normalisation(one)
            self.mean[slot], self.scale[slot] = mean[0], scale[0]
            return True
        return False

    def _step(self) -> None:
        """Take one step in every active environment; replace episodes that end or fail by the next ones."""
        k = self.active
        if not np.all(np.isfinite(self.seen[:k])):
            for slot in np.flatnonzero(~np.isfinite(self.seen[:k]).all(axis=1)).tolist()[::-1]:
                self._fail(slot, EpisodeError("an observation is not finite"))
                self._next(slot)
            return
        around = self.seen[:k] - self.mean[:k]
        outputs = self.network.forward([layer[:k] for layer in self.layers], around * self.scale[:k])
        actions = self.episodes.actions.from_outputs(outputs)
        squares = np.square(around)
        for slot in range(k - 1, -1, -1):  # backwards, because a slot that ends is replaced by the last one
            row, number = self.owner[slot]
            self.part_sums[row, number] += around[slot]
            self.part_squares[row, number] += squares[slot]
            self.part_steps[row, number] += 1
            self.age[slot] += 1
            try:
                observation, reward, terminated, truncated, _ = self.envs[slot].step(actions[slot])
                self.rewards[row, number] += reward
                self.seen[slot] = np.ravel(observation)
            except Exception as error:
                self._fail(slot, error)
                self._next(slot)
                continue
            if terminated or truncated or self.age[slot] >= LONGEST:
                self._end(slot)
                self._next(slot)

    def _end(self, slot: int) -> None:
        """Check the reward of a finished episode."""
        row, number = self.owner[slot]
        if not math.isfinite(self.rewards[row, number]):
            self._fail(slot, EpisodeError(f"the total reward of an episode is {self.rewards[row, number]}"))

    def _fail(self, slot: int, error: Exception) -> None:
        """Mark the candidate of a slot as failed, and replace its environment, which may be broken."""
        row, _ = self.owner[slot]
        self.failed[row] = True
        self.errors.setdefault(row, error)
        if not isinstance(error, EpisodeError):
            with contextlib.suppress(Exception):
                self.envs[slot].close()
            self.envs[slot] = self.episodes.environment.make()

    def _next(self, slot: int) -> None:
        """Start the next episode in a slot, or move the last active slot to its place."""
        if self._begin(slot):
            return
        last = self.active - 1
        if slot != last:
            for array in (*self.layers, self.mean, self.scale, self.seen):
                array[slot] = array[last]
            lists: tuple[list[Any], ...] = (self.envs, self.owner, self.age)
            for items in lists:
                items[slot], items[last] = items[last], items[slot]
        self.active = last


LEAST_STD = 1e-7  # observations with a smaller standard deviation are ignored


@final
class Moments:
    """Count, mean and squared deviations of observations, merged part by part.

    The last bits of the result depend on the order of the parts, so they are merged in candidate order.
    """

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean: Array = np.zeros(size)
        self.deviations: Array = np.zeros(size)  # sums of squares around the mean

    def merge(self, count: int, sums: Array, squares: Array, origin: Array) -> None:
        """Merge ``count`` observations, given by sums and sums of squares of differences from ``origin``."""
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
        """Factors that scale observations to variance 1; 0 for constant ones, 1 before the first episode."""
        if self.count == 0:
            return np.ones_like(self.mean)
        std = np.sqrt(self.deviations / self.count)
        return np.where(std > LEAST_STD, 1.0 / np.maximum(std, LEAST_STD), 0.0)

    def get_state(self) -> dict[str, Any]:
        """Return the statistics as named arrays and numbers."""
        return {"count": self.count, "mean": self.mean.copy(), "deviations": self.deviations.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`."""
        mean, deviations = np.array(state["mean"], float), np.array(state["deviations"], float)
        if mean.shape != self.mean.shape or deviations.shape != mean.shape:
            raise ValueError(f"moments must have shape ({self.mean.size},), got {mean.shape}")
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(deviations)) and np.all(deviations >= 0)):
            raise ValueError("moments of observations must be finite, and deviations not negative")
        self.count, self.mean, self.deviations = int(state["count"]), mean, deviations
