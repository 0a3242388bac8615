"""The command ``lmma resume``: continue a saved run.

A checkpoint is untrusted input. The state of the search and its options are taken from it. Code to execute,
the folder, and files to write must be given on the command line or confirmed by the user.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmma.cli.status import UsageError

EPILOG = """\
The run continues as if it had not been interrupted, with its original options. Options of lmma minimize after
FILE replace the original ones, for example to raise the budget.

A run of a built-in problem continues immediately. If the file names code to import, a program to run,
processes to start, a cluster to connect to, files to write or a folder to work in, lmma lists them and asks
for confirmation; without a terminal, it stops with an error. To avoid the question, repeat them on the
command line (relative to the current folder), or use --trust (in the folder where the run was started).
Options that need much more memory than the file's state are rejected.

examples:
  lmma resume run.npz --max-evaluations 1e6
  lmma resume run.npz mymodule:loss --log run.jsonl
  lmma resume run.npz --command './simulate {file}'
  lmma resume run.npz --trust
"""

TRUST = "--trust"
# Actions that the user must request or confirm, by argument of minimize
ACTIONS = {
    "target": "imports and calls {}",
    "command": "runs the program {}",
    "method": "imports the method {}",
    "constraints": "imports the constraints {}",
    "cluster": "connects to the cluster {}",
    "workers": "starts {} worker processes (-1: one per core)",
    "space": "reads variables, options and the code they name from {}",
    "log": "writes {}",
    "archive": "writes {}",
    "save_x": "writes {}",
    "plot": "writes {}",
}
FILE_OPTIONS = ("x0", "sigma0", "bounds", "inject")  # options that may name a file to read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        TRUST, action="store_true", help="list the actions named in the file and perform them without asking"
    )
    parser.add_argument("file", metavar="FILE", help="checkpoint")
    further = parser.add_argument(
        "further", metavar="OPTION ...", nargs=argparse.REMAINDER,
        help=f"options of lmma minimize, or {TRUST}",
    )  # fmt: skip
    further.required = False  # some versions of argparse would list it as missing


def run(args: argparse.Namespace) -> int:
    """Continue a saved run and return its exit status."""
    from lmma.cli import minimize

    file = Path(args.file).absolute()
    further = [word for word in args.further if word != TRUST]
    saved = _read_command(file)
    merged = saved.merge(further)
    actions = saved.actions(merged)
    if actions:
        trusted = args.trust or len(further) < len(args.further)
        _confirm(args.file, saved, merged, actions, further, trusted)
        _change_directory(saved, args.file, merged, further)
    saved.check_sizes(args.file, merged)
    merged.checkpoint = str(file)
    return minimize.run(merged)


@dataclass(frozen=True)
class SavedCommand:
    """The command line stored in a checkpoint: untrusted input."""

    words: list[str]  # without "minimize"
    directory: str
    parser: argparse.ArgumentParser
    method: str  # of the saved search
    n: int  # its number of variables
    stored: int  # bytes of its state

    def merge(self, further: list[str]) -> argparse.Namespace:
        """Return the stored arguments, overridden by the user's; ``given`` names the user's."""
        typed = _parse(self.parser, further)
        defaults = vars(_parse(self.parser, []))
        given = {
            name for name, value in vars(typed).items() if name not in defaults or value != defaults[name]
        }
        words = self.words
        if given & {"target", "command"}:  # the user's objective replaces the stored one of either kind
            words = _remove(self.parser, _remove(self.parser, words, "target"), "command")
        merged = _parse(self.parser, [*words, *further])
        merged.words = ["minimize", *words, *further]
        merged.given = given
        merged.stored = vars(_parse(self.parser, words))
        return merged

    def actions(self, merged: argparse.Namespace) -> list[tuple[str, str]]:
        """Return the actions that the user did not request, as (argument, description)."""
        found = []
        for name, template in ACTIONS.items():
            value = getattr(merged, name, None)
            if value is None or name in merged.given:
                continue
            if name in ("target", "method") and ":" not in value:
                continue  # built-in
            if name == "workers" and value == 1:
                continue  # this process
            found.append((name, template.format(_shown(value))))
        if not _is_current(self.directory):
            for name in FILE_OPTIONS:
                value = getattr(merged, name, None)
                if name not in merged.given and isinstance(value, str) and _names_a_relative_file(value):
                    found.append((name, f"reads {_shown(value)}"))
        return found

    def check_sizes(self, file: str, merged: argparse.Namespace) -> None:
        """Raise UsageError if options of the file, not of the user, need implausibly much memory."""
        from lmma.methods.memory_check import check_saved_options
        from lmma.methods.registry import methods, strategy_class
        from lmma.numerics.recombination import default_popsize

        stored = {name: value for name, value in merged.stored.items() if name not in merged.given}
        if stored.get("dim") not in (None, self.n):
            raise UsageError(f"cannot use checkpoint {file}: it has {self.n} variables, not {stored['dim']}")
        method = next((m for m in (getattr(merged, "method", ""), self.method) if m in methods()), None)
        if method is None:
            return  # imported: the user has confirmed it
        size = stored.get("popsize") or default_popsize(self.n)
        used = dict(getattr(merged, "constants", ()))  # the last of those with the same name
        constants = {k: v for k, v in merged.stored.get("constants", ()) if used[k] is v or used[k] == v}
        try:
            check_saved_options(strategy_class(method), self.n, size, 8, constants, self.stored)
        except ValueError as error:
            raise UsageError(
                f"cannot use checkpoint {file}: {error}; if you trust it, repeat its --popsize and --set"
            ) from None


def _read_command(file: Path) -> SavedCommand:
    """Return the lmma minimize command line stored in a checkpoint, or raise UsageError."""
    from lmma.cli import Parser, minimize
    from lmma.run.checkpoint import CheckpointError, read

    try:
        header, arrays = read(file)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    extra = header.get("extra")
    if not isinstance(extra, dict) or not extra.get("words"):
        raise UsageError(f"{file} was saved by a Python program: run the program again to continue")
    words, directory = extra["words"], extra.get("directory", ".")
    parser = Parser(prog="lmma minimize", allow_abbrev=False, add_help=False)
    minimize.add_arguments(parser)
    if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise UsageError(f"cannot use checkpoint {file}: its command line is not a list of strings")
    if words[0] == "train":
        command = " ".join(map(_shown, ["lmma", *words]))
        raise UsageError(f"{file} was saved by lmma train: to continue, repeat the command {command}")
    if words[0] != "minimize" or not isinstance(directory, str) or "\0" in directory:
        raise UsageError(f"cannot use checkpoint {file}: it was not saved by lmma minimize")
    try:
        _parse(parser, words[1:])
    except UsageError as error:
        raise UsageError(f"cannot use checkpoint {file}: invalid command line: {error}") from None
    identity, best = header.get("identity"), arrays.get("strategy.record.best_x")
    if not isinstance(identity, dict) or best is None or best.ndim != 1 or not len(best):
        raise UsageError(f"cannot use checkpoint {file}: it contains no search")
    stored = sum(array.nbytes for array in arrays.values())
    return SavedCommand(words[1:], directory, parser, str(identity.get("method")), len(best), stored)


def _confirm(
    name: str,
    saved: SavedCommand,
    merged: argparse.Namespace,
    actions: list[tuple[str, str]],
    further: list[str],
    trusted: bool,
) -> None:
    """List the actions that the file requests and ask for confirmation; raise UsageError without it."""
    listed = "; ".join(description for _, description in actions)
    place = f" in the folder {_shown(saved.directory)}"
    if trusted:
        print(f"lmma: according to {name}, the run {listed}{place}", file=sys.stderr)
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        question = f"lmma: according to {name}, the run {listed}{place}. Continue? [y/N] "
        print(question, end="", file=sys.stderr)
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise UsageError("not confirmed; the run was not resumed")
    typed = f"lmma resume {_shown(name)} {' '.join(map(_shown, further))}".rstrip()
    explicit = _explicit_command(name, merged, actions, further)
    raise UsageError(
        f"{name} requests actions that need confirmation: the run {listed}{place}. If you trust it, use "
        f"{typed} {TRUST}; to run in the current folder instead, use {explicit}"
    )


def _change_directory(saved: SavedCommand, name: str, merged: argparse.Namespace, further: list[str]) -> None:
    """Change to the folder of the saved run; on failure, raise UsageError with a command to use instead."""
    if _is_current(saved.directory):
        return
    try:
        os.chdir(saved.directory)
    except OSError as error:
        actions = saved.actions(merged)
        raise UsageError(
            f"cannot enter the folder in which the run was started, {_shown(saved.directory)} "
            f"({error.strerror}): change to the folder that now contains its files and run "
            f"{_explicit_command(str(Path(name).absolute()), merged, actions, further)}"
        ) from None


def _explicit_command(
    name: str, merged: argparse.Namespace, actions: list[tuple[str, str]], further: list[str]
) -> str:
    """Return an lmma resume command that requests all ``actions`` explicitly."""
    words = []
    for argument, _ in actions:
        value = getattr(merged, argument)
        flag = "--" + argument.replace("_", "-")
        words += [_shown(value)] if argument == "target" else [flag, _shown(value)]
    return " ".join(["lmma resume", _shown(name), *words, *map(_shown, further)])


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(words)
    except (RecursionError, MemoryError):
        raise UsageError("an option is nested too deeply") from None


def _remove(parser: argparse.ArgumentParser, words: list[str], name: str) -> list[str]:
    """Return ``words`` without any occurrence of the argument ``name``."""
    parsed = vars(_parse(parser, words))
    while parsed[name] is not None:
        words = _remove_once(parser, words, name)
        parsed = vars(_parse(parser, words))
    return words


def _remove_once(parser: argparse.ArgumentParser, words: list[str], name: str) -> list[str]:
    parsed = vars(_parse(parser, words))
    for length in (1, 2):  # TARGET or --command=PROGRAM, --command PROGRAM
        for at in range(len(words) + 1 - length):
            rest = words[:at] + words[at + length :]
            try:
                left = vars(_parse(parser, rest))
            except UsageError:
                continue
            if left | {name: None} == parsed | {name: None}:
                return rest
    raise UsageError(f"--{name} cannot be removed from {_shown(shlex.join(words))}")


def _is_current(directory: str) -> bool:
    try:
        return os.path.samefile(directory, ".")
    except OSError:
        return False


def _names_a_relative_file(value: str) -> bool:
    from lmma.cli.arguments import VECTOR_FILES
    from lmma.cli.options import ARCHIVES

    return Path(value).suffix.lower() in (*VECTOR_FILES, *ARCHIVES, ".json", ".toml") and not os.path.isabs(
        value
    )


def _shown(value: Any) -> str:
    """Quote a value for the shell; escape control characters, which a terminal would interpret."""
    text = str(value)
    return shlex.quote(text) if text.isprintable() else ascii(text)
