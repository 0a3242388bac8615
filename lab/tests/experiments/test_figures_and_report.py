"""Published figures and tables agree with the records, and the page is self-contained."""

from __future__ import annotations

import csv
import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from made_up import invariance, measured, run_record

from lmma._files import OutputError, write, write_text
from lmma.output.plotting.style import COLOURS
from lmma_lab import publish as publishing
from lmma_lab.analysis import tables
from lmma_lab.analysis.figures import comparison, figures, median_run
from lmma_lab.plotting.data import FigureData, Panel, Series
from lmma_lab.presets import PRESETS, SIX, preset
from lmma_lab.report import Chart, Commands, Picture, Prose, Table, as_html, as_markdown
from lmma_lab.report.charts import chart
from lmma_lab.report.tables import as_csv
from lmma_lab.tasks import Solve, check_names
from pictures import colours_in, size_of

COUNTS = {1: 900, 2: 1000, 3: 1300}


@pytest.fixture(scope="module")
def records():
    made = [
        run_record(problem, method, n, seed, count * n)
        for problem in (*SIX, "rotated-cigar", "shifted-cigar")
        for method in ("lm-ma-es", "ma-es", "vd-cma-es")
        for n in (128, 256)
        for seed, count in COUNTS.items()
    ]
    made.append(run_record("rosenbrock", "lm-ma-es", 128, 4, None, spent=5_000_000))
    made += [measured("timing", m, n, 1e-8 * n) for m in ("lm-ma-es", "ma-es") for n in (128, 1024)]
    made += [measured("memory", m, n, 100.0 * n) for m in ("lm-ma-es", "ma-es") for n in (128, 1024)]
    made.append(invariance("lm-ma-es", "monotone", 0.0))
    return made


def test_figures_show_medians_and_quartiles_of_successes(records):
    shown = figures(records)
    rosenbrock = next(panel for panel in shown["fig2"].panels if panel.title == "Rosenbrock")
    line = next(s for s in rosenbrock.series if s.label == "LM-MA-ES")
    assert line.x == (128, 256)
    assert line.y == (1000 * 128, 1000 * 256)
    assert line.lower == (950 * 128, 950 * 256)
    assert line.upper == (1150 * 128, 1150 * 256)
    assert line.notes[0] == "3 of 4 runs reached the target"


def test_figures_have_the_papers_panels(records):
    shown = figures(records)
    assert [len(shown[name].panels) for name in ("fig1", "fig2", "fig3", "figS1")] == [
        2,
        12,
        6,
        1,
    ]  # one was rotated
    cigar = next(panel for panel in shown["fig3"].panels if panel.title == "Cigar")
    assert "VD-CMA-ES, rotated" in {s.label for s in cigar.series}
    curves = next(panel for panel in shown["figS1"].panels if panel.title == "Cigar")
    assert {s.label for s in curves.series} == {
        f"n = {n}, {w}" for n in (128, 256) for w in ("separable", "rotated")
    }


def test_figures_need_no_records():
    assert all(not s.y for data in figures([]).values() for panel in data.panels for s in panel.series)


def test_the_median_run_counts_failures_as_the_slowest():
    runs = [run_record("cigar", "ma-es", 8, seed, count) for seed, count in ((1, 50), (2, None), (3, 10))]
    runs[0]["curve"] = {"evaluations": [50], "best_fun": [1.0]}
    assert median_run(runs) == ((50,), (1.0,))


def test_a_comparison_uses_the_target_it_was_run_with(records):
    loose = [r | {"spec": r["spec"] | {"target": 1e-3}} for r in records if r["kind"] == "run"]
    assert any(s.y for panel in comparison(loose).panels for s in panel.series)


def drawn_lines(axes):
    """Return the points of every line of data; a target's line has no markers and spans the axes."""
    return [
        tuple(map(tuple, line.get_xydata())) for line in axes.lines if line.get_transform() == axes.transData
    ]


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3", "figS1"])
def test_every_panel_shows_its_series_point_by_point(records, name):
    from lmma_lab.plotting.paper import draw

    data = figures(records)[name]
    figure = draw(data)
    panels = figure.axes[: len(data.panels)]
    assert [axes.get_title() for axes in panels] == [panel.title for panel in data.panels]
    for axes, panel in zip(panels, data.panels, strict=True):
        expected = [tuple(zip(map(float, s.x), s.y, strict=True)) for s in panel.series]
        slopes = [line for line in axes.lines if str(line.get_label()).startswith("_n")]
        assert drawn_lines(axes)[: len(expected)] == expected
        assert len(drawn_lines(axes)) == len(expected) + len(slopes)
        assert [str(line.get_label())[1:] for line in slopes] == list(panel.guides if expected else ())
        assert (axes.get_xlabel(), axes.get_ylabel()) == (
            (panel.x_label, panel.y_label) if expected else ("", "")
        )
        bands = [s for s in panel.series if s.lower]
        ends = [end for s in panel.series for end in s.unreached]
        assert len(axes.collections) == len(bands) + len(ends)
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(shown) == {s.label for panel in data.panels for s in panel.series}
    assert figure.get_suptitle() == data.title


