"""The command ``lmma bench``: one module per benchmark; without a name it lists them."""

from __future__ import annotations

import argparse
from importlib import import_module

from lmma.cli import add_command, status

BENCHMARKS = {
    "cost": "internal time per generation of lmma and other packages, relative to NumPy's random numbers",
    "seconds": "seconds to a target on eleven functions, lmma's default and other packages, one core each",
    "largescale": "COCO's suites: empirical runtime distributions of any methods",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks with their arguments."""
    parser.set_defaults(show_help=parser.print_help)
    benchmarks = parser.add_subparsers(title="benchmarks", dest="benchmark", metavar="NAME")
    for name, summary in BENCHMARKS.items():
        import_module(f"lmma_lab.cli.bench_{name}").add_arguments(add_command(benchmarks, name, summary))


def run(args: argparse.Namespace) -> int:
    """Run the benchmark; without a name, print the help."""
    if args.benchmark is None:
        args.show_help()
        return status.OK
    return int(import_module(f"lmma_lab.cli.bench_{args.benchmark}").run(args))
