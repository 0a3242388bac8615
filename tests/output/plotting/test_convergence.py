import sys

import numpy as np
import pytest

from lmma.output.plotting.convergence import convergence
from lmma.output.plotting.style import save


def record(values):
    steps = range(1, len(values) + 1)
    return {"evaluations": [10 * k for k in steps], "best_fun": list(values), "sigma": [1 / k for k in steps]}


def test_values_and_step_size_are_drawn_over_evaluations():
    figure = convergence(record([100.0, 1.0, 0.01]), target=1e-3, title="a run")
    above, below = figure.axes
    assert np.array_equal(above.lines[0].get_xydata(), [[10, 100], [20, 1], [30, 0.01]])
    assert np.array_equal(below.lines[0].get_ydata(), [1, 1 / 2, 1 / 3])
    assert (above.get_yscale(), below.get_yscale()) == ("log", "log")
    assert any("0.001" in text.get_text() for text in above.texts)


def test_values_that_are_not_positive_are_drawn_on_a_linear_scale():
    assert convergence(record([1.0, -1.0])).axes[0].get_yscale() == "linear"


def test_text_before_the_first_number_is_omitted():
    above = convergence(record([np.inf, np.inf, 3.0])).axes[0]
    assert np.array_equal(above.lines[0].get_xydata(), [[30, 3]])


def test_several_runs_have_different_styles():
    figure = convergence({"first": record([2.0, 1.0]), "second": record([3.0, 2.0])})
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]
    assert len({line.get_color() for line in figure.axes[1].lines}) == 2


@pytest.mark.parametrize("values", [[], [np.inf], [1.0], [0.0]])
@pytest.mark.parametrize("target", [None, 1e-3, -1.0])
def test_short_records_can_be_drawn_too(values, target, tmp_path):
    save(convergence(record(values), target=target), tmp_path / "a.png")


@pytest.mark.parametrize("name", ["a.svg", "a.pdf", "a.png"])
def test_the_same_figure_gives_the_same_file(name, tmp_path):
    contents = []
    for _ in range(2):
        save(convergence(record([2.0, 1.0]), target=0.1), tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


def test_other_kinds_of_file_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf, got 'a\.gif'"):
        save(convergence(record([1.0])), tmp_path / "a.gif")


def test_pyplot_stays_out_of_it():
    import subprocess

    code = (
        "import sys; from lmma.output.plotting.convergence import convergence;"
        "assert 'matplotlib' not in sys.modules;"
        "convergence({'evaluations': [1], 'best_fun': [1.0], 'sigma': [1.0]});"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
