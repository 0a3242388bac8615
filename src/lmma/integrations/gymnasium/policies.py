"""A trained policy: weights, normalisation and what its outputs mean; saved and loaded without pickle."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.integrations.gymnasium.environments import Actions, checked_environment, spaces_of
from lmma.integrations.gymnasium.episodes import Episodes
from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator
from lmma.integrations.gymnasium.networks import WIDEST, Network
from lmma.kernels.words import one_line, shown
from lmma.run.checkpoint_check import is_count
from lmma.run.checkpoint_file import POLICY, Arrays, CheckpointError, Header, read, write

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Policy:
    """What to do in each state: ``policy(observation)`` is the action.

    Parameters
    ----------
    network : Network
        Layers.
    actions : Actions
        How outputs become actions.
    weights : array, shape (network.n,)
        The weights.
    mean, scale : array, shape (network.inputs,)
        Observations are normalised to ``(observation - mean) * scale``.
    env : str
        The environment that the policy was trained in.
    seen : int
        How many observations that normalisation is made of; 0 if they are taken as they are.
    """

    network: Network
    actions: Actions
    weights: Array
    mean: Array
    scale: Array
    env: str = ""
    seen: int = 0

    def __repr__(self) -> str:
        return f"<Policy {self.network.spelling} for {self.env or 'an environment'}, n = {self.network.n}>"

    def __call__(self, observation: npt.ArrayLike) -> Any:
        """Return the action for one observation."""
        seen = np.asarray(observation, dtype=np.float64).reshape(1, -1)
        if seen.size != self.network.inputs:
            raise ValueError(
                f"observation must have {self.network.inputs} numbers, as in {self.env}; got {seen.size}"
            )
        layers = self.network.split(self.weights[np.newaxis])
        action = self.actions.of(self.network.forward(layers, (seen - self.mean) * self.scale))[0]
        return int(action) if self.actions.first is not None else action

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a ``.npz`` file, which :func:`load_policy` reads; no pickle is in it."""
        path = Path(path)
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(f"path={str(path)!r} cannot be written: it must be a file in an existing folder")
        header: Header = {
            "env": self.env,
            "seen": self.seen,
            "inputs": self.network.inputs,
            "hidden": list(self.network.hidden),
            "outputs": self.network.outputs,
            "first": self.actions.first,
            "shape": list(self.actions.shape),
            "dtype": self.actions.dtype,
        }
        arrays: Arrays = {
            "weights": self.weights, "mean": self.mean, "scale": self.scale, "low": self.actions.low,
            "high": self.actions.high,
        }  # fmt: skip
        write(path, header, arrays, POLICY)


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Return a policy that :meth:`Policy.save` wrote; nothing that the file names is imported or run.

    Raises
    ------
    ValueError
        If the file is damaged, is no policy, or says what no policy can say.
    """
    try:
        header, arrays = read(path, POLICY)
        return _policy(header, arrays)
    except CheckpointError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # of whatever a file with a right checksum may say
        raise ValueError(f"policy {path} is refused: {one_line(error)}") from None


def _policy(header: Header, arrays: Arrays) -> Policy:
    hidden, first, shape, env = (header[name] for name in ("hidden", "first", "shape", "env"))
    sizes = [header["inputs"], *hidden, header["outputs"]]
    if not all(is_count(size, 1) for size in sizes) or not all(size <= WIDEST for size in hidden):
        raise ValueError(f"layers of {shown(sizes)} units")
    network = Network(header["inputs"], tuple(hidden), header["outputs"])
    if not is_count(header["seen"]):
        raise ValueError("the number of its observations")
    if not isinstance(env, str) or not (first is None or type(first) is int):
        raise ValueError("what it says of its environment")
    if header["dtype"] not in ("float32", "float64") or not all(is_count(size) for size in shape):
        raise ValueError("what it says of its actions")
    if first is None and math.prod(shape) != network.outputs:
        raise ValueError(f"actions of shape {shown(shape)} from {network.outputs} outputs")
    bounds = 0 if first is not None else network.outputs
    lengths = {
        "weights": network.n, "mean": network.inputs, "scale": network.inputs, "low": bounds, "high": bounds
    }  # fmt: skip
    for name, length in lengths.items():
        array = arrays[name]
        if array.shape != (length,) or array.dtype != np.float64 or np.any(np.isnan(array)):
            raise ValueError(f"array {name}")
        if name not in ("low", "high") and not np.all(np.isfinite(array)):
            raise ValueError(f"array {name}")
    actions = Actions(network.outputs, first, arrays["low"], arrays["high"], tuple(shape), header["dtype"])
    return Policy(network, actions, arrays["weights"], arrays["mean"], arrays["scale"], env, header["seen"])


def evaluate_policy(
    policy: Policy,
    env: Any = None,
    episodes: int = 100,
    *,
    seed: int = 0,
    workers: object = 1,
    env_options: Mapping[str, Any] | None = None,
) -> Array:
    """Return the rewards of fresh episodes of a policy.

    Parameters
    ----------
    policy : Policy
        What acts.
    env : str or callable, optional
        The environment; by default the one it was trained in, by its name.
    episodes : int
        How many.
    seed : int
        Another seed, other episodes.
    workers
        As :func:`lmma.minimize` has it.
    env_options : mapping, optional
        Keyword arguments of the environment.

    Returns
    -------
    array, shape (episodes,)
        NaN for an episode that failed.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, as load_policy returns it; got {shown(policy)}")
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise ValueError(f"episodes must be a whole number of 1 or more, got {shown(episodes)}")
    environment = checked_environment(policy.env.partition(" ")[0] if env is None else env, env_options)
    inputs, actions = spaces_of(environment)
    if (inputs, actions.outputs) != (policy.network.inputs, policy.network.outputs):
        raise ValueError(
            f"the policy takes {policy.network.inputs} numbers and gives {policy.network.outputs}, "
            f"{environment.name} has {inputs} and takes {actions.outputs}: it was trained in {policy.env}"
        )
    evaluate = EpisodesEvaluator(Episodes(environment, policy.network, policy.actions, 1), workers=workers)
    seeds = [int(word) for word in np.random.SeedSequence(seed).generate_state(episodes)]
    try:
        return evaluate.rewards(policy.weights, (policy.mean, policy.scale), seeds)
    finally:
        evaluate.close()
