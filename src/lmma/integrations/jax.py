"""Objectives from JAX losses of a pytree, compiled once for all generations.

Requires JAX, the extra ``jax``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from lmma.integrations.stacked import StackedObjective, Values

try:
    import jax
except ImportError as error:
    from lmma._text import how_to_install

    raise ImportError(f"lmma.integrations.jax needs JAX: {how_to_install('jax')}") from error

__all__ = ["Objective", "objective"]


def objective(
    params: Any, loss: Callable[..., Any], *, batch: Any = None, chunk: int | None = None
) -> Objective:
    """Return an objective for ``minimize(fun, params, ...)`` that evaluates a whole generation per call.

    The objective is ``jit(vmap(loss))``. Every call evaluates ``chunk`` candidates, by default the number in
    the first call, and pads smaller batches with copies. So restarts and repeated evaluations do not
    recompile.

    Parameters
    ----------
    params : structure of arrays
        Parameters to search: a pytree of dicts, lists and tuples.
    loss : callable
        ``loss(params, *batch)`` returns the loss of one candidate; it is traced by JAX.
    batch : tuple of arrays or callable, optional
        Further arguments of ``loss``. A function ``batch(key) -> arrays`` is called once per generation with
        ``jax.random.key`` of the generation's seed and returns a mini-batch, the same for all candidates. The
        shapes must not change.
    chunk : int, optional
        Number of candidates evaluated together.

    Examples
    --------
    >>> x, y = np.eye(3, dtype=np.float32), np.ones((3, 2), dtype=np.float32)
    >>> params = {"w": np.zeros((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    >>> fun = objective(params, lambda p: ((x @ p["w"] + p["b"] - y) ** 2).mean())
    >>> result = lmma.minimize(fun, params, 0.1, rng=1, ftarget=1e-6)
    >>> bool(result.success), result.x["w"].shape
    (True, (3, 2))
    """
    return Objective(params, loss, batch, chunk)


@final
class Objective(StackedObjective):
    """The objective that :func:`objective` returns."""

    def __init__(
        self, params: Any, loss: Callable[..., Any], batch: Any = None, chunk: int | None = None
    ) -> None:
        super().__init__(params, loss, batch, chunk)
        self._compiled: Any = None

    @property
    def compilations(self) -> int:
        """Number of times the loss was compiled."""
        return 0 if self._compiled is None else int(self._compiled._cache_size())

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_compiled": None}  # each process compiles its own copy

    def _draw_batch(self, batch: Callable[..., Any], seed: int) -> Any:
        return batch(jax.random.key(seed))

    def _values(self, candidates: Any, batch: tuple[Any, ...]) -> Values:
        if self._compiled is None:
            self._compiled = jax.jit(jax.vmap(self.loss, in_axes=(0, *[None] * len(batch))))
        rows = len(jax.tree_util.tree_leaves(candidates)[0])
        if self.chunk is None:
            self.chunk = rows
        values = np.empty(rows)
        for first in range(0, rows, self.chunk):
            some = _filled(candidates, first, self.chunk)
            found = np.asarray(self._compiled(some, *batch), dtype=np.float64)
            values[first : first + self.chunk] = found.reshape(self.chunk)[: rows - first]
        return values


def _filled(candidates: Any, first: int, count: int) -> Any:
    """Return ``count`` stacked candidates from ``first`` on, padded with copies of the last one."""
    rows = np.arange(first, first + count)
    return jax.tree_util.tree_map(
        lambda leaf: leaf if len(leaf) == count else leaf[np.minimum(rows, len(leaf) - 1)], candidates
    )
