"""The command ``lmma problems``: list the built-in problems."""

from __future__ import annotations

import argparse

from lmma._text import text_table

EPILOG = """\
Prefix a name with rotated- or shifted-, or both: rotated-cigar, shifted-rotated-cigar.

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
        text_table([["name", "description"], *([name, problems.get(name).doc] for name in problems.names())])
    )
    print()
    print("Variants of each: rotated-NAME (rotated coordinates) and shifted-NAME (shifted optimum).")
    return 0
