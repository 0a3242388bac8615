"""The command ``lmma methods``: list the methods with their cost and memory."""

from __future__ import annotations

import argparse
import re

from lmma._text import text_table
from lmma.cli import arguments

SIZES = (1_000, 100_000)  # dimensions for which memory is shown by default
EPILOG = """\
Memory is the total for a run with the default population, including the candidates.

examples:
  lmma methods
  lmma methods --dim 1000000 --verbose
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("--dim", metavar="N", type=arguments.count, help="show memory use for N variables")
    parser.add_argument(
        "--verbose", action="store_true", help="also show the kernels in use and the free memory"
    )


def run(args: argparse.Namespace) -> int:
    """Print the methods."""
    from lmma._text import readable_size
    from lmma.methods import methods, strategy_class
    from lmma.minimize import choose_method
    from lmma.numerics.memory import available_memory
    from lmma.numerics.recombination import default_popsize

    sizes = SIZES if args.dim is None else (args.dim,)
    rows = [["name", "cost per sample", *(f"memory, n={n:,}" for n in sizes), "description"]]
    for name in methods():
        cls = strategy_class(name)
        text, cost = _described(cls.__doc__ or "")
        memory = [readable_size(cls.memory(n, default_popsize(n))) for n in sizes]
        rows.append([name, cost, *memory, text])
    chosen = dict.fromkeys(choose_method(n, values="auto") for n in sizes)
    auto = f"default; depends on n, free memory, constraints and integers: {' or '.join(chosen)}"
    rows.append(["auto", "", *("" for _ in sizes), auto])
    print(text_table(rows, right=range(2, 2 + len(sizes))))
    if args.verbose:
        from lmma import kernels

        free = available_memory()
        print()
        print(f"kernels      {kernels.in_use()}")
        print(f"free memory  {'unknown' if free is None else readable_size(free)}")
    return 0


def _described(doc: str) -> tuple[str, str]:
    """Split the first line of a strategy's docstring into description and cost per sample."""
    line = doc.strip().partition("\n")[0].rstrip(".")
    cost = re.search(r"O\((?:[^()]|\([^()]*\))*\)", line)
    text = re.sub(r",? *O\(.*\)(?: (?:a|per) sample)?", "", line)
    return text, cost[0] if cost else "-"
