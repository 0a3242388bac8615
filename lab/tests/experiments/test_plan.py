"""A time limit is spent first on tasks that decide open claims; estimates use the growth in the store."""

from __future__ import annotations

import io
import time

import pytest
from made_up import run_record

from lmma_lab.claims import CLAIMS
from lmma_lab.plan import plan
from lmma_lab.presets import paper
from lmma_lab.schedule.eta import Clock
from lmma_lab.schedule.runner import Runner
from lmma_lab.store import Store
from lmma_lab.tasks import Grid, Solve, record_fault, unique

PROBES = {("lm-ma-es", 128): 1e-4, ("lm-ma-es", 2048): 1e-3, ("ma-es", 128): 1e-4, ("ma-es", 512): 1e-3}


def seconds_by_n(task):
    return float(getattr(task, "n", 1))


def test_every_claim_about_benchmarks_knows_tasks_of_the_paper_that_bear_on_it():
    tasks = unique(task for experiment in paper().values() for task in experiment.tasks)
    for claim in CLAIMS:
        bears = sum(claim.about(task) for task in tasks)
        assert bears == 0 if claim.where.startswith("section 4.2") else bears > 0, claim.id


def test_claims_without_data_come_first_and_new_cells_before_more_seeds():
    decided = [run_record("sphere", "lm-ma-es", n, seed, 100 * n) for n in (128, 256) for seed in (1, 2, 3)]
    tasks = [
        *Grid(("shifted-sphere",), ("ma-es",), (8,), 1).tasks(),  # bears on nothing
        *Grid(("discus",), ("lm-cma-es",), (128, 256), 2).tasks(),
    ]
    chosen = plan(tasks, decided, seconds_by_n, 1e9)
    assert [(t.problem, t.n, t.seed) for t in chosen.tasks] == [
        ("discus", 128, 1), ("discus", 256, 1), ("discus", 128, 2), ("discus", 256, 2),
        ("shifted-sphere", 8, 1),
    ]  # fmt: skip
    assert chosen.reached == 5
    assert "scaling-discus" in chosen.summary()
    assert "Not reached" not in chosen.summary()


def test_a_task_that_does_not_fit_is_listed_with_its_estimate():
    tasks = list(Grid(("sphere",), ("lm-ma-es",), (128, 3600 * 5), 1).tasks())
    chosen = plan(tasks, [], seconds_by_n, 3600.0)
    assert chosen.reached == 1
    assert "Not reached: 1 tasks, about 5.0 h" in chosen.summary()
    assert "runs of lm-ma-es, n = 18,000: 1" in chosen.summary()


def test_shorter_tasks_fill_what_a_long_one_leaves():
    tasks = list(Grid(("sphere",), ("lm-ma-es",), (100, 128, 5000), 1).tasks())
    assert plan(tasks, [], seconds_by_n, 300.0).reached == 2


def test_the_runner_stops_when_the_time_is_over(tmp_path):
    tasks = list(Grid(("sphere",), ("ma-es",), (3,), 200).tasks())
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        runner = Runner(tasks, store, stream=io.StringIO(), clock=Clock(PROBES))
        runner.set_order([task.key for task in tasks], 0.01)
        began = time.monotonic()
        summary = runner.run()
        assert summary.out_of_time
        assert not summary.complete
        assert time.monotonic() - began < 30
        assert store.claim([task.key for task in tasks], 200)  # nothing is left claimed


def test_the_runner_follows_the_order_it_is_given(tmp_path):
    tasks = list(Grid(("sphere",), ("ma-es",), (3, 9, 6), 1).tasks())
    lines = io.StringIO()
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        runner = Runner(tasks, store, stream=lines, clock=Clock(PROBES))
        runner.set_order([task.key for task in tasks])
        assert runner.run().complete
    found = [
        line.partition("n=")[2].partition(",")[0] for line in lines.getvalue().splitlines() if "n=" in line
    ]
    assert found == ["3", "9", "6"]


@pytest.mark.parametrize("power", [1.0, 2.5])
def test_estimates_follow_the_growth_already_in_the_store(power):
    clock = Clock(PROBES)
    for n in (128, 256, 512):
        record = run_record("cigar", "ma-es", n, 1, 1000, seconds=(n / 128) ** power)
        clock.learn(Solve(**record["spec"]), record)
    expected = clock.expected(Solve("cigar", "ma-es", 2048, 1, 10**9))
    assert expected == pytest.approx(16**power, rel=1e-6)


def test_with_one_dimension_known_the_first_guess_says_how_it_grows():
    clock = Clock(PROBES)
    record = run_record("cigar", "lm-ma-es", 128, 1, 1000, seconds=7.0)
    known = Solve(**record["spec"])
    larger = Solve("cigar", "lm-ma-es", 512, 1, 4 * known.budget)
    grows = clock.guess(larger) / clock.guess(known)
    clock.learn(known, record)
    assert clock.expected(larger) == pytest.approx(7.0 * grows)
