"""The listings of the documentation, and how to run them.

The listings of a page are run in order in one empty folder, so that later ones can use files of earlier ones:

- a Python listing as a program of its own; one that begins with ``# name.py`` is written to that file,
- a shell listing line by line (``\\`` goes on with a line); what installs, or needs a cluster, is not run.

A comment above a listing says what it needs: ``<!-- slow -->`` minutes, ``<!-- needs cma -->`` that module,
``<!-- not run: why -->`` what no test machine has.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from repository import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "lab" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LISTING = re.compile(
    r"^(?:<!-- (?P<note>[^>]*) -->\n)?```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
LMMA = shlex.join([sys.executable, "-m", "lmma"])
# Words that a line of a shell listing may begin with without being run: they install, or need many machines.
NOT_RUN = ("pip", "make", ".venv/bin/pip", "git")


@dataclass(frozen=True)
class Listing:
    """A listing and what stands above it."""

    kind: str
    text: str
    note: str = ""

    @property
    def file(self) -> str:
        """The file that it says it is, if it says so."""
        found = re.match(r"# (\w+\.py)\n", self.text)
        return found[1] if found else ""

    @property
    def needs(self) -> str:
        """The module without which it cannot run."""
        return self.note.removeprefix("needs ") if self.note.startswith("needs ") else ""

    @property
    def is_run(self) -> bool:
        """Whether a test can run it."""
        return self.kind in ("python", "sh") and not self.note.startswith("not run")

    def commands(self) -> list[str]:
        """Return the lines of a shell listing, comments left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def listings(page: Path) -> list[Listing]:
    """Return the listings of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [Listing(found["kind"], found["text"], found["note"] or "") for found in LISTING.finditer(text)]


def name_of(page: Path) -> str:
    """Return a page's name for people and for pytest."""
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def run_listing(listing: Listing, folder: Path, environment: dict[str, str]) -> None:
    """Run a listing in a folder; AssertionError with all that it printed if it fails."""
    if listing.file:
        (folder / listing.file).write_text(listing.text, encoding="utf-8")
    elif listing.kind == "python":
        _run([sys.executable, "-c", listing.text], folder, environment)
    else:
        for line in listing.commands():
            if not line.startswith(NOT_RUN):
                assert line.startswith("lmma "), f"which program is that? {line}"
                said = _run(["sh", "-c", re.sub(r"^lmma ", f"{LMMA} ", line)], folder, environment)
                assert said, f"prints nothing: {line}"


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout
