"""Policies as vectors of weights: linear ones and small networks, evaluated for many candidates at once."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmma.kernels.words import shown

Array = npt.NDArray[np.float64]

WIDEST = 10_000  # units of a hidden layer
GAIN = 3.0  # of the weights that hidden layers start from
SPELLINGS = "'linear', or 'mlp:64,64' for a network with hidden layers of 64 and 64 units"


def hidden_layers(policy: str) -> tuple[int, ...]:
    """Return the hidden layers that a policy's spelling means, none for ``"linear"``; or raise ValueError."""
    if policy == "linear":
        return ()
    found = re.fullmatch(r"mlp:(\d{1,9}(?:,\d{1,9})*)", policy) if isinstance(policy, str) else None
    if found is None:
        raise ValueError(f"policy must be {SPELLINGS}; got {shown(policy)}")
    units = tuple(int(word) for word in found[1].split(","))
    if not all(1 <= width <= WIDEST for width in units):
        raise ValueError(f"policy={policy!r}: a hidden layer has 1 to {WIDEST:,} units")
    return units


@dataclass(frozen=True)
class Network:
    """A feed-forward network: ``tanh`` between layers, nothing after the last one.

    One without hidden layers is a matrix, without biases: inputs are centred by the normalisation.
    """

    inputs: int
    hidden: tuple[int, ...]
    outputs: int

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Outputs and inputs of each layer; where there are hidden layers, an input more is for the bias."""
        sizes = (self.inputs, *self.hidden, self.outputs)
        return [(out, into + self.biased) for into, out in itertools.pairwise(sizes)]

    @property
    def biased(self) -> int:
        """1 where layers have biases, 0 for a linear policy."""
        return 1 if self.hidden else 0

    @property
    def spelling(self) -> str:
        """How a user writes it."""
        return f"mlp:{','.join(map(str, self.hidden))}" if self.hidden else "linear"

    @property
    def n(self) -> int:
        """The number of weights."""
        return sum(out * into for out, into in self.shapes)

    def split(self, rows: Array) -> list[Array]:
        """Return views of the weights of each layer, ``(candidates, outputs, inputs)``."""
        parts, at = [], 0
        for out, into in self.shapes:
            parts.append(rows[:, at : at + out * into].reshape(len(rows), out, into))
            at += out * into
        return parts

    def forward(self, layers: Sequence[Array], x: Array) -> Array:
        """Return ``(candidates, outputs)`` for one input a candidate.

        A candidate's outputs do not depend, not in their last bit, on who else is in the batch: NumPy
        multiplies stacks matrix by matrix.
        """
        for number, weights in enumerate(layers):
            matrix = weights[:, :, :-1] if self.biased else weights
            y = np.matmul(matrix, x[:, :, np.newaxis])[:, :, 0]
            if self.biased:
                y += weights[:, :, -1]
            x = y if number == len(layers) - 1 else np.tanh(y)
        return x

    def start(self, seed: int) -> Array:
        """Return weights to start from: random hidden layers, and outputs of 0.

        All weights 0 would be a saddle: there no change of a single layer changes the outputs. Units are to
        bend for inputs of size 1, and at different places: with small weights, or without biases, the first
        candidates are nearly linear, or odd, functions of what they see, and a search may stay among these.
        """
        rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
        parts = []
        for out, into in self.shapes[:-1]:
            layer = rng.standard_normal((out, into))
            layer[:, :-1] *= GAIN / math.sqrt(into - self.biased)  # the last are the biases
            parts.append(layer.ravel())
        parts.append(np.zeros(math.prod(self.shapes[-1])))
        return np.concatenate(parts)

    def steps(self, size: float) -> Array:
        """Return the first step of each weight: ``size / sqrt(inputs)`` of its layer."""
        return np.concatenate([np.full(out * into, size / math.sqrt(into)) for out, into in self.shapes])
