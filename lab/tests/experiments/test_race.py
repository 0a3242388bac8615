"""Seconds to a target: records, ranking, table and figure."""

from dataclasses import asdict

import pytest

from lmma_lab.analysis.seconds import publish_seconds, seconds_figure, seconds_table, wins
from lmma_lab.schedule.execute import perform
from lmma_lab.tasks import KINDS, Race, record_fault


def record(problem, method, n, seconds, *, success=True, reason="ftarget"):
    return {
        "kind": "seconds",
        "spec": asdict(Race(problem, method, n, 1, 1000, 10.0)),
        "versions": {"lmma": "0"},
        "success": success,
        "seconds": seconds,
        "cpu_seconds": seconds,
        "evaluations": 100,
        "best_fun": 1e-11,
        "reason": reason,
    }


RECORDS = [
    record("sphere", "auto", 8, 1.0),
    record("sphere", "pycma", 8, 2.0),
    record("cigar", "auto", 8, 3.0),
    record("cigar", "pycma", 8, 2.0),
    record("discus", "auto", 8, 3.0),
    record("discus", "pycma", 8, 9.0, success=False, reason="maxtime"),
    record("discus", "ma-es", 8, 1.0),
]


@pytest.mark.parametrize("method", ["auto", "lm-ma-es"])
def test_a_race_ends_at_its_target_and_is_recorded(method):
    task = Race("sphere", method, 4, 1, 100_000, 60.0, target=1e-3)
    found = perform(task)
    assert found["success"]
    assert found["reason"] == "ftarget"
    assert found["best_fun"] <= 1e-3
    assert found["cpu_seconds"] > 0
    assert record_fault(task.key, "seconds", found) is None


@pytest.mark.parametrize("method", ["pycma", "cmaes", "fcmaes-cma", "fcmaes-crfmnes-c"])
def test_a_peer_races_from_the_same_start(method):
    pytest.importorskip({"pycma": "cma"}.get(method, method.partition("-")[0]))
    found = perform(Race("sphere", method, 4, 1, 100_000, 60.0, target=1e-3))
    assert found["success"]
    assert found["best_fun"] <= 1e-3


def test_a_race_that_exceeds_its_budget_is_not_a_success():
    found = perform(Race("sphere", "lm-ma-es", 4, 1, 20, 60.0))
    assert not found["success"]
    assert found["reason"] == "maxfevals"


@pytest.mark.parametrize(("change", "words"), [({"patience": 0.0}, "patience"), ({"n": 0}, "n must be")])
def test_a_race_that_cannot_be_run_is_rejected(change, words):
    given = {"problem": "sphere", "method": "auto", "n": 4, "seed": 1, "budget": 10, "patience": 1.0}
    with pytest.raises(ValueError, match=words):
        Race(**given | change)


def test_an_unknown_method_is_rejected_before_work_starts():
    with pytest.raises(ValueError, match="lm-ma-ess"):
        Race("sphere", "lm-ma-ess", 4, 1, 10, 1.0).check_names()
    Race("sphere", "auto", 4, 1, 10, 1.0).check_names()


def test_ahead_means_ahead_of_other_packages_and_not_of_our_own_methods():
    assert wins(RECORDS, "auto") == (2, 3)  # sphere, and discus, which the other one gave up


def test_the_table_marks_the_quickest_and_says_why_others_have_no_time():
    rows = {
        line.split("|")[2].strip(): line for line in seconds_table(RECORDS, ["auto", "pycma"]).splitlines()
    }
    assert "**1** | 2 |" in rows["sphere"]
    assert "3 | **2** |" in rows["cigar"]
    assert "**3** | too slow |" in rows["discus"]


def test_the_figure_shows_a_panel_for_each_function_and_where_runs_were_given_up():
    data = seconds_figure(RECORDS, ["auto", "pycma", "ma-es"])
    shown = {panel.title: [s.label for s in panel.series] for panel in data.panels}
    pair = ["auto", "pycma"]
    assert shown == {"sphere": pair, "cigar": pair, "discus": [*pair, "ma-es"]}
    ended = {s.label: [end.note for end in s.unreached] for s in data.panels[-1].series}
    assert ended == {"auto": [], "pycma": ["too slow"], "ma-es": []}


def test_everything_is_written_to_a_folder(tmp_path):
    publish_seconds(RECORDS, tmp_path, "lmma bench seconds", ["auto", "pycma", "ma-es"])
    page = (tmp_path / "README.md").read_text()
    assert "auto is faster than every other package in 2 of 3 cases." in page
    assert (tmp_path / "seconds.csv").read_text().count("\n") == 1 + len(RECORDS)


def test_races_are_a_kind_that_stores_know():
    assert KINDS["seconds"] is Race
    assert Race.exclusive
