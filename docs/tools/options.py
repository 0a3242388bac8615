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

This page is generated from [run/options.py](../src/lmma/run/options.py), which declares every argument.
`lmma.minimize(fun, x0, sigma0, ...)` takes them by name, `lmma minimize TARGET` as options.
`seed` is a synonym of `rng`. Constants of a method are passed by name:
`lmma.minimize(..., m=20)`.

| in Python | on the command line | default | meaning |
|---|---|---|---|
"""

REASONS = """
## Why a run ends

The columns are `result.reason`, `result.status` and `result.success`. With `ftarget` set, only reaching the
target is a success. After a reason marked under *restarts*, `restarts=` starts a new search.
[Why did it stop?](start/stop.md) has advice for each reason.

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
