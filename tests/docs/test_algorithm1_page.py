import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("algorithm1", ROOT / "docs" / "tools" / "algorithm1.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_every_line_of_algorithm_1_is_tagged_in_the_code():
    assert sorted(tool.tagged_places()) == list(range(1, len(tool.LINES) + 1))


def test_the_page_on_algorithm_1_is_up_to_date():
    assert tool.PAGE.read_text() == tool.page(), "run: python docs/tools/algorithm1.py"
