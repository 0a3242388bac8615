"""``lmma export``: the evaluations of an archive as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from lmma.cli import arguments, status
from lmma.cli.status import UsageError

EPILOG = """\
FILE is an archive written by lmma minimize --archive; a run may still be using it. The table has a row per
evaluation: variables in their units, value, constraint values, status, time. A .db file as OUTPUT receives a
copy of the archive, or the readable rows of a damaged one.

examples:
  lmma export runs.db all.csv
  lmma export runs.db best.csv --best 20
  lmma export runs.db runs.parquet
  lmma export damaged.db rescued.db
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help="archive")
    parser.add_argument("output", metavar="OUTPUT", help=".csv, .json, .parquet or .db file to write")
    parser.add_argument(
        "--best", metavar="N", type=arguments.count, help="only the N best evaluations, the best first"
    )


def run(args: argparse.Namespace) -> int:
    """Write the table and print the number of rows."""
    from lmma.run.archive.reader import EXPORTS, Archive, copy_readable

    file = Path(args.file)
    output = arguments.writable(args.output, "OUTPUT", EXPORTS)
    if output.exists() and file.exists() and output.samefile(file):
        raise UsageError(f"{output} is the input file: choose another name")
    try:
        if output.suffix.lower() == ".db":
            if args.best is not None:
                raise UsageError("--best cannot be combined with a .db file: choose .csv, .json or .parquet")
            rows = copy_readable(file, output)
        else:
            archive = Archive(file)
            archive.export(output, args.best)
            count = archive.summary()
            usable = count["evaluations"] - count["failed"] - count["timeout"]
            rows = count["evaluations"] if args.best is None else min(args.best, usable)
    except (ValueError, ImportError, OSError) as error:
        raise UsageError(str(error)) from None
    print(f"{output}: {rows:,} evaluations")
    return status.OK
