"""The key of a task covers all that determines its outcome; repeating it gives the same record."""

from __future__ import annotations

import csv
import dataclasses

import numpy as np
import pytest

from lmma import MAES, kernels, problems, strategy
from lmma_lab.schedule import execute as performing
from lmma_lab.schedule.execute import perform, timeless
from lmma_lab.schedule.objective import GROWTH
from lmma_lab.tasks import (
    Experiment,
    Grid,
    Invariance,
    LargeScale,
    Memory,
    Solve,
    Timing,
    check_names,
    find_method,
    record_fault,
    task_from,
    unique,
)  # fmt: skip
from repository import ROOT

RESULTS = ROOT / "lab" / "results"
RUN = Solve("sphere", "lm-ma-es", 8, 1, 20_000)


def test_every_field_is_part_of_the_key():
    others = {
        "problem": "cigar", "method": "ma-es", "n": 9, "seed": 2, "budget": 1, "target": 1e-9, "sigma0": 1.0,
    }  # fmt: skip
    keys = {dataclasses.replace(RUN, **{name: value}).key for name, value in others.items()}
    assert len(keys | {RUN.key}) == len(dataclasses.fields(RUN)) + 1


def test_keys_never_change():
    # Published stores hold these; a change of the hash would orphan every record.
    known = {
        "93c71d53f86266f4d7c86f9857455e9b": ("run", RUN),
        "b32c3d240c3a348c4f6f4cc8251db25b": ("timing", Timing("ma-es", 128)),
        "086f4a28caa89305234451495c7b7750": ("memory", Memory("ma-es", 128)),
        "a6ca0528a8b8f3e152b726bba064e898": ("invariance", Invariance("ma-es", "update", 16, 1)),
        "f60b04c221bb42286557628132c21078": ("largescale", LargeScale(3, 1, "ma-es", 40, 40_000)),
    }
    for key, (kind, task) in known.items():
        assert (task.kind, task.key) == (kind, key)
        assert record_fault(key, kind, {"spec": dataclasses.asdict(task)}) is None


@pytest.mark.skipif(
    not kernels.backend().startswith("compiled (avx2"),
    reason="published with these kernels' last bits",
)
@pytest.mark.parametrize("method", ["lm-ma-es", "ma-es", "vd-cma-es", "lm-cma-es"])
def test_a_published_run_comes_out_the_same(method):
    with (RESULTS / "quick" / "runs.csv").open(newline="") as file:
        wanted = {"method": method, "problem": "sphere", "n": "128", "seed": "1"}
        row = next(row for row in csv.DictReader(file) if wanted.items() <= row.items())
    record = perform(Solve("sphere", method, 128, 1, int(row["budget"])))
    counts = ("evaluations_to_target", "evaluations", "generations", "popsize", "reason")
    assert {name: str(record[name]) for name in counts} == {name: row[name] for name in counts}


def test_kinds_do_not_share_keys():
    assert Timing("ma-es", 128).key != Memory("ma-es", 128).key


def test_a_grid_is_the_product_of_its_parts_and_an_experiment_has_each_task_once():
    grid = Grid(("sphere", "cigar"), ("ma-es",), (8, 16), seeds=3, budget=100)
    runs = list(grid.tasks())
    assert len(runs) == 12
    assert {run.budget for run in runs} == {800, 1600}
    assert len(Experiment.of("x", "", grid, grid, runs[0]).tasks) == 12
    assert len(unique([*runs, *runs])) == 12


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Solve("spere", "ma-es", 8, 1, 100), "sphere"),
        (Solve("sphere", "ma-ess", 8, 1, 100), "ma-es"),
        (Timing("nothing", 8), "nothing"),
        (Solve("sphere", "no_such_module:X", 8, 1, 100), "no_such_module"),
        (Solve("sphere", "lmma.methods:Nothing", 8, 1, 100), "Nothing"),
        (Solve("sphere", "math:pi", 8, 1, 100), "not a strategy"),
    ],
)
def test_unknown_names_are_rejected_before_any_work(task, words):
    with pytest.raises(ValueError, match=words):
        check_names([RUN, task])


