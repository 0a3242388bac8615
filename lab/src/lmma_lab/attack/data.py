"""Images to attack: MNIST from idx files, or scikit-learn's bundled digits.

MNIST is read from the given folder, by default from `cache_folder()`. With ``download=True``, scikit-learn's
OpenML loader downloads it to the cache as idx files.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma._files import LARGEST, write
from lmma._text import one_line

__all__ = ["Dataset", "cache_folder", "load_digits", "load_mnist", "read_idx", "write_idx"]

Bytes = NDArray[np.uint8]

_DEFLATE = 1032  # largest compression ratio of gzip
_CHUNK = 1 << 20  # bytes per read

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


@dataclass(frozen=True)
class Dataset:
    """Images and labels, split into a training and a test part.

    Attributes
    ----------
    name : str
    X_train, X_test : (images, pixels) uint8
    y_train, y_test : (images,) int64
    shape : tuple of int
        Height and width of an image.
    high : float
        Largest valid pixel value; the smallest is 0.
    """

    name: str
    X_train: Bytes
    y_train: NDArray[np.int64]
    X_test: Bytes
    y_test: NDArray[np.int64]
    shape: tuple[int, int]
    high: float

    def __repr__(self) -> str:
        height, width = self.shape
        counts = f"{len(self.X_train):,} images to train, {len(self.X_test):,} to test"
        return f"<data {one_line(self.name, 60)}: {counts}, {height} x {width}>"


def cache_folder() -> Path:
    """Return the folder of downloaded data: ``$LMMA_DATA``, or lmma's folder in the user's cache."""
    if "LMMA_DATA" in os.environ:
        return Path(os.environ["LMMA_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lmma"


def load_digits() -> Dataset:
    """Return the 1,797 digits of 8 x 8 pixels (0 to 16) that come with scikit-learn.

    Every third image belongs to the test part, the others to the training part.
    """
    from sklearn.datasets import load_digits as bundled

    digits: Any = bundled()
    X, y = digits.data.astype(np.uint8), digits.target.astype(np.int64)
    test = np.arange(len(X)) % 3 == 2
    return Dataset("digits", X[~test], y[~test], X[test], y[test], (8, 8), 16.0)


def load_mnist(folder: str | os.PathLike[str] | None = None, *, download: bool = False) -> Dataset:
    """Return MNIST from the four idx files in `folder`, or from the cache.

    Parameters
    ----------
    folder : path, optional
        Folder with ``train-images-idx3-ubyte`` and the three related files, plain or with ``.gz``. Default:
        `cache_folder()` / "mnist".
    download : bool
        Download MNIST from OpenML to the cache if it is missing. Ignored if `folder` is given.
    """
    place = Path(folder) if folder is not None else cache_folder() / "mnist"
    if folder is not None and not place.is_dir():
        raise FileNotFoundError(f"data folder {place} does not exist")
    if folder is None and download and not _complete(place):
        _download(place)
    parts: dict[str, tuple[Bytes, NDArray[np.int64]]] = {}
    shapes = set()
    for part, (image_file, label_file) in _FILES.items():
        images, labels = read_idx(_find(place, image_file)), read_idx(_find(place, label_file))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels) or not len(images):
            raise ValueError(
                f"{place}: {image_file} has shape {images.shape} and {label_file} has shape {labels.shape};"
                " they do not belong together"
            )
        shapes.add(images.shape[1:])
        parts[part] = images.reshape(len(images), -1), labels.astype(np.int64)
    if len(shapes) != 1:
        raise ValueError(f"{place}: training and test images differ in size: {sorted(shapes)}")
    height, width = shapes.pop()
    return Dataset("mnist", *parts["train"], *parts["test"], (height, width), 255.0)


def read_idx(path: str | os.PathLike[str]) -> Bytes:
    """Return the array of unsigned bytes in an idx file, plain or compressed by gzip.

    Raises
    ------
    ValueError
        If the file is damaged; the message gives the reason.
    """
    path = Path(path)
    with path.open("rb") as plain:
        compressed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        size = path.stat().st_size
        try:
            with gzip.open(plain) if compressed else plain as file:
                return _idx(path, file, size * (_DEFLATE if compressed else 1))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} is damaged: {error}; download it again") from None


def _idx(path: Path, file: BufferedIOBase, at_most: int) -> Bytes:
    """Return the array in ``file``, of at most ``at_most`` bytes; read no more than its header declares."""
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] != 8 or not 1 <= head[3] <= 4:
        raise ValueError(f"{path} is not an idx file of unsigned bytes: it starts with {head!r}")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise ValueError(f"{path} is damaged: it ends within its header; download it again")
    shape = struct.unpack(f">{head[3]}I", sizes)
    declared = math.prod(shape)
    if declared > LARGEST:
        raise ValueError(f"{path} declares {declared:,} bytes, more than the limit of {LARGEST:,}")
    content = bytearray()
    if declared <= at_most:
        while len(content) <= declared and (chunk := file.read(min(_CHUNK, declared + 1 - len(content)))):
            content += chunk
    if declared != len(content):
        found = "more" if len(content) > declared else f"{len(content)}" if declared <= at_most else "fewer"
        raise ValueError(
            f"{path} is damaged: its header declares {declared} bytes of shape {shape}, but"
            f" {found} follow; download it again"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def write_idx(path: str | os.PathLike[str], array: Bytes) -> None:
    """Write unsigned bytes as an idx file, compressed if the name ends with ``.gz``."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + np.ascontiguousarray(array, np.uint8).tobytes()
    path = Path(path)
    if path.suffix == ".gz":
        content = gzip.compress(content, 6, mtime=0)
    write(path, lambda aside: _put(aside, content))


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _candidates(folder: Path, name: str) -> list[Path]:
    dotted = name.replace("-idx", ".idx")  # some archives unpack to this spelling
    return [folder / (n + end) for n in (name, dotted) for end in ("", ".gz")]


def _complete(folder: Path) -> bool:
    names = [name for pair in _FILES.values() for name in pair]
    return all(any(p.is_file() for p in _candidates(folder, name)) for name in names)


def _find(folder: Path, name: str) -> Path:
    for path in _candidates(folder, name):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"{folder} holds neither {name} nor {name}.gz; pass the folder with the four MNIST files, or"
        " allow the download from OpenML"
    )


def _download(place: Path) -> None:
    from sklearn.datasets import fetch_openml

    fetched: Any = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff")
    X = fetched.data.astype(np.uint8).reshape(-1, 28, 28)
    y = fetched.target.astype(np.uint8)
    place.mkdir(parents=True, exist_ok=True)
    cut = 60_000  # OpenML has the original order, with training images first
    for part, slice_ in (("train", slice(0, cut)), ("test", slice(cut, None))):
        image_file, label_file = _FILES[part]
        write_idx(place / f"{image_file}.gz", X[slice_])
        write_idx(place / f"{label_file}.gz", y[slice_])
