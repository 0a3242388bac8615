"""``lmma bench``, one file a benchmark."""

from __future__ import annotations

import argparse
from importlib import import_module

BENCHMARKS = {
    "largescale": "COCO's suite bbob-largescale: the empirical distribution of runtimes of any methods",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks with their arguments."""
    benchmarks = parser.add_subparsers(title="benchmarks", dest="benchmark", metavar="NAME", required=True)
    for name, summary in BENCHMARKS.items():
        sub = benchmarks.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        import_module(f"lmma.cli.bench_{name}").add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    """Run the benchmark."""
    return int(import_module(f"lmma.cli.bench_{args.benchmark}").run(args))
