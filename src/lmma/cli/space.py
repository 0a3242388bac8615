"""``--space FILE``: variables and options of a run from a TOML file, as if they had been typed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from lmma.cli.options import FLAGS
from lmma.cli.status import UsageError

# Options of the command that are no arguments of a run, and may stand in the file too
OF_THE_COMMAND = ("command", "cluster", "replicate", "json", "plot", "save-x", "quiet", "sigma0")
SWITCHES = ("--quiet", "--json", "--replicate", "--vectorized", "--polish")  # off unless they are there
NOT_WITH_A_SPACE = ("dim", "bounds", "integers", "integrality", "space")


def with_space_file(args: argparse.Namespace) -> argparse.Namespace:
    """Return arguments in which ``space`` is a space, with the file's options where none was typed."""
    from lmma.cli import Parser, minimize
    from lmma.space.toml_file import read_space

    for option, flag in (("bounds", "--bounds"), ("integrality", "--integers"), ("dim", "--dim")):
        if getattr(args, option, None) is not None:
            raise UsageError(
                f"{flag} and --space contradict one another: the file says what variables there are"
            )
    try:
        file = read_space(args.space)
    except ValueError as error:
        raise UsageError(f"--space: {error}") from None
    options = dict(file.run)
    objective, start = options.pop("objective", None), options.pop("x0", None)
    typed = args.words[args.words.index("minimize") + 1 :]
    words = as_words(options, args.space)
    parser = Parser(prog="lmma minimize", allow_abbrev=False, add_help=False)
    minimize.add_arguments(parser)
    try:
        merged = parser.parse_args([*words, *typed])
    except UsageError as error:
        raise UsageError(f"--space: {args.space}, [run]: {error}") from None
    if merged.target is None and args.command is None and objective is not None:
        if not isinstance(objective, str):
            raise UsageError(f"--space: {args.space}: objective must be a text, got {objective!r:.60}")
        merged.target, merged.command = objective, None
    elif args.target is not None:
        merged.command = None  # who types one objective does not mean the other
    if start is not None and not isinstance(start, Mapping):
        raise UsageError(f"--space: {args.space}: x0 must be a table of values by name, got {start!r:.60}")
    merged.space, merged.words, merged.start = file.space, args.words, start
    return merged


def as_words(options: Mapping[str, Any], place: str) -> list[str]:
    """Return options of a file as words of a command line, or say which is unknown."""
    flags = {flag.removeprefix("--"): flag for flag in FLAGS.values()} | FLAGS
    flags |= {name: f"--{name}" for name in OF_THE_COMMAND}
    flags = {name.replace("_", "-"): flag for name, flag in flags.items() if name not in NOT_WITH_A_SPACE}
    flags.pop("x0", None)
    words: list[str] = []
    for name, value in options.items():
        flag = flags.get(name.replace("_", "-"))
        if flag is None:
            from lmma.strategies.parts.checks import nearest

            hint = nearest(name, ["objective", "x0", *flags])
            raise UsageError(f"--space: {place}, [run]: unknown option {name!r}{hint}")
        words += _words(flag, value)
    return words


def _words(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag] if value else [] if flag in SWITCHES else [flag.replace("--", "--no-", 1)]
    if isinstance(value, Mapping):  # of constants
        return [f"{flag}={name}={entry}" for name, entry in value.items()]
    return [f"{flag}={value}"]
