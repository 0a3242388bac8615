"""Files of compiled forests, which are safe to load from untrusted sources.

The file is a NumPy ``.npz`` archive, read without pickle and with size limits. Its content is validated
before use: the header here, the nodes by the evaluator (children inside their tree and after their parent,
features and classes in range).
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma._files import read_arrays, read_json, write
from lmma_lab.attack.forest import CompiledForest, FlatForest

__all__ = ["load_forest", "save_forest"]

_FORMAT = "lmma-forest"
_VERSION = 1
_KINDS = {"words": ("u", 4, 2), "roots": ("u", 8, 1), "used": ("u", 4, 1), "values": ("f", 8, 2)}
_UNREADABLE = (
    ValueError, TypeError, OSError, EOFError, NotImplementedError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def save_forest(
    forest: CompiledForest, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None
) -> None:
    """Write `forest` to `path`; an existing file is replaced only after the new one is complete.

    Parameters
    ----------
    forest : CompiledForest
        The forest; a pruned forest is saved unpruned.
    path : path
        File name, usually with the suffix ``.npz``.
    notes : dict, optional
        JSON-compatible data, such as the training parameters.
    """
    flat = forest.flat
    classes = np.asarray(flat.classes)
    if classes.dtype == object and all(isinstance(label, str) for label in classes):
        classes = classes.astype(str)
    if classes.dtype.kind not in "biufU":
        raise ValueError(
            f"labels of type {classes.dtype} cannot be saved without pickle; use numbers or strings"
        )
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "bits": flat.bits,
        "n_features": int(flat.n_features),
        "notes": notes or {},
    }

    def save(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez_compressed(
                file,
                header=np.frombuffer(json.dumps(header).encode(), np.uint8),
                words=flat.words,
                roots=flat.roots,
                used=flat.used,
                values=flat.values,
                classes=classes,
            )

    write(Path(path), save)


def load_forest(
    path: str | os.PathLike[str], *, engine: str = "auto"
) -> tuple[CompiledForest, dict[str, Any]]:
    """Return the forest in `path` and the notes saved with it.

    Raises
    ------
    ValueError
        If the file was not written by `save_forest`, or is damaged.
    """
    path = Path(path)
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            arrays = read_arrays(archive, (*_KINDS, "header", "classes"), path.stat().st_size)
        header = read_json(arrays["header"].tobytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"model file {path} does not exist") from None
    except KeyError as error:
        raise ValueError(f"{path} is not a forest saved by lmma: {error.args[0]}") from None
    except _UNREADABLE as error:
        reason = "not an .npz archive" if isinstance(error, zipfile.BadZipFile) else error
        raise ValueError(f"{path} is damaged or not a forest saved by lmma: {reason}") from None
    try:
        flat = _checked(header, arrays)
        return CompiledForest(flat, engine=engine), dict(header.get("notes", {}))
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _checked(header: Any, arrays: dict[str, NDArray[Any]]) -> FlatForest:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError("its header has another format")
    if header["version"] != _VERSION:
        raise ValueError(
            f"version {header['version']} of the format is not supported; this lmma reads version {_VERSION}"
        )
    for name, (kind, size, ndim) in _KINDS.items():
        array = arrays[name]
        if (array.dtype.kind, array.dtype.itemsize, array.ndim) != (kind, size, ndim):
            raise ValueError(f"array {name} has type {array.dtype} and {array.ndim} dimensions")
    classes, values, words = arrays["classes"], arrays["values"], arrays["words"]
    if classes.ndim != 1 or len(classes) < 1 or classes.dtype.kind not in "biufU":
        raise ValueError("the labels must be a list of numbers or strings")
    if words.shape[1] not in (2, 3) or (values.size and values.shape[1] != len(classes)):
        raise ValueError("the shapes of the arrays do not match")
    if not np.isfinite(values).all():
        raise ValueError("a leaf holds a non-finite value")
    bits, n_features = header["bits"], header["n_features"]
    if type(bits) is not int or type(n_features) is not int:
        raise ValueError("bits and n_features must be integers")
    native = {name: array.astype(array.dtype.newbyteorder("=")) for name, array in arrays.items()}
    return FlatForest(
        native["words"],
        bits,
        native["roots"],
        native["used"],
        native["values"],
        classes,
        n_features,
    )
