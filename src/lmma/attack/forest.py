"""A fitted random forest as flat arrays, evaluated exactly and fast.

scikit-learn's ``predict_proba`` pays some 70 microseconds of Python per tree and call, whatever
the number of rows; an attack asks for a few rows thousands of times. `compile_forest` lays all trees
out in one array and walks it in C (`_forest.c`; a NumPy twin takes over where no compiler was
found).

Exactness, bit for bit:

- scikit-learn casts the input to float32 and asks ``x <= threshold`` with a float64 threshold.
  For a float32 ``x`` that is the same question as ``x <= t`` with ``t`` the largest float32 not
  above the threshold, so thresholds shrink to four bytes and nothing changes.
- Probabilities are summed over the trees in their order and divided by their number once. Where
  all leaves hold a single class the sums are whole numbers and no order matters. Otherwise the
  values are added in the order of ``estimators_``, as scikit-learn does with ``n_jobs=1``; with
  more jobs scikit-learn itself adds in the order in which its threads finish, and its last bit
  may vary.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmma.attack import forest_numpy
from lmma.kernels import presence

_missing = ""  # why the extension is not there
try:
    import lmma.attack._forest as _compiled  # type: ignore[import-not-found,unused-ignore]
except ImportError as error:  # no compiler at installation: the twin gives the same numbers
    _compiled = None
    _missing = presence.reason(error)

__all__ = ["CompiledForest", "FlatForest", "OutsideBox", "compile_forest"]

Floats = NDArray[np.float64]

_LANES = 32  # rows that the compiled walk leads through a tree together
_SORTED = 96  # from so many rows on it pays to gather those that a few trees find similar
_SCOUTS = 16  # these few trees


class OutsideBox(ValueError):
    """A row lies outside the box for which a forest was pruned."""


class Engine(Protocol):
    """What both evaluators of a flat forest offer."""

    def evaluate(self, rows: Any, out: Floats, group: int, threads: int, trees: int, /) -> None:
        """Fill `out` with the sums over the first `trees` trees."""

    def prune(self, low: Any, high: Any, /) -> Engine:
        """Return the same forest, valid only between `low` and `high`."""

    def sizes(self) -> tuple[int, int]:
        """Return the number of trees and of nodes."""


@dataclass(frozen=True)
class FlatForest:
    """All trees of a forest, one after another, each in preorder.

    The child for ``x <= threshold`` follows its parent; the other lies `offset` nodes after it. A
    leaf has offset 0.

    Attributes
    ----------
    words : (nodes, 2 or 3) uint32
        First column: the bits of the float32 threshold, or for a leaf its payload: a class, or a
        row of `values`. Then ``feature << bits | offset`` in one column, or feature and offset in
        two where they do not fit into 32 bits.
    bits : int
        Bits of the offset in the packed form.
    roots : (trees + 1,) uint64
        First node of each tree, and the number of nodes.
    used : (features that are asked for,) uint32
        Column of the input behind each feature number.
    values : (leaves, classes) float64
        Class probabilities of the leaves; empty when every leaf holds one class only.
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
    """A forest classifier that answers exactly what scikit-learn answers, many times faster.

    Parameters
    ----------
    flat : FlatForest
        The nodes, checked on construction: a damaged array raises ValueError.
    engine : {"auto", "compiled", "numpy"}
        Which evaluator walks the nodes; the numbers do not depend on it.

    Attributes
    ----------
    classes_, n_features_in_ : as in scikit-learn
    n_trees : int
        Trees that vote.
    pure : bool
        Whether every leaf holds a single class, so that probabilities are votes / `n_trees`.
    """

    def __init__(self, flat: FlatForest, *, engine: str = "auto") -> None:
        if engine not in ("auto", "compiled", "numpy"):
            raise ValueError(f"engine={engine!r}: choose 'auto', 'compiled' or 'numpy'")
        if engine == "compiled" and _compiled is None:
            raise ValueError(
                f"engine='compiled': the extension lmma.attack._forest is missing ({_missing});"
                f" {presence.remedy()}, or choose engine='numpy'"
            )
        if engine == "auto" and _compiled is None:
            presence.say_once("the compiled walk through forests", _missing)
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
        """Whether the extension walks the nodes, rather than NumPy."""
        return not isinstance(self._engine, forest_numpy.Forest)

    @property
    def n_nodes(self) -> int:
        """Nodes that can still be reached; fewer after pruning."""
        return self._engine.sizes()[1]

    def sums(self, X: ArrayLike, *, group: int | None = None, threads: int = 1) -> Floats:
        """Return the class probabilities summed over the trees: whole numbers of votes if `pure`.

        Parameters
        ----------
        X : (rows, n_features)
            Finite numbers. float64, float32 and uint8 arrays are read as they are.
        group : int, optional
            Rows that lie near one another come in runs of this length (the candidates of one image,
            say). By default rows are gathered by likeness. Only the speed depends on it.
        threads : int
            Threads that share the rows; -1 takes all processors.
        """
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}, but the forest was trained on {self.n_features_in_}"
                f" features: pass an array of shape (rows, {self.n_features_in_})"
            )
        if X.dtype not in (np.float64, np.float32, np.uint8):
            X = X.astype(np.float64)
        X = np.require(X, requirements=["C", "ALIGNED"])
        if group is not None and group < 1:
            raise ValueError(f"group={group}: the length of a run of rows must be at least 1")
        if threads < 1:
            threads = os.cpu_count() or 1
        try:
            if group is None and len(X) >= _SORTED and self.n_trees >= 4 * _SCOUTS:
                # rows of one class take similar ways: gathered, they share more of their nodes
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
                f"X[{row}, {column}] = {X[row, column]}: the forest takes finite numbers within the"
                " range of float32 only; remove or fill missing values first"
            ) from None
        except IndexError:
            raise OutsideBox(
                "X leaves the box for which this forest was pruned; ask the forest it came from"
            ) from None

    def _evaluate(self, X: NDArray[Any], group: int, threads: int, trees: int) -> Floats:
        out = np.empty((len(X), len(self.classes_)))
        self._engine.evaluate(X, out, group, threads, trees)
        return out

    def predict_proba(self, X: ArrayLike, *, group: int | None = None, threads: int = 1) -> Floats:
        """Return scikit-learn's class probabilities, bit for bit; see `sums` for the arguments."""
        out = self.sums(X, group=group, threads=threads)
        out /= self.n_trees
        return out

    def predict(self, X: ArrayLike, *, threads: int = 1) -> NDArray[Any]:
        """Return the label of the highest probability, of the first such one at ties."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X, threads=threads).argmax(axis=1)]
        return labels

    def prune(self, low: ArrayLike, high: ArrayLike) -> CompiledForest:
        """Return this forest without the nodes that no row between `low` and `high` can reach.

        Same answers inside the box; a row outside it raises ValueError.

        Parameters
        ----------
        low, high : float or (n_features,)
            The box, ends included. Ends are rounded to float32, as rows are.
        """
        n = self.n_features_in_
        low32 = np.ascontiguousarray(np.broadcast_to(_float32(np.asarray(low)), n))
        high32 = np.ascontiguousarray(np.broadcast_to(_float32(np.asarray(high)), n))
        if self._box is not None:  # what was pruned before is gone: stay inside
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
            " ExtraTreesClassifier can be compiled; use model.predict_proba as it is"
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
    """One tree in preorder; `offset` leads to the right child, 0 marks a leaf."""

    offset: NDArray[np.uint32]
    feature: NDArray[np.int64]
    threshold: Floats
    value: Floats  # (nodes, classes), rows that sum to one

    def is_pure(self) -> bool:
        """Return whether each leaf gives probability exactly 1 to one class."""
        leaf = self.value[self.offset == 0]
        return bool(((leaf == 0) | (leaf == 1)).all() and (leaf.sum(axis=1) == 1).all())


def _preorder(tree: Any) -> _Tree:
    left, right = tree.children_left, tree.children_right
    nodes = np.arange(tree.node_count)
    inner = left >= 0
    order = nodes
    if not (left[inner] == nodes[inner] + 1).all():  # grown best first: max_leaf_nodes was set
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
    """Return the largest float32 numbers that do not exceed the given float64 ones."""
    nearest = _float32(threshold)
    above = nearest.astype(np.float64) > threshold
    lower: NDArray[np.float32] = np.where(above, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(
        np.float32
    )
    return lower
