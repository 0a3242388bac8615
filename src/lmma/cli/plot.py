"""The command ``lmma plot``: draw the figure of a log."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lmma._files import read_json
from lmma._text import plural
from lmma.cli import arguments, status
from lmma.cli.status import UsageError

REQUIRED = {"evaluations", "best_fun", "sigma", "step", "seconds"}  # columns of every record
NOT_NUMERIC = ("x", "positions", "steps", "shortest", "longest", "coordinates", "reason", "run")
BEST = 20  # points of an archive drawn as lines
PLOT_FILES = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="log written by lmma minimize --log, or archive of lmma minimize --archive",
    )
    parser.add_argument(
        "--output", metavar="FILE", help=".png, .svg or .pdf file (default: FILE with the suffix .png)"
    )


def run(args: argparse.Namespace) -> int:
    """Plot the log and print the name of the figure."""
    from lmma.run.archive.database import is_archive

    file = Path(args.file)
    if is_archive(arguments.first_bytes(file)):
        return _plot_archive(file, args.output)
    columns = read_log(file)
    output = arguments.writable(args.output or str(file.with_suffix(".png")), "--output", PLOT_FILES)

    from lmma.output.plotting import panels, save

    save(panels(columns, title=_title(file, columns)), output)
    print(f"{output}: {len(columns['evaluations'])} records, {columns['evaluations'][-1]:,} evaluations")
    return status.OK


def _plot_archive(file: Path, output: str | None) -> int:
    """Plot the evaluations of an archive."""
    from lmma.output.plotting.evaluations import evaluations
    from lmma.output.plotting.style import save
    from lmma.run.archive import Archive, ArchiveError

    path = arguments.writable(output or str(file.with_suffix(".png")), "--output", PLOT_FILES)
    try:
        archive = Archive(file)
        values, ranges = archive.values(), archive.ranges()
        best = archive.best(BEST)
    except ArchiveError as error:
        raise UsageError(str(error)) from None
    points = {name: [row[name] for row in best] for name in archive.variables}
    title = f"{file.name}: {archive.info.get('fun')}"
    save(evaluations(values, points, ranges, archive.log_variables, title=title), path)
    print(f"{path}: {plural(len(values), 'evaluation')}")
    return status.OK


def _title(file: Path, columns: dict[str, list[Any]]) -> str:
    """Return the name of the file with method, number of variables, seed and budget, as far as known."""
    run = next((run for run in reversed(columns.get("run", [])) if isinstance(run, dict)), {})
    labels = {
        "n": "n = {}", "seed": "seed {}", "maxfevals": "{:,} evaluations", "maxiter": "{:,} generations",
        "maxtime": "{:g} s", "ftarget": "target {:g}",
    }  # fmt: skip
    known = [str(run["method"])[:40]] if "method" in run else []
    known += [
        text.format(run[name]) for name, text in labels.items() if isinstance(run.get(name), int | float)
    ]
    return f"{file.name}: {', '.join(known)}" if known else file.name


def read_log(file: Path) -> dict[str, list[Any]]:
    """Return the records of a log, one list per quantity; an incomplete last line is ignored."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a log written by lmma minimize --log{_hint(file)}") from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = read_json(line)
        except ValueError:
            if number == len(lines):
                break  # the run is still writing this line
            raise UsageError(f"{file}, line {number}: not a record of lmma minimize --log") from None
        if not (isinstance(record, dict) and record.keys() >= REQUIRED and _is_numeric(record)):
            raise UsageError(f"{file}, line {number}: not a record of lmma minimize --log")
        records.append(record)
    if not records:
        if lines and not lines[0].startswith("{"):  # a record that is being written starts with a brace
            raise UsageError(f"{file} is not a log written by lmma minimize --log")
        raise UsageError(f"{file} contains no records yet")
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _hint(file: Path) -> str:
    """Return a hint if the file is a checkpoint."""
    from lmma._archive import CHECKPOINT, UNREADABLE, header_of

    try:
        is_checkpoint = header_of(file).get("format") == CHECKPOINT.format
    except (OSError, *UNREADABLE):
        is_checkpoint = False
    return "; it is a checkpoint: use lmma show or lmma resume" if is_checkpoint else ""


def _is_numeric(record: dict[str, Any]) -> bool:
    """Return whether every numeric quantity is a finite number or None."""
    named = record.get("positions", {})
    if not (isinstance(record["evaluations"], int) and isinstance(named, dict)):
        return False
    numbers = [value for name, value in record.items() if name not in NOT_NUMERIC]
    return all(
        value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)
        for value in (*numbers, *named.values())
    )
