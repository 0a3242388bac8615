"""bbob-largescale: targets are counted when reached, and distributions equal a direct count."""

from __future__ import annotations

import csv
import math
import re

import numpy as np
import pytest

import lmma
from lmma.cli import main
from lmma.output.plotting.style import COLOURS
from lmma_lab import tasks as spec
from lmma_lab.analysis.runtimes import distribution, publish_runtimes, runtime_figure, shares
from lmma_lab.schedule.coco import TARGETS
from lmma_lab.schedule.coco_limits import Simulation
from lmma_lab.schedule.execute import perform, timeless
from lmma_lab.schedule.objective import WatchedObjective
from lmma_lab.tasks import (
    BbobConstrained,
    BbobMixint,
    BbobNoisy,
    LargeScale,
    record_fault,
    task_from,
)
from pictures import colours_in


def record(function, hits, method="lm-ma-es", n=20, instance=1):
    """Return a record in which the first targets were met after so many evaluations."""
    task = LargeScale(function, instance, method, n, 1000 * n)
    return {
        "kind": "largescale", "spec": vars(task) | {}, "versions": {"lmma": "0"}, "machine": {},
        "hits": list(hits) + [None] * (len(TARGETS) - len(hits)),
        "evaluations": 1000 * n, "restarts": 1, "precision": 0.5,
    }  # fmt: skip


def test_targets_run_from_a_hundred_to_1e_8_five_to_a_decade():
    assert len(TARGETS) == 51
    assert TARGETS[0] == 100
    assert math.isclose(TARGETS[-1], 1e-8)
    assert math.isclose(TARGETS[5], 10)


def test_a_target_is_met_by_the_first_value_at_or_below_it():
    generations = iter([[500.0, 100.0, 120.0], [64.0, 39.0], [1e-9]])
    objective = WatchedObjective(lambda X: np.array(next(generations)), TARGETS)
    objective(np.zeros((3, 1)))
    assert objective.hits == [2]  # 100
    objective(np.zeros((2, 1)))
    assert objective.hits == [2, 5, 5]  # 63.1 and 39.8
    objective(np.zeros((1, 1)))
    assert objective.hits == [2, 5, 5] + [6] * 48
    assert objective.evaluations == 6


def test_the_distribution_counts_targets_met_and_weighs_functions_alike():
    met_all = record(1, [40] * 51)
    met_none = record(2, [])
    assert distribution([met_all], [1.9, 2.0, 9.0]) == [0.0, 1.0, 1.0]
    assert distribution([met_all, met_none, met_none], [2.0]) == [0.5]
    half = record(3, list(range(20, 20 + 17)))  # 17 of 51 targets
    assert distribution([half], [math.inf]) == pytest.approx([1 / 3])
    assert distribution([half], [1.0]) == pytest.approx([1 / 51])


def test_a_figure_has_a_panel_for_each_group_and_one_for_all():
    data = runtime_figure([record(f, [20 * f] * 51) for f in range(1, 25)], 20)
    assert len(data.panels) == 6
    final = {panel.title: panel.series[0].y[-1] for panel in data.panels}
    assert set(final.values()) == {1.0}
    assert data.panels[0].series[0].y[0] == pytest.approx(1 / 5)  # f1 alone takes n evaluations


def test_published_files_hold_what_was_recorded(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib draws the figures")
    records = [record(f, [30] * f, method) for f in range(1, 25) for method in ("ma-es", "lm-ma-es")]
    table = publish_runtimes(records, tmp_path, "lmma bench largescale", ("lm-ma-es", "ma-es"))
    assert table.index("lm-ma-es") < table.index("| ma-es")
    colours = colours_in(tmp_path / "runtimes-20.png")
    assert set(COLOURS[:2]) <= colours  # two methods
    assert COLOURS[2] not in colours
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    assert [row["targets met"] for row in rows if row["function"] == "7"] == ["7", "7"]
    assert shares(records)[0]["separable, f1 to f5"] == f"{3 / 51:.3f}"


def test_records_of_the_first_release_are_published_too(tmp_path):
    old = record(1, [30])
    del old["restarts"]
    publish_runtimes([old | {"legs": 3}], tmp_path, "lmma bench largescale")
    with (tmp_path / "runs.csv").open() as file:
        assert [row["restarts"] for row in csv.DictReader(file)] == ["2"]


def test_a_record_belongs_to_its_task():
    task = LargeScale(3, 1, "ma-es", 40, 40_000)
    assert task_from("largescale", vars(task)) == task
    assert record_fault(task.key, "largescale", {"spec": vars(task)}) is None
    assert record_fault("0" * 32, "largescale", {"spec": vars(task)})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dims", "30"], "20, 40, 80"),
        (["--functions", "25"], "between 1 and 24"),
        (["--functions", ","], "--functions"),
        (["--dims", "20", "--methods", "ma-ess"], "'ma-es'"),
    ],
)
def test_mistakes_are_one_line_before_any_work(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "largescale", *words]) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1


