"""Write the tree in docs/architecture.md: one line for each module, from its docstring.

python docs/tools/architecture.py [--check]
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lmma"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree -->\n", "<!-- end of tree -->\n"


def tree() -> str:
    """Return the modules of the package as an indented list with what each is about."""
    lines = ["```\n", "lmma/\n", *_lines(SOURCE, "  "), "```\n"]
    return "".join(lines)


def _lines(folder: Path, indent: str) -> list[str]:
    lines = []
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    for path in modules:
        lines.append(_line(indent, path.stem, path))
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").exists():
            lines.append(_line(indent, path.name + "/", path / "__init__.py"))
            lines += _lines(path, indent + "  ")
    return lines


def _line(indent: str, name: str, path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    about = " ".join(text.partition("\n\n")[0].split()).rstrip(".").replace("``", "")
    return f"{(indent + name).ljust(24)} {about}".rstrip() + "\n"


def page() -> str:
    """Return the page with the tree as it is now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + tree() + END + after


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/architecture.md is out of date")
    PAGE.write_text(page())
