"""The options of a run on the command line, made from the fields of ``RunOptions``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Container
from typing import Any

from lmma.cli import arguments
from lmma.cli.completion import method_names, offer
from lmma.cli.target import named_object
from lmma.run.options import Kind, RunOptions, Spelling, spellings

GROUPS = ("how to search", "how to evaluate", "when to stop")
READERS: dict[Kind, Callable[[str], Any]] = {
    "number": arguments.number_or_none,
    "positive": arguments.positive,
    "not negative": arguments.not_negative,
    "count": arguments.count,
    "seed": arguments.whole,
    "workers": int,
    "restarts": lambda text: int(text) if text.isdigit() else text,
    "constant": arguments.constant,
}
WITH_A_START = {"x0": "--x0", "sigma0": "--sigma0", "seed": "--seed"}  # arguments that are no field


def add_run_options(
    parser: argparse.ArgumentParser,
    notes: dict[str, str],
    only: Collection[str] | None = None,
    without: Container[str] = (),
) -> None:
    """Add an option for each field of RunOptions that has one, or for ``only`` some, never ``without``.

    ``notes`` replace defaults told by name.
    """
    groups = {title: parser.add_argument_group(title) for title in GROUPS}
    for name, spelling, default in spellings():
        if spelling.flag and (only is None or name in only) and name not in without:
            _add(groups[spelling.group], name, spelling, default, notes.get(name, _told(default)))


def _add(group: argparse._ArgumentGroup, name: str, spelling: Spelling, default: Any, told: str) -> None:
    # What is not given is not there: defaults stand in RunOptions alone
    text = spelling.help + (f" (default: {told})" if told else "")
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
            offer(added, method_names)


def _told(default: Any) -> str:
    return "yes" if default is True else "" if default in (None, {}) or default is False else str(default)


def given_options(args: argparse.Namespace, n: int) -> dict[str, Any]:
    """Return the fields of RunOptions that the command line sets, for ``n`` variables."""
    given = {name: getattr(args, name) for name, _, _ in spellings() if hasattr(args, name)}
    if "bounds" in given:
        given["bounds"] = arguments.bounds(given["bounds"], n)
    if "integrality" in given:
        given["integrality"] = arguments.integers(given["integrality"], n)
    if "inject" in given:
        given["inject"] = arguments.rows(given["inject"], n, "--inject")
    if "constraints" in given:
        given["constraints"] = named_object(given["constraints"], "--constraints")
    if given.get("noise") == "none":
        given["noise"] = None
    if "constants" in given:
        given["constants"] = dict(given["constants"])
    return given


def in_shell(name: str, value: str = "") -> str:
    """Spell an argument of a run as the command line has it."""
    flag = FLAGS.get(name, name)
    if value.startswith("'"):
        return f"{flag} {value[1:-1]}"
    return flag.replace("--", "--no-", 1) if value == "False" else flag


def respelled(error: BaseException) -> str:
    """Return the words of an error of the library with its arguments' names as the command line has them."""
    text = str(error).replace("vectorized=True", "--vectorized").replace("polish=True", "--polish")
    text = re.sub(r"\b(method|dtype)='([\w-]+)'", r"--\1 \2", text)
    ordinary = ("method", "dtype", "vectorized", "constants", "constraints")  # words of any sentence
    names = "|".join(name for name in FLAGS if name not in ordinary)
    return re.sub(rf"(?<![-\w.])({names})\b", lambda match: FLAGS[match[1]], text)


FLAGS = {name: spelling.flag for name, spelling, _ in spellings() if spelling.flag} | WITH_A_START

__all__ = ["RunOptions", "add_run_options", "given_options", "in_shell", "respelled"]
