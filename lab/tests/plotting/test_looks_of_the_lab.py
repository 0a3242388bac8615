"""Styles of lmma's methods and of peers in figures are distinct."""

import pytest

from lmma.methods.registry import METHODS
from lmma.output.plotting import style
from lmma_lab.peers import PEERS
from lmma_lab.plotting import time_per_sample
from lmma_lab.plotting.attack import DASHES
from lmma_lab.report.charts import SYMBOLS
from lmma_lab.timing.cost import OTHERS

EVERYBODY = [*METHODS, *PEERS]


@pytest.mark.parametrize("signs", [style.MARKERS, SYMBOLS, DASHES], ids=["figures", "page", "attacks"])
def test_no_two_methods_share_colour_and_sign(signs):
    pairs = list(style.assign_styles(EVERYBODY, signs).values())
    assert len(set(pairs)) == len(pairs) == len(EVERYBODY)


def test_the_page_has_a_symbol_for_every_marker():
    assert len(SYMBOLS) == len(style.MARKERS) == len(set(SYMBOLS)) == len(set(style.MARKERS))


def test_no_two_contenders_of_the_cost_figure_look_alike():
    pytest.importorskip("matplotlib")
    names = ["NumPy's draw", "memory copy", "products of ma-es", *METHODS, *OTHERS]
    record = {"seconds": {"10": dict.fromkeys(names, 1e-5)}, "popsize": {"10": 10}}
    lines = time_per_sample(record).axes[0].get_lines()
    drawn = [(line.get_color(), line.get_marker()) for line in lines]
    assert len(set(drawn)) == len(drawn) == len(names)
