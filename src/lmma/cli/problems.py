"""``lmma problems``."""

from __future__ import annotations

import argparse

from lmma.output.tables import text_table

EPILOG = """\
A name may have rotated- or shifted- before it, or both: rotated-cigar, shifted-rotated-cigar.

examples:
  lmma problems
  lmma minimize shifted-rotated-cigar --dim 50
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG


def run(args: argparse.Namespace) -> int:
    """Print the built-in problems."""
    from lmma import problems

    print(
        text_table([["name", "what it is"], *([name, problems.get(name).doc] for name in problems.names())])
    )
    print()
    print("Each also as rotated-NAME (coordinates mixed) and shifted-NAME (optimum moved).")
    return 0
