"""User classifiers and images for an attack, from a file or a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma._text import one_line, shown
from lmma_lab.attack.data import Dataset
from lmma_lab.attack.records import fingerprint

DIGEST_IMAGES = 256  # images whose probabilities identify a classifier
KNOWN = ("X", "y", "X_test", "y_test", "X_train", "y_train", "high", "shape")


def dataset_of(found: Any, name: str) -> Dataset:
    """Convert the result of a user function or the content of a file to a data set.

    ``found`` is ``(X, y)``, a :class:`Dataset`, or a mapping with ``X`` and ``y`` (or ``X_test`` and
    ``y_test``) and optionally ``X_train``, ``y_train``, ``high`` and ``shape``. ``y`` holds columns of the
    classifier's probabilities.
    """
    if isinstance(found, Dataset):
        return found
    if isinstance(found, tuple | list) and len(found) == 2:
        found = {"X": found[0], "y": found[1]}
    if not isinstance(found, Mapping):
        raise ValueError(f"data {name} must be (X, y) or a mapping with X and y, got {shown(found)}")
    parts = {key: np.asarray(found[key]) for key in KNOWN if key in found}
    X, y = parts.get("X_test", parts.get("X")), parts.get("y_test", parts.get("y"))
    if X is None or y is None:
        raise ValueError(f"data {name} must hold X and y; it holds {', '.join(map(str, found)) or 'nothing'}")
    images, labels = _part(X, y, name)
    train = "X_train" in parts and "y_train" in parts
    none = (images[:0], labels[:0])
    first, second = _part(parts["X_train"], parts["y_train"], name) if train else none
    shape = _shape(parts.get("shape"), np.asarray(X), images.shape[1], name)
    high = float(parts["high"]) if "high" in parts else 255.0 if float(images.max()) > 1.0 else 1.0
    return Dataset(name, first, second, images, labels, shape, high)


def load_user_data(path: Path) -> Dataset:
    """Return the data set in an .npz file, read without pickle."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            content = {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise ValueError(f"data {path} cannot be read as an .npz file: {one_line(error)}") from None
    return dataset_of(content, path.name)


def _part(X: NDArray[Any], y: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return validated rows and labels."""
    if X.ndim < 2 or y.ndim != 1 or len(X) != len(y) or not len(X):
        raise ValueError(f"data {name}: X must have one row per label, got shapes {X.shape} and {y.shape}")
    if X.dtype.kind not in "fiub" or not np.isfinite(X).all():
        raise ValueError(f"data {name}: X must hold finite numbers, got dtype {X.dtype}")
    if y.dtype.kind not in "iub" or np.any(y < 0):
        raise ValueError(f"data {name}: y must hold column numbers 0, 1, 2, ...; got dtype {y.dtype}")
    rows = X.reshape(len(X), -1)
    return rows if rows.dtype == np.uint8 else rows.astype(np.float64), y.astype(np.int64)


def _shape(given: NDArray[Any] | None, X: NDArray[Any], pixels: int, name: str) -> tuple[int, int]:
    """Return height and width of an image: as given, from the shape of X, a square, or one row."""
    side = round(pixels**0.5)
    found = (side, side) if side * side == pixels else (1, pixels)
    if X.ndim == 3:
        found = (X.shape[1], X.shape[2])
    if given is not None:
        found = (int(given.ravel()[0]), int(given.ravel()[-1]))
    if found[0] * found[1] != pixels:
        raise ValueError(f"data {name}: shape {found[0]} x {found[1]} does not match {pixels} pixels")
    return found


def checked_classifier(predict_proba: Callable[[Any], Any], data: Dataset, name: str) -> int:
    """Return the number of classes after a test call; raise ValueError if the classifier is invalid."""
    sample = data.X_test[:2].astype(np.float64)
    try:
        answer = np.asarray(predict_proba(sample))
    except Exception as error:
        raise ValueError(
            f"model {name} failed on {len(sample)} rows of {sample.shape[1]} numbers: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from None
    if (
        answer.ndim != 2
        or len(answer) != len(sample)
        or answer.shape[1] < 2
        or answer.dtype.kind not in "fiub"
    ):
        raise ValueError(
            f"model {name} must return shape (rows, classes) with at least two classes; it returned "
            f"{answer.shape} for {len(sample)} rows"
        )
    if np.max(data.y_test) >= answer.shape[1]:
        raise ValueError(
            f"model {name} returns {answer.shape[1]} classes, but {data.name} has the label "
            f"{np.max(data.y_test)}"
        )
    return int(answer.shape[1])


def digest_of_classifier(predict_proba: Callable[[Any], Any], data: Dataset) -> str:
    """Return a digest of the classifier's probabilities, which identifies it."""

    return fingerprint(
        np.asarray(predict_proba(data.X_test[:DIGEST_IMAGES].astype(np.float64)), dtype=np.float64)
    )
