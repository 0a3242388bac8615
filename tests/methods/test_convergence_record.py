"""es.plot(): the convergence record of a strategy as a figure."""

from types import SimpleNamespace

import numpy as np
import pytest

import lmma
from lmma.methods.convergence import MAX_SNAPSHOTS, ConvergenceRecord


def told(method, generations, **options):
    es = lmma.strategy(method, np.ones(6), 0.5, rng=1, **options)
    for _ in range(generations):
        es.tell(np.sum(es.ask() ** 2, axis=1))
    return es


@pytest.mark.parametrize("method", lmma.methods())
def test_the_figure_ends_where_the_strategy_is(method):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    es = told(method, 20)
    above, below = es.plot(target=1e-3).axes
    assert above.lines[0].get_xdata()[-1] == es.evaluations
    assert above.lines[0].get_ydata()[-1] == es.best_fun
    assert below.lines[0].get_ydata()[-1] == es.sigma
    assert len(above.lines[0].get_xdata()) == 20


def test_choices_are_drawn_too():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    space = lmma.Space(a=lmma.Real(-1, 1), b=lmma.Choice(["p", "q", "r"]))
    es = lmma.strategy("lm-ma-es", space, rng=1)
    for _ in range(5):
        es.tell([row[0] ** 2 + row[1] for row in es.ask()])
    assert es.plot(title="mine").get_suptitle() == "mine"


def test_plotting_before_the_first_tell_raises():
    with pytest.raises(ValueError, match="called before the first tell"):
        lmma.LMMAES(np.ones(3), 0.5).plot()


def test_a_long_run_is_thinned_evenly():
    def strategy(k):
        return SimpleNamespace(
            sigma=1.0,
            popsize=1,
            average_fun=np.nan,
            noise=SimpleNamespace(quality=1.0, rate=1.0, repeats=1.0),
            record=SimpleNamespace(evaluations=k, best_fun=float(-k), failures=0),
        )

    trace = ConvergenceRecord()
    for k in range(20_000):
        trace.take(k, strategy(k))
    columns = trace.columns(strategy(20_000))
    x = columns["evaluations"]
    assert MAX_SNAPSHOTS / 2 <= len(x) <= MAX_SNAPSHOTS + 1
    assert (x[0], x[-1]) == (0, 20_000)
    assert len(set(np.diff(x[:-1]).tolist())) == 1


def test_the_record_is_not_part_of_the_state():
    es = told("lm-ma-es", 5)
    assert not any("trace" in name for name in es.get_state())


@pytest.mark.parametrize(
    ("noise", "label"),
    [("auto", "learning rate"), ("average", "repeats"), ("population", "population / initial")],
)
def test_under_noise_quality_treatment_and_averages_are_drawn(noise, label):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    rng = np.random.default_rng(1)
    es = lmma.strategy("lm-ma-es", np.full(10, 3.0), 1.0, rng=1, noise=noise)
    count = 0

    def fun(rows):
        nonlocal count
        count += len(rows)
        return np.sum(rows**2, axis=1) + rng.standard_normal(len(rows))

    for _ in range(300):
        candidates, rows = es.ask(), es.rows_to_repeat
        es.tell(fun(candidates), repeats=fun(candidates[rows]) if len(rows) else None)
    above, _, quality, done = es.plot().axes
    average = above.lines[0]
    assert average.get_label() == "average of recent candidates"
    assert (average.get_xdata()[-1], average.get_ydata()[-1]) == (count, es.noise.level)  # repeats count, too
    assert quality.lines[0].get_ydata()[-1] == es.noise.quality
    assert done.get_ylabel() == label
    assert done.lines[0].get_ydata()[-1] == (es.noise.rate if noise == "auto" else es.noise.repeats)


def test_without_detected_noise_the_plot_has_no_extra_panels():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert len(told("lm-ma-es", 60, noise="auto").plot().axes) == 2
