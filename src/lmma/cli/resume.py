"""``lmma resume``.

A checkpoint can come from anyone. From it come the state of the search and its options; what is executed, in
which folder, and what is written besides comes from the command line, or is shown and agreed to.
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
The run goes on as if it had never been interrupted, with the options it was started with. Further options of
lmma minimize replace earlier ones: a larger budget, for instance.

A file can come from anyone. A run of a built-in problem goes on at once. Where the file names code to import,
a program to run, a cluster to connect to, files to write, or a folder to do so in, lmma shows them and asks;
where nobody can be asked it refuses. Name them again, or say --trust, which also goes to the folder the run
was started in. What you name yourself is taken from the folder you are in.

examples:
  lmma resume run.npz --max-evaluations 1e6
  lmma resume run.npz mymodule:loss --log run.jsonl
  lmma resume run.npz --command './simulate {file}'
  lmma resume run.npz --trust
"""

TRUST = "--trust"
# what only a user may ask for, by where the arguments of minimize keep it
ACTS = {
    "target": "imports and calls {}",
    "command": "runs the program {}",
    "method": "imports the method {}",
    "constraints": "imports the constraints {}",
    "cluster": "connects to the cluster {}",
    "space": "takes variables, options and what they name from {}",
    "log": "writes {}",
    "save_x": "writes {}",
    "plot": "writes {}",
}
READ = ("x0", "sigma0", "bounds", "inject")  # options that may name a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        TRUST, action="store_true", help="do what the file names, in the folder it names; shown before"
    )
    parser.add_argument("file", metavar="FILE", help="a checkpoint")
    parser.add_argument(
        "further", metavar="OPTION ...", nargs=argparse.REMAINDER, help=f"of lmma minimize, or {TRUST}"
    )


def run(args: argparse.Namespace) -> int:
    """Go on with a saved run and return its exit status."""
    from lmma.cli import minimize

    file = Path(args.file).absolute()
    further = [word for word in args.further if word != TRUST]
    saved = _saved(file)
    merged = saved.with_further(further)
    acts = saved.acts(merged)
    if acts:
        trusted = args.trust or len(further) < len(args.further)
        _agreed(args.file, saved, merged, acts, further, trusted)
        _go_to(saved, args.file, merged, further)
    merged.checkpoint = str(file)
    return minimize.run(merged)


@dataclass(frozen=True)
class SavedCommand:
    """The command line that a checkpoint remembers, not to be trusted."""

    words: list[str]  # without the word minimize
    directory: str
    parser: argparse.ArgumentParser

    def with_further(self, further: list[str]) -> argparse.Namespace:
        """Return the arguments, the user's in place of the file's; ``given`` names the user's."""
        mine = _parsed(self.parser, further)
        nothing = vars(_parsed(self.parser, []))
        given = {name for name, value in vars(mine).items() if name not in nothing or value != nothing[name]}
        words = self.words
        if given & {"target", "command"}:  # either is the objective: the user's stands alone
            words = _without(self.parser, _without(self.parser, words, "target"), "command")
        merged = _parsed(self.parser, [*words, *further])
        merged.words = ["minimize", *words, *further]
        merged.given = given
        return merged

    def acts(self, merged: argparse.Namespace) -> list[tuple[str, str]]:
        """Return what the run would do that the user did not ask for: (argument, in words)."""
        found = []
        for name, words in ACTS.items():
            value = getattr(merged, name, None)
            if value is None or name in merged.given:
                continue
            if name in ("target", "method") and ":" not in value:
                continue  # a built-in one
            found.append((name, words.format(_shown(value))))
        if not _is_here(self.directory):
            for name in READ:
                value = getattr(merged, name, None)
                if name not in merged.given and isinstance(value, str) and _names_a_relative_file(value):
                    found.append((name, f"reads {_shown(value)}"))
        return found


