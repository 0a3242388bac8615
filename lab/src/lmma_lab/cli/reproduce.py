"""The command ``lmma reproduce``: repeat the experiments of the paper and check its claims."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lmma.cli import arguments
from lmma.cli.status import UNSOLVED, UsageError
from lmma_lab.cli.common import (
    add_campaign_arguments,
    attack_records,
    command_line,
    report_write_errors,
    run_tasks,
)

EPILOG = """\
figures:
  fig1    internal cost per sample over n, LM-MA-ES and MA-ES
  fig2    evaluations and seconds to 1e-10, LM-MA-ES and MA-ES
  fig3    evaluations to 1e-10 of all methods
  figS1   convergence on separable and on rotated functions

presets:
  smoke   tests the pipeline in small dimensions; less than a minute
  quick   decides most claims; minutes on two cores
  paper   the full experimental section; days on two cores

Finished runs are kept in OUT/store.sqlite and never repeated. You can interrupt with Ctrl-C and repeat the
command, add workers or presets, or start a second process with the same OUT. Runs in progress are saved in
OUT/unfinished every 20 seconds and resume from there, even after OUT was moved to another machine. OUT
receives figures (PNG, SVG), tables (CSV), the claims ledger and report.html, made from all records in the
store.

The experiments of section 4.2, adversarial inputs, are run by lmma attack. Its claims are checked here
against the attack records in OUT or in the folder --attacks.

examples:
  lmma reproduce --preset quick --workers 2
  lmma reproduce fig1 figS1 --preset quick --out results
  lmma reproduce --preset paper --dry-run
  lmma reproduce --preset paper --hours 6 --workers 2 --export records
  lmma reproduce --preset paper --import records --import theirs --report-only
  lmma reproduce --preset quick --report-only --attacks out/attack
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help="fig1, fig2, fig3 or figS1 (default: all)"
    )
    parser.add_argument(
        "--preset", default="smoke", metavar="NAME", help="smoke, quick or paper (default: smoke)"
    )
    parser.add_argument(
        "--dims", metavar="N,N", help="only runs in these dimensions; timings and memory are not filtered"
    )
    parser.add_argument("--methods", metavar="NAME,NAME", help="only runs of these methods")
    parser.add_argument("--problems", metavar="NAME,NAME", help="only runs on these problems")
    parser.add_argument(
        "--attacks",
        metavar="DIR",
        type=Path,
        help="--out folder of lmma attack on MNIST, for section 4.2",
    )
    parser.add_argument(
        "--hours",
        metavar="H",
        type=arguments.positive,
        help="time limit in hours; tasks for undecided claims run first, and skipped tasks are listed",
    )
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="DIR",
        type=Path,
        action="append",
        help="before the runs, import records written by --export, possibly elsewhere; may be repeated",
    )
    parser.add_argument(
        "--export", metavar="DIR", type=Path, help="at the end, write all records to DIR as text files"
    )
    add_campaign_arguments(parser, "lmma-reproduction")


def run(args: argparse.Namespace) -> int:
    """Run the missing tasks, then write figures, tables, ledger and report."""
    from lmma_lab.claims import summary
    from lmma_lab.claims.forecast import forecast, with_measurements
    from lmma_lab.presets import TITLES, preset
    from lmma_lab.publish import publish
    from lmma_lab.store import FILE
    from lmma_lab.tasks import Task, unique

    try:
        experiments = preset(args.preset)
    except ValueError as error:
        raise UsageError(f"--preset: {error}") from None
    for name in args.figures:
        if name not in TITLES:
            raise UsageError(f"unknown figure {name!r}; choose from {', '.join(TITLES)}")
    if args.attacks is not None and not (args.attacks / FILE).exists():
        raise UsageError(f"--attacks: there is no {FILE} in {args.attacks}; pass the --out of lmma attack")
    wanted = args.figures or list(TITLES)
    tasks: list[Task] = unique(task for name in wanted for task in experiments[name].tasks)
    tasks = [task for task in tasks if _chosen(task, args)]
    if not tasks:
        raise UsageError("nothing to run: --dims, --methods and --problems exclude every task")
    status, records = run_tasks(args, tasks)
    if records is None:
        return status
    try:
        attacks = [
            record for folder in {args.out, args.attacks or args.out} for record in attack_records(folder)
        ]
    except OSError as error:
        print(f"lmma: {error}", file=sys.stderr)
        return UNSOLVED
    with report_write_errors():
        rows = publish(records, args.out, command_line("reproduce", args), wanted, attacks)
    for row in with_measurements(rows):
        print(f"{row.finding.verdict:<15}  {row.claim.wording} ({row.finding.measured})")
    print()
    print(summary(rows))
    for line in forecast(rows):
        print(f"  {line}")
    print(f"Figures, tables, ledger.md and report.html are in {args.out}")
    return status


def _chosen(task: object, args: argparse.Namespace) -> bool:
    from lmma_lab.tasks import Solve

    if not isinstance(task, Solve):
        return True
    wanted = {
        "n": [arguments.count(word) for word in args.dims.split(",")] if args.dims else None,
        "method": args.methods.split(",") if args.methods else None,
        "problem": args.problems.split(",") if args.problems else None,
    }
    return all(values is None or getattr(task, name) in values for name, values in wanted.items())
