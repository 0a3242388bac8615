"""``lmma reproduce``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lmma.cli import arguments
from lmma.cli.common import add_campaign_arguments, attack_records, carry_out, command_line, in_words
from lmma.cli.status import UNSOLVED, UsageError

EPILOG = """\
figures:
  fig1    internal cost per sample over n, LM-MA-ES against MA-ES
  fig2    evaluations and seconds to 1e-10, LM-MA-ES against MA-ES
  fig3    evaluations to 1e-10 of all methods
  figS1   convergence on separable and on rotated functions

presets:
  smoke   under a minute, small dimensions: shows that everything works
  quick   minutes on two cores: decides most claims
  paper   all of it: days on two cores

Finished runs are kept in OUT/store.sqlite and never done twice: interrupt with Ctrl-C, start again, add
workers or presets, or start a second process on the same OUT, as you like. OUT then holds figures (PNG, SVG),
tables (CSV), the claims ledger and report.html, all made from every record in the store. Runs in progress are
kept in OUT/unfinished every 20 seconds, and go on from there, also when OUT was moved to another machine.

Section 4.2, adversarial inputs, is run by lmma attack; its claims are judged here from the records it left in
OUT or in the folder --attacks.

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
        "figures", nargs="*", metavar="FIGURE", help="fig1, fig2, fig3, figS1; all by default"
    )
    parser.add_argument("--preset", default="smoke", metavar="NAME", help="smoke (default), quick or paper")
    parser.add_argument(
        "--dims", metavar="N,N", help="only runs in these dimensions; times and memory are left as they are"
    )
    parser.add_argument("--methods", metavar="NAME,NAME", help="only runs of these methods")
    parser.add_argument("--problems", metavar="NAME,NAME", help="only runs on these problems")
    parser.add_argument(
        "--attacks",
        metavar="DIR",
        type=Path,
        help="where lmma attack put its records of MNIST, for section 4.2",
    )
    parser.add_argument(
        "--hours",
        metavar="H",
        type=arguments.positive,
        help="stop after so long; first what decides a claim that lacks data, and say what is not reached",
    )
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="DIR",
        type=Path,
        action="append",
        help="first take in records that --export wrote, here or elsewhere; may be given again",
    )
    parser.add_argument(
        "--export", metavar="DIR", type=Path, help="at the end write all records to DIR, as text files"
    )
    add_campaign_arguments(parser, "lmma-reproduction")


def run(args: argparse.Namespace) -> int:
    """Run what is missing, then write figures, tables, ledger and page."""
    from lmma.experiments.claims import summary
    from lmma.experiments.claims.outlook import outlook, with_measurements
    from lmma.experiments.presets import TITLES, preset
    from lmma.experiments.publish import publish
    from lmma.experiments.tasks import Task, unique
    from lmma.store import FILE

    try:
        experiments = preset(args.preset)
    except ValueError as error:
        raise UsageError(f"--preset: {error}") from None
    for name in args.figures:
        if name not in TITLES:
            raise UsageError(f"unknown figure {name!r}: one of {', '.join(TITLES)}")
    if args.attacks is not None and not (args.attacks / FILE).exists():
        raise UsageError(f"--attacks: there is no {FILE} in {args.attacks}; it is the --out of lmma attack")
    wanted = args.figures or list(TITLES)
    tasks: list[Task] = unique(task for name in wanted for task in experiments[name].tasks)
    tasks = [task for task in tasks if _chosen(task, args)]
    if not tasks:
        raise UsageError("nothing is left to run: --dims, --methods and --problems exclude every task")
    status, records = carry_out(args, tasks)
    if records is None:
        return status
    try:
        attacks = [
            record for folder in {args.out, args.attacks or args.out} for record in attack_records(folder)
        ]
    except OSError as error:
        print(f"lmma: {error}", file=sys.stderr)
        return UNSOLVED
    with in_words():
        rows = publish(records, args.out, command_line("reproduce", args), wanted, attacks)
    for row in with_measurements(rows):
        print(f"{row.finding.verdict:<15}  {row.claim.wording} ({row.finding.measured})")
    print()
    print(summary(rows))
    for line in outlook(rows):
        print(f"  {line}")
    print(f"Figures, tables, ledger.md and report.html are in {args.out}")
    return status


def _chosen(task: object, args: argparse.Namespace) -> bool:
    from lmma.experiments.tasks import Solve

    if not isinstance(task, Solve):
        return True
    wanted = {
        "n": [arguments.count(word) for word in args.dims.split(",")] if args.dims else None,
        "method": args.methods.split(",") if args.methods else None,
        "problem": args.problems.split(",") if args.problems else None,
    }
    return all(values is None or getattr(task, name) in values for name, values in wanted.items())
