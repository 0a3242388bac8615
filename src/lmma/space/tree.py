"""A tree: numbers in dicts, lists, dataclasses, tensors and modules, as one vector and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.space.space import nearest
from lmma.space.tree_nodes import Array, Leaf, Trainable, as_numpy, described, is_structure

__all__ = ["Tree", "is_structure"]


@final
class Tree:
    """Where the numbers of a structure stand in a vector; ``minimize(fun, structure)`` searches them.

    A structure is made of dicts, lists, tuples, dataclasses and modules of PyTorch; its leaves are arrays of
    NumPy, PyTorch or JAX, and floats. What has no floating-point numbers, and parameters of a module that
    require no gradient, are constants: kept as they are.

    Parameters
    ----------
    example : structure
        Its form is described, its numbers are where a search starts.
    trainable : callable, optional
        ``trainable(path, leaf) -> bool``: which leaves are searched; all of them by default.

    Attributes
    ----------
    n : int
        Numbers of the vector.
    dtype : numpy.dtype
        float32 if no array has more, else float64; floats of Python are either.
    slices : dict
        Path, such as ``"layers.0.weight"``, -> its place in the vector.
    shapes : dict
        Path -> shape of the leaf.

    Examples
    --------
    >>> tree = lmma.Tree({"w": np.ones((2, 3)), "b": 0.5, "name": "a layer"})
    >>> tree.encode({"w": np.zeros((2, 3)), "b": 2.0, "name": ""})
    array([0., 0., 0., 0., 0., 0., 2.])
    >>> tree.decode(np.arange(7.0))
    {'w': array([[0., 1., 2.],
           [3., 4., 5.]]), 'b': 6.0, 'name': 'a layer'}
    >>> tree.slices
    {'w': slice(0, 6, None), 'b': slice(6, 7, None)}
    """

    def __init__(self, example: Any, *, trainable: Trainable | None = None) -> None:
        if trainable is not None and not callable(trainable):
            raise TypeError(f"trainable must be a function of path and leaf, got {trainable!r:.60}")
        self._root = described(example, trainable)
        self._example: Any = example
        self.slices: dict[str, slice] = {}
        self.n = 0
        for leaf in self._root.leaves():
            if leaf.path in self.slices:
                raise ValueError(f"a tree needs different paths, {leaf.path!r} is there twice")
            leaf.place = slice(self.n, self.n + leaf.size)
            self.slices[leaf.path] = leaf.place
            self.n += leaf.size
        if self.n == 0:
            raise ValueError(
                f"there is nothing to search in {example!r:.60}: a tree needs floating-point numbers (1.0, "
                "not 1), and a module parameters that require gradients"
            )
        self.shapes = {leaf.path: leaf.shape for leaf in self.leaves()}
        self.dtype = np.dtype(np.float64 if any(map(_is_double, self.leaves())) else np.float32)
        if all(leaf.kind == "float" for leaf in self.leaves()):
            self.dtype = np.dtype(np.float64)

    def __repr__(self) -> str:
        return f"<Tree: n={self.n} in {len(self.slices)} leaves, {self.dtype.name}>"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_example": None}  # the form is enough

    def leaves(self) -> Iterator[Leaf]:
        """Yield what is searched, in the order of the vector."""
        return self._root.leaves()

    def described(self) -> dict[str, str]:
        """Return the leaves in words, by path: equal for equal trees."""
        return {leaf.path: leaf.words for leaf in self.leaves()}

    # Structures and vectors

    def encode(self, structure: Any) -> Array:
        """Return the numbers of a structure of this form as a vector, (n,)."""
        x = np.empty(self.n, dtype=self.dtype)
        self._root.read(structure, x)
        return x

    def decode(self, vector: npt.ArrayLike) -> Any:
        """Return the structure that a vector stands for; its arrays are views of the vector.

        Arrays of another dtype than the vector, on another device, or of JAX are copies. A module is a new
        one, which shares with the example what is not searched.
        """
        return self._root.build(self._checked(vector, 1))

    def columns(self, rows: npt.ArrayLike) -> Any:
        """Return the structures of many vectors, one per row, as one structure of stacked arrays.

        Each array has one more axis in front, over the rows, as ``vmap`` wants it, and is a view of them as
        in :meth:`decode`. In place of a module there is a dict of its parameters, by name.
        """
        return self._root.build(self._checked(rows, 2), stacked=True)

    def _checked(self, x: npt.ArrayLike, axes: int) -> Array:
        array = np.asarray(x)
        if array.ndim != axes or array.shape[-1] != self.n or array.dtype.kind != "f":
            shape = f"({'rows, ' if axes == 2 else ''}{self.n})"
            raise ValueError(
                f"a tree of {self.n} numbers stands for floats of shape {shape}, got {array.dtype} "
                f"{array.shape}"
            )
        return array

    # What a search needs

    def start(self, start: Any = None) -> Array:
        """Return where a search starts: a structure or a vector, as a vector; the example for None."""
        if start is None:
            if self._example is None:
                raise ValueError("a tree that was pickled has no numbers to start from: give x0")
            start = self._example
        elif isinstance(start, np.ndarray) and start.shape == (self.n,):
            return start.astype(self.dtype)
        x = self.encode(start)
        if not np.all(np.isfinite(x)):
            where = next(path for path, place in self.slices.items() if not np.all(np.isfinite(x[place])))
            raise ValueError(f"x0 must be finite, but {where!r} holds NaN or infinity")
        return x

    def steps(self, sigma0: Any, usual: float | None = None) -> Any:
        """Return step sizes for the vector, of a dict of path: step; anything else as it is.

        A path may be that of a branch and means all below it; the longest one counts. What the dict leaves
        out gets ``usual``.
        """
        if not isinstance(sigma0, Mapping):
            return sigma0
        steps = self._by_path("sigma0", sigma0, np.nan if usual is None else usual)
        for path, place in self.slices.items():
            if not np.all(np.isfinite(steps[place]) & (steps[place] > 0)):
                said = "must be positive" if path in sigma0 or usual is not None else "names no step"
                raise ValueError(f"sigma0 {said} for {path!r}: a positive number for each leaf")
        return steps

    def bounds(self, bounds: Any) -> Any:
        """Return bounds for the vector, of a dict of path: (low, high); anything else as it is."""
        if not isinstance(bounds, Mapping):
            return bounds
        sides = [{}, {}]  # type: list[dict[str, Any]]
        for path, pair in _flat(bounds).items():
            try:
                low, high = pair
            except (TypeError, ValueError):
                raise ValueError(f"bounds of {path!r} must be a pair (low, high), got {pair!r:.60}") from None
            sides[0][path] = -np.inf if low is None else low
            sides[1][path] = np.inf if high is None else high
        lower, upper = (
            self._by_path("bounds", side, usual) for side, usual in zip(sides, (-np.inf, np.inf), strict=True)
        )
        return SimpleNamespace(lb=lower, ub=upper)

    def strategy_arguments(self, start: Any = None, sigma0: Any = None) -> dict[str, Any]:
        """Return what a strategy needs to search this tree: ``x0, sigma0, dtype``."""
        return {"x0": self.start(start), "sigma0": self.steps(sigma0), "dtype": self.dtype.name}

    def _by_path(self, argument: str, given: Mapping[Any, Any], usual: float) -> npt.NDArray[np.float64]:
        """Return a vector filled by path, with ``usual`` where nothing is said."""
        filled = np.full(self.n, usual, dtype=np.float64)
        values = _flat(given)
        for path in sorted(values, key=len):  # the longest last
            meant = [leaf for leaf in self.leaves() if f"{leaf.path}.".startswith(f"{path}.")]
            if not meant:
                known = list(self.slices)
                raise ValueError(
                    f"{argument}: there is no {path!r} in the tree{nearest(path, known)}; it has "
                    f"{', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
                )
            for leaf in meant:
                numbers = as_numpy(values[path], f"{argument} of {path!r}")
                try:
                    filled[leaf.place] = np.broadcast_to(numbers, leaf.shape).reshape(-1)
                except ValueError:
                    raise ValueError(
                        f"{argument} of {path!r} has shape {numbers.shape}, which does not fit {leaf.shape}"
                    ) from None
        return filled


def _is_double(leaf: Leaf) -> bool:
    name = str(leaf.dtype).removeprefix("torch.")
    return leaf.kind != "float" and name in ("float64", "longdouble", "float128")


def _flat(given: Mapping[Any, Any], path: str = "") -> dict[str, Any]:
    """Return nested dicts as one, by path."""
    flat: dict[str, Any] = {}
    for key, value in given.items():
        name = f"{path}.{key}" if path else str(key)
        flat |= _flat(value, name) if isinstance(value, Mapping) else {name: value}
    return flat
