"""What a log says of the shape of a search: right by name, at a bounded cost, and nothing else is changed."""

import json
import time

import numpy as np
import pytest

import lmma
from lmma.run.shape import SHARE, Shape


def ellipsoid(x):
    return float(np.logspace(0, 4, len(x)) @ np.square(x))


def records_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_log_names_the_shortest_and_longest_steps(tmp_path):
    log = tmp_path / "run.jsonl"
    result = lmma.minimize(ellipsoid, np.ones(20), 0.5, rng=1, ftarget=1e-8, log=log, method="sep-cma-es")
    last = [record for record in records_of(log) if "axis_ratio" in record][-1]
    assert set(last["shortest"]) <= {f"x[{k}]" for k in range(12, 20)}
    assert set(last["longest"]) <= {f"x[{k}]" for k in range(8)}
    assert last["steps"] == sorted(last["steps"])
    assert last["steps"][0] == min(last["shortest"].values())
    assert last["steps"][4] == max(last["longest"].values())
    assert 20 < last["axis_ratio"] < 500  # 100 where the metric is learned
    assert len(last["coordinates"]) == 8
    assert next(iter(last["coordinates"])) == "x[0]"
    assert list(last["coordinates"])[-1] == "x[19]"
    assert records_of(log)[-1]["reason"] == result.reason == "ftarget"
    assert [record for record in records_of(log)[:-1] if "reason" in record] == []


def test_a_space_gives_names_and_places_between_limits(tmp_path):
    log = tmp_path / "run.jsonl"
    space = lmma.Space(
        rate=lmma.Real(1e-4, 1, log=True), kind=lmma.Choice(["a", "b"]), width=lmma.Integer(1, 9)
    )
    lmma.minimize(lambda rate, kind, width: rate + (width - 3) ** 2, space, rng=1, maxiter=20, log=log)
    seen = records_of(log)[0]["coordinates"]
    assert set(seen) == {"rate", "width"}  # a choice has no steps
    assert all(0 <= mean <= 1 and step > 0 for mean, step in seen.values())


def test_a_run_with_a_log_is_the_run_without(tmp_path):
    runs = [
        lmma.minimize(ellipsoid, np.ones(12), 0.5, rng=1, maxiter=200, log=log)
        for log in (None, tmp_path / "run.jsonl")
    ]
    assert np.array_equal(runs[0].x, runs[1].x)
    assert np.array_equal(runs[0].mean, runs[1].mean)


def test_a_strategy_of_ones_own_has_a_log_without_a_shape(tmp_path):
    class Walk(lmma.Strategy):
        name = "walk"

        def _sample(self, out):
            out[...] = self.mean + self.sigma * self.generator().standard_normal(out.shape)

        def _update(self, order, values):
            self.mean[...] = self._candidate(order[0])

        @classmethod
        def memory(cls, n, popsize, itemsize=8):
            return popsize * n * itemsize

    log = tmp_path / "run.jsonl"
    lmma.minimize(ellipsoid, np.ones(3), 0.5, method=Walk, rng=1, maxiter=5, log=log)
    assert "median_fun" in records_of(log)[0]
    assert "axis_ratio" not in records_of(log)[0]


def test_looking_takes_a_small_share_of_the_time(monkeypatch):
    from lmma.run import shape

    clock = {"now": 0.0, "spent": 0.0, "looks": 0}

    def look(run):
        clock["spent"] += 0.5
        clock["looks"] += 1
        return {"axis_ratio": 1.0}

    monkeypatch.setattr(shape, "look", look)
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(time, "thread_time", lambda: clock["spent"])
    seen = Shape(None)
    for second in range(1000):
        clock["now"] = float(second)
        seen()
    assert clock["looks"] == 1000 // (0.5 * SHARE) == 40


@pytest.mark.parametrize("n", [2, 3, 20_001])
def test_few_and_many_variables(n, tmp_path):
    log = tmp_path / "run.jsonl"
    lmma.minimize(lambda x: float(x @ x), np.ones(n), 0.5, rng=1, maxiter=2, log=log, method="lm-ma-es")
    seen = records_of(log)[0]
    assert 1 <= len(seen["shortest"]) <= 3
    assert list(seen["coordinates"])[-1] == f"x[{n - 1}]"
