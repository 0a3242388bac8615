"""Text tables for terminals."""

from lmma._text import text_table

ROWS = [["name", "count"], ["a", "1"], ["longer", "1,000"]]


def test_text_is_aligned_under_its_heading():
    assert text_table(ROWS, right=(1,)).splitlines() == [
        "name    count",
        "------  -----",
        "a           1",
        "longer  1,000",
    ]
    assert text_table(ROWS).splitlines()[2] == "a       1"
