"""``lmma bench seconds``."""

from __future__ import annotations

import argparse
from importlib import util

from lmma.cli import arguments
from lmma.cli.common import add_campaign_arguments, carry_out, in_words
from lmma.cli.status import UsageError

EPILOG = """\
CPU seconds of one run on one core until the target is met: ours as lmma.minimize does it, other packages in
the leanest loop that they allow, all from the same start and with objectives that cost little. Imports and
just-in-time compilation are not counted. A method is auto, a name from `lmma methods`, module:Class, or a
peer: pycma, cmaes, fcmaes-cma, fcmaes-crfmnes-c (both compiled), evosax-cmaes and others. Of the
packages that --methods does not name, those that are not installed are left out with a word:
pip install 'lmma[bench]' brings them.

Runs are done one after another, whatever else there is to do. Finished runs are kept in OUT/store.sqlite and
never done twice. OUT then holds seconds.png, seconds.csv and README.md with the table.

examples:
  lmma bench seconds
  lmma bench seconds --dims 32 --problems sphere,rotated-cigar --methods auto,pycma
"""
PEERS = ("pycma", "cmaes", "fcmaes-cma", "fcmaes-crfmnes-c", "evosax-cmaes")
PLAIN = ("ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
PROBLEMS = ("sphere", *PLAIN, *(f"rotated-{name}" for name in PLAIN))  # a rotated sphere is one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the benchmark."""
    parser.epilog = EPILOG
    parser.add_argument("--dims", metavar="N,N", default="32,128,512", help="variables (32,128,512)")
    parser.add_argument(
        "--methods", "--method", metavar="NAME,NAME", help=f"with what (auto,{','.join(PEERS)})"
    )
    parser.add_argument(
        "--problems", metavar="NAME,NAME", default=",".join(PROBLEMS),
        help="functions (those of the paper, and all but the sphere rotated: eleven)",
    )  # fmt: skip
    parser.add_argument(
        "--budget", metavar="N", type=arguments.count, default=100_000,
        help="evaluations a run may use for each dimension (100000)",
    )  # fmt: skip
    parser.add_argument(
        "--patience", metavar="S", type=arguments.positive, default=300.0,
        help="seconds after which a run is given up (300)",
    )  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=arguments.whole, default=1, help="of all runs (1)")
    add_campaign_arguments(parser, "lmma-seconds")


def run(args: argparse.Namespace) -> int:
    """Run what is missing, then write and print the table."""
    from lmma.experiments.analysis.seconds import publish_seconds
    from lmma.experiments.tasks import Race

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
    again = [
        f"--{name} {getattr(args, name)}"
        for name in ("dims", "problems", "budget", "patience", "seed", "out")
    ]
    args.command = f"lmma bench seconds {' '.join(again)} --methods {','.join(methods)}"
    status, records = carry_out(args, tasks)
    if records is None:
        return status
    kept = {Race(**r["spec"]).key: r for r in records if r["kind"] == "seconds"}
    found = [kept[task.key] for task in tasks if task.key in kept]
    if not found:
        raise UsageError(f"there are no records in {args.out} to report")
    with in_words():
        print(publish_seconds(found, args.out, args.command, methods))
    print(f"\nThe figure, the runs and README.md are in {args.out}")
    return status


def _installed() -> list[str]:
    """Return our default and the peers that are there."""
    from lmma.experiments.peers import ADAPTORS
    from lmma.kernels.install import how_to_install

    there = [name for name in PEERS if util.find_spec(ADAPTORS[name].package) is not None]
    if missing := [name for name in PEERS if name not in there]:
        print(f"left out, not installed: {', '.join(missing)} ({how_to_install('bench')})")
    return ["auto", *there]
