"""Write the trees in docs/architecture.md: packages with the first line of their docstrings.

python docs/tools/architecture.py [--check]
"""

import ast
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src" / "lmma", ROOT / "lab" / "src" / "lmma_lab")
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree -->\n", "<!-- end of tree -->\n"


def tree() -> str:
    """Return the packages of both distributions: what each is for, and the names of its modules."""
    return "\n".join(f"```\n{''.join(_lines(source, ''))}```\n" for source in SOURCES)


def _lines(folder: Path, indent: str) -> list[str]:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    about = " ".join(text.partition("\n\n")[0].split()).rstrip(".").replace("``", "")
    lines = [f"{(indent + folder.name + '/').ljust(22)} {about}\n"]
    names = " ".join(sorted(path.stem for path in folder.glob("*.py") if path.name != "__init__.py"))
    lines += [f"{indent}    {line}\n" for line in textwrap.wrap(names, 100)]
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").exists():
            lines += _lines(path, indent + "  ")
    return lines


def page() -> str:
    """Return the page with the tree as it is now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + tree() + END + after


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/architecture.md is out of date")
    PAGE.write_text(page())
