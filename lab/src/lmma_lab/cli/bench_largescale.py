"""The command ``lmma bench largescale``: empirical runtime distributions on suites of COCO."""

from __future__ import annotations

import argparse
import re

from lmma.cli import arguments
from lmma.cli.status import UsageError
from lmma_lab.cli.common import add_campaign_arguments, options_of, print_report, run_tasks

EPILOG = """\
The 24 functions of BBOB with rotations of linear cost, from COCO (pip install 'lmma-lab[largescale]').
A method is a name from `lmma methods`, module:Class, or a peer: pycma, pycma-vkd, cmaes-sep, fcmaes-crfmnes,
pypop7-lmcma (pip install 'lmma-lab[bench]').

A run may use BUDGET * n evaluations, including restarts with twice the population. Finished runs are kept in
OUT/store.sqlite and never repeated. OUT receives the distributions as figures and CSV, and README.md.
In bbob-constrained, bbob-mixint and bbob-noisy the method auto is `lmma.minimize` with constraints, integers
or noise="auto"; pycma and cobyqa (constraints only) use their own interfaces.

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
    parser.add_argument(
        "--suite", choices=SUITES, default=SUITES[0], help=f"suite of COCO (default: {SUITES[0]})"
    )
    parser.add_argument(
        "--dims",
        metavar="N,N",
        default="20,40,80",
        help="dimensions: 20, 40, 80, 160, 320, 640; in other suites 2, 3, 5, 10, 20, 40 (default: 20,40,80)",
    )
    parser.add_argument(
        "--budget", metavar="N", type=arguments.count, default=1000,
        help="evaluations per run, times the number of variables (default: 1000)",
    )  # fmt: skip
    parser.add_argument(
        "--methods",
        "--method",
        metavar="NAME,NAME",
        default=METHODS,
        help=f"methods to run (default: {METHODS})",
    )
    parser.add_argument(
        "--functions", metavar="I-J", help="function numbers, such as 1,3 or 1-14 (default: all)"
    )
    parser.add_argument(
        "--instances",
        metavar="N",
        type=arguments.count,
        default=3,
        help="instances per function, 1 to 15 (default: 3)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=arguments.whole_number, default=1, help="seed of all runs (default: 1)"
    )
    add_campaign_arguments(parser, "lmma-largescale")


def run(args: argparse.Namespace) -> int:
    """Run the missing tasks, then write and print the distributions."""
    from lmma_lab import tasks as known
    from lmma_lab.analysis.runtimes import publish_runtimes

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
        text = re.sub("^n must", "--dims must", str(error))
        raise UsageError(re.sub("^function must", "--functions must", text)) from None
    again = options_of(args, "suite", "dims", "budget", "methods", "functions", "instances", "seed")
    command = f"lmma bench largescale {again}"
    status, records = run_tasks(args, tasks)
    if records is None:
        return status
    wanted = {task.key for task in tasks}
    ours = [r for r in records if r["kind"] == kind.kind and kind(**r["spec"]).key in wanted]
    print_report(ours, args.out, lambda: publish_runtimes(ours, args.out, command, methods))
    return status
