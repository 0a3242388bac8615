"""How methods look in figures: no two of them alike."""

import pytest

from lmma.experiments.peers import PEERS
from lmma.experiments.timing.cost import OTHERS
from lmma.output.plotting import style
from lmma.output.plotting.attack import DASHES
from lmma.output.report.charts import SYMBOLS
from lmma.plotting import time_per_sample
from lmma.strategies.registry import METHODS

EVERYBODY = [*METHODS, *PEERS]


@pytest.mark.parametrize("signs", [style.MARKERS, SYMBOLS, DASHES], ids=["figures", "page", "attacks"])
def test_no_two_methods_share_colour_and_sign(signs):
    pairs = list(style.looks(EVERYBODY, signs).values())
    assert len(set(pairs)) == len(pairs) == len(EVERYBODY)


def test_the_page_has_a_symbol_for_every_marker():
    assert len(SYMBOLS) == len(style.MARKERS) == len(set(SYMBOLS)) == len(set(style.MARKERS))


def test_more_methods_than_can_be_told_apart_are_refused():
    most = len(style.COLOURS) * len(style.MARKERS)
    assert len(set(style.looks([str(i) for i in range(most)]).values())) == most
    with pytest.raises(ValueError, match=f"tell {most} methods apart, got {most + 1}"):
        style.looks([str(i) for i in range(most + 1)])


def test_no_two_contenders_of_the_cost_figure_look_alike():
    pytest.importorskip("matplotlib")
    names = ["NumPy's draw", "memory copy", "products of ma-es", *METHODS, *OTHERS]
    record = {"seconds": {"10": dict.fromkeys(names, 1e-5)}, "popsize": {"10": 10}}
    lines = time_per_sample(record).axes[0].get_lines()
    drawn = [(line.get_color(), line.get_marker()) for line in lines]
    assert len(set(drawn)) == len(drawn) == len(names)
