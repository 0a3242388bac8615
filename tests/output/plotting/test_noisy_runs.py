"""Figures of noisy runs: averages, best observed values, quality and treatment."""

import math

import numpy as np
import pytest

from lmma.output.plotting.convergence import convergence
from lmma.output.plotting.log import panels
from lmma.output.plotting.style import save

STEPS = 40


def record(**more):
    """A run in which the best value falls below 0 by luck while the average stays at 2."""
    k = np.arange(STEPS)
    return {
        "evaluations": (10 * (1 + k)).tolist(),
        "best_fun": np.minimum.accumulate(10.0 - k).tolist(),
        "sigma": (0.9**k).tolist(),
        "step": (0.9**k).tolist(),
        "seconds": k.tolist(),
        "restarts": [0] * STEPS,
        "popsize": [10] * STEPS,
        "quality": [1.0] * 5 + [0.3] * (STEPS - 5),
        "rate": [1.0] * 5 + (0.9 ** k[:-5]).tolist(),
        "repeats": [1.0] * STEPS,
        "average_fun": [math.nan] * 5 + [2.0] * (STEPS - 5),
        **more,
    }


REPEATED = {"rate": [1.0] * STEPS, "repeats": np.linspace(1, 8, STEPS).tolist()}


def labelled(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_quality_and_learning_rate_have_panels_of_their_own():
    columns = record()
    above, _, quality, rate = convergence(columns).axes
    assert quality.lines[0].get_ydata().tolist() == columns["quality"]
    assert rate.lines[0].get_ydata().tolist() == columns["rate"]
    assert (quality.get_ylabel(), rate.get_ylabel()) == ("rank quality", "learning rate")
    assert above.lines[0].get_ydata()[-1] == 2.0
    assert above.lines[1].get_ydata()[-1] == min(columns["best_fun"])
    assert labelled(above) == ["average of recent candidates", "best observed value, later 0 or less"]
    assert above.get_ylabel() == "value"


def test_repeats_are_drawn_where_candidates_are_repeated_and_populations_where_they_grow():
    axes = convergence(record(**REPEATED)).axes
    assert axes[3].get_ylabel() == "repeats"
    assert axes[3].lines[0].get_ydata()[-1] == 8.0
    sizes = [10 * round(k) for k in REPEATED["repeats"]]
    assert convergence(record(**REPEATED, popsize=sizes)).axes[3].get_ylabel() == "population / initial"
    restarts = [int(size > 10) for size in sizes]
    doubled = record(**REPEATED, restarts=restarts, popsize=[10 * (1 + each) for each in restarts])
    assert convergence(doubled).axes[3].get_ylabel() == "repeats"


def test_averages_set_the_scale_and_best_observed_values_may_lie_below():
    lucky = [1e-12 if value == 0 else value for value in record()["best_fun"]]
    above = convergence(record(best_fun=lucky)).axes[0]
    assert above.get_yscale() == "log"
    assert above.get_ylim()[0] == pytest.approx(0.2)  # a tenth of the lowest average
    below_zero = record(average_fun=[-1.0] * STEPS)
    assert convergence(below_zero).axes[0].get_yscale() == "linear"
    target = convergence(record(), target=1e-3).axes[0]
    assert target.get_ylim()[0] < 1e-3


def test_the_result_is_marked_with_its_error():
    above = convergence(record(), answer=(420, 0.5, 0.25)).axes[0]
    assert labelled(above)[-1] == "result, 0.5 ± 0.25"
    assert above.get_ylim()[0] < 0.5


def test_noise_that_was_seen_and_not_treated_is_drawn_with_the_best_value():
    columns = record(quality=[0.97] * STEPS, rate=[1.0] * STEPS)
    del columns["average_fun"]
    above, _, quality, rate = convergence(columns).axes
    assert above.get_ylabel() == "best value"
    assert quality.lines[0].get_ydata()[-1] == 0.97
    assert set(rate.lines[0].get_ydata()) == {1.0}


def test_runs_with_and_without_noise_are_drawn_in_one_figure():
    calm = record(quality=[1.0] * STEPS, rate=[1.0] * STEPS)
    del calm["average_fun"]
    figure = convergence({"calm": calm, "damped": record(), "averaged": record(**REPEATED)})
    above, below, quality, done = figure.axes
    assert labelled(above) == ["calm", "damped", "averaged"]
    assert above.get_ylabel() == "value (best observed dashed)"
    assert [len(axes.lines) for axes in (below, quality, done)] == [3, 2, 2]
    assert done.get_ylabel() == "learning rate, repeats"


def test_without_noise_quality_is_not_drawn():
    calm = record(quality=[1.0] * STEPS, rate=[1.0] * STEPS)
    del calm["average_fun"]
    assert [axes.get_ylabel() for axes in convergence(calm).axes] == ["best value", r"step size $\sigma$"]
    assert len(panels(calm).axes) == 4


@pytest.mark.parametrize("more", [{}, REPEATED], ids=["damped", "averaged"])
def test_a_log_shows_averages_quality_and_treatment(more, tmp_path):
    columns = record(**more)
    columns["average_fun"] = [None if value != value else value for value in columns["average_fun"]]
    columns["quality"][7] = columns["repeats"][7] = columns["rate"][7] = None  # no finite number
    figure = panels(columns)
    value, _, _, _, quality, done = figure.axes
    assert labelled(value) == ["average of recent candidates", "best observed value, later 0 or less"]
    assert value.get_yscale() == "log"
    assert "quality" in quality.get_ylabel()
    assert quality.lines[0].get_ydata()[-1] == 0.3
    assert done.get_ylabel() == ("repeats" if more else "learning rate")
    save(figure, tmp_path / "log.png")


@pytest.mark.parametrize("more", [{"best_fun": [math.inf] * STEPS}, {"average_fun": [math.nan] * STEPS}])
def test_odd_records_can_be_drawn_too(more, tmp_path):
    save(convergence(record(**more), target=1e-3), tmp_path / "a.png")
    save(panels(record(**more)), tmp_path / "b.png")