def test_a_picture_has_the_colours_of_its_series_on_it(records, tmp_path):
    from lmma_lab.plotting.paper import draw, write_pictures

    data = figures(records)["fig3"]
    assert write_pictures(data, tmp_path)
    used = set(COLOURS[: len(data.labels())])
    assert len(used) >= 3
    assert used <= colours_in(tmp_path / "fig3.png")
    assert not set(COLOURS[len(used) : 6]) & colours_in(tmp_path / "fig3.png")
    width, height = draw(data).get_size_inches()
    assert size_of(tmp_path / "fig3.png") == pytest.approx((150 * width, 150 * height), abs=1)
    svg = ElementTree.parse(tmp_path / "fig3.svg").getroot()
    groups = [group.get("id", "") for group in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert sum(name.startswith("axes_") for name in groups) == len(data.panels)
    assert used <= {
        colour.upper() for colour in re.findall(r"#[0-9a-f]{6}", (tmp_path / "fig3.svg").read_text())
    }


def test_runs_that_ended_at_their_budget_are_open_markers_with_an_arrow():
    from lmma_lab.plotting.paper import draw

    made = [run_record("discus", "ma-es", n, 1, 1000 * n) for n in (128, 256)]
    made += [run_record("discus", "ma-es", 256, 2, None, spent=7_000_000)]  # beside one that reached it
    made += [run_record("discus", "lm-ma-es", 128, 1, None, spent=5_000_000) | {"best_fun": 0.25}]
    data = figures(made)["fig2"]
    panel = next(p for p in data.panels if p.title == "Discus")
    ends = {s.label: [(end.x, end.y) for end in s.unreached] for s in panel.series}
    assert ends == {"LM-MA-ES": [(128, 5e6)], "MA-ES": [(256, 7e6)]}
    assert "f = 0.25 (maxfevals)" in panel.series[0].unreached[0].note
    axes = draw(data).axes[data.panels.index(panel)]
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    assert sorted(text.xy for text in arrows) == [(128, 5e6), (256, 7e6)]
    drawn = chart(data)
    open_marks = [t for t in drawn["data"] if str(t.get("marker", {}).get("symbol", "")).endswith("-open")]
    assert {y for t in open_marks for y in t["y"] if t["yaxis"] == "y"} == {5e6, 7e6}
    assert (
        sum(note.get("showarrow", False) for note in drawn["layout"]["annotations"]) == 4
    )  # evaluations, seconds
    rows = [row for row in data.rows() if row["panel"] == "Discus" and row["median"] == ""]
    assert len(rows) == 4
    json.dumps(drawn, allow_nan=False)


def test_panels_that_were_not_run_are_named_below_the_figure():
    data = figures([run_record("cigar", "ma-es", 128, 1, 1000)])["fig3"]
    assert [panel.title for panel in data.panels] == ["Cigar"]
    assert "Not run: Sphere, Ellipsoid, Rosenbrock, Discus, Different powers." in data.caption


def test_a_failed_run_among_successful_ones_has_no_open_marker(records):
    stuck = run_record("rosenbrock", "ma-es", 128, 4, None, spent=900) | {"reason": "tolfun"}
    panel = next(p for p in figures([*records, stuck])["fig2"].panels if p.title == "Rosenbrock")
    line = next(s for s in panel.series if s.label == "MA-ES")
    assert line.unreached == ()
    assert line.notes[0] == "3 of 4 runs reached the target"


def test_plain_and_rotated_vd_differ_in_colour_marker_and_line(records):
    data = figures(records)["fig3"]
    drawn = [
        t for t in chart(data)["data"] if t.get("name", "").startswith("VD-CMA-ES") and t["xaxis"] == "x5"
    ]
    plain, rotated = drawn
    assert plain["line"]["color"] != rotated["line"]["color"]
    assert plain["marker"]["symbol"] != rotated["marker"]["symbol"]
    assert (plain["line"]["dash"], rotated["line"]["dash"]) == ("solid", "dash")


@pytest.mark.parametrize(
    "values", [(3e4, 4e4), (1e4, 1e5), (2.0, 3e9), (0.02, 0.05)], ids=["one", "two", "many", "small"]
)
def test_interactive_axes_show_at_least_two_powers_of_ten_and_every_point(values):
    panel = Panel("p", "n", "y", (Series("s", (128, 256), values),), guides=("n", "n²"))
    axis = chart(FigureData("f", "t", "c", (panel,)))["layout"]["yaxis"]
    low, high = axis["range"]
    ticks = [math.log10(value) for value in axis["tickvals"]]
    assert 2 <= len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)
    assert low < math.log10(min(values)) < math.log10(max(values)) < high
    assert all(tick == round(tick) for tick in ticks)


