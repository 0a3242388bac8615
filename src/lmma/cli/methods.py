"""``lmma methods``."""

from __future__ import annotations

import argparse
import re

from lmma.cli import arguments
from lmma.output.tables import text_table

SIZES = (1_000, 100_000)  # where the memory is told unless asked otherwise
EPILOG = """\
Memory is that of a whole run with the default population, candidates included.

examples:
  lmma methods
  lmma methods --dim 1000000 --verbose
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("--dim", metavar="N", type=arguments.count, help="tell the memory for N variables")
    parser.add_argument(
        "--verbose", action="store_true", help="also tell which kernels are in use and the free memory"
    )


def run(args: argparse.Namespace) -> int:
    """Print the methods."""
    from lmma.minimize import choose_method
    from lmma.strategies import methods, strategy_class
    from lmma.strategies.parts.memory import available_memory, readable
    from lmma.strategies.parts.recombination import default_popsize

    sizes = SIZES if args.dim is None else (args.dim,)
    rows = [["name", "cost per sample", *(f"memory, n={n:,}" for n in sizes), "what it is"]]
    for name in methods():
        cls = strategy_class(name)
        text, cost = _described(cls.__doc__ or "")
        memory = [readable(cls.memory(n, default_popsize(n))) for n in sizes]
        rows.append([name, cost, *memory, text])
    chosen = dict.fromkeys(choose_method(n) for n in sizes)
    rows.append(
        ["auto", "", *("" for _ in sizes), f"the default, by n, budget and memory: {' or '.join(chosen)}"]
    )
    print(text_table(rows, right=range(2, 2 + len(sizes))))
    if args.verbose:
        from lmma import kernels

        free = available_memory()
        print()
        print(f"kernels      {kernels.in_use()}")
        print(f"free memory  {'unknown' if free is None else readable(free)}")
    return 0


def _described(doc: str) -> tuple[str, str]:
    """Return the first line of a strategy's docstring and the cost per sample that it names."""
    line = doc.strip().partition("\n")[0].rstrip(".")
    cost = re.search(r"O\((?:[^()]|\([^()]*\))*\)", line)
    text = re.sub(r",? *O\(.*\)(?: (?:a|per) sample)?", "", line)
    return text, cost[0] if cost else "-"
