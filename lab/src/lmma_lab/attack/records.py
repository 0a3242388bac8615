"""Records of attacked images and their storage.

`RecordStore` keeps the records of one campaign in the same kind of durable store as ``lmma reproduce``. A
killed campaign only loses the images in progress.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmma._text import one_line
from lmma_lab.store import Store, key_of

__all__ = ["KIND", "Record", "RecordKeeper", "RecordStore", "fingerprint", "record_fault"]

KIND = "attack"  # kind of these records in a store


@dataclass(frozen=True, eq=False)
class Record:
    """The result of one attack.

    Attributes
    ----------
    image : int
        Number of the image in the data set.
    label, found : int
        Column of the true class, and of the class assigned to `adversarial` (equal without success).
    success : bool
    start, value : float
        Objective at the original image, and the lowest value found.
    l2, linf : float
        Distances of `adversarial` from the original; 0 without success.
    queries, first_success : int
        Number of queries, and their number up to the end of the generation that found the first adversarial
        (0 if none was found).
    curve : (generations + 1,) float64
        Lowest objective so far, at the start and after each generation.
    adversarial : (n,) float32 or uint8
        The closest adversarial found, after projection; without success, the best candidate.
    seconds : float
        CPU time: an equal share of the time of each generation for all images of the batch.
    """

    image: int
    label: int
    found: int
    success: bool
    start: float
    value: float
    l2: float
    linf: float
    queries: int
    first_success: int
    curve: NDArray[np.float64]
    adversarial: NDArray[Any]
    seconds: float = 0.0

    def __repr__(self) -> str:
        end = f"class {self.found} at L2 = {self.l2:.3g}" if self.success else "no success"
        return f"<attack on image {self.image}: class {self.label}, {end}, {self.queries} queries>"

    def numbers(self) -> dict[str, Any]:
        """Return the reproducible fields except the arrays."""
        others = ("curve", "adversarial", "seconds")
        return {name: value for name, value in self.__dict__.items() if name not in others}

    def as_json(self) -> dict[str, Any]:
        """Return the record ready for JSON, with the image as base64."""
        image = self.adversarial.astype(self.adversarial.dtype.newbyteorder("<"))
        return self.numbers() | {
            "seconds": self.seconds,
            "curve": self.curve.tolist(),
            "adversarial": [image.dtype.str, base64.b64encode(image.tobytes()).decode()],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Record:
        """Return the record written by `as_json`; other keys of `content` are ignored."""
        kind, code = content["adversarial"]
        arrays = {
            "curve": np.array(content["curve"], dtype=np.float64),
            "adversarial": np.frombuffer(base64.b64decode(code), np.dtype(kind)),
        }
        return cls(**{name: content[name] for name in cls.__dataclass_fields__} | arrays)


class RecordKeeper(Protocol):
    """Thread-safe storage for the records of a campaign."""

    def done(self, images: Sequence[int]) -> set[int]:
        """Return those of `images` that have a record."""

    def put(self, records: Iterable[Record]) -> None:
        """Store records durably."""

    def records(self, images: Sequence[int]) -> list[Record]:
        """Return the existing records of `images`, sorted by image."""


def fingerprint(*parts: Any) -> str:
    """Return a short digest of arrays, numbers, strings and dictionaries."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.view(np.uint8).data if array.size else b"")
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()[:16]


class RecordStore:
    """Records of one campaign in a store that campaigns and experiments may share.

    Parameters
    ----------
    store : lmma_lab.store.Store
        An open store; the caller closes it.
    settings : dict
        JSON-compatible data on which the records depend (method, seed, step size, model, data ...). Only
        records with equal settings are visible, so a changed campaign never uses stale results.
    """

    def __init__(self, store: Store, settings: Mapping[str, Any]) -> None:
        self.store, self.settings = store, dict(settings)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"<records of {one_line(self.settings.get('method', 'attacks'), 40)} in {self.store.path.name}>"
        )

    def done(self, images: Sequence[int]) -> set[int]:
        """Return those of `images` that have a record."""
        keys = {self._key(image): image for image in images}
        with self._lock:
            return {keys[key] for key in self.store.done(list(keys))}

    def put(self, records: Iterable[Record]) -> None:
        """Store records durably."""
        contents = {
            self._key(record.image): {"kind": KIND, "spec": self._spec(record.image)} | record.as_json()
            for record in records
        }
        with self._lock:
            self.store.put_all(KIND, contents)

    def records(self, images: Sequence[int]) -> list[Record]:
        """Return the existing records of `images`, sorted by image."""
        with self._lock:
            found = self.store.get([self._key(image) for image in images])
        return sorted(map(Record.from_json, found.values()), key=lambda record: record.image)

    def _spec(self, image: int) -> dict[str, Any]:
        return self.settings | {"image": int(image)}

    def _key(self, image: int) -> str:
        return key_of(KIND, self._spec(image))


def record_fault(key: str, kind: str, content: Mapping[str, Any]) -> str | None:
    """Return the fault of a record of an attack, or None; `lmma_lab.store.Store` calls this check."""
    if kind != KIND:
        return None  # checked by its own module
    try:
        spec, image = content["spec"], Record.from_json(content).image
    except (KeyError, TypeError, ValueError):
        return "it is not the record of an attack"
    if not isinstance(spec, dict) or key_of(kind, spec) != key or spec.get("image") != image:
        return "its key does not match its spec"
    return None
