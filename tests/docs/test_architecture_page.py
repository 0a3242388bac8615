import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "tools" / "architecture.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_the_tree_of_the_architecture_page_is_that_of_the_package():
    assert tool.PAGE.read_text() == tool.page(), "run: python docs/tools/architecture.py"


def test_every_module_says_in_a_line_what_it_is_about():
    for path in tool.SOURCE.rglob("*.py"):
        line = tool._line("", path.stem, path).removeprefix(path.stem).strip()
        assert len(line) > 5, f"{path} has no line about it"
