"""Version, addresses and descriptions are defined once; other files agree."""

import re
import tomllib

import pytest

import lmma
from pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = PROJECT["urls"]["Source"]
SITE = PROJECT["urls"]["Documentation"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_has_the_version_and_the_addresses():
    citation = text("CITATION.cff")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == lmma.__version__
    assert f"repository-code: {SOURCE}\n" in citation
    assert f"\nurl: {SITE}\n" in citation


@pytest.mark.parametrize("file", ["mkdocs.yml", ".github/ISSUE_TEMPLATE/config.yml"])
def test_addresses_are_those_of_the_project(file):
    assert SITE in text(file)
    host = SOURCE.removeprefix("https://").split("/")[0]
    assert set(re.findall(rf"https://{re.escape(host)}/[\w-]+/[\w-]+", text(file))) <= {SOURCE}


def test_no_version_stands_anywhere_else():
    assert "version" in PROJECT["dynamic"]
    for file in ("setup.py", "mkdocs.yml", "Makefile"):
        assert lmma.__version__ not in text(file), file


def test_classifiers_name_every_python_that_is_tested():
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line}
    tested = re.search(r"python: \[(.*)\]", text(".github/workflows/tests.yml"))[1]
    assert named == set(re.findall(r"[\d.]+", tested))
    assert f">={min(named, key=lambda v: int(v.split('.')[1]))}" == PROJECT["requires-python"]


def test_the_oldest_dependencies_are_those_that_are_tested():
    workflow = text(".github/workflows/tests.yml")
    for need in PROJECT["dependencies"]:
        name, oldest = need.split(">=")
        assert f'"{name}=={oldest}.*"' in workflow, need


def test_actions_of_workflows_are_pinned_by_hash_and_only_a_tag_publishes():
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    actions = [line for file in workflows for line in text(file).splitlines() if "uses:" in line]
    assert len(actions) > 20
    for line in actions:
        assert re.fullmatch(r" *(- )?uses: [\w/-]+@[0-9a-f]{40}  # v[\d.]+", line), line
    publishing = [file for file in workflows if "pypi-publish" in text(file)]
    assert [file.name for file in publishing] == ["wheels.yml"]
    assert "if: github.event_name == 'push' && startsWith(github.ref, 'refs/tags/v')" in text(publishing[0])


def test_links_of_the_readme_work_outside_the_repository(monkeypatch):
    told = {}
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **how: told.update(how))
    monkeypatch.chdir(ROOT)
    exec(compile(text("setup.py"), "setup.py", "exec"), {"__name__": "setup"})
    links = re.findall(r"\]\(([^)\s]+)\)", told["long_description"])
    assert links
    assert all(link.startswith("https://") for link in links)
    assert f"{SOURCE}/raw/main/docs/images/hero.svg" in links
    assert f"{SOURCE}/blob/main/docs/limits.md" in links


def test_a_required_build_is_not_optional(monkeypatch):
    told = {}
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **how: told.update(how))
    monkeypatch.chdir(ROOT)
    for value, optional in (("1", False), ("0", True), (None, True)):
        if value is None:
            monkeypatch.delenv("LMMA_REQUIRE_COMPILED")
        else:
            monkeypatch.setenv("LMMA_REQUIRE_COMPILED", value)
        exec(compile(text("setup.py"), "setup.py", "exec"), {"__name__": "setup"})
        assert [part.optional for part in told["ext_modules"]] == [optional]
