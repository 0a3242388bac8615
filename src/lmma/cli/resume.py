"""``lmma resume``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lmma.cli.status import UsageError

EPILOG = """\
The run goes on as if it had never been interrupted, with the arguments it was started with and in the folder
it was started in. Further options of lmma minimize replace earlier ones: a larger budget, for instance.

A file can come from anyone, so a program it names is not run unless you name it too, with --command.

examples:
  lmma resume run.npz
  lmma resume run.npz --max-evaluations 1e6
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help="a checkpoint")
    parser.add_argument("further", metavar="OPTION ...", nargs=argparse.REMAINDER, help="of lmma minimize")


def run(args: argparse.Namespace) -> int:
    """Go on with a saved run and return its exit status."""
    from lmma.cli import _main
    from lmma.run.checkpoint import CheckpointError, read

    file = Path(args.file).absolute()
    try:
        header, _ = read(file)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    extra = header.get("extra") or {}
    words = extra.get("words")
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        raise UsageError(f"{file} was saved by a Python program: call it again to go on")
    programs = [word for word in words if word.startswith("--command")]
    if programs and not any(word.startswith("--command") for word in args.further):
        at = words.index(programs[0])
        command = programs[0].partition("=")[2] or (words[at + 1] if at + 1 < len(words) else "")
        raise UsageError(
            f"{file} wants to run a program. If you trust it, say so: "
            f"lmma resume {args.file} --command {command!r}"
        )
    directory = str(extra.get("directory", "."))
    if not os.path.isdir(directory):
        raise UsageError(f"{file}: the folder it was started in, {directory}, is not there any more")
    os.chdir(directory)
    return _main([*words, *args.further, "--checkpoint", str(file)])
