"""Write docs/options.md: every run option, in Python and on the command line.

python docs/tools/options.py [--check]
"""

import sys
from pathlib import Path
from typing import Any

from lmma._text import in_python
from lmma.run.options import RunOptions, spellings
from lmma.run.stopping import ENDINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "options.md"

HEAD = """\
# Arguments of a run

Every argument is declared once, in [run/options.py](../src/lmma/run/options.py); this page is made from
there. `lmma.minimize(fun, x0, sigma0, ...)` takes them by name, `lmma minimize TARGET` as options.
`rng` may also be written `seed`, and constants of a method are given by their own names:
`lmma.minimize(..., m=20)`.

| in Python | on the command line | default | meaning |
|---|---|---|---|
"""

REASONS = """
## Why a run ends

`result.reason` is the first word below, `result.status` the number, `result.success` whether the run did
what it was asked to do; with `ftarget` set, only reaching it is a success. After those marked so, `restarts=`
starts again.

| reason | status | success | restarts | message |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    rows = [_row(name, spelling, default) for name, spelling, default in spellings()]
    reasons = sorted(ENDINGS.values(), key=lambda ending: ending.status)
    return HEAD + "".join(rows) + REASONS + "".join(map(_reason, reasons))


def _row(name: str, spelling: Any, default: Any) -> str:
    flag = f"`{spelling.flag}`" if spelling.flag else f"none: {spelling.library_only}"
    if spelling.kind == "switch" and default is True:
        flag += f", `{spelling.flag.replace('--', '--no-', 1)}`"
    meaning = spelling.help
    if not all(choice in meaning for choice in spelling.choices):
        meaning += f": {', '.join(spelling.choices)}"
    named = "`**options`" if name == "constants" else f"`{name}`"
    shown = "" if name == "constants" else f"`{default!r}`"
    return f"| {named} | {flag} | {shown} | {meaning} |\n"


class _Any:
    """Stands for a number in the words of an ending."""

    def __format__(self, spec: str) -> str:
        return "..."


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return _Spelled(name)


class _Spelled(str):
    __slots__ = ()

    def __getitem__(self, value: Any) -> str:
        return in_python(str(self), value)


def _reason(ending: Any) -> str:
    words = ending.template.format_map(_Names(value=_Any(), limit=_Any(), error=_Any()))
    words = words.replace("....", "...")
    marks = " | ".join("yes" if mark else "" for mark in (ending.success, ending.restarts))
    return f"| `{ending.reason}` | {ending.status} | {marks} | {words} |\n"


if __name__ == "__main__":
    assert RunOptions()  # the fields must be valid defaults
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/options.md is out of date")
    PAGE.write_text(page())
