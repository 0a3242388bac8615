"""Python values as JSON and named arrays, without pickle, for files from untrusted sources.

JSON represents None, booleans, numbers, strings and lists of these directly. Everything else
is an object with one key:

=============================  =======================================================
JSON                           value
=============================  =======================================================
``{"array": NAME}``            an array of numbers, stored under NAME
``{"entries": [...], ...}``    an array of other values, with ``shape`` and ``text``
``{"dict": [[key, value]]}``   a mapping; also a dataclass, a namedtuple or a module
``{"tuple": [...]}``           a tuple
``{"text": "..."}``            the ``repr`` of a value of another kind
=============================  =======================================================

Tensors and arrays of other frameworks are stored as NumPy arrays.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma._text import shown

Arrays = dict[str, npt.NDArray[Any]]


def encode(value: Any, arrays: Arrays, name: str, as_text: list[str] | None = None) -> Any:
    """Return ``value`` as JSON and add its arrays, with names that start with ``name``, to ``arrays``.

    Values that are not numbers, strings or containers are stored as strings if ``as_text`` is given, and
    their names are appended to it; otherwise they raise TypeError.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return _checked_scalar(value)
    array = as_array(value)
    if array is not None and array.dtype.kind in "biuf":
        arrays[name] = array
        return {"array": name}
    if array is not None and array.dtype.kind in "UO":
        entries = [encode(v, arrays, f"{name}.{k}", as_text) for k, v in enumerate(array.ravel().tolist())]
        return {"entries": entries, "shape": list(array.shape), "text": array.dtype.kind == "U"}
    parts = parts_of(value)
    if parts is not None and all(type(key) in (str, int) for key in parts):
        return {"dict": [[k, encode(v, arrays, f"{name}.{k}", as_text)] for k, v in parts.items()]}
    if parts is None and isinstance(value, list | tuple):
        entries = [encode(entry, arrays, f"{name}.{k}", as_text) for k, entry in enumerate(value)]
        return entries if isinstance(value, list) else {"tuple": entries}
    if as_text is None:
        raise TypeError(f"{name} cannot be stored: {shown(value)}")
    as_text.append(name)
    return {"text": shown(value)}


def _checked_scalar(value: Any) -> Any:
    """Return a scalar whose type JSON keeps; subclasses, such as members of an enum, become plain."""
    if isinstance(value, bool) or value is None:
        return value
    kind = next(kind for kind in (int, float, str) if isinstance(value, kind))
    return kind(value)


def as_array(value: Any) -> npt.NDArray[Any] | None:
    """Return an array of NumPy, PyTorch or JAX as a NumPy array; None for anything else."""
    if isinstance(value, np.ndarray):
        found = value
    elif hasattr(value, "detach") and hasattr(value, "cpu") and hasattr(value, "numpy"):  # a tensor
        tensor = value.detach().cpu()
        if tensor.is_floating_point() and tensor.element_size() < 4:  # NumPy has no bfloat16
            tensor = tensor.float()
        found = tensor.numpy()
    elif hasattr(value, "__array__") and hasattr(value, "dtype") and hasattr(value, "shape"):
        found = np.asarray(value)
    else:
        return None
    if found.dtype.kind == "V" and found.dtype.names is None:  # JAX's bfloat16
        found = found.astype(np.float32)
    if found.dtype.kind == "f" and found.dtype.itemsize > 8:
        found = found.astype(np.float64)
    return found


def parts_of(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a mapping, dataclass, namedtuple or module by name; None for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if hasattr(value, "state_dict") and hasattr(value, "named_parameters"):  # a PyTorch module
        return dict(value.state_dict())
    return None


def decode(data: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return the value that :func:`encode` stored; raise ValueError if ``data`` is not its output."""
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [decode(entry, arrays) for entry in data]
    if not isinstance(data, dict) or not data:
        raise ValueError(f"invalid content: {shown(data)}")
    kind, content = next(iter(data.items()))
    if kind == "array" and isinstance(content, str) and content in arrays:
        return arrays[content]
    if kind == "text" and isinstance(content, str):
        return content
    if kind == "tuple" and isinstance(content, list):
        return tuple(decode(entry, arrays) for entry in content)
    if kind == "dict" and isinstance(content, list):
        return {_checked_key(key): decode(value, arrays) for key, value in content}
    if kind == "entries" and isinstance(content, list):
        return _decoded_entries(data, [decode(entry, arrays) for entry in content])
    raise ValueError(f"invalid content: {shown(data)}")


def _decoded_entries(data: dict[str, Any], entries: list[Any]) -> npt.NDArray[Any]:
    shape = data.get("shape")
    if not (isinstance(shape, list) and all(type(k) is int and k >= 0 for k in shape)):
        raise ValueError(f"invalid content: shape {shown(shape)}")
    if math.prod(shape) != len(entries):
        raise ValueError(f"invalid content: {len(entries)} entries of shape {shape}")
    if data.get("text") is True:
        if not all(isinstance(entry, str) for entry in entries):
            raise ValueError("invalid content: an array of texts with other entries")
        return np.array(entries, dtype=np.str_).reshape(shape)
    return object_array(entries, tuple(shape))


def object_array(entries: list[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array of objects, also if these are lists."""
    found = np.empty(len(entries), dtype=object)
    for k, entry in enumerate(entries):
        found[k] = entry
    return found.reshape(shape)


def _checked_key(key: Any) -> str | int:
    if not isinstance(key, str | int):
        raise ValueError(f"invalid content: key {shown(key)}")
    return key


def to_json(value: Any) -> Any:
    """Return ``value`` for other programs: arrays as lists, mappings with texts as keys, ``repr`` otherwise.

    Numbers that are not finite stay as they are; JSON has no spelling for them.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return _checked_scalar(value)
    array = as_array(value)
    if array is not None:
        return to_json(array.tolist())
    parts = parts_of(value)
    if parts is not None:
        return {str(key): to_json(part) for key, part in parts.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [to_json(entry) for entry in value]
    return shown(value)


def finite(value: Any) -> Any:
    """Replace numbers that are not finite by None in a value returned by :func:`to_json`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    return value
