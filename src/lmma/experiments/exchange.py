"""Records as text files, from one machine to another: a line a record, sorted, so that a diff can be read.

A folder holds ``run-<method>.jsonl`` and one file for each other kind. Each line is a record as JSON, what
was done first and the convergence curve last. Nothing in a file is trusted: the key of a record is computed
from its spec, its numbers must agree with one another, and where a record is here already the two must be
equal but for times, versions and machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmma.experiments.schedule.execute import timeless
from lmma.experiments.soundness import EXCHANGED, fault_of
from lmma.experiments.tasks import task_from
from lmma.output.files import write_text
from lmma.store import Record, Store
from lmma.store.untrusted import read_json

Order = tuple[Any, ...]

LONGEST_LINE = 1 << 20  # characters; a run of 10^9 evaluations has a curve of 9,000
ENDING = ".jsonl"
_FIRST = (
    "kind", "spec", "success", "evaluations_to_target", "evaluations", "generations", "popsize", "best_fun",
    "reason", "seconds", "cpu_seconds", "internal_seconds",
)  # fmt: skip
_LAST = ("machine", "versions", "curve")


class ExchangeError(ValueError):
    """A folder of records cannot be read; the message says why."""


@dataclass
class Import:
    """What became of the records of a folder."""

    new: int = 0
    known: int = 0  # here already, and equal
    unlike: list[str] = field(default_factory=list)  # here already, with another outcome: that here stays
    refused: list[str] = field(default_factory=list)  # not sound

    def words(self) -> str:
        """Return it as a sentence."""
        text = f"{self.new} records are new, {self.known} were here and are equal"
        if self.unlike:
            text += f"; {len(self.unlike)} were here with another outcome, which stays"
        if self.refused:
            text += f"; {len(self.refused)} were refused"
        return text


def export_records(store: Store, folder: Path) -> int:
    """Write all records of ``store`` to text files in ``folder``; return how many there are."""
    files: dict[str, list[tuple[Order, str]]] = {}
    for kind in EXCHANGED:
        for record in store.records(kind):
            line = json.dumps(_arranged(record), separators=(",", ":"), allow_nan=False)
            files.setdefault(_file_of(record), []).append((_order(record["spec"]), line))
    for name, lines in files.items():
        write_text(folder / name, "".join(f"{line}\n" for _, line in sorted(lines)))
    return sum(map(len, files.values()))


def import_records(store: Store, folder: Path) -> Import:
    """Take the sound records of ``folder`` that are not in ``store`` yet."""
    paths = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    if not paths:
        raise ExchangeError(
            f"there are no records (*{ENDING}) in {folder}; lmma reproduce --export writes them"
        )
    outcome = Import()
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ExchangeError(f"cannot read {path}: {error}") from None
        found: dict[str, Record] = {}
        for number, line in enumerate(lines, 1):
            fault, key, record = _read(line)
            if fault is None and key in found and timeless(found[key]) != timeless(record):
                fault = "it is there twice, with two outcomes"
            if fault is None:
                found.setdefault(key, record)
            else:
                outcome.refused.append(f"{path.name}, line {number}: {fault}")
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
            outcome.unlike.append(
                task_from(record["kind"], record["spec"]).label + _unlike(here[key], record)
            )
    for kind, records in fresh.items():
        store.put_all(kind, records)


def _unlike(here: Record, there: Record) -> str:
    """Return in words how the outcomes of two records of one task differ."""
    parts = [
        f"{name} {here.get(name)} here, {there.get(name)} there"
        for name in ("evaluations_to_target", "evaluations", "best_fun", "difference")
        if here.get(name) != there.get(name)
    ]
    return f": {'; '.join(parts) or 'their curves differ'} ({_made_by(here)} and {_made_by(there)})"


def _made_by(record: Record) -> str:
    versions = record["versions"]
    return f"lmma {versions.get('lmma')}, NumPy {versions.get('numpy')}, {versions.get('kernels')}"


def _read(line: str) -> tuple[str | None, str, Record]:
    """Return what is wrong with a line, or None, and its key and record."""
    if len(line) > LONGEST_LINE:
        return f"it has {len(line):,} characters", "", {}
    try:
        record = read_json(line)
    except ValueError:
        return "it is not JSON", "", {}
    if not isinstance(record, dict):
        return "it is not a record", "", {}
    try:
        key = task_from(record["kind"], record["spec"]).key
    except (KeyError, TypeError, ValueError) as error:
        return f"its kind and spec name no task ({type(error).__name__}: {error})", "", {}
    return fault_of(key, record["kind"], record), key, record


def _file_of(record: Record) -> str:
    name = record["kind"]
    if name == "run":
        name += "-" + re.sub(r"[^A-Za-z0-9_.-]", "_", record["spec"]["method"])
    return f"{name}{ENDING}"


def _arranged(record: Record) -> Record:
    names = [*_FIRST, *sorted(record.keys() - {*_FIRST, *_LAST}), *_LAST]
    return {name: record[name] for name in names if name in record}


def _order(spec: Mapping[str, Any]) -> Order:
    """Return where a record stands in its file."""
    words = tuple(str(spec.get(name, "")) for name in ("problem", "method", "change"))
    return (*words, spec["n"], spec.get("seed", 0))
