"""The command ``lmma``, one file per subcommand.

A subcommand's module defines ``add_arguments(parser)`` and ``run(args) -> exit status``; it is imported only
when the subcommand is called. Other distributions add subcommands through :mod:`lmma.cli.extensions`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, TypeVar

from lmma.cli.completion import complete_and_exit
from lmma.cli.extensions import EXTERNAL_COMMANDS, Command, registered
from lmma.cli.status import INTERRUPTED, OK, UNWRITTEN, UsageError
from lmma.cli.streams import tolerant_streams

COMMANDS = {
    name: Command(summary, f"lmma.cli.{name}")
    for name, summary in {
        "init": "write a starter model.py and space.toml",
        "minimize": "minimise a built-in problem, a Python function or an external program",
        "check": "examine an objective and recommend how to minimise it, with lmma or with SciPy",
        "resume": "continue a run saved by minimize --checkpoint",
        "show": "describe a checkpoint, log, archive, store or result without running anything",
        "export": "write the evaluations of a minimize --archive file as a table",
        "plot": "plot a run, finished or in progress, from its minimize --log or --archive file",
        "watch": "show runs on a live page in the browser, from their logs or archives",
        "methods": "list the methods with their cost per sample and memory use",
        "problems": "list the built-in problems",
        "train": "train a policy for a Gymnasium environment, or evaluate a saved policy",
    }.items()
}

SPELLINGS = {"minimise": "minimize"}

DESCRIPTION = "Large-scale black-box optimisation by limited-memory matrix adaptation."
EXAMPLES = """\
examples:
  lmma minimize rotated-cigar --dim 100 --seed 1 --plot cigar.png
  lmma minimize mymodule:loss --x0 start.npy --sigma0 0.5 --max-evaluations 100000
  lmma minimize --command './simulate {file}' --x0 1,2,3 --sigma0 0.1 --json
  lmma minimize --help
"""


P = TypeVar("P", bound=argparse.ArgumentParser)


class Parser(argparse.ArgumentParser):
    """Argument parser that raises UsageError instead of printing its usage and exiting."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; raise UsageError for unknown ones, with a suggestion."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from lmma._text import nearest

            option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
            hint = nearest(option, self._option_string_actions) if option else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, which `main` prints on one line."""
        raise UsageError(f"{_with_advice(message)} (see {self.prog} --help)")


def _with_advice(message: str) -> str:
    """Return argparse's message; for an option of another package, what to use instead."""
    unknown = re.match(r"unrecognized arguments: .*?--([a-z][\w-]*)", message)
    if unknown is None:
        return message
    from lmma._text import used_elsewhere
    from lmma.cli.options import as_flag

    def spell(name: str, value: str = "") -> str:
        return "omitting --quiet" if name == "progress" else as_flag(name, value)

    advice = used_elsewhere(unknown[1].replace("-", "_"), spell)
    return f"unrecognized argument --{unknown[1]}: {advice}" if advice else message


def all_commands() -> dict[str, Command]:
    """Return the built-in commands and those of other distributions; built-in names take precedence."""
    return COMMANDS | registered("lmma.commands", Command) | COMMANDS


def add_command(commands: argparse._SubParsersAction[P], name: str, summary: str) -> P:
    """Add a subcommand and return its parser; ``summary`` is a phrase in lower case without a full stop."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def build_parser(command: str | None, commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """Return the parser of ``commands``; only ``command`` gets its arguments."""
    parser = Parser(
        prog="lmma",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="store_true",
        dest="show_version",
        help="show the version and the kernels in use, and exit",
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (summary, module) in commands.items():
        sub = add_command(subparsers, name, summary)
        if name == command:
            import_module(module).add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; print a usage error as one line on standard error."""
    if "_ARGCOMPLETE" in os.environ:  # set by a shell that requests completions
        commands = all_commands()
        tokens = os.environ.get("COMP_LINE", "").split()
        complete_and_exit(
            build_parser(next((token for token in tokens if token in commands), None), commands)
        )
    tokens = _with_negative_numbers(list(sys.argv[1:] if argv is None else argv))
    with tolerant_streams() as (out, _):
        try:
            status = _main(tokens)
            out.flush()
        except UsageError as error:
            _print_error(str(error))
            return error.status
        except KeyboardInterrupt:
            print("\nlmma: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:  # the reader closed the pipe, as in `lmma methods | head -1`
            out.discard_output()
            return OK
        if out.error is None:
            return status
        _print_error(f"cannot write to standard output: {out.error}")
        return UNWRITTEN


def _main(tokens: list[str]) -> int:
    command = next((token for token in tokens if not token.startswith("-")), None)
    if command in SPELLINGS:
        tokens[tokens.index(command)] = command = SPELLINGS[command]
    commands = COMMANDS if command in COMMANDS else all_commands()
    if command in EXTERNAL_COMMANDS and command not in commands:
        from lmma._text import how_to_install

        package = EXTERNAL_COMMANDS[command]
        raise UsageError(f"{command} requires {package}, which is not installed: {how_to_install(package)}")
    if command is not None and command not in commands:
        from lmma._text import nearest

        raise UsageError(
            f"unknown command {command!r}{nearest(command, commands)}; commands: {', '.join(commands)}"
            " (see lmma --help)"
        )
    parser = build_parser(command, commands)
    try:
        args = parser.parse_args(tokens)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    if args.show_version:
        from lmma import __version__, kernels

        print(f"lmma {__version__} (kernels: {kernels.in_use()})")
        return OK
    if command is None:
        parser.print_help()
        return OK
    args.words = tokens
    from lmma.kernels import availability

    availability.emit = _print_error
    try:
        status = import_module(commands[command].module).run(args)
    finally:
        availability.emit = availability.warn
    return int(status)


def _print_error(text: str) -> None:
    print(f"lmma: {text}", file=sys.stderr)


def _with_negative_numbers(tokens: list[str]) -> list[str]:
    """Rewrite ``--x0 -1,2`` as ``--x0=-1,2``: argparse would parse ``-1,2`` as an option."""
    joined: list[str] = []
    for token in tokens:
        follows_option = bool(joined) and re.fullmatch(r"--[a-z][a-z0-9-]*", joined[-1]) is not None
        if follows_option and re.match(r"-(\d|\.\d|inf)", token):
            joined[-1] += f"={token}"
        else:
            joined.append(token)
    return joined
