"""Styles of methods in figures are distinct."""

import pytest

from lmma.methods.registry import METHODS
from lmma.output.plotting import style


def test_no_two_methods_share_colour_and_marker():
    pairs = list(style.assign_styles(list(METHODS)).values())
    assert len(set(pairs)) == len(pairs) == len(METHODS)


def test_more_methods_than_distinguishable_styles_are_rejected():
    most = len(style.COLOURS) * len(style.MARKERS)
    assert len(set(style.assign_styles([str(i) for i in range(most)]).values())) == most
    with pytest.raises(ValueError, match=f"at most {most} methods, got {most + 1}"):
        style.assign_styles([str(i) for i in range(most + 1)])
