"""Log columns about the search: correct by name, at a bounded cost, without side effects."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

import lmma
from lmma.run.observers.json_log import ALLOWANCE, FIRST, SHARE, SearchColumns


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
    assert all(0 <= mean <= 1 and 0 < step < 1 for mean, step in seen.values())
    assert records_of(log)[0]["run"]["relative"] is True


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
    from lmma.run.observers import json_log

    clock = {"now": 0.0, "spent": 0.0, "looks": 0}

    def search_columns(strategy, space, limits):
        clock["spent"] += 0.5
        clock["looks"] += 1
        return {"axis_ratio": 1.0}

    monkeypatch.setattr(json_log, "search_columns", search_columns)
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(time, "thread_time", lambda: clock["spent"])
    seen = SearchColumns(SimpleNamespace(strategy=SimpleNamespace(ranked_values=())), None)
    for second in range(1000):
        clock["now"] = float(second)
        seen()
    assert 0.9 * 1000 / SHARE < clock["spent"] <= 1000 / SHARE + ALLOWANCE + 0.5
    looks = clock["looks"]
    assert seen(True) == {"axis_ratio": 1.0}  # at the end it is looked at whatever the time
    assert clock["looks"] == looks + 1


def test_a_shape_that_cannot_be_computed_does_not_lose_the_result(tmp_path, monkeypatch):
    from lmma.numerics.metric import MetricOperator

    def broken(self):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(MetricOperator, "axis_ratio", broken)
    result = lmma.minimize(
        ellipsoid, np.ones(4), 0.5, values="ranks", rng=1, maxiter=120, log=tmp_path / "run.jsonl"
    )
    assert result.reason == records_of(tmp_path / "run.jsonl")[-1]["reason"] == "maxiter"


@pytest.mark.parametrize("reason", ["maxfevals", "ftarget"])
def test_a_short_run_has_a_record_of_every_generation_and_ends_with_its_shape(reason, tmp_path, monkeypatch):
    from lmma.run.observers import json_log

    monkeypatch.setattr(json_log, "ALLOWANCE", -1.0)  # no time is left to look, except at the end
    log = tmp_path / "run.jsonl"
    limit = {"maxfevals": 900} if reason == "maxfevals" else {"ftarget": 1e-3}
    result = lmma.minimize(ellipsoid, np.ones(8), 0.5, values="ranks", rng=1, log=log, **limit)
    records = records_of(log)
    assert result.reason == records[-1]["reason"] == reason
    first = [record["generation"] for record in records if record["generation"] <= FIRST]
    assert first == list(range(1, min(result.nit, FIRST) + 1))
    assert "axis_ratio" not in records[1]
    ratio = np.sqrt(np.linalg.cond(np.array([result.hess_inv @ e for e in np.eye(8)])))
    assert records[-1]["axis_ratio"] == pytest.approx(ratio, rel=1e-3)
    assert records[-1]["steps"][2] < 0.1


def test_the_first_record_describes_the_run(tmp_path):
    log, file = tmp_path / "run.jsonl", tmp_path / "run.npz"
    given = {"rng": 7, "log": log, "checkpoint": file, "method": "ma-es", "popsize": 9}
    lmma.minimize(ellipsoid, np.ones(4), 0.5, maxfevals=90, maxtime=60.0, **given)
    lmma.minimize(ellipsoid, np.ones(4), 0.5, maxfevals=180, **given)
    described = [(k, record["run"]) for k, record in enumerate(records_of(log)) if "run" in record]
    known = {"method": "ma-es", "n": 4, "popsize": 9, "seed": 7, "relative": False}
    assert described == [(0, known | {"maxfevals": 90, "maxtime": 60.0}), (10, known | {"maxfevals": 180})]


def test_lengths_in_a_box_are_relative_to_its_widths(tmp_path):
    widths = np.array([1.0, 1e3, 1e6, 10.0])
    columns = {}
    for name, unit in (("mixed", widths), ("alike", np.ones(4))):
        log = tmp_path / f"{name}.jsonl"

        def fun(x, unit=unit):
            return float(np.sum((x / unit - 0.3) ** 2))

        lmma.minimize(fun, 0.5 * unit, values="ranks", bounds=list(zip(np.zeros(4), unit, strict=True)),
                      rng=1, maxiter=30, log=log, tolx=0, tolfun=0)  # fmt: skip
        columns[name] = records_of(log)
        assert columns[name][0]["run"]["relative"] is True
    for mixed, alike in zip(*columns.values(), strict=True):
        assert mixed["axis_ratio"] == pytest.approx(alike["axis_ratio"], rel=1e-4)
        assert mixed["steps"] == pytest.approx(alike["steps"], rel=1e-4)
        assert set(mixed["longest"]) == set(alike["longest"])
        for name, pair in mixed["coordinates"].items():
            assert pair == pytest.approx(alike["coordinates"][name], rel=1e-4, abs=1e-6)
    assert columns["mixed"][-1]["axis_ratio"] < 10


def test_lengths_without_a_box_are_those_of_the_variables(tmp_path):
    log = tmp_path / "run.jsonl"
    steps = np.array([1e-3, 1.0, 1e3])
    for bounds in (None, [(0, 1), (None, 5), (0, None)]):
        lmma.minimize(lambda x: float(np.sum((x / steps) ** 2)), np.ones(3), steps, rng=1, maxiter=3, log=log,
                      bounds=bounds)  # fmt: skip
        first = records_of(log)[0]
        assert first["run"]["relative"] is False
        assert first["axis_ratio"] > 1e5


@pytest.mark.parametrize("n", [2, 3, 20_001])
def test_few_and_many_variables(n, tmp_path):
    log = tmp_path / "run.jsonl"
    lmma.minimize(lambda x: float(x @ x), np.ones(n), 0.5, rng=1, maxiter=2, log=log, method="lm-ma-es")
    seen = records_of(log)[0]
    assert 1 <= len(seen["shortest"]) <= 3
    assert list(seen["coordinates"])[-1] == f"x[{n - 1}]"