def test_slopes_start_below_the_first_points_and_stay_among_them():
    panel = Panel("p", "n", "y", (Series("s", (128, 512), (1e4, 5e4)),), guides=("n", "n²"))
    for name, power in (("n", 1), ("n²", 2)):
        x, y = panel.guide(name)
        assert y[0] == pytest.approx(6e3)
        assert max(y) <= 5e4
        assert math.log(y[-1] / y[0]) / math.log(x[-1] / x[0]) == pytest.approx(power)
    assert Panel("p", "n", "y", (Series("s", (128,), (1e4,)),)).guide("n") == ((), ())


def test_a_narrow_page_has_one_column_of_panels(records):
    drawn = chart(figures(records)["fig3"])
    wide, narrow = ([drawn[name][f"xaxis{k}"]["domain"] for k in ("", 2, 3)] for name in ("layout", "narrow"))
    assert len({tuple(domain) for domain in wide}) == 3
    assert {tuple(domain) for domain in narrow} == {(0.0, 1.0)}


def test_the_verdict_is_the_first_cell_of_a_row_of_the_page():
    page = as_html("T", "lead", PARTS)
    assert page.index('class="verdict fails"') < page.index("a|b")


def test_a_figure_without_records_says_so_in_every_panel(tmp_path):
    from lmma_lab.plotting.paper import draw, write_pictures

    data = figures([])["fig3"]
    figure = draw(data)
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [["not run"]] * 6
    assert write_pictures(data, tmp_path)
    assert not set(COLOURS[:6]) & colours_in(tmp_path / "fig3.png")


# Tables and files


def test_tables_have_a_row_for_each_run_and_for_each_sample(records):
    rows = tables.runs(records)
    assert len(rows) == sum(record["kind"] == "run" for record in records)
    assert "curve" not in rows[0]
    middle = {(r["problem"], r["method"], r["n"]): r for r in tables.medians(records)}
    assert middle["rosenbrock", "lm-ma-es", 128]["reached"] == "3/4"
    assert middle["rosenbrock", "lm-ma-es", 128]["median evaluations"] == 128_000
    assert len(tables.measurements(records)) == 4 * 2 + 4 + 1
    assert "rosenbrock" in tables.as_text(tables.medians(records))
    assert tables.as_text([]) == "(nothing)"


def test_methods_stand_side_by_side_with_what_they_reached(records):
    failed = [run_record("discus", "cma-es", 128, seed, None, spent=900_000) for seed in (1, 2)]
    rows = {row["function"]: row for row in tables.by_method([*records, *failed], 128)}
    assert list(rows["Sphere"]) == ["function", "LM-MA-ES", "MA-ES", "VD-CMA-ES", "CMA-ES"]
    assert rows["Rosenbrock"]["LM-MA-ES"] == "128,000 (3 of 4)"
    assert rows["Discus"]["CMA-ES"] == "none of 2 in 900,000"
    assert rows["Sphere"]["CMA-ES"] == ""
    assert tables.by_method(records, 77) == []


def test_csv_comes_back(records):
    rows = list(csv.DictReader(as_csv(tables.medians(records)).splitlines()))
    assert rows[0].keys() == tables.medians(records)[0].keys()


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "before")

    def fails(aside):
        aside.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        write(path, fails)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_publishing_writes_everything(records, tmp_path):
    rows = publishing.publish(records, tmp_path, "lmma reproduce --preset quick", ["fig1"])
    expected = {f"fig1{suffix}" for suffix in (".csv", ".png", ".svg")}
    expected |= {
        "ledger.md",
        "ledger.csv",
        "runs.csv",
        "medians.csv",
        "measurements.csv",
        "methods.md",
        "report.html",
        "report.md",
    }
    assert {path.name for path in tmp_path.iterdir()} == expected
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for row in rows:
        assert row.claim.id in page
    assert "lmma reproduce --preset quick" in page
    assert "![" in (tmp_path / "report.md").read_text(encoding="utf-8")


