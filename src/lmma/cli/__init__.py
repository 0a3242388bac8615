"""The command ``lmma``, one file a subcommand.

A subcommand's module offers ``add_arguments(parser)`` and ``run(args) -> exit status`` and is imported
when it is called for; its line in the list of commands stands here.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from lmma.cli.completion import complete_words
from lmma.cli.status import INTERRUPTED, OK, UNWRITTEN, UsageError
from lmma.cli.streams import unfailing_streams

COMMANDS = {
    "minimize": "minimise a built-in problem, a Python function or an external program",
    "check": "say what kind of function this is, and how to minimise it, with lmma or without",
    "resume": "go on with a run that was saved by minimize --checkpoint",
    "show": "say what is in a checkpoint, log, store or result, without running anything",
    "plot": "draw a run from the records of minimize --log, also while it goes on",
    "watch": "show runs on a live page in the browser, from the records of minimize --log",
    "methods": "list the methods, what a sample costs and the memory they need",
    "problems": "list the built-in problems",
    "train": "train a policy for an environment of Gymnasium, or evaluate a saved one",
    "attack": "turn correctly classified images into adversarial ones for a random forest",
    "compare": "run any methods on any problems and compare them",
    "bench": "run a benchmark: the cost of a generation, seconds to a target, or COCO's bbob-largescale",
    "reproduce": "run the paper's experiments again: figures, tables and a ledger of its claims",
}

DESCRIPTION = "Large-scale black-box optimisation by limited-memory matrix adaptation."
EXAMPLES = """\
examples:
  lmma minimize rotated-cigar --dim 100 --seed 1 --plot cigar.png
  lmma minimize mymodule:loss --x0 start.npy --sigma0 0.5 --max-evaluations 100000
  lmma minimize --command './simulate {file}' --x0 1,2,3 --sigma0 0.1 --json
  lmma minimize --help
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what `main` prints in one line."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Return the parser; only the arguments of ``command`` are filled in."""
    parser = Parser(
        prog="lmma",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="show version and kernels and exit")
    commands = parser.add_subparsers(title="commands", dest="name", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            import_module(f"lmma.cli.{name}").add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; a user's mistake is one line on standard error."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next
        complete_words(build_parser(_command_in(os.environ.get("COMP_LINE", "").split())))
    words = _with_negative_numbers(list(sys.argv[1:] if argv is None else argv))
    with unfailing_streams() as (out, _):
        try:
            status = _main(words)
            out.flush()
        except UsageError as error:
            _complain(str(error))
            return error.status
        except KeyboardInterrupt:
            print("\nlmma: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:  # whoever read our output has seen enough, as in `lmma methods | head -1`
            out.abandon()
            return OK
        if out.error is None:
            return status
        _complain(f"standard output could not be written: {out.error}")
        return UNWRITTEN


def _command_in(words: list[str]) -> str | None:
    return next((word for word in words if word in COMMANDS), None)


def _main(words: list[str]) -> int:
    parser = build_parser(_command_in(words))
    try:
        args = parser.parse_args(words)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    if args.version:
        from lmma import __version__, kernels

        print(f"lmma {__version__} (kernels: {kernels.in_use()})")
        return OK
    if args.name is None:
        parser.print_help()
        return OK
    args.words = words
    from lmma.kernels import presence

    presence.tell = _complain
    try:
        status = import_module(f"lmma.cli.{args.name}").run(args)
    finally:
        presence.tell = presence.warn
    return int(status)


def _complain(text: str) -> None:
    print(f"lmma: {text}", file=sys.stderr)


def _with_negative_numbers(words: list[str]) -> list[str]:
    """Return ``words`` with ``--x0 -1,2`` as ``--x0=-1,2``: argparse takes ``-1,2`` for an option."""
    joined: list[str] = []
    for word in words:
        follows_option = bool(joined) and re.fullmatch(r"--[a-z][a-z0-9-]*", joined[-1]) is not None
        if follows_option and re.match(r"-(\d|\.\d|inf)", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