def _saved(file: Path) -> SavedCommand:
    """Return the command line in a checkpoint, which is of lmma minimize or refused."""
    from lmma.cli import Parser, minimize
    from lmma.run.checkpoint import CheckpointError, read

    try:
        header, _ = read(file)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    extra = header.get("extra")
    if not isinstance(extra, dict) or not extra.get("words"):
        raise UsageError(f"{file} was saved by a Python program: call it again to go on")
    words, directory = extra["words"], extra.get("directory", ".")
    parser = Parser(prog="lmma minimize", allow_abbrev=False, add_help=False)
    minimize.add_arguments(parser)
    if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise UsageError(f"{file} is refused: what it says of its command line is no list of words")
    if words[0] == "train":
        command = " ".join(map(_shown, ["lmma", *words]))
        raise UsageError(f"{file} was saved by lmma train: the same command goes on with it, {command}")
    if words[0] != "minimize" or not isinstance(directory, str) or "\0" in directory:
        raise UsageError(f"{file} is refused: it was not saved by lmma minimize")
    try:
        _parsed(parser, words[1:])
    except UsageError as error:
        raise UsageError(f"{file} is refused: its command line is none of lmma minimize: {error}") from None
    return SavedCommand(words[1:], directory, parser)


def _agreed(
    name: str,
    saved: SavedCommand,
    merged: argparse.Namespace,
    acts: list[tuple[str, str]],
    further: list[str],
    trusted: bool,
) -> None:
    """Return if the user agrees to what the file names; else raise."""
    story = "; ".join(words for _, words in acts)
    place = f" in the folder {_shown(saved.directory)}"
    if trusted:
        print(f"lmma: as {name} says, the run {story}{place}", file=sys.stderr)
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"lmma: as {name} says, the run {story}{place}. Go on? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise UsageError("nothing was done")
    typed = f"lmma resume {_shown(name)} {' '.join(map(_shown, further))}".rstrip()
    explicit = _explicit(name, merged, acts, further)
    raise UsageError(
        f"{name} comes with more than a search: the run {story}{place}. If you trust it, say so: "
        f"{typed} {TRUST}; or name it yourself, in the folder you are in: {explicit}"
    )


def _go_to(saved: SavedCommand, name: str, merged: argparse.Namespace, further: list[str]) -> None:
    """Go to the folder that the user has agreed to, or say what to type where it has moved."""
    if _is_here(saved.directory):
        return
    try:
        os.chdir(saved.directory)
    except OSError as error:
        acts = saved.acts(merged)
        raise UsageError(
            f"the folder the run was started in, {_shown(saved.directory)}, cannot be entered "
            f"({error.strerror}): go to where its files are now, and type "
            f"{_explicit(str(Path(name).absolute()), merged, acts, further)}"
        ) from None


def _explicit(name: str, merged: argparse.Namespace, acts: list[tuple[str, str]], further: list[str]) -> str:
    """Return the command that names all of ``acts`` itself."""
    words = []
    for act, _ in acts:
        value = getattr(merged, act)
        flag = "--" + act.replace("_", "-")
        words += [_shown(value)] if act == "target" else [flag, _shown(value)]
    return " ".join(["lmma resume", _shown(name), *words, *map(_shown, further)])


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(words)
    except (RecursionError, MemoryError):
        raise UsageError("an option is nested too deeply") from None


def _without(parser: argparse.ArgumentParser, words: list[str], name: str) -> list[str]:
    """Return ``words`` with the argument ``name`` taken out, however often it is there, and nothing else."""
    there = vars(_parsed(parser, words))
    while there[name] is not None:
        words = _with_one_less(parser, words, name)
        there = vars(_parsed(parser, words))
    return words


def _with_one_less(parser: argparse.ArgumentParser, words: list[str], name: str) -> list[str]:
    there = vars(_parsed(parser, words))
    for length in (1, 2):  # TARGET or --command=PROGRAM, --command PROGRAM
        for at in range(len(words) + 1 - length):
            rest = words[:at] + words[at + length :]
            try:
                left = vars(_parsed(parser, rest))
            except UsageError:
                continue
            if left | {name: None} == there | {name: None}:
                return rest
    raise UsageError(f"--{name} cannot be taken out of {_shown(shlex.join(words))}")


def _is_here(directory: str) -> bool:
    try:
        return os.path.samefile(directory, ".")
    except OSError:
        return False


def _names_a_relative_file(value: str) -> bool:
    from lmma.cli.arguments import VECTOR_FILES

    return Path(value).suffix.lower() in VECTOR_FILES and not os.path.isabs(value)


def _shown(value: Any) -> str:
    """Return a word as a shell takes it; control characters, which a terminal would obey, are spelled out."""
    text = str(value)
    return shlex.quote(text) if text.isprintable() else ascii(text)
