"""Hooks of MkDocs: pages for linked source files, the changelog, and formulas without scripts.

A page links to a file of the repository as it would on any host of repositories, ``../src/lmma/x.py``; for
the site that file becomes a page of its own. The records and reports in ``lab/results`` become the folder
``results`` of the site. After ``#`` may stand the tag of a line, ``A1:12``, at which the
page then opens. Formulas become MathML, which browsers set themselves: no script, no fonts, no network.
"""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
RESULTS = "lab/results/"
LINK = re.compile(r"\]\((\.\./[^)\s]+)\)")
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".sh": "sh", ".toml": "toml", ".yml": "yaml"}
ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):<code>~?([\w.]+)</code>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def outside(page: str, link: str) -> tuple[str, str] | None:
    """Return the file outside docs/ that ``link`` on ``page`` means, and what is sought in it."""
    path, _, sought = link.partition("#")
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    inside = target.startswith(("docs/", "..")) and not target.startswith("docs/tools/")
    return None if inside or not (ROOT / target).exists() else (target, sought)


def place(target: str) -> str:
    """Return where the page of a file is."""
    if target.startswith(RESULTS):
        return f"results/{target.removeprefix(RESULTS)}"
    return "changes.md" if target == "CHANGELOG.md" else f"source/{target}.md"


def source_page(target: str) -> str:
    """Return a page that shows a file, or what is in a folder."""
    path = ROOT / target
    head = f"---\nsearch:\n  exclude: true\ntitle: {path.name}\n---\n\n# {target}\n\n"
    if path.is_dir():
        return head + "".join(f"- `{file.name}`\n" for file in sorted(path.iterdir()) if file.is_file())
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return head + LINK.sub("]", text)
    fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", text)), default=0))
    return f'{head}{fence}{LANGUAGES.get(path.suffix, "text")} linenums="1"\n{text}{fence}\n'


def changes() -> str:
    """Return the changelog as a page of the site."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace(f"]({RESULTS}", "](results/")


def on_files(files: Any, config: Any) -> Any:
    """Add the results, a page for every other file that some page links to, and one for the changelog."""
    linked: set[str] = set()
    for file in files.documentation_pages():
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        found = (outside(file.src_uri, link) for link in LINK.findall(text))
        linked |= {target for target, _ in filter(None, found)}
    for target in sorted(linked - {"CHANGELOG.md"}):
        if not target.startswith(RESULTS):
            files.append(File.generated(config, place(target), content=source_page(target)))
    for path in sorted((ROOT / RESULTS).rglob("*")):
        if path.is_file():
            target = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place(target), abs_src_path=str(path)))
    files.append(File.generated(config, "changes.md", content=changes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of docs/ to the pages made for them."""

    def lead(match: re.Match[str]) -> str:
        found = outside(page.file.src_uri, match[1])
        if found is None:
            return match[0]
        target, sought = found
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(place(target), here)}{line_of(target, sought)})"

    return LINK.sub(lead, markdown)


def line_of(target: str, sought: str) -> str:
    """Return the anchor of the line that holds a tag: ``A1:12``, or ``A1:12@ES.tell`` inside that."""
    if not sought:
        return ""
    tag, _, name = sought.partition("@")
    scopes = name.split(".") if name else []
    for number, line in enumerate((ROOT / target).read_text(encoding="utf-8").splitlines(), 1):
        if scopes and re.match(rf"\s*(class|def) {re.escape(scopes[0])}\b", line):
            scopes.pop(0)
        if not scopes and f"[{tag}]" in line:
            return f"#__codelineno-0-{number}"
    raise ValueError(f"{target} has no line with [{tag}] in {name or 'it'}")


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Set formulas, and turn references in docstrings into links."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return (
            f'<{match[1]} class="arithmatex">{convert(html.unescape(match[3]), display=display)}</{match[1]}>'
        )

    content = FORMULA.sub(formula, content)
    return ROLE.sub(r'<autoref identifier="\1" optional><code>\1</code></autoref>', content)
