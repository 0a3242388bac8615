"""The same rows for a terminal and as Markdown."""

from lmma.output.tables import columns_of, markdown_table, text_table

ROWS = [["name", "count"], ["a", "1"], ["longer", "1,000"]]


def test_text_is_aligned_under_its_heading():
    assert text_table(ROWS, right=(1,)).splitlines() == [
        "name    count",
        "------  -----",
        "a           1",
        "longer  1,000",
    ]
    assert text_table(ROWS).splitlines()[2] == "a       1"


def test_markdown_keeps_cells_apart_and_on_one_line():
    table = markdown_table([["x", "y"], ["a|b", "c\nd"]], right=[1])
    assert table == "| x | y |\n|---|---:|\n| a\\|b | c d |"


def test_mappings_become_rows_with_numbers_to_the_right():
    rows, right = columns_of([{"name": "a", "n": 1000, "t": ""}, {"name": "b", "n": 2, "t": 0.5}])
    assert rows == [["name", "n", "t"], ["a", "1,000", ""], ["b", "2", "0.5"]]
    assert right == [1, 2]
