"""Rows as Markdown tables."""

from lmma_lab.report.tables import columns_of, markdown_table


def test_markdown_keeps_cells_apart_and_on_one_line():
    table = markdown_table([["x", "y"], ["a|b", "c\nd"]], right=[1])
    assert table == "| x | y |\n|---|---:|\n| a\\|b | c d |"


def test_mappings_become_rows_with_numbers_to_the_right():
    rows, right = columns_of([{"name": "a", "n": 1000, "t": ""}, {"name": "b", "n": 2, "t": 0.5}])
    assert rows == [["name", "n", "t"], ["a", "1,000", ""], ["b", "2", "0.5"]]
    assert right == [1, 2]


def test_a_page_says_why_a_picture_is_missing(monkeypatch):
    from lmma_lab.plotting.data import FigureData
    from lmma_lab.report import html, markdown
    from lmma_lab.report.parts import Chart

    monkeypatch.setattr(html, "plotly_script", lambda: None)
    part = Chart(FigureData("none", "A figure", "", []))
    for page in (html.as_html("t", "l", [part]), markdown.as_markdown("t", "l", [part])):
        assert "neither plotly nor matplotlib is installed" in page
        assert "pip install" in page
