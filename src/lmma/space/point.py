"""A point with names, in files: .csv, .json and .toml in the user's units, .npy as the encoded vector.

=======  ==========================================================================================
suffix   content
=======  ==========================================================================================
.csv     a line ``name,value,unit`` per entry; entries of arrays have names such as ``thickness[2]``
.json    one object, name -> value; units in ``"$units"``, which no variable can be called
.toml    name = value, with the unit as a comment
.npy     the vector of the search: logarithms for ``log=True``, indices for choices
=======  ==========================================================================================
"""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma._files import read_json, write, write_text
from lmma._plain import as_array, finite, object_array, to_json
from lmma._text import nearest, one_line
from lmma.space.description import Leaves
from lmma.space.space import Space, labels_of
from lmma.space.tree import Tree
from lmma.space.variables import Choice, Fixed, Integer, Variable

NAMED_FILES = (".csv", ".json", ".toml")
POINT_FILES = (*NAMED_FILES, ".npy")
HEADING = ["name", "value", "unit"]
UNITS = "$units"


@final
@dataclass(frozen=True)
class Point:
    """A point of a space or a tree.

    Parameters
    ----------
    vector : ndarray, (n,)
        The encoded point.
    values : mapping
        Name -> value in the user's units; for a tree, path -> array.
    units : mapping
        Name -> unit, of those that have one.
    fixed : frozenset of str
        Names of constants.
    """

    vector: npt.NDArray[np.floating]
    values: Mapping[str, Any]
    units: Mapping[str, str] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Space | Tree | Leaves, vector: Any, values: Mapping[str, Any] | None = None) -> Point:
        """Return the point at ``vector``; ``values`` of a space are decoded if they are not given."""
        if isinstance(names, Space):
            units = {name: each.unit_of_measure for name, each in names.items() if each.unit_of_measure}
            fixed = frozenset(name for name, each in names.items() if isinstance(each, Fixed))
            return cls(vector, names.decode(vector) if values is None else values, units, fixed)
        return cls(vector, Leaves(names.shapes).values(vector))

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Yield name, value and unit of every entry; arrays have one per element."""
        for name, value in self.values.items():
            unit, array = self.units.get(name, ""), as_array(value)
            if array is None:
                yield name, value, unit
            else:
                entries = array.ravel().tolist()
                yield from (
                    (label, v, unit) for label, v in zip(labels_of(name, array.shape), entries, strict=True)
                )

    def lines(self, most: int) -> list[str]:
        """Return at most ``most`` lines such as ``speed = 5 m/s``, one per variable, without constants."""
        shown = [name for name in self.values if name not in self.fixed]
        return [self._line(name) for name in shown[:most]]

    def _line(self, name: str) -> str:
        value, unit = self.values[name], self.units.get(name, "")
        array = as_array(value)
        return f"{name} = {_short(value) if array is None else short_list(array)} {unit}".rstrip()

    # Files

    def to_csv(self) -> str:
        """Return the point as CSV."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADING)
        writer.writerows((name, csv_text(value), unit) for name, value, unit in self.rows())
        return file.getvalue()

    def to_json(self) -> dict[str, Any]:
        """Return the point as an object for JSON."""
        values: dict[str, Any] = finite(to_json(dict(self.values)))
        return values | ({UNITS: dict(self.units)} if self.units else {})

    def to_toml(self) -> str:
        """Return the point as TOML."""
        lines = []
        for name, value in self.values.items():
            unit = f"  # {one_line(self.units[name])}" if name in self.units else ""
            lines.append(f"{_toml_key(name)} = {_toml(to_json(value))}{unit}\n")
        return "".join(lines)

    def write(self, path: Path) -> None:
        """Write the point to a file in the format of its suffix, one of ``POINT_FILES``."""
        suffix = path.suffix.lower()
        if suffix == ".npy":
            write_vector(path, self.vector)
        elif suffix == ".json":
            write_text(path, json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")
        else:
            write_text(path, self.to_toml() if suffix == ".toml" else self.to_csv())


def write_vector(path: Path, x: npt.NDArray[np.floating]) -> None:
    """Write ``x`` to a ``.npy`` file, or as text, one number per line, at full precision."""
    if path.suffix.lower() != ".npy":
        write_text(path, "".join(f"{float(value)!r}\n" for value in x))
        return

    def save(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.save(file, x)

    write(path, save)


def csv_text(value: Any) -> str:
    """Return a value as text: a string as it is, a number at full precision, anything else as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, bool | int | float) else json.dumps(to_json(value))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else one_line(value, 60)


def short_list(array: npt.NDArray[Any], most: int = 6) -> str:
    """Return the first entries of an array, such as ``[1, 2.5, ...]``."""
    texts = [_short(value) for value in array.ravel()[: most + 1].tolist()]
    return f"[{', '.join(texts[:most])}{', ...' if len(texts) > most else ''}]"


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml_key(k)} = {_toml(v)}' for k, v in value.items())}}}"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # also None, as a text


# Reading


def is_named(path: Path) -> bool:
    """Return whether a file has names and values: .json, .toml, or .csv with a heading."""
    if path.suffix.lower() != ".csv":
        return path.suffix.lower() in NAMED_FILES
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline(200).lower().replace(" ", "").startswith("name,value")
    except (OSError, UnicodeDecodeError):
        return False


def read_values(path: Path, space: Space) -> dict[str, Any]:
    """Return the values by name in a file; raise ValueError if it cannot be read.

    Fixed variables are omitted if the file agrees with the space.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() == ".csv":
            found = _from_rows(csv.reader(io.StringIO(text)), space)
        else:
            found = tomllib.loads(text) if path.suffix.lower() == ".toml" else read_json(text)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, csv.Error, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must contain names and values")
    found.pop(UNITS, None)
    return {
        name: _restored(space.get(name), value)
        for name, value in found.items()
        if not _agrees(space, name, value)
    }


def _agrees(space: Space, name: str, value: Any) -> bool:
    """Return whether a value in a file is that of a fixed variable."""
    each = space.get(name)
    return isinstance(each, Fixed) and value in (to_json(each.value), csv_text(each.value))


def _restored(each: Variable | None, value: Any) -> Any:
    """Return a value of a file with choices replaced by their objects, which files hold as texts."""
    if not isinstance(each, Choice):
        return value
    if not each.shape:
        return _chosen(each, value)
    if isinstance(value, np.ndarray):
        return value
    entries = [value]
    for _ in each.shape:
        entries = [part for entry in entries if isinstance(entry, list) for part in entry]
    if len(entries) != each.size:
        return value  # the space reports it
    return object_array([_chosen(each, entry) for entry in entries], each.shape)


def _chosen(each: Choice, value: Any) -> Any:
    known = [known for known in each.values if _looks_like(to_json(known), value)]
    return known[0] if len(known) == 1 else value


def _looks_like(plain: Any, value: Any) -> bool:
    """Return whether ``value``, read from a file, represents ``plain``; TOML has no null."""
    return (type(plain) is type(value) and plain == value) or (plain is None and value == "None")


def _from_rows(rows: Iterable[list[str]], space: Space) -> dict[str, Any]:
    """Return values by name from the rows of a CSV file."""
    texts = {row[0].strip(): row[1] for row in list(rows)[1:] if len(row) >= 2}
    found: dict[str, Any] = {}
    for name, each in space.items():
        if isinstance(each, Fixed):
            if name in texts:
                found[name] = texts.pop(name)
            for label in [label for label in texts if label.startswith(f"{name}[")]:
                texts.pop(label)  # an array
            continue
        labels = labels_of(name, each.extent)
        if not any(label in texts for label in labels):
            continue
        if missing := [label for label in labels if label not in texts]:
            raise ValueError(f"no value for {missing[0]!r}")
        entries = [_parsed(each, texts.pop(label)) for label in labels]
        if each.extent == ():
            found[name] = entries[0]
        elif isinstance(each, Choice):
            found[name] = object_array(entries, each.extent)
        else:
            found[name] = np.array(entries).reshape(each.extent)
    for label in texts:
        raise ValueError(f"unknown variable {label!r}{nearest(label, space.labels)}")
    return found


def _parsed(each: Variable, text: str) -> Any:
    if isinstance(each, Choice):
        known = [known for known in each.values if csv_text(known) == text]
        return known[0] if len(known) == 1 else text
    number = float(text)
    return int(number) if isinstance(each, Integer) and number == int(number) else number
