"""``lmma plot``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.store.untrusted import read_json

DRAWN = {"evaluations", "best_fun", "sigma", "step", "seconds"}  # what a record must have
MORE = ("x", "positions", "steps", "shortest", "longest", "coordinates", "reason")  # what is no number
PLOT_FILES = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="a file written by lmma minimize --log")
    parser.add_argument(
        "--output", metavar="FILE", help="a .png, .svg or .pdf file (default: beside FILE, as .png)"
    )


def run(args: argparse.Namespace) -> int:
    """Draw the records and say where."""
    file = Path(args.file)
    columns = read_log(file)  # what can be read has a name to put a suffix to
    output = arguments.writable(args.output or str(file.with_suffix(".png")), "--output", PLOT_FILES)

    from lmma.output.plotting import panels, save

    save(panels(columns, title=file.name), output)
    print(f"{output}: {len(columns['evaluations'])} records, {columns['evaluations'][-1]:,} evaluations")
    return status.OK


def read_log(file: Path) -> dict[str, list[Any]]:
    """Return the records of a log as one list for each quantity; a last line not yet whole is left out."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{file} is no log: lmma plot draws what lmma minimize --log wrote{_hint(file)}"
        ) from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = read_json(line)
        except ValueError:
            if number == len(lines):
                break  # the run is just writing it
            raise UsageError(f"{file}, line {number}: not a record of lmma minimize --log") from None
        if not (isinstance(record, dict) and record.keys() >= DRAWN and _holds_numbers(record)):
            raise UsageError(f"{file}, line {number}: not a record of lmma minimize --log")
        records.append(record)
    if not records:
        raise UsageError(f"{file} holds no records yet")
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _hint(file: Path) -> str:
    """Return what a file that is no text may be."""
    import zipfile

    return ", and this is a checkpoint; lmma resume goes on from it" if zipfile.is_zipfile(file) else ""


def _holds_numbers(record: dict[str, Any]) -> bool:
    """Return whether every quantity is a number that can be drawn, or None where there was none."""
    named = record.get("positions", {})
    if not (isinstance(record["evaluations"], int) and isinstance(named, dict)):
        return False
    numbers = [value for name, value in record.items() if name not in MORE]
    return all(
        value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)
        for value in (*numbers, *named.values())
    )
