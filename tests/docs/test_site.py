"""The built site: no warnings, valid links and anchors, no external requests, useful search."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from pages import ROOT

for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
    pytest.importorskip(package, reason="the site is built with the extra docs")

pytestmark = pytest.mark.xdist_group("site")

# What users look for, and a page that must be among the first answers
WANTED = {
    "install": "start/install.html",
    "sigma0": "start/sigma0.html",
    "noise": "noise.html",
    "integer": "mixed_variables.html",
    "constraint": "constraints.html",
    "pandas": "howto/watch.html",
    "maximise": "howto/maximise.html",
    "resume": "howto/resume.html",
    "stop": "start/stop.html",
    "bounds": "howto/bounds.html",
    "parallel": "howto/parallel.html",
}


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {value for name, value in found.items() if name in ("id", "name") and value}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "preload", "preconnect", "dns-prefetch"):
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages_of_site(site):
    paths = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {path: Page(path.read_text(encoding="utf-8")) for path in paths}


def test_every_link_of_the_site_leads_somewhere(pages_of_site):
    bad = []
    for path, page in pages_of_site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                bad.append(f"{path.name}: {link}")
            elif parts.fragment and target.suffix == ".html":
                there = pages_of_site.get(target)
                if there is not None and unquote(parts.fragment) not in there.ids:
                    bad.append(f"{path.name}: {link} has no such anchor")
    assert bad == []


def test_no_page_loads_anything_from_elsewhere(pages_of_site):
    loaded = {load for page in pages_of_site.values() for load in page.loads}
    assert loaded
    assert [load for load in loaded if urlsplit(load).netloc] == []


def test_files_that_a_page_loads_exist(pages_of_site):
    for path, page in pages_of_site.items():
        for load in page.loads:
            assert (path.parent / unquote(urlsplit(load).path)).exists(), f"{path.name}: {load}"


def test_formulas_are_set_without_scripts(site):
    text = (site / "algorithm1.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert not re.search(r'class="arithmatex">\\[(\[]', text)


def test_algorithm_1_leads_to_its_lines(site):
    text = (site / "algorithm1.html").read_text(encoding="utf-8")
    page, line = re.search(r'href="(source/[^"#]*methods/es\.py\.html)#__codelineno-0-(\d+)"', text).groups()
    source = (ROOT / "src" / "lmma" / "methods" / "es.py").read_text(encoding="utf-8").splitlines()
    assert "[A1:" in source[int(line) - 1]
    assert f'id="__codelineno-0-{line}"' in (site / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("word", WANTED)
def test_search_knows_the_words_of_users(word, site):
    """The index has the page, the word in its title or its text; ranking is the theme's."""
    documents = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    pages = {
        document["location"].partition("#")[0]
        for document in documents
        if word in f"{document['title']} {document['text']}".lower()
    }
    assert WANTED[word] in pages


def test_code_shown_in_full_is_not_searched(site):
    documents = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert not [document for document in documents if document["location"].startswith("source/")]


def test_every_page_of_the_folder_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs")
        assert (site / name.with_suffix(".html")).exists() or (name.name == "README.md"), name
