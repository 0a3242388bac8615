"""``lmma bench``, one file for each benchmark; alone it is ``lmma bench cost``."""

from __future__ import annotations

import argparse
from importlib import import_module

from lmma.cli.common import add_command

BENCHMARKS = {
    "cost": "what a generation costs inside: ours, other packages' and NumPy's bare random numbers",
    "largescale": "COCO's suite bbob-largescale: the empirical distribution of runtimes of any methods",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks with their arguments."""
    benchmarks = parser.add_subparsers(title="benchmarks", dest="benchmark", metavar="NAME")
    for name, summary in BENCHMARKS.items():
        import_module(f"lmma.cli.bench_{name}").add_arguments(add_command(benchmarks, name, summary))


def run(args: argparse.Namespace) -> int:
    """Run the benchmark."""
    if args.benchmark is None:
        from lmma.cli import bench_cost

        parser = argparse.ArgumentParser()
        bench_cost.add_arguments(parser)
        args = parser.parse_args([], argparse.Namespace(benchmark="cost", words=["bench", "cost"]))
    return int(import_module(f"lmma.cli.bench_{args.benchmark}").run(args))
