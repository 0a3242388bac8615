"""Programs in the documentation are run as they stand; links in it lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
PROGRAMS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    if re.search(r"^(import|from) ", block, re.MULTILINE)  # the others are excerpts
]


def anchors(page):
    """Return what can be linked to inside a page."""
    text = page.read_text(encoding="utf-8")
    heads = [re.sub(r"[^\w\- ]", "", head.lower()) for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {head.strip().replace(" ", "-") for head in heads} | set(re.findall(r'id="([^"]+)"', text))


def test_there_is_something_to_run():
    assert len(PAGES) > 5
    assert len(PROGRAMS) > 5


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_the_documentation_run(program, python):
    python("-c", program, quiet=False)  # some show progress


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_links_of_the_documentation_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith("https://"):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link
