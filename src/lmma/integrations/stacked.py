"""What objectives of PyTorch and JAX share: stacked candidates in chunks, and mini-batches by seed."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.space import Tree

Values = npt.NDArray[np.float64]
SEEDED = inspect.Signature(
    [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("candidates", "seed")]
)
PLAIN = inspect.Signature(list(SEEDED.parameters.values())[:1])


class StackedObjective(ABC):
    """A loss of one structure as a function of many, for ``minimize(..., vectorized=True)``.

    Parameters
    ----------
    example : structure
        What a candidate looks like.
    loss : callable
        ``loss(candidate, *batch)`` -> number.
    batch : tuple or callable, optional
        What ``loss`` is given besides; or a function of a source of random numbers that returns it, called
        once a generation, so that all candidates meet the same mini-batch.
    chunk : int, optional
        Candidates at a time; all of a generation by default.
    """

    def __init__(
        self, example: Any, loss: Callable[..., Any], batch: Any = None, chunk: int | None = None
    ) -> None:
        if not callable(loss):
            raise TypeError(f"loss must be a function of a candidate, got {loss!r:.60}")
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            raise ValueError(f"chunk must be a number of candidates, at least 1, or None; got {chunk!r:.60}")
        self.tree = Tree(example)
        self.loss = loss
        self.batch = batch
        self.chunk = chunk
        # What minimize goes by: an objective with mini-batches demands a seed
        self.__signature__ = SEEDED if callable(batch) else PLAIN

    def __call__(self, candidates: Any, seed: int | None = None) -> Values:
        """Return one value for each candidate: rows of vectors, or a structure of stacked arrays."""
        if isinstance(candidates, np.ndarray):
            candidates = self.tree.columns(np.atleast_2d(candidates))
        batch = self.batch
        if callable(batch):
            if seed is None:
                raise TypeError("an objective with mini-batches needs seed=, the same for all it compares")
            batch = self._drawn(batch, seed)
        batch = () if batch is None else batch if isinstance(batch, tuple | list) else (batch,)
        return self._values(candidates, tuple(batch))

    @abstractmethod
    def _drawn(self, batch: Callable[..., Any], seed: int) -> Any:
        """Return the mini-batch of a seed."""

    @abstractmethod
    def _values(self, candidates: Any, batch: tuple[Any, ...]) -> Values:
        """Return one value for each of the stacked candidates."""
