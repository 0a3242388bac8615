"""``lmma bench largescale``."""

from __future__ import annotations

import argparse

from lmma.cli import arguments
from lmma.cli.common import add_campaign_arguments, carry_out, in_words
from lmma.cli.status import UsageError

EPILOG = """\
24 functions of BBOB with rotations of linear cost, through COCO's package (pip install 'lmma[largescale]').
A method is a name from `lmma methods`, module:Class, or a peer as published: pycma, pycma-vkd, cmaes-sep,
fcmaes-crfmnes, pypop7-lmcma (pip install 'lmma[bench]').

A run may use BUDGET * n evaluations, restarts with twice the population included. Finished runs are kept in
OUT/store.sqlite and never done twice. OUT then holds the distributions as figures and CSV, and README.md.
In bbob-constrained, bbob-mixint and bbob-noisy the method auto is `lmma.minimize` as a user calls it, with
constraints, integers or noise="auto"; pycma and cobyqa (constraints only) run by their own interfaces.

examples:
  lmma bench largescale --dims 20,40,80,160,320 --budget 1000
  lmma bench largescale --dims 40 --methods pulse-full,pycma --instances 1 --functions 1-14 --workers 2
  lmma bench largescale --suite bbob-constrained --dims 5,10 --methods auto,pycma,cobyqa --instances 2
"""
METHODS = "pulse-full,pulse,lm-ma-es"
SUITES = ("bbob-largescale", "bbob", "bbob-constrained", "bbob-mixint", "bbob-noisy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the benchmark."""
    parser.epilog = EPILOG
    parser.add_argument("--suite", choices=SUITES, default=SUITES[0], help=f"({SUITES[0]})")
    parser.add_argument(
        "--dims",
        metavar="N,N",
        default="20,40,80",
        help="of 20, 40, 80, 160, 320, 640, in other suites of 2, 3, 5, 10, 20, 40 (20,40,80)",
    )
    parser.add_argument(
        "--budget", metavar="N", type=arguments.count, default=1000,
        help="evaluations a run may use for each dimension (1000)",
    )  # fmt: skip
    parser.add_argument(
        "--methods", "--method", metavar="NAME,NAME", default=METHODS, help=f"with what ({METHODS})"
    )
    parser.add_argument(
        "--functions", metavar="I-J", help="numbers between commas (all: 1-24 in most suites)"
    )
    parser.add_argument(
        "--instances", metavar="N", type=arguments.count, default=3, help="of each function, 1 to 15 (3)"
    )
    parser.add_argument("--seed", metavar="N", type=arguments.whole, default=1, help="of all runs (1)")
    add_campaign_arguments(parser, "lmma-largescale")


def run(args: argparse.Namespace) -> int:
    """Run what is missing, then write and print the distributions."""
    from lmma.experiments import tasks as known
    from lmma.experiments.analysis.runtimes import publish_runtimes

    kind = known.SUITES[args.suite]
    if args.functions is None:
        args.functions = f"{kind.functions[0]}-{kind.functions[-1]}"
    methods = arguments.names(args.methods)
    try:
        tasks = [
            kind(function, instance, method, n, args.budget * n, args.seed)
            for n in arguments.numbers(args.dims, "--dims")
            for method in methods
            for instance in range(1, args.instances + 1)
            for function in arguments.numbers(args.functions, "--functions")
        ]
    except ValueError as error:
        raise UsageError(str(error)) from None
    again = [
        f"--{name} {getattr(args, name)}"
        for name in ("suite", "dims", "budget", "methods", "functions", "instances", "seed")
    ]
    args.command = f"lmma bench largescale {' '.join(again)}"
    status, records = carry_out(args, tasks)
    if records is None:
        return status
    wanted = {task.key for task in tasks}
    ours = [r for r in records if r["kind"] == kind.kind and kind(**r["spec"]).key in wanted]
    if not ours:
        raise UsageError(f"there are no records in {args.out} to report")
    with in_words():
        print(publish_runtimes(ours, args.out, args.command, methods))
    print(f"\nFigures, tables and README.md are in {args.out}")
    return status
