"""Exchange of records between machines as text files: one record per line, sorted for readable diffs.

A folder holds ``run-<method>.jsonl`` and one file for each other kind. Each line is a record as JSON, with
the task first and the convergence curve last. Imported files are not trusted:

- the key of a record is computed from its spec;
- its numbers must be consistent;
- a record that the store already holds must be equal except for times, versions and machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmma._files import read_json, write_text
from lmma_lab.schedule.execute import timeless
from lmma_lab.store import Record, Store
from lmma_lab.tasks import task_from
from lmma_lab.validation import EXCHANGED, fault_of

Order = tuple[Any, ...]

LONGEST_LINE = 1 << 20  # characters; a run of 10^9 evaluations has a curve of 9,000
SUFFIX = ".jsonl"
_FIRST = (
    "kind", "spec", "success", "evaluations_to_target", "evaluations", "generations", "popsize", "best_fun",
    "reason", "seconds", "cpu_seconds", "internal_seconds",
)  # fmt: skip
_LAST = ("machine", "versions", "curve")


class RecordsError(ValueError):
    """A folder of records cannot be read; the message gives the reason."""


@dataclass
class Import:
    """Outcome of importing a folder of records."""

    new: int = 0
    known: int = 0  # already in the store, and equal
    conflicting: list[str] = field(default_factory=list)  # in the store with another outcome, which is kept
    rejected: list[str] = field(default_factory=list)  # invalid

    def summary(self) -> str:
        """Return the outcome as one sentence."""
        text = f"{self.new} records are new, {self.known} were already in the store"
        if self.conflicting:
            text += f"; {len(self.conflicting)} were in the store with another outcome, which was kept"
        if self.rejected:
            text += f"; {len(self.rejected)} were rejected"
        return text


def export_records(store: Store, folder: Path) -> int:
    """Write all records of ``store`` to text files in ``folder``; return their number."""
    files: dict[str, list[tuple[Order, str]]] = {}
    for kind in EXCHANGED:
        for record in store.records(kind):
            line = json.dumps(_arranged(record), separators=(",", ":"), allow_nan=False)
            files.setdefault(_file_of(record), []).append((_order(record["spec"]), line))
    for name, lines in files.items():
        write_text(folder / name, "".join(f"{line}\n" for _, line in sorted(lines)))
    return sum(map(len, files.values()))


def import_records(store: Store, folder: Path) -> Import:
    """Add the valid records of ``folder`` that are not in ``store`` yet."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        raise RecordsError(
            f"no records (*{SUFFIX}) found in {folder}; write them with lmma reproduce --export"
        )
    outcome = Import()
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RecordsError(f"cannot read {path}: {error}") from None
        found: dict[str, Record] = {}
        for number, line in enumerate(lines, 1):
            fault, key, record = _read(line)
            if fault is None and key in found and timeless(found[key]) != timeless(record):
                fault = "the file holds this record twice, with different outcomes"
            if fault is None:
                found.setdefault(key, record)
            else:
                outcome.rejected.append(f"{path.name}, line {number}: {fault}")
        _take(store, found, outcome)
    return outcome


def _take(store: Store, found: Mapping[str, Record], outcome: Import) -> None:
    here = store.get(list(found))
    fresh: dict[str, dict[str, Record]] = {}
    for key, record in found.items():
        if key not in here:
            fresh.setdefault(record["kind"], {})[key] = record
            outcome.new += 1
        elif timeless(here[key]) == timeless(record):
            outcome.known += 1
        else:
            outcome.conflicting.append(
                task_from(record["kind"], record["spec"]).label + _difference(here[key], record)
            )
    for kind, records in fresh.items():
        store.put_all(kind, records)


def _difference(here: Record, there: Record) -> str:
    """Describe the difference between two records of the same task."""
    parts = [
        f"{name} {here.get(name)} in the store, {there.get(name)} imported"
        for name in ("evaluations_to_target", "evaluations", "best_fun", "difference")
        if here.get(name) != there.get(name)
    ]
    return f": {'; '.join(parts) or 'their curves differ'} ({_made_by(here)} and {_made_by(there)})"


def _made_by(record: Record) -> str:
    versions = record["versions"]
    return f"lmma {versions.get('lmma')}, NumPy {versions.get('numpy')}, {versions.get('kernels')}"


def _read(line: str) -> tuple[str | None, str, Record]:
    """Parse a line; return its fault or None, its key and its record."""
    if len(line) > LONGEST_LINE:
        return f"it has {len(line):,} characters, more than {LONGEST_LINE:,}", "", {}
    try:
        record = read_json(line)
    except ValueError:
        return "it is not JSON", "", {}
    if not isinstance(record, dict):
        return "it is not a JSON object", "", {}
    try:
        key = task_from(record["kind"], record["spec"]).key
    except (KeyError, TypeError, ValueError) as error:
        return f"its kind or spec is invalid ({type(error).__name__}: {error})", "", {}
    return fault_of(key, record["kind"], record), key, record


def _file_of(record: Record) -> str:
    name = record["kind"]
    if name == "run":
        name += "-" + re.sub(r"[^A-Za-z0-9_.-]", "_", record["spec"]["method"])
    return f"{name}{SUFFIX}"


def _arranged(record: Record) -> Record:
    names = [*_FIRST, *sorted(record.keys() - {*_FIRST, *_LAST}), *_LAST]
    return {name: record[name] for name in names if name in record}


def _order(spec: Mapping[str, Any]) -> Order:
    """Return the sort key of a record within its file."""
    texts = tuple(str(spec.get(name, "")) for name in ("problem", "method", "change"))
    return (*texts, spec["n"], spec.get("seed", 0))