# The page

DATA = FigureData(
    "figX", "A <figure> & more", "Its caption.",
    (Panel("one", "n", "y", (Series("first </script>", (1, 2), (3, 4), (2, 3), (4, 5), ("a", "b")),)),
     Panel("two", "n", "y", (Series("second", (1, 2), (3, 4), dashed=True),), target=1e-3)),
)  # fmt: skip
PARTS = [
    Prose("Words", ("1 < 2",)),
    Chart(DATA, "figX.png", "<?xml?><svg><g/></svg>"),
    Table("Ledger", ({"id": "a|b", "verdict": "fails", "rule": "r"},), verdict="verdict", folded=("rule",)),
    Commands("Again", ("lmma reproduce",)),
]


class Checker(HTMLParser):
    """Notes addresses that would need a network, and elements left open."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "br", "img", "path", "use"):
            self.open.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href") and tag != "a"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_no_other_files():
    checker = Checker()
    checker.feed(as_html("T", "lead", PARTS))
    assert checker.open == []
    assert checker.addresses == ["data:,"]


def test_labels_cannot_break_out_of_the_page(monkeypatch):
    monkeypatch.setattr("lmma_lab.report.html.plotly_script", lambda: "var Plotly;")  # installed or not
    page = as_html("T & <U>", "lead", PARTS)
    assert "<U>" not in page
    assert "1 &lt; 2" in page
    assert "first </script>" not in page
    assert "first <\\/script>" in page


def test_without_plotly_the_page_shows_drawn_figures(monkeypatch):
    monkeypatch.setattr("lmma_lab.report.html.plotly_script", lambda: None)
    page = as_html("T", "lead", PARTS)
    assert "<svg><g/></svg>" in page
    assert "Plotly" not in page
    assert "<?xml" not in page


def test_one_legend_entry_toggles_a_label_in_every_panel():
    both = FigureData("f", "t", "c", (DATA.panels[0], DATA.panels[0]))
    drawn = chart(both)
    lines = [trace for trace in drawn["data"] if "name" in trace]
    assert [trace["showlegend"] for trace in lines] == [True, False]
    assert {trace["legendgroup"] for trace in drawn["data"]} == {"first </script>"}
    assert drawn["layout"]["yaxis2"]["type"] == "log"
    json.dumps(drawn, allow_nan=False)


def test_pictures_are_embedded_in_the_page_and_next_to_the_markdown():
    picture = Picture("A <picture>", b"\x89PNG", "p.png", "what it shows")
    page = as_html("T", "lead", [picture])
    assert 'src="data:image/png;base64,iVBORw=="' in page
    assert "what it shows" in page
    assert "<picture>" not in page
    text = as_markdown("T", "lead", [picture])
    assert "![A <picture>](p.png)" in text
    assert "what it shows" in text


def test_markdown_shows_verdicts_and_escapes_bars():
    text = as_markdown("T", "lead", PARTS)
    assert "| a\\|b | **fails** |" in text
    assert "![A <figure> & more](figX.png)" in text
    assert "```\nlmma reproduce\n```" in text


# Presets


@pytest.mark.parametrize("name", PRESETS)
def test_presets_name_only_what_exists(name):
    experiments = preset(name)
    assert list(experiments) == ["fig1", "fig2", "fig3", "figS1"]
    for experiment in experiments.values():
        assert experiment.tasks
        check_names(experiment.tasks)


def test_figures_share_runs():
    runs = [{t.key for t in e.tasks if isinstance(t, Solve)} for e in preset("paper").values()]
    assert len(runs[1] & runs[2]) > 200


def test_the_paper_preset_is_the_papers():
    tasks = preset("paper")["fig2"].tasks
    ours = {(t.problem, t.n) for t in tasks if isinstance(t, Solve) and t.method == "lm-ma-es"}
    assert ours == {(problem, 2**k) for problem in SIX for k in range(7, 14)}
    assert {t.n for t in tasks if isinstance(t, Solve) and t.method == "ma-es"} == {128, 256, 512, 1024}
    assert {t.target for t in tasks if isinstance(t, Solve)} == {1e-10}
    assert {t.seed for t in tasks if isinstance(t, Solve)} == {1, 2, 3, 4, 5}


def test_an_unknown_preset_is_rejected():
    with pytest.raises(ValueError, match=re.escape("smoke, quick, paper")):
        preset("slow")
