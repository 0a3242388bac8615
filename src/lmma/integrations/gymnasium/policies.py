"""Trained policies: weights, normalisation and action mapping, saved and loaded without pickle."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma._archive import POLICY, Arrays, CheckpointError, Header, read, write
from lmma._text import one_line, shown
from lmma.integrations.gymnasium.environments import Actions, checked_environment, spaces_of
from lmma.integrations.gymnasium.episodes import Episodes
from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator
from lmma.numerics.state import is_count

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained policy; ``policy(observation)`` returns the action.

    Parameters
    ----------
    network : Network
        Layers of the network.
    actions : Actions
        Mapping of outputs to actions.
    weights : array, shape (network.n,)
        Weights of the network.
    mean, scale : array, shape (network.inputs,)
        Observations are normalised to ``(observation - mean) * scale``.
    env : str
        Environment in which the policy was trained.
    seen : int
        Number of observations behind the normalisation; 0 if observations are not normalised.
    loaded : bool
        True if the policy was read from a file, which may then name any module in ``env``.
    """

    network: Network
    actions: Actions
    weights: Array
    mean: Array
    scale: Array
    env: str = ""
    seen: int = 0
    loaded: bool = False

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
        action = self.actions.from_outputs(self.network.forward(layers, (seen - self.mean) * self.scale))[0]
        return int(action) if self.actions.first is not None else action

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a ``.npz`` file without pickle, for :func:`load_policy`."""
        path = Path(path)
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(f"path={str(path)!r} cannot be written; it must be a file in an existing folder")
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
    """Return a policy written by :meth:`Policy.save`; no code from the file is imported or run.

    Raises
    ------
    ValueError
        If the file is damaged, is not a policy, or has invalid content.
    """
    try:
        header, arrays = read(path, POLICY)
        return _policy(header, arrays)
    except CheckpointError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # a file with a valid checksum may still have arbitrary content
        raise ValueError(f"policy {path} has invalid content: {one_line(error)}") from None


def _policy(header: Header, arrays: Arrays) -> Policy:
    hidden, first, shape, env = (header[name] for name in ("hidden", "first", "shape", "env"))
    sizes = [header["inputs"], *hidden, header["outputs"]]
    if not all(is_count(size, 1) for size in sizes) or not all(size <= WIDEST for size in hidden):
        raise ValueError(f"layer sizes {shown(sizes)}")
    network = Network(header["inputs"], tuple(hidden), header["outputs"])
    if not is_count(header["seen"]):
        raise ValueError("number of observations")
    if not isinstance(env, str) or not (first is None or type(first) is int):
        raise ValueError("environment")
    if header["dtype"] not in ("float32", "float64") or not all(is_count(size) for size in shape):
        raise ValueError("dtype or shape of actions")
    if first is None and math.prod(shape) != network.outputs:
        raise ValueError(f"actions of shape {shown(shape)} with {network.outputs} outputs")
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
    return Policy(
        network, actions, arrays["weights"], arrays["mean"], arrays["scale"], env, header["seen"], loaded=True
    )


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
        The policy.
    env : str or callable, optional
        The environment; by default the one in which the policy was trained, by name. It is required for a
        policy from a file whose environment has the form ``"module:name"``, because that would be imported.
    episodes : int
        Number of episodes.
    seed : int
        Seed of the episodes.
    workers
        As in :func:`lmma.minimize`.
    env_options : mapping, optional
        Keyword arguments of the environment.

    Returns
    -------
    array, shape (episodes,)
        The rewards, NaN for failed episodes.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, such as from load_policy(); got {shown(policy)}")
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise ValueError(f"episodes must be an integer of at least 1, got {shown(episodes)}")
    if env is None:
        env = policy.env.partition(" ")[0]
        if policy.loaded and ":" in env:
            raise ValueError(
                f"the file of the policy names an environment in a module, which would be imported: if you "
                f"trust it, pass env={one_line(repr(env), 100)}"
            )
    environment = checked_environment(env, env_options)
    inputs, actions = spaces_of(environment)
    if (inputs, actions.outputs) != (policy.network.inputs, policy.network.outputs):
        raise ValueError(
            f"the policy has {policy.network.inputs} inputs and {policy.network.outputs} outputs, but "
            f"{environment.name} needs {inputs} and {actions.outputs}; it was trained in {policy.env}"
        )
    evaluate = EpisodesEvaluator(Episodes(environment, policy.network, policy.actions, 1), workers=workers)
    seeds = [int(word) for word in np.random.SeedSequence(seed).generate_state(episodes)]
    try:
        return evaluate.rewards(policy.weights, (policy.mean, policy.scale), seeds)
    finally:
        evaluate.close()


WIDEST = 10_000  # maximum units of a hidden layer
GAIN = 3.0  # of the initial weights of hidden layers
SPELLINGS = "'linear', or 'mlp:64,64' for a network with hidden layers of 64 and 64 units"


def hidden_layers(policy: str) -> tuple[int, ...]:
    """Parse a policy's text into its hidden layers, none for ``"linear"``; raise ValueError if invalid."""
    if policy == "linear":
        return ()
    found = re.fullmatch(r"mlp:(\d{1,9}(?:,\d{1,9})*)", policy) if isinstance(policy, str) else None
    if found is None:
        raise ValueError(f"policy must be {SPELLINGS}; got {shown(policy)}")
    units = tuple(int(word) for word in found[1].split(","))
    if not all(1 <= width <= WIDEST for width in units):
        raise ValueError(f"policy={policy!r}: each hidden layer must have 1 to {WIDEST:,} units")
    return units


