"""Files from anybody: limits first, then reading.

A file says how large its contents are, and a few bytes can say anything. What is promised is held against the
size of the file and against a limit before memory is taken.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1 << 30  # bytes of all arrays of an archive together, and of an uncompressed idx file
EXPANSION = 50  # times its size that an archive may hold; arrays of real models compress to a third or so
SLACK = 1 << 20  # bytes that even the smallest archive may hold
KINDS = "biufcU"  # of arrays: numbers and strings


def read_json(text: str | bytes) -> Any:
    """Return what JSON says; anything that cannot be read, however odd, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def read_arrays(archive: zipfile.ZipFile, names: tuple[str, ...], size: int) -> dict[str, NDArray[Any]]:
    """Return arrays of a ``.npz`` file of ``size`` bytes.

    Raises
    ------
    KeyError
        If one is not there.
    ValueError
        If they are larger than they may be, not what they say, or no arrays of numbers or strings.
    """
    members = {name: archive.getinfo(f"{name}.npy") for name in names}
    promised = sum(member.file_size for member in members.values())
    if promised > LARGEST:
        raise ValueError(f"its arrays would take {promised:,} bytes, more than the {LARGEST:,} allowed")
    if promised > EXPANSION * size + SLACK:
        raise ValueError(f"its arrays would take {promised:,} bytes, too many for a file of {size:,}")
    return {name: _array(archive.read(member), name) for name, member in members.items()}


def _array(data: bytes, name: str) -> NDArray[Any]:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject or dtype.kind not in KINDS:
        raise ValueError(f"array {name!r} holds no plain numbers or strings")
    values = np.frombuffer(data, dtype=dtype, offset=stream.tell()) if dtype.itemsize else np.empty(0, dtype)
    return values.reshape(shape, order="F" if fortran else "C").copy()