def test_without_coco_the_message_names_the_package_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(spec.util, "find_spec", lambda name: None)
    assert main(["bench", "largescale", "--dims", "20", "--out", str(tmp_path)]) == 2
    assert re.search(r"pip install '[^']*lab\[largescale\]'", capsys.readouterr().err)


coco = pytest.mark.skipif(
    spec.util.find_spec("cocoex") is None, reason="COCO's functions come with coco-experiment"
)


@coco
def test_the_sphere_of_coco_is_solved_and_the_same_task_gives_the_same_record():
    task = LargeScale(1, 2, "ma-es", 20, 6_000)
    done = perform(task)
    assert None not in done["hits"]
    assert done["hits"] == sorted(done["hits"])
    assert done["restarts"] == 0
    assert "coco-experiment" in done["versions"]
    assert timeless(perform(task)) == timeless(done)


@coco
def test_a_run_that_is_stuck_starts_again_with_twice_the_population_within_the_budget():
    done = perform(LargeScale(15, 1, "lm-ma-es", 20, 12_000))  # Rastrigin's function
    assert done["restarts"] > 0
    assert done["evaluations"] <= 12_000
    assert done["hits"][-1] is None


@coco
def test_restarts_are_those_of_minimize(monkeypatch):
    asked = []
    original = lmma.minimize

    def watched(*given, **options):
        asked.append(options["restarts"])
        return original(*given, **options)

    monkeypatch.setattr(lmma, "minimize", watched)
    perform(LargeScale(1, 1, "lm-ma-es", 20, 600))
    assert asked == ["ipop:40"]


@coco
def test_the_command_draws_what_it_ran_and_runs_nothing_twice(capsys, tmp_path):
    words = ["bench", "largescale", "--dims", "20", "--budget", "20", "--methods", "lm-ma-es"]
    words += ["--functions", "1,5", "--instances", "1", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "| 20 | lm-ma-es | 2 |" in out
    page = (tmp_path / "out" / "README.md").read_text()
    assert "lmma bench largescale --suite bbob-largescale --dims 20 --budget 20" in page
    assert main(words) == 0
    assert "nothing left to do" in capsys.readouterr().out


@coco
@pytest.mark.parametrize(
    ("kind", "function", "method"),
    [
        (BbobConstrained, 1, "auto"),
        (BbobConstrained, 1, "pycma"),
        (BbobConstrained, 1, "cobyqa"),
        (BbobMixint, 1, "auto"),
        (BbobMixint, 1, "pycma"),
        (BbobNoisy, 101, "auto"),
        (BbobNoisy, 101, "pycma"),
    ],
    ids=lambda value: str(getattr(value, "suite", value)),
)
def test_suites_with_constraints_integers_and_noise_are_run_by_everybody(kind, function, method):
    pytest.importorskip("cma", reason="pycma is a peer")
    task = kind(function, 1, method, 5, 1500)
    done = perform(task)
    assert done["evaluations"] <= 1500
    assert done["hits"][25] is not None  # 1e-3, on spheres
    assert timeless(perform(task)) == timeless(done) or kind is BbobNoisy  # COCO's noise goes on


@coco
def test_a_point_that_is_not_feasible_meets_no_target():
    simulation = Simulation(BbobConstrained(1, 1, "auto", 5, 100))
    best = simulation.best_point
    g = simulation.problem.constraint(best)
    outside = best + 1e-3 * np.eye(5)
    violated = [x for x in (*outside, *(2 * best - outside)) if simulation.problem.constraint(x).max() > 1e-6]
    assert g.max() <= 1e-8
    for x in violated:
        simulation(x)
    assert violated
    assert simulation.hits == []
    simulation(best)
    assert len(simulation.hits) == 51
