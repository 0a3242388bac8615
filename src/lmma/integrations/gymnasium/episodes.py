"""Episodes of many candidates at once, each in environments of its own, all with the same seeds."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.integrations.gymnasium.environments import LONGEST, Actions, Environment
from lmma.integrations.gymnasium.networks import Network

Array = npt.NDArray[np.float64]

SLOTS = 16  # environments of one process that advance together
LARGEST = 2**24  # weights in them


@dataclass(frozen=True)
class Layout:
    """What stands in the row of a candidate: weights, how to normalise observations, seed and generation."""

    network: Network

    @property
    def width(self) -> int:
        """The numbers of a row."""
        return self.network.n + 2 * self.network.inputs + 2

    def rows(self, weights: Any, normal: tuple[Array, Array], seed: Any, generation: int = 0) -> Array:
        """Return rows for candidates ``(k, n)`` that share a seed, or have one each."""
        n, inputs = self.network.n, self.network.inputs
        wide = np.empty((len(weights), self.width))
        wide[:, :n] = weights
        wide[:, n : n + inputs], wide[:, n + inputs : n + 2 * inputs] = normal
        wide[:, -2], wide[:, -1] = seed, generation
        return wide

    def normal(self, rows: Array) -> tuple[Array, Array]:
        """Return means and scales of observations, a row for each candidate."""
        n, inputs = self.network.n, self.network.inputs
        return rows[:, n : n + inputs], rows[:, n + inputs : n + 2 * inputs]


class EpisodeError(ValueError):
    """An episode that gave no number: its rewards or observations are none."""


@final
class Episodes:
    """An objective: minus the mean reward of a candidate's episodes.

    Parameters
    ----------
    environment : Environment
        Where they take place.
    network, actions
        What a candidate's weights mean.
    count : int
        Episodes of each candidate.

    Notes
    -----
    Beside its value a candidate has: steps, the reward of each episode, and sums and sums of squares of its
    observations around the means that it was given. All of it depends on the row alone: neither on the
    process nor on who else is in the batch.
    """

    def __init__(self, environment: Environment, network: Network, actions: Actions, count: int) -> None:
        self.environment, self.network, self.actions, self.count = environment, network, actions, count
        self.layout = Layout(network)
        self.name = f"{environment.label} {network.spelling}" + (f" of {count} episodes" if count > 1 else "")
        self._free: list[Any] = []  # environments that nobody uses

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_free": []}

    def __call__(self, x: Array, seed: int, generation: int) -> float:
        """Return minus the mean reward of weights ``x``, observations taken as they are."""
        inputs = self.network.inputs
        rows = self.layout.rows(np.atleast_2d(x), (np.zeros(inputs), np.ones(inputs)), seed, generation)
        return self.one(rows[0])[0]

    def one(self, row: Array) -> tuple[float, Array]:
        """Return value and what stands beside it for one row; what an environment raises is raised."""
        values, beside, errors = self.many(np.atleast_2d(row))
        if errors:
            raise errors[0]
        return float(values[0]), beside[0]

    def many(self, rows: npt.NDArray[Any]) -> tuple[Array, Array, dict[int, Exception]]:
        """Return values, what stands beside them, and the exceptions of candidates that failed, by row."""
        batch = Batch(self, rows)
        batch.run()
        values = np.where(batch.failed, np.nan, -batch.rewards.mean(axis=1))
        beside = np.column_stack((batch.steps, batch.rewards, batch.sums, batch.squares))
        return values, beside, dict(sorted(batch.errors.items()))

    def borrow(self) -> Any:
        """Return an environment, one that was given back if there is any."""
        return self._free.pop() if self._free else self.environment.make()

    def give_back(self, env: Any) -> None:
        """Keep an environment for later."""
        self._free.append(env)

    def close(self) -> None:
        """Close the environments."""
        while self._free:
            self._free.pop().close()


def episode_seeds(seed: int, count: int) -> list[int]:
    """Return the seeds of the episodes that a candidate with this seed goes through."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(count)]


class Batch:
    """Rows on their way through episodes; environments that have ended take the next episode at once."""

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
        self.seen = np.empty((slots, inputs))  # the present observation of each
        self.slots = slots

    def run(self) -> None:
        """Go through all episodes."""
        try:
            while self.active < self.slots and self._begin(self.active):
                self.active += 1
            while self.active:
                self._step()
        finally:
            for env in self.envs:
                self.episodes.give_back(env)
        self.steps[:] = self.part_steps.sum(axis=1)
        self.sums, self.squares = self.part_sums.sum(axis=1), self.part_squares.sum(axis=1)

    def _begin(self, slot: int) -> bool:
        """Give a slot the next episode; return False if there is none left."""
        while self.jobs:
            row, number, seed = self.jobs.pop()
            if self.failed[row]:
                continue
            if slot == len(self.envs):
                self.envs.append(self.episodes.borrow())
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
            mean, scale = self.episodes.layout.normal(one)
            self.mean[slot], self.scale[slot] = mean[0], scale[0]
            return True
        return False

    def _step(self) -> None:
        """Take one step in every environment that is in use."""
        k = self.active
        if not np.all(np.isfinite(self.seen[:k])):
            for slot in np.flatnonzero(~np.isfinite(self.seen[:k]).all(axis=1)).tolist()[::-1]:
                self._fail(slot, EpisodeError("an observation is not finite"))
                self._next(slot)
            return
        around = self.seen[:k] - self.mean[:k]
        outputs = self.network.forward([layer[:k] for layer in self.layers], around * self.scale[:k])
        actions = self.episodes.actions.of(outputs)
        squares = np.square(around)
        for slot in range(k - 1, -1, -1):  # backwards: one that ends is replaced by the last
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
        """Look at what an episode has given."""
        row, number = self.owner[slot]
        if not math.isfinite(self.rewards[row, number]):
            self._fail(slot, EpisodeError(f"the rewards of an episode add up to {self.rewards[row, number]}"))

    def _fail(self, slot: int, error: Exception) -> None:
        """Count the candidate of a slot as failed; its environment may be broken and is replaced."""
        row, _ = self.owner[slot]
        self.failed[row] = True
        self.errors.setdefault(row, error)
        if not isinstance(error, EpisodeError):
            with contextlib.suppress(Exception):
                self.envs[slot].close()
            self.envs[slot] = self.episodes.environment.make()

    def _next(self, slot: int) -> None:
        """Begin the next episode in a slot, or let the last slot take its place."""
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
