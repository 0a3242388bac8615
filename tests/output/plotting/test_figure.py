"""Figures in notebooks and scripts, and messages if they cannot be shown."""

import sys
import types

import numpy as np
import pytest

import lmma


@pytest.fixture(scope="module")
def result():
    return lmma.minimize(lambda x: float(x @ x), np.ones(3), 0.5, rng=1, maxfevals=60)


def test_without_matplotlib_the_error_says_how_to_install_it(result, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "lmma.output.plotting.figure", raising=False)
    es = lmma.strategy("cma-es", np.ones(3), 0.5, rng=1)
    es.tell(np.sum(es.ask() ** 2, axis=1))
    for draw in (result.plot, result.importance.plot, es.plot):
        with pytest.raises(ImportError, match=r"require matplotlib: pip install .*plot"):
            draw()


def test_a_notebook_is_given_a_picture(result):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    picture = result.plot()._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5000


def test_show_displays_the_figure_in_a_notebook(result, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    shown = []
    shell = types.SimpleNamespace(kernel=object())
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython, display.display = lambda: shell, shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    figure = result.plot()
    figure.show()
    assert shown == [figure]


BACKEND = """
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

shown = []


class FigureManager(FigureManagerBase):
    @classmethod
    def pyplot_show(cls, *, block=None):
        from matplotlib import pyplot

        shown.extend((pyplot.figure(k), block) for k in pyplot.get_fignums())


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager
"""


def test_show_opens_a_window_in_a_script(result, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib import pyplot

    (tmp_path / "windows.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(tmp_path)
    before = pyplot.get_backend()
    pyplot.switch_backend("module://windows")
    try:
        figure = result.plot()
        figure.show()
        import windows

        assert windows.shown == [(figure, True)]
    finally:
        pyplot.close("all")
        pyplot.switch_backend(before)


def test_show_without_a_display_says_what_to_do(result):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib import pyplot

    before = pyplot.get_backend()
    pyplot.switch_backend("agg")
    try:
        with pytest.raises(RuntimeError, match="savefig"):
            result.plot().show()
        assert not pyplot.get_fignums()
    finally:
        pyplot.switch_backend(before)
