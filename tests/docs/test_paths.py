"""Files that the pages name exist."""

import re

import pytest

from repository import ROOT

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "lab/README.md",
]
SOURCES = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "lab/src").rglob("*.py"))]
# a path with a folder in backquotes, such as `methods/es.py`
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w*-]+\.(?:py|c|h|inc|toml))(?:::\w+)?`")
ROOTS = [
    ROOT,
    ROOT / "src/lmma",
    ROOT / "src",
    ROOT / "tests",
    ROOT / "lab",
    ROOT / "lab/src/lmma_lab",
    ROOT / "lab/src",
    ROOT / "lab/tests",
]


def missing(text):
    return [name for name in NAMED.findall(text) if not any(list(root.glob(name)) for root in ROOTS)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    assert missing(page.read_text(encoding="utf-8")) == []


def test_files_that_the_sources_name_exist():
    found = {str(path.relative_to(ROOT)): missing(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_missing_file_is_found():
    assert missing("see `methods/es.py` and `methods/nowhere.py`") == ["methods/nowhere.py"]
