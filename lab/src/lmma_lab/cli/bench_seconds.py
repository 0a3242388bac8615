"""The command ``lmma bench seconds``: time to a target of lmma and other packages."""

from __future__ import annotations

import argparse
from importlib import util

from lmma.cli import arguments
from lmma.cli.status import UsageError
from lmma_lab.cli.common import add_campaign_arguments, options_of, print_report, run_tasks

EPILOG = """\
CPU seconds of one run on one core until the target is reached. lmma runs through lmma.minimize, other
packages in the shortest loop that their interface allows. All start from the same point, on cheap objectives.
Imports and just-in-time compilation are not counted.

A method is auto, a name from `lmma methods`, module:Class, or a peer: pycma, cmaes, fcmaes-cma,
fcmaes-crfmnes-c (both compiled), evosax-cmaes and others. Default packages that are not installed are skipped
with a message; install them with pip install 'lmma-lab[bench]'.

Runs are executed one at a time. Finished runs are kept in OUT/store.sqlite and never repeated. OUT receives
seconds.png, seconds.csv and README.md with the table.

examples:
  lmma bench seconds
  lmma bench seconds --dims 32 --problems sphere,rotated-cigar --methods auto,pycma
"""
PEERS = ("pycma", "cmaes", "fcmaes-cma", "fcmaes-crfmnes-c", "evosax-cmaes")
PLAIN = ("ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
PROBLEMS = ("sphere", *PLAIN, *(f"rotated-{name}" for name in PLAIN))  # rotation does not change a sphere


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the benchmark."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--dims", metavar="N,N", default="32,128,512", help="numbers of variables (default: 32,128,512)"
    )
    parser.add_argument(
        "--methods", "--method", metavar="NAME,NAME", help=f"methods to run (default: auto,{','.join(PEERS)})"
    )
    parser.add_argument(
        "--problems", metavar="NAME,NAME", default=",".join(PROBLEMS),
        help="functions (default: the paper's six, and five of them rotated)",
    )  # fmt: skip
    parser.add_argument(
        "--budget", metavar="N", type=arguments.count, default=100_000,
        help="evaluations per run, times the number of variables (default: 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--patience", metavar="S", type=arguments.positive, default=300.0,
        help="time limit per run in seconds (default: 300)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", metavar="N", type=arguments.whole_number, default=1, help="seed of all runs (default: 1)"
    )
    add_campaign_arguments(parser, "lmma-seconds")


def run(args: argparse.Namespace) -> int:
    """Run the missing tasks, then write and print the table."""
    from lmma_lab.analysis.seconds import publish_seconds
    from lmma_lab.tasks import Race

    methods = arguments.names(args.methods) if args.methods else _installed()
    try:
        tasks = [
            Race(problem, method, n, args.seed, args.budget * n, args.patience)
            for n in arguments.numbers(args.dims, "--dims")
            for problem in arguments.names(args.problems)
            for method in methods
        ]
    except ValueError as error:
        raise UsageError(str(error)) from None
    again = options_of(args, "dims", "problems", "budget", "patience", "seed", "out")
    command = f"lmma bench seconds {again} --methods {','.join(methods)}"
    status, records = run_tasks(args, tasks)
    if records is None:
        return status
    kept = {Race(**r["spec"]).key: r for r in records if r["kind"] == "seconds"}
    found = [kept[task.key] for task in tasks if task.key in kept]
    print_report(found, args.out, lambda: publish_seconds(found, args.out, command, methods))
    return status


def _installed() -> list[str]:
    """Return the names of lmma's default and of the installed peers."""
    from lmma_lab.install import how_to_install
    from lmma_lab.peers import ADAPTORS

    installed = [name for name in PEERS if util.find_spec(ADAPTORS[name].package) is not None]
    if missing := [name for name in PEERS if name not in installed]:
        print(f"skipped because not installed: {', '.join(missing)} ({how_to_install('bench')})")
    return ["auto", *installed]
