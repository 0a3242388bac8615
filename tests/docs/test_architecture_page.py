import ast
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "tools" / "architecture.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_the_tree_of_the_architecture_page_is_that_of_the_package():
    assert tool.PAGE.read_text() == tool.page(), "run: python docs/tools/architecture.py"


def test_every_module_says_in_a_line_what_it_is_about():
    for path in (path for source in tool.SOURCES for path in source.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert len(text.partition("\n")[0]) > 5, f"{path} has no line about it"


def test_every_file_that_the_page_names_is_there():
    prose = tool.PAGE.read_text().partition(tool.BEGIN)[0]
    for name in re.findall(r"`([a-z_]+(?:/[a-z_*]+)*/?[a-z_]*(?:\.py|/))`", prose):
        places = (ROOT / "src" / "lmma", ROOT / "src", ROOT / "lab" / "src", ROOT)
        assert any(list(place.glob(name.rstrip("/"))) for place in places), name
