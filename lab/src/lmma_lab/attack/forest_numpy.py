"""Evaluator of a flat forest in NumPy, used instead of `_forest.c` if no compiler was available.

All rows advance through a block of trees together, one level per pass, until each has reached a leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Forest"]

_PAIRS = 1 << 18  # (row, tree) pairs processed together: a few megabytes of index arrays


class Forest:
    """A validated flat decision forest; the arguments are the fields of `forest.FlatForest`."""

    def __init__(
        self,
        words: NDArray[np.uint32],
        stride: int,
        bits: int,
        roots: NDArray[np.uint64],
        used: NDArray[np.uint32],
        values: NDArray[np.float64],
        n_features: int,
        n_classes: int,
    ) -> None:
        if stride not in (2, 3) or not 1 <= bits <= 31 or n_features < 1 or n_classes < 1:
            raise ValueError("forest: stride, bits, n_features or n_classes out of range")
        self.threshold = words[:, 0].view(np.float32) if stride == 2 else words[:, 0].copy().view("f4")
        self.payload = words[:, 0]
        packed = stride == 2
        self.offset = words[:, 1] & np.uint32((1 << bits) - 1) if packed else words[:, 2]
        feature = words[:, 1] >> np.uint32(bits) if packed else words[:, 1]
        self.roots = roots.astype(np.int64)
        self.values = values
        self.n_classes = n_classes
        self.box: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None  # valid region
        fault = self._fault(feature, used, n_features)
        if fault:
            raise ValueError(f"forest: damaged nodes ({fault})")
        self.column = used[np.where(self.offset > 0, feature, 0)] if used.size else feature

    def _fault(self, feature: NDArray[Any], used: NDArray[Any], n_features: int) -> str:
        """Return the fault of the nodes, or an empty string.

        After this check, every step leads to a higher index in the same tree, so evaluation always ends.
        """
        roots, inner = self.roots, self.offset > 0
        if len(roots) < 2 or roots[0] != 0 or roots[-1] != len(inner) or (np.diff(roots) < 1).any():
            return "roots do not span the nodes"
        if (used >= n_features).any():
            return "a feature lies outside the input"
        end = np.repeat(roots[1:], np.diff(roots))[inner]
        if (feature[inner] >= used.size).any() or (not used.size and inner.any()):
            return "a node uses a feature that does not exist"
        child = np.flatnonzero(inner) + self.offset[inner]
        if (child >= end).any() or (self.offset[inner] < 2).any():
            return "a child lies outside its tree"
        payloads = len(self.values) if self.values.size else self.n_classes
        if (self.payload[~inner] >= payloads).any():
            return "a leaf names a class that does not exist"
        # every node except a root is the child of exactly one node
        children = np.concatenate([np.flatnonzero(inner) + 1, child, roots[:-1]])
        named = np.zeros(len(inner) + 1, dtype=bool)  # one more, because a damaged last node may have a child
        named[children] = True
        if len(children) != len(inner) or not named[:-1].all():
            return "children do not follow their parents"
        return ""

    def sizes(self) -> tuple[int, int]:
        """Return the number of trees and of nodes."""
        return len(self.roots) - 1, len(self.offset)

    def prune(self, low: NDArray[np.float32], high: NDArray[np.float32]) -> Forest:
        """Return a copy that checks the box; pruning would not speed up NumPy."""
        pruned = object.__new__(Forest)
        pruned.__dict__.update(self.__dict__)
        pruned.box = low, high
        return pruned

    def evaluate(self, rows: Any, out: NDArray[np.float64], group: int, threads: int, trees: int, /) -> None:
        """Fill `out` with the sums over the first `trees` trees, added in order."""
        del group, threads
        with np.errstate(over="ignore"):
            X: NDArray[np.float32] = np.asarray(rows).astype(np.float32, copy=False)
        if not np.isfinite(X).all():
            raise ValueError("not finite")
        if self.box is not None and ((self.box[0] > X) | (self.box[1] < X)).any():
            raise IndexError("outside the box")
        out[:] = 0.0
        if not len(X):
            return
        block = max(1, _PAIRS // len(X))
        roots = self.roots[:-1][:trees]
        for first in range(0, len(roots), block):
            starts = roots[first : first + block]
            leaf = self._leaves(X, starts)  # (trees, rows)
            if self.values.size:
                for payload in self.payload[leaf]:
                    out += self.values[payload]
            else:
                cell = self.payload[leaf].astype(np.int64) + np.arange(len(X)) * self.n_classes
                out += np.bincount(cell.ravel(), minlength=out.size).reshape(out.shape)

    def _leaves(self, X: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        node = np.repeat(starts, len(X))
        base = np.tile(np.arange(len(X)) * X.shape[1], len(starts))
        flat = X.ravel()
        going = np.arange(node.size)
        while True:
            at = node[going]
            offset = self.offset[at]
            inner = offset > 0
            if not inner.all():
                going, at, offset = going[inner], at[inner], offset[inner]
                if not going.size:
                    return node.reshape(len(starts), len(X))
            right = flat[base[going] + self.column[at]] > self.threshold[at]
            node[going] = at + np.where(right, offset, 1)