@pytest.mark.parametrize("wrong", [{"n": 0}, {"budget": 0}, {"seed": -1}, {"sigma0": 0.0}])
def test_impossible_runs_are_rejected(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        dataclasses.replace(RUN, **wrong)


def test_a_method_may_be_any_class():
    assert find_method("lmma.methods.ma:MAES", 5) is MAES
    assert [find_method("auto", n).name for n in (5, 5000)] == ["portfolio", "portfolio"]


def test_a_record_identifies_its_task_and_invalid_records_are_detected():
    record = perform(Solve("sphere", "ma-es", 3, 1, 2000))
    task = task_from("run", record["spec"])
    assert record_fault(task.key, "run", record) is None
    assert record_fault("0" * 32, "run", record) is not None
    assert record_fault(task.key, "run", {"spec": {"problem": "sphere"}}) is not None
    assert record_fault(task.key, "run", {}) is not None
    assert record_fault("any", "attack", {}) is None  # of another kind of work


def test_a_run_done_twice_is_the_same_but_for_time():
    one, two = perform(RUN), perform(RUN)
    assert timeless(one) == timeless(two)
    assert one["seconds"] != two["seconds"]
    assert timeless(perform(dataclasses.replace(RUN, seed=2))) != timeless(one)


def test_evaluations_to_target_end_at_the_first_candidate_that_meets_it():
    record = perform(RUN)
    es = strategy(
        "lm-ma-es",
        problems.get("sphere").start(8, np.random.default_rng([1, 8])),
        3.0,
        rng=1,
    )
    count = 0
    while True:
        values = problems.get("sphere")(es.ask())
        for value in values:
            count += 1
            if value <= 1e-10:
                assert record["evaluations_to_target"] == count
                assert count <= record["evaluations"] < count + es.popsize
                return
        es.tell(values)


def test_a_run_that_misses_the_target_says_so():
    record = perform(dataclasses.replace(RUN, budget=200))
    assert (record["success"], record["evaluations_to_target"], record["reason"]) == (
        False,
        None,
        "maxfevals",
    )
    assert record["evaluations"] <= 200


def test_a_slow_run_is_not_stopped_short_of_the_target_and_a_stuck_one_is():
    # LM-MA-ES crawls on the ellipsoid: with default tolerances it ends above the target.
    assert perform(Solve("ellipsoid", "lm-ma-es", 4, 1, 10**6))["reason"] == "ftarget"
    stuck = perform(Solve("rastrigin", "ma-es", 10, 1, 200_000))
    assert stuck["best_fun"] > 0.9  # the lowest of the local optima
    assert stuck["reason"] in ("tolfun", "tolx")


def test_methods_start_from_the_same_point():
    starts = []
    for method in ("ma-es", "csa-es"):
        record = perform(Solve("sphere", method, 50, 3, 50))
        starts.append(record["curve"]["best_fun"][0])
    # The first generation is mean + 3 z with the same z for the same seed, before anything is learnt.
    assert starts[0] == starts[1]


def test_a_curve_is_thinned_evenly_on_a_log_scale_and_ends_where_the_run_did():
    record = perform(Solve("cigar", "ma-es", 10, 1, 20_000))
    evaluations = np.array(record["curve"]["evaluations"])
    best = np.array(record["curve"]["best_fun"])
    assert evaluations[-1] == record["evaluations"]
    assert best[-1] == pytest.approx(record["best_fun"], rel=1e-5)
    assert np.all(np.diff(best) <= 0)
    steps = evaluations[1:-1] / evaluations[:-2]
    late = evaluations[:-2] > 40 * record["popsize"]
    assert np.all(steps >= GROWTH - 1e-12)
    assert np.all(steps[late] < GROWTH + 0.03)


def test_progress_is_reported():
    heard: list[tuple[int, float]] = []
    perform(
        Solve("cigar", "lm-ma-es", 10, 1, 20_000), lambda evaluations, best: heard.append((evaluations, best))
    )
    assert len(heard) > 3
    assert heard == sorted(heard, key=lambda pair: pair[0])


def test_times_and_memory_are_positive_and_memory_grows_with_n(monkeypatch):
    monkeypatch.setattr(performing, "SHORTEST", 0.01)
    seconds = perform(Timing("lm-ma-es", 64))["seconds"]
    assert 0 < seconds["best"] <= seconds["lower"] <= seconds["median"] <= seconds["upper"]
    small, large = (perform(Memory("ma-es", n))["peak_bytes"] for n in (100, 400))
    assert 8 * 400**2 < large < 3 * 8 * 400**2
    assert large > 5 * small


@pytest.mark.parametrize(
    ("method", "change"),
    [("lm-ma-es", "monotone"), ("lm-ma-es", "translation"), ("lm-ma-es", "scale"), ("ma-es", "update")],
)
def test_invariances_are_measured(method, change):
    assert perform(Invariance(method, change, 16, 1, 40))["difference"] < 1e-9


def test_a_change_that_matters_is_seen(monkeypatch):
    monkeypatch.setattr(performing, "_third_root_of", lambda function: lambda X: -function(X))
    assert perform(Invariance("lm-ma-es", "monotone", 16, 1, 40))["difference"] > 0.01


def test_an_unknown_change_is_rejected():
    with pytest.raises(ValueError, match="monotone"):
        Invariance("lm-ma-es", "nonsense", 16, 1)
