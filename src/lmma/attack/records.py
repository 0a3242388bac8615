"""What is known of each attacked image afterwards, and how it is kept.

`RecordStore` keeps the records of one campaign in the project's durable store, the one in which
``lmma reproduce`` keeps its runs: a killed campaign loses only the images it was working on.
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

from lmma.kernels.words import one_line
from lmma.store import Store, key_of

__all__ = ["KIND", "Record", "RecordKeeper", "RecordStore", "fingerprint", "record_fault"]

KIND = "attack"  # of these records in a store that holds other kinds as well


@dataclass(frozen=True, eq=False)
class Record:
    """The result of one attack.

    Attributes
    ----------
    image : int
        Which image: its number in the data set.
    label, found : int
        Column of the true class, and of the class given to `adversarial` (equal without success).
    success : bool
    start, value : float
        Objective at the original image, and the lowest one met.
    l2, linf : float
        Distances of `adversarial` from the original; 0 without success.
    queries, first_success : int
        Queries spent on candidates, and how many of them up to the end of the generation in which the
        first adversarial was met (0: none was).
    curve : (generations + 1,) float64
        Lowest objective so far: at the start and after each generation.
    adversarial : (n,) float32 or uint8
        The closest adversarial met, as the classifier saw it; the best candidate without success.
    seconds : float
        Processor time: an equal share of what each generation took for all images under attack.
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
        """Return all that is equal whenever the attack is made again, but the arrays."""
        others = ("curve", "adversarial", "seconds")
        return {name: value for name, value in self.__dict__.items() if name not in others}

    def as_json(self) -> dict[str, Any]:
        """Return all of it as what JSON can hold; the image is its bytes in base 64."""
        image = self.adversarial.astype(self.adversarial.dtype.newbyteorder("<"))
        return self.numbers() | {
            "seconds": self.seconds,
            "curve": self.curve.tolist(),
            "adversarial": [image.dtype.str, base64.b64encode(image.tobytes()).decode()],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Record:
        """Return the record that `as_json` wrote, whatever else there is in `content`."""
        kind, code = content["adversarial"]
        arrays = {
            "curve": np.array(content["curve"], dtype=np.float64),
            "adversarial": np.frombuffer(base64.b64decode(code), np.dtype(kind)),
        }
        return cls(**{name: content[name] for name in cls.__dataclass_fields__} | arrays)


class RecordKeeper(Protocol):
    """Where a campaign puts its records and asks which images it may skip; used by several threads."""

    def done(self, images: Sequence[int]) -> set[int]:
        """Return which of `images` have a record."""

    def put(self, records: Iterable[Record]) -> None:
        """Keep records; they are durable afterwards."""

    def records(self, images: Sequence[int]) -> list[Record]:
        """Return the records there are of `images`, by image."""


def fingerprint(*parts: Any) -> str:
    """Return a short digest of arrays, numbers, strings and dictionaries: equal input, equal digest."""
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
    """Records of one campaign in a store that all campaigns and experiments may share.

    Parameters
    ----------
    store : lmma.store.Store
        Open; it is not closed here.
    settings : dict
        All that the records depend on (method, seed, step size, model, data ...), as JSON can hold it.
        Only records of equal settings are seen, so that a changed campaign never picks up stale results.
    """

    def __init__(self, store: Store, settings: Mapping[str, Any]) -> None:
        self.store, self.settings = store, dict(settings)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"<records of {one_line(self.settings.get('method', 'attacks'), 40)} in {self.store.path.name}>"
        )

    def done(self, images: Sequence[int]) -> set[int]:
        """Return which of `images` have a record."""
        keys = {self._key(image): image for image in images}
        with self._lock:
            return {keys[key] for key in self.store.done(list(keys))}

    def put(self, records: Iterable[Record]) -> None:
        """Keep records; they are durable afterwards."""
        contents = {
            self._key(record.image): {"kind": KIND, "spec": self._spec(record.image)} | record.as_json()
            for record in records
        }
        with self._lock:
            self.store.put_all(KIND, contents)

    def records(self, images: Sequence[int]) -> list[Record]:
        """Return the records there are of `images`, by image."""
        with self._lock:
            found = self.store.get([self._key(image) for image in images])
        return sorted(map(Record.from_json, found.values()), key=lambda record: record.image)

    def _spec(self, image: int) -> dict[str, Any]:
        return self.settings | {"image": int(image)}

    def _key(self, image: int) -> str:
        return key_of(KIND, self._spec(image))


def record_fault(key: str, kind: str, content: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a record of an attack, or None: the check of `lmma.store.Store`."""
    if kind != KIND:
        return None  # others judge their own
    try:
        spec, image = content["spec"], Record.from_json(content).image
    except (KeyError, TypeError, ValueError):
        return "it is not the record of an attack"
    if not isinstance(spec, dict) or key_of(kind, spec) != key or spec.get("image") != image:
        return "its key does not belong to its spec"
    return None
