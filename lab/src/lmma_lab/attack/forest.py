"""Exact and fast evaluation of a fitted random forest as flat arrays.

scikit-learn's ``predict_proba`` needs about 70 microseconds of Python per tree and call, regardless of the
number of rows, and an attack evaluates a few rows thousands of times. `compile_forest` stores all trees in
one array, which C code traverses (`_forest.c`; `forest_numpy` if no compiler was available).

The results are bitwise equal to those of scikit-learn:

- scikit-learn casts the input to float32 and tests ``x <= threshold`` with a float64 threshold. For a float32
  ``x`` this is equivalent to ``x <= t`` with ``t`` the largest float32 not above the threshold, so thresholds
  fit into four bytes.
- Probabilities are summed over the trees in order and divided once by their number. If all leaves hold a
  single class, the sums are integers and the order does not matter. Otherwise values are added in the order
  of ``estimators_``, as scikit-learn does with ``n_jobs=1``. With more jobs, it adds in the order in
  which its threads finish, so its last bit may vary.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmma.kernels import availability
from lmma_lab.attack import forest_numpy
from lmma_lab.install import LAB

_missing = ""  # reason why the extension is missing
try:
    import lmma_lab.attack._forest as _compiled  # type: ignore[import-not-found,unused-ignore]
except ImportError as error:  # no compiler at installation; forest_numpy returns the same numbers
    _compiled = None
    _missing = availability.reason(error)

__all__ = ["CompiledForest", "FlatForest", "OutsideBox", "compile_forest"]

Floats = NDArray[np.float64]

_LANES = 32  # rows that the compiled code processes together
_SORT_FROM = 96  # rows from which sorting by the result of a few trees saves time
_SCOUTS = 16  # number of these trees


class OutsideBox(ValueError):
    """A row is outside the box for which a forest was pruned."""


class Engine(Protocol):
    """Interface of both evaluators of a flat forest."""

    def evaluate(self, rows: Any, out: Floats, group: int, threads: int, trees: int, /) -> None:
        """Fill `out` with the sums over the first `trees` trees."""

    def prune(self, low: Any, high: Any, /) -> Engine:
        """Return a copy of the forest that is only valid between `low` and `high`."""

    def sizes(self) -> tuple[int, int]:
        """Return the number of trees and of nodes."""


@dataclass(frozen=True)
class FlatForest:
    """All trees of a forest in sequence, each in preorder.

    The child for ``x <= threshold`` directly follows its parent; the other child is `offset` nodes after the
    parent. A leaf has offset 0.

    Attributes
    ----------
    words : (nodes, 2 or 3) uint32
        First column: the bits of the float32 threshold, or for a leaf its payload, a class or a row of
        `values`. Then ``feature << bits | offset`` in one column, or feature and offset in two columns if
        they do not fit into 32 bits.
    bits : int
        Bits of the offset in the packed form.
    roots : (trees + 1,) uint64
        First node of each tree, and finally the number of nodes.
    used : (features that occur in nodes,) uint32
        Column of the input for each feature number.
    values : (leaves, classes) float64
        Class probabilities of the leaves; empty if every leaf holds a single class.
    classes : (classes,)
        The labels, in the order of the columns of ``predict_proba``.
    n_features : int
        Columns of the input.
    """

    words: NDArray[np.uint32]
    bits: int
    roots: NDArray[np.uint64]
    used: NDArray[np.uint32]
    values: Floats
    classes: NDArray[Any]
    n_features: int


class CompiledForest:
    """A forest classifier with exactly the results of scikit-learn, many times faster.

    Parameters
    ----------
    flat : FlatForest
        The nodes, which are validated; a damaged array raises ValueError.
    engine : {"auto", "compiled", "numpy"}
        Evaluator of the nodes; it does not affect the results.

    Attributes
    ----------
    classes_, n_features_in_ : as in scikit-learn
    n_trees : int
        Number of trees.
    pure : bool
        True if every leaf holds a single class, so that probabilities are votes / `n_trees`.
    """

    def __init__(self, flat: FlatForest, *, engine: str = "auto") -> None:
        if engine not in ("auto", "compiled", "numpy"):
            raise ValueError(f"engine={engine!r}: choose 'auto', 'compiled' or 'numpy'")
        if engine == "compiled" and _compiled is None:
            raise ValueError(
                f"engine='compiled': the extension lmma_lab.attack._forest is missing ({_missing});"
                f" {availability.remedy(LAB)}, or choose engine='numpy'"
            )
        if engine == "auto" and _compiled is None:
            availability.warn_once("the compiled forest evaluator", _missing, LAB)
        maker = forest_numpy.Forest if engine == "numpy" or _compiled is None else _compiled.Forest
        self.flat = flat
        self._choice = engine
        self._box: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self.classes_ = flat.classes
        self.n_features_in_ = flat.n_features
        self.n_trees = len(flat.roots) - 1
        self.pure = flat.values.size == 0
        self._engine: Engine = maker(
            words=np.ascontiguousarray(flat.words),
            stride=flat.words.shape[1],
            bits=flat.bits,
            roots=np.ascontiguousarray(flat.roots),
            used=np.ascontiguousarray(flat.used),
            values=np.ascontiguousarray(flat.values),
            n_features=flat.n_features,
            n_classes=len(flat.classes),
        )

    def __repr__(self) -> str:
        return f"<forest: {self.n_trees} trees, {self.n_features_in_} features, {len(self.classes_)} classes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.flat, self._choice, self._box)

    @property
    def compiled(self) -> bool:
        """True if the C extension evaluates the forest, False if NumPy does."""
        return not isinstance(self._engine, forest_numpy.Forest)

    @property
    def n_nodes(self) -> int:
        """Number of reachable nodes; pruning reduces it."""
        return self._engine.sizes()[1]

    def sums(self, X: ArrayLike, *, group: int | None = None, threads: int = 1) -> Floats:
        """Return the class probabilities summed over the trees, which are integer votes if `pure`.

        Parameters
        ----------
        X : (rows, n_features)
            Finite numbers. float64, float32 and uint8 arrays are read without conversion.
        group : int, optional
            Length of runs of similar rows, such as the candidates of one image. By default similar rows are
            sorted together. Only the speed depends on it.
        threads : int
            Number of threads (-1: one per processor).
        """
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}, but the forest was trained on {self.n_features_in_}"
                f" features; pass an array of shape (rows, {self.n_features_in_})"
            )
        if X.dtype not in (np.float64, np.float32, np.uint8):
            X = X.astype(np.float64)
        X = np.require(X, requirements=["C", "ALIGNED"])
        if group is not None and group < 1:
            raise ValueError(f"group must be at least 1, got group={group}")
        if threads < 1:
            threads = os.cpu_count() or 1
        try:
            if group is None and len(X) >= _SORT_FROM and self.n_trees >= 4 * _SCOUTS:
                # rows of the same class take similar paths; sorted together, they share more nodes
                scouted = self._evaluate(X, _LANES, threads, _SCOUTS)
                order = scouted.argmax(axis=1).argsort(kind="stable")
                out = np.empty_like(scouted)
                out[order] = self._evaluate(X[order], _LANES, threads, self.n_trees)
                return out
            return self._evaluate(X, group or _LANES, threads, self.n_trees)
        except ValueError as error:
            if str(error) != "not finite":
                raise
            row, column = np.argwhere(~np.isfinite(_float32(X)))[0]
            raise ValueError(
                f"X[{row}, {column}] = {X[row, column]} is not finite in float32;"
                " remove or fill missing values first"
            ) from None
        except IndexError:
            raise OutsideBox(
                "X leaves the box for which this forest was pruned; use the unpruned forest"
            ) from None

    def _evaluate(self, X: NDArray[Any], group: int, threads: int, trees: int) -> Floats:
        out = np.empty((len(X), len(self.classes_)))
        self._engine.evaluate(X, out, group, threads, trees)
        return out

    def predict_proba(self, X: ArrayLike, *, group: int | None = None, threads: int = 1) -> Floats:
        """Return class probabilities, bitwise equal to scikit-learn's; see `sums` for the arguments."""
        out = self.sums(X, group=group, threads=threads)
        out /= self.n_trees
        return out

    def predict(self, X: ArrayLike, *, threads: int = 1) -> NDArray[Any]:
        """Return the label with the highest probability, the first one in case of ties."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X, threads=threads).argmax(axis=1)]
        return labels

    def prune(self, low: ArrayLike, high: ArrayLike) -> CompiledForest:
        """Return a copy without the nodes that no row between `low` and `high` can reach.

        The results inside the box are the same; a row outside it raises ValueError.

        Parameters
        ----------
        low, high : float or (n_features,)
            The box, including its bounds, which are rounded to float32 like rows.
        """
        n = self.n_features_in_
        low32 = np.ascontiguousarray(np.broadcast_to(_float32(np.asarray(low)), n))
        high32 = np.ascontiguousarray(np.broadcast_to(_float32(np.asarray(high)), n))
        if self._box is not None:  # stay inside the box of an already pruned forest
            low32, high32 = np.maximum(low32, self._box[0]), np.minimum(high32, self._box[1])
        if not (low32 <= high32).all():
            raise ValueError("prune: low must not be above high, and neither may be NaN")
        pruned = object.__new__(CompiledForest)
        pruned.__dict__.update(self.__dict__)
        pruned._engine = self._engine.prune(low32, high32)
        pruned._box = low32, high32
        return pruned


def _rebuilt(flat: FlatForest, engine: str, box: Any) -> CompiledForest:
    forest = CompiledForest(flat, engine=engine)
    return forest if box is None else forest.prune(*box)


def _float32(X: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def compile_forest(model: Any, *, engine: str = "auto") -> CompiledForest:
    """Return a fitted scikit-learn forest classifier as a `CompiledForest`.

    Parameters
    ----------
    model : RandomForestClassifier or ExtraTreesClassifier
        Fitted, with one output. The model is not altered.
    engine : {"auto", "compiled", "numpy"}
        As in `CompiledForest`.
    """
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    if not isinstance(model, RandomForestClassifier | ExtraTreesClassifier):
        raise TypeError(
            f"model is a {type(model).__name__}; only RandomForestClassifier and"
            " ExtraTreesClassifier can be compiled; use model.predict_proba instead"
        )
    if not getattr(model, "estimators_", None):
        raise ValueError("model is not fitted: call model.fit(X, y) first")
    if model.n_outputs_ != 1:
        raise ValueError(f"model has {model.n_outputs_} outputs; fit one forest for each output")
    trees = [_preorder(estimator.tree_) for estimator in model.estimators_]
    pure = all(tree.is_pure() for tree in trees)
    roots = np.cumsum([0] + [len(tree.offset) for tree in trees], dtype=np.uint64)
    inner = [tree.feature[tree.offset > 0] for tree in trees]
    used = np.unique(np.concatenate(inner)).astype(np.uint32)
    number = np.zeros(model.n_features_in_, dtype=np.uint32)  # column -> feature number
    number[used] = np.arange(len(used), dtype=np.uint32)
    longest = max(int(tree.offset.max()) for tree in trees)
    bits = max(1, longest.bit_length())
    packed = bits + max(1, (max(len(used) - 1, 0)).bit_length()) <= 32
    words = np.zeros((int(roots[-1]), 2 if packed else 3), dtype=np.uint32)
    values: list[Floats] = []
    leaves = 0
    for tree, start in zip(trees, roots[:-1].tolist(), strict=True):
        block = words[start : start + len(tree.offset)]
        leaf = tree.offset == 0
        block[:, 0] = _not_above(tree.threshold).view(np.uint32)
        feature = np.where(leaf, 0, number[np.where(leaf, 0, tree.feature)])
        if packed:
            block[:, 1] = feature << bits | tree.offset
        else:
            block[:, 1] = feature
            block[:, 2] = tree.offset
        if pure:
            block[leaf, 0] = tree.value[leaf].argmax(axis=1)
        else:
            block[leaf, 0] = leaves + np.arange(leaf.sum())
            leaves += int(leaf.sum())
            values.append(tree.value[leaf])
    table = np.concatenate(values) if values else np.empty((0, model.n_classes_))
    flat = FlatForest(
        words, min(bits, 31), roots, used, table, np.asarray(model.classes_), model.n_features_in_
    )
    return CompiledForest(flat, engine=engine)


@dataclass(frozen=True)
class _Tree:
    """One tree in preorder; `offset` is the distance to the right child, or 0 for a leaf."""

    offset: NDArray[np.uint32]
    feature: NDArray[np.int64]
    threshold: Floats
    value: Floats  # (nodes, classes), rows that sum to one

    def is_pure(self) -> bool:
        """Return True if each leaf assigns probability exactly 1 to one class."""
        leaf = self.value[self.offset == 0]
        return bool(((leaf == 0) | (leaf == 1)).all() and (leaf.sum(axis=1) == 1).all())


def _preorder(tree: Any) -> _Tree:
    left, right = tree.children_left, tree.children_right
    nodes = np.arange(tree.node_count)
    inner = left >= 0
    order = nodes
    if not (left[inner] == nodes[inner] + 1).all():  # grown best-first because max_leaf_nodes was set
        order = np.fromiter(_depth_first(left.tolist(), right.tolist()), np.intp, tree.node_count)
    place = np.empty_like(order)
    place[order] = nodes
    left, right, inner = left[order], right[order], inner[order]
    offset = np.where(inner, place[np.where(inner, right, 0)] - nodes, 0)
    value = tree.value[order, 0, :]
    if not np.allclose(value.sum(axis=1), 1.0):
        raise ValueError(
            "the leaves of the model hold counts, not probabilities; fit it with scikit-learn 1.3 or later"
        )
    return _Tree(offset.astype(np.uint32), tree.feature[order], tree.threshold[order], value)


def _depth_first(left: list[int], right: list[int]) -> Any:
    pending = [0]
    while pending:
        node = pending.pop()
        yield node
        if left[node] >= 0:
            pending += [right[node], left[node]]


def _not_above(threshold: Floats) -> NDArray[np.float32]:
    """Round float64 numbers down to float32."""
    nearest = _float32(threshold)
    above = nearest.astype(np.float64) > threshold
    lower: NDArray[np.float32] = np.where(above, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(
        np.float32
    )
    return lower
