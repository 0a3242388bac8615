"""Programs and commands in the documentation run unchanged, and its links are valid."""

import importlib.util
import math
import re
import shutil
import tomllib

import pytest

import pages
from pages import PAGES, ROOT, Listing, listings, name_of, run_listing

WITH_LISTINGS = [page for page in PAGES if any(listing.is_run for listing in listings(page))]


def load(name):
    """Return a tool of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page):
    """Return what can be linked to inside a page."""
    text = page.read_text(encoding="utf-8")
    heads = [re.sub(r"[^\w\- ]", "", head.lower()) for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {head.strip().replace(" ", "-") for head in heads} | set(re.findall(r'id="([^"]+)"', text))


def test_there_is_something_to_run():
    assert len(WITH_LISTINGS) > 20


@pytest.mark.parametrize("page", WITH_LISTINGS, ids=name_of)
def test_listings_of_the_documentation_run(page, environment, tmp_path):
    if shutil.which("sh") is None:
        pytest.skip("needs a shell")
    for listing in listings(page):
        missing = listing.needs and importlib.util.find_spec(listing.needs) is None
        if listing.is_run and listing.note != "slow" and not missing:
            run_listing(listing, tmp_path, environment | quiet(listing))


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_LISTINGS, ids=name_of)
def test_long_listings_of_the_documentation_run(page, environment, tmp_path):
    slow = [listing for listing in listings(page) if listing.note == "slow"]
    for listing in slow:
        run_listing(listing, tmp_path, environment)


def quiet(listing):
    """Other packages warn of this and that, which is not ours to mend."""
    return {"PYTHONWARNINGS": "ignore"} if listing.needs else {}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_listing_is_run_or_says_why_not(page):
    for listing in listings(page):
        assert listing.kind in ("python", "sh", "text", "bibtex", "toml", ""), listing.kind
        if listing.kind == "":  # a picture in letters, or what a command prints
            assert not re.search(r"^(import|from|lmma|pip) ", listing.text, re.MULTILINE), listing.text
        elif listing.note.startswith("not run"):
            assert re.fullmatch(r"not run: .{10,}", listing.note)
        else:
            assert listing.note in ("", "slow") or listing.needs


def test_extras_that_pages_install_exist():
    named = {
        (package, name)
        for page in PAGES
        for package, names in re.findall(
            r"pip install '(lmma|lmma-lab|\.|\./lab)\[([\w,-]+)\]'", page.read_text(encoding="utf-8")
        )
        for name in names.split(",")
    }
    assert ("lmma-lab", "report") in named
    for folder, names in ((ROOT, ("lmma", ".")), (ROOT / "lab", ("lmma-lab", "./lab"))):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = set(project["optional-dependencies"])
        assert {extra for package, extra in named if package in names} <= extras


def test_a_listing_that_fails_is_noticed(tmp_path, environment):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_listing(Listing("python", "print(1 / 0)"), tmp_path, environment)
    with pytest.raises(AssertionError, match="unknown method"):
        run_listing(Listing("sh", "lmma minimize sphere --dim 2 --method such-es\n"), tmp_path, environment)
    with pytest.raises(AssertionError, match="which program"):
        run_listing(Listing("sh", "rm -r everything\n"), tmp_path, environment)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_the_documentation_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if target == ROOT / "docs" / "changes.md":
            continue  # the changelog, a page of the site alone
        assert target.exists(), link
        if target.suffix == ".md" and anchor:
            assert anchor in anchors(target), link
        elif anchor:
            tag = anchor.partition("@")[0]
            assert f"[{tag}]" in target.read_text(encoding="utf-8"), link


@pytest.mark.parametrize("name", ["cli", "stop"])
def test_pages_made_from_the_code_are_up_to_date(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    tool = load(name)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), f"run: make pages (docs/tools/{name}.py)"


def test_tables_of_networks_are_those_of_their_records():
    for path, text in load("networks").pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/tools/networks.py"


def test_the_pages_on_records_of_the_paper_are_up_to_date():
    for path, text in load("paper").pages().items():
        assert "made by docs/tools/paper.py" in text, f"{path.name} has lost its marks"
        assert path.read_text(encoding="utf-8") == text, "run: python docs/tools/paper.py"


def test_a_run_without_a_record_is_listed_with_its_estimate():
    tool = load("paper")
    every = tool.missing([])
    assert sum(map(len, every.values())) == len(tool._reachable()) == 260
    known = next(r for r in tool.records() if r["spec"].get("n") == tool.N and r["kind"] == "run")
    fewer = tool.missing([known])
    assert sum(map(len, fewer.values())) == 259
    assert all(seconds > 0 for runs in fewer.values() for seconds in runs.values())
    cells = tool.side_by_side([known], fewer)
    assert cells.count("not run (") == 6 * 6 - 1 - 5 * 6  # rows of functions that nobody ran are left out
    assert f"{known['evaluations_to_target']:,}" in cells


def test_the_papers_question_is_decided_by_losses():
    tool = load("networks")
    losses = {"LMMA": 1.0, "LMMA+CSA": 0.4, "SGD": 1.0, "SGD+decay": 0.9}
    found = {("sphere", name): {0.1: loss, 1.0: math.inf} for name, loss in losses.items()}
    assert "**holds**" in tool.outlook(found)
    assert "**fails**" in tool.outlook(found | {("sphere", "SGD+decay"): {0.1: 0.7}})
    row = tool.optimisers(found).splitlines()[2]
    assert row.startswith("| sphere | LMMA | 0.1 | 1 | 1 of 2 | diverged")


def test_every_reason_to_stop_has_advice():
    from lmma.run.stopping import ENDINGS

    assert set(load("stop").ADVICE) == set(ENDINGS), "docs/tools/stop.py: ADVICE"


def test_every_field_of_a_result_is_described():
    import lmma

    result = lmma.minimize(lambda x: float(x @ x), [1.0, 2.0], 0.5, rng=1, maxiter=3, history=True)
    text = (ROOT / "docs" / "api" / "result.md").read_text(encoding="utf-8")
    described = set(
        re.findall(
            r"`(\w+)`", "\n".join(line.split("|")[1] for line in text.splitlines() if line[:3] == "| `")
        )
    )
    assert set(result) <= described


def test_every_public_name_is_in_the_reference():
    import lmma

    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    missing = [name for name in lmma.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_the_tests_see_every_page():
    assert name_of(ROOT / "docs" / "start" / "install.md") == "start/install"
    assert {"README", "index", "start/install", "from/pycma"} <= {name_of(page) for page in pages.PAGES}
