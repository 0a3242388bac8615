"""Command-line run options, generated from the fields of ``RunOptions``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmma.cli import arguments
from lmma.cli.completion import method_names, set_completer
from lmma.cli.target import import_object
from lmma.run.options import Kind, RunOptions, Spelling, spellings

GROUPS = ("search options", "evaluation options", "stopping options")
READERS: dict[Kind, Callable[[str], Any]] = {
    "number": arguments.number_or_none,
    "positive": arguments.positive,
    "not negative": arguments.not_negative,
    "count": arguments.count,
    "seed": arguments.whole_number,
    "workers": lambda text: arguments.whole_number(text, -1),
    "restarts": lambda text: int(text) if text.isdigit() else text,
    "constant": arguments.constant,
}
ARCHIVES = (".db", ".sqlite", ".sqlite3")
# Arguments that are not fields of RunOptions
START_FLAGS = {"x0": "--x0", "sigma0": "--sigma0", "seed": "--seed"}


def add_run_options(
    parser: argparse.ArgumentParser,
    notes: dict[str, str],
    only: Collection[str] | None = None,
    without: Container[str] = (),
    helps: Mapping[str, str] | None = None,
) -> None:
    """Add the command-line options of RunOptions: those in ``only`` (all if None), except ``without``.

    ``notes`` maps the name of an option to the default shown in its help, ``helps`` to another help text.
    """
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    for name, spelling, default in spellings():
        if spelling.flag and (only is None or name in only) and name not in without:
            if helps is not None and name in helps:
                spelling = replace(spelling, help=helps[name])
            if name in notes:
                spelling = replace(spelling, help=re.sub(r" \(default: [^()]*\)$", "", spelling.help))
            _add(groups[spelling.group], name, spelling, default, notes.get(name, _default_text(default)))


def _add(
    group: argparse._ArgumentGroup, name: str, spelling: Spelling, default: Any, default_text: str
) -> None:
    # Options that are not given are absent from the namespace: defaults are defined in RunOptions only
    text = spelling.help + (f" (default: {default_text})" if default_text else "")
    flags = dict.fromkeys((spelling.flag, spelling.in_python(name)))
    shared: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
    if spelling.kind == "switch" and default is True:
        group.add_argument(*flags, action=argparse.BooleanOptionalAction, **shared)
    elif spelling.kind == "switch":
        group.add_argument(*flags, action="store_true", **shared)
    elif spelling.choices:
        group.add_argument(*flags, choices=spelling.choices, **shared)
    else:
        action = "append" if spelling.kind == "constant" else "store"
        reader = READERS.get(spelling.kind, str)
        added = group.add_argument(*flags, action=action, type=reader, metavar=spelling.metavar, **shared)
        if name == "method":
            set_completer(added, method_names)


def _default_text(default: Any) -> str:
    return "yes" if default is True else "" if default in (None, {}) or default is False else str(default)


def given_options(args: argparse.Namespace, n: int) -> dict[str, Any]:
    """Return the fields of RunOptions that the command line sets, for ``n`` variables."""
    given = {name: getattr(args, name) for name, _, _ in spellings() if hasattr(args, name)}
    if "bounds" in given:
        given["bounds"] = arguments.bounds(given["bounds"], n)
    if "integrality" in given:
        given["integrality"] = arguments.integers(given["integrality"], n)
    if "inject" in given and not is_archive_name(given["inject"]):
        given["inject"] = arguments.rows(given["inject"], n, "--inject")
    if "constraints" in given:
        given["constraints"] = import_object(given["constraints"], "--constraints")
    if given.get("noise") == "none":
        given["noise"] = None
    if "constants" in given:
        given["constants"] = dict(given["constants"])
    return given


def is_archive_name(text: str) -> bool:
    """Return whether a file to inject is an archive, by its suffix."""
    return Path(text).suffix.lower() in ARCHIVES


def as_flag(name: str, value: str = "") -> str:
    """Return the command-line option of the run argument ``name``."""
    flag = FLAGS.get(name, name)
    if value.startswith("'"):
        return f"{flag} {value[1:-1]}"
    return flag.replace("--", "--no-", 1) if value == "False" else flag


def with_flags(error: BaseException | str) -> str:
    """Return the message of a library error with argument names replaced by command-line options."""
    text = str(error).replace("vectorized=True", "--vectorized").replace("polish=True", "--polish")
    text = text.replace("archive_new=True", "--archive-new")
    text = re.sub(r"\b(method|dtype)='([\w-]+)'", r"--\1 \2", text)
    text = re.sub(r"\bworkers='([^']*)'", r"--cluster \1", text)
    text = re.sub(r"^constraints(?= must be)", "--constraints", text)
    names = "|".join(name for name in FLAGS if name not in ORDINARY)
    noun = "".join(f"(?<!{word} )" for word in ("number of", "more", "the", "a", "an"))
    pattern = rf"(?<![-\w.]){noun}({names})\b"
    return re.sub(pattern, lambda match: FLAGS[match[1]], text)


# mostly plain words in messages
ORDINARY = ("archive", "method", "dtype", "vectorized", "constants", "constraints")
FLAGS = {name: spelling.flag for name, spelling, _ in spellings() if spelling.flag} | START_FLAGS

__all__ = ["RunOptions", "add_run_options", "as_flag", "given_options", "with_flags"]
