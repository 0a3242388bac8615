"""Base class of PyTorch and JAX objectives: stacked candidates in chunks, and mini-batches by seed."""

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
    """A loss of one structure as a vectorized objective, for :func:`lmma.minimize`.

    Parameters
    ----------
    example : structure
        Example of the structure to search.
    loss : callable
        ``loss(candidate, *batch)`` returns a number.
    batch : tuple or callable, optional
        Further arguments of ``loss``; or a function of a random number generator that returns them. The
        function is called once per generation, so that all candidates get the same mini-batch.
    chunk : int, optional
        Number of candidates evaluated together; by default the whole generation.
    """

    vectorized = True  # read by minimize()

    def __init__(
        self, example: Any, loss: Callable[..., Any], batch: Any = None, chunk: int | None = None
    ) -> None:
        if not callable(loss):
            raise TypeError(f"loss must be a function of one candidate, got {loss!r:.60}")
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            raise ValueError(f"chunk must be an integer of at least 1 or None, got {chunk!r:.60}")
        self.tree = Tree(example)
        self.loss = loss
        self.batch = batch
        self.chunk = chunk
        # minimize() reads the signature: an objective with mini-batches needs a seed
        self.__signature__ = SEEDED if callable(batch) else PLAIN

    def __call__(self, candidates: Any, seed: int | None = None) -> Values:
        """Return one value per candidate; candidates are rows of vectors or a structure of stacked arrays."""
        if isinstance(candidates, np.ndarray):
            candidates = self.tree.columns(np.atleast_2d(candidates))
        batch = self.batch
        if callable(batch):
            if seed is None:
                raise TypeError(
                    "an objective with mini-batches needs seed=, equal for all compared candidates"
                )
            batch = self._draw_batch(batch, seed)
        batch = () if batch is None else batch if isinstance(batch, tuple | list) else (batch,)
        return self._values(candidates, tuple(batch))

    @abstractmethod
    def _draw_batch(self, batch: Callable[..., Any], seed: int) -> Any:
        """Return the mini-batch for a seed."""

    @abstractmethod
    def _values(self, candidates: Any, batch: tuple[Any, ...]) -> Values:
        """Return one value per stacked candidate."""
