"""``lmma bench``, one file for each benchmark; alone it says which there are."""

from __future__ import annotations

import argparse
from importlib import import_module

from lmma.cli import status
from lmma.cli.common import add_command

BENCHMARKS = {
    "cost": "what a generation costs inside: ours, other packages' and NumPy's bare random numbers",
    "seconds": "seconds to a target on eleven functions: our default beside other packages, one core each",
    "largescale": "COCO's suites: the empirical distribution of runtimes of any methods",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks with their arguments."""
    parser.set_defaults(show_help=parser.print_help)
    benchmarks = parser.add_subparsers(title="benchmarks", dest="benchmark", metavar="NAME")
    for name, summary in BENCHMARKS.items():
        import_module(f"lmma.cli.bench_{name}").add_arguments(add_command(benchmarks, name, summary))


def run(args: argparse.Namespace) -> int:
    """Run the benchmark, or say which there are."""
    if args.benchmark is None:
        args.show_help()
        return status.OK
    return int(import_module(f"lmma.cli.bench_{args.benchmark}").run(args))
