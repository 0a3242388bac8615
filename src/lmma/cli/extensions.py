"""Commands and file readers that other distributions add to ``lmma`` through entry points.

==================  ======================================================================================
entry-point group   object that an entry point names
==================  ======================================================================================
``lmma.commands``   :class:`Command`; the entry point's name is that of the command
``lmma.readers``    :class:`Reader`
==================  ======================================================================================

The object is a pair of strings or bytes, so that ``lmma --help`` imports none of the modules behind it.
"""

from __future__ import annotations

import sys
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound="Command | Reader")

# Commands of distributions that may not be installed; used to report which one to install
EXTERNAL_COMMANDS = dict.fromkeys(("compare", "bench", "reproduce", "attack"), "lmma-lab")


class Command(NamedTuple):
    """A command: its summary in the list of commands, and the module that implements it.

    The module defines ``add_arguments(parser)`` and ``run(args) -> exit status``; ``args.words`` holds the
    command-line arguments after ``lmma``.
    """

    summary: str
    module: str


class Reader(NamedTuple):
    """A file type that ``lmma show`` can describe: its first bytes, and the module that reads it.

    The module defines ``rows_of(path)``, which returns a list of (label, text) or raises UsageError.
    """

    magic: bytes
    module: str


def registered(group: str, kind: type[T]) -> dict[str, T]:
    """Return the objects of an entry-point group by name; report and skip those that cannot be loaded."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    found: dict[str, T] = {}
    for entry in entry_points(group=group):
        try:
            loaded = entry.load()
        except Exception as error:
            _report(f"{entry.value} ({group}) cannot be loaded: {type(error).__name__}: {error}")
            continue
        if isinstance(loaded, kind):
            found[entry.name] = loaded
        else:
            _report(f"{entry.value} ({group}) is not a {kind.__name__} of lmma.cli.extensions")
    return found


def _report(text: str) -> None:
    print(f"lmma: {text}", file=sys.stderr)