@dataclass(frozen=True)
class Network:
    """A feed-forward network with ``tanh`` between layers and linear outputs.

    Without hidden layers it is a matrix without biases, because the normalisation centres the inputs.
    """

    inputs: int
    hidden: tuple[int, ...]
    outputs: int

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Outputs and inputs of each layer; networks with hidden layers have one more input, the bias."""
        sizes = (self.inputs, *self.hidden, self.outputs)
        return [(out, into + self.biased) for into, out in itertools.pairwise(sizes)]

    @property
    def biased(self) -> int:
        """1 if layers have biases, 0 for a linear policy."""
        return 1 if self.hidden else 0

    @property
    def spelling(self) -> str:
        """Text by which the user selects the network."""
        return f"mlp:{','.join(map(str, self.hidden))}" if self.hidden else "linear"

    @property
    def n(self) -> int:
        """Number of weights."""
        return sum(out * into for out, into in self.shapes)

    def split(self, rows: Array) -> list[Array]:
        """Return views of the weights of each layer, ``(candidates, outputs, inputs)``."""
        parts, at = [], 0
        for out, into in self.shapes:
            parts.append(rows[:, at : at + out * into].reshape(len(rows), out, into))
            at += out * into
        return parts

    def forward(self, layers: Sequence[Array], x: Array) -> Array:
        """Return ``(candidates, outputs)`` for one input per candidate.

        The outputs of a candidate are bitwise independent of the rest of the batch, because NumPy multiplies
        stacks matrix by matrix.
        """
        for number, weights in enumerate(layers):
            matrix = weights[:, :, :-1] if self.biased else weights
            y = np.matmul(matrix, x[:, :, np.newaxis])[:, :, 0]
            if self.biased:
                y += weights[:, :, -1]
            x = y if number == len(layers) - 1 else np.tanh(y)
        return x

    def start(self, seed: int) -> Array:
        """Return initial weights: random hidden layers, and zeros for the outputs.

        All-zero weights would be a saddle, where no change of a single layer changes the outputs. The units
        should be nonlinear for inputs of size 1, and at different places. With small weights or without
        biases, the first candidates would be nearly linear, or odd, functions, and the search may stay among
        them.
        """
        rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
        parts = []
        for out, into in self.shapes[:-1]:
            layer = rng.standard_normal((out, into))
            layer[:, :-1] *= GAIN / math.sqrt(into - self.biased)  # the last column is the bias
            parts.append(layer.ravel())
        parts.append(np.zeros(math.prod(self.shapes[-1])))
        return np.concatenate(parts)

    def steps(self, size: float) -> Array:
        """Return the initial step of each weight: ``size / sqrt(inputs)`` of its layer."""
        return np.concatenate([np.full(out * into, size / math.sqrt(into)) for out, into in self.shapes])
