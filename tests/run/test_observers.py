"""Observers receive every generation over all restarts, with its state at that time."""

import json
import os
import time
from itertools import pairwise

import numpy as np
import pytest

import lmma


def spheres(X):
    return np.sum(np.square(X), axis=1)


def run(fun=spheres, x0=(1.0, 1.0, 1.0), sigma0=1.0, **options):
    return lmma.minimize(
        fun, np.array(x0), sigma0, **{"vectorized": True, "values": "ranks", "rng": 1} | options
    )


def records_of(path):
    def refused(word):
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=refused) for line in path.read_text().splitlines()]


# Callbacks


def test_a_callback_is_given_the_best_so_far_to_keep():
    seen = []
    result = run(maxiter=40, callback=seen.append)
    values = spheres(np.array(seen))
    assert len(seen) == 40
    assert values[0] > 100 * values[-1]  # those given first have not been altered since
    assert np.array_equal(values, np.minimum.accumulate(values))
    assert np.array_equal(seen[-1], result.x)


def test_only_true_ends_a_run():
    assert run(maxiter=3, callback=lambda x: 1.0).nit == 3
    assert run(maxiter=3, callback=lambda x: True).nit == 1


def test_a_callback_sees_counts_over_all_restarts():
    seen = []

    def watch(intermediate_result):
        seen.append((intermediate_result.nit, intermediate_result.nfev, intermediate_result.fun))

    result = run(restarts=1, tolfun=1e-3, callback=watch)
    assert [nit for nit, _, _ in seen] == list(range(1, result.nit + 1))
    assert seen[-1] == (result.nit, result.nfev, result.fun)
    assert all(a[1] < b[1] and a[2] >= b[2] for a, b in pairwise(seen))


def test_a_callback_that_asks_to_stop_ends_the_run_restarts_or_not():
    result = run(restarts=3, callback=lambda x: True)
    assert (result.reason, len(result.runs)) == ("callback", 1)


def test_a_run_ended_by_a_callback_is_in_the_record_the_log_and_the_checkpoint(tmp_path):
    options = {"history": True, "log": tmp_path / "log", "checkpoint": tmp_path / "run.npz"}
    result = run(callback=lambda x: True, **options)
    assert result.history["evaluations"] == [result.nfev]
    assert [record["evaluations"] for record in records_of(tmp_path / "log")] == [result.nfev]
    assert run(maxiter=1, **options).nfev == result.nfev


# Records


@pytest.mark.parametrize("generations", [1, 19, 20, 21, 200, 333])
def test_a_history_is_evenly_spread_and_ends_with_the_run(generations):
    result = run(maxiter=generations, history=20, tolx=0, tolfun=0, popsize=7, noise=None)
    counts = result.history["generation"]
    assert (counts[0], counts[-1]) == (1, generations)
    assert min(generations, 10) <= len(counts) <= 21
    assert len(set(np.diff(counts[:-1]))) <= 1
    assert result.history["evaluations"] == [7 * count for count in counts]
    assert len(set(counts)) == len(counts)


def test_a_history_knows_restarts_populations_and_time():
    def slow(X):
        time.sleep(0.001)
        return spheres(X)

    history = run(slow, restarts=1, tolfun=1e-3, history=True).history
    assert sorted(set(zip(history["restarts"], history["popsize"], strict=True))) == [(0, 7), (1, 14)]
    assert all(a + 0.001 <= b for a, b in pairwise(history["seconds"]))
    assert history["best_fun"] == np.minimum.accumulate(history["best_fun"]).tolist()


def test_a_step_is_the_distance_of_candidates_not_sigma():
    scales = np.r_[np.full(50, 0.01), np.full(50, 100.0)]
    history = run(x0=np.ones(100), sigma0=scales, maxiter=3, history=True, method="csa-es").history
    assert 0.5 < history["sigma"][0] < 2  # the geometric mean is 1
    assert 40 < history["step"][0] < 130  # 100 / sqrt(2), give or take


def test_a_log_is_json_whatever_the_values_are_and_not_a_line_a_generation(tmp_path):
    log = tmp_path / "log"
    run(lambda X: np.full(len(X), np.nan), log=log)
    assert records_of(log)[0]["best_fun"] is None
    result = run(maxiter=400, tolx=0, tolfun=0, log=log)
    counts = [record["generation"] for record in records_of(log)]
    assert counts[-1] == result.nit == 400
    assert counts == sorted(set(counts))
    assert len(counts) < 200  # five a second: a machine would have to be very slow to reach that


def test_a_resumed_run_appends_to_its_log_and_a_new_run_starts_a_new_one(tmp_path):
    log, file = tmp_path / "log", tmp_path / "run.npz"
    options = {"log": log, "tolx": 0, "tolfun": 0}
    run(maxiter=20, checkpoint=file, **options)
    begun = log.read_text()
    saved = file.read_bytes()
    run(maxiter=60, checkpoint=file, **options)
    assert log.read_text().startswith(begun)
    assert records_of(log)[-1]["generation"] == 60
    # As if the run had been killed before it was saved again, in the middle of a line
    for more in (log.read_text(), begun):
        file.write_bytes(saved)
        log.write_text(more + '{"evaluations": 1')
        run(maxiter=30, checkpoint=file, **options)
        assert log.read_text().startswith(begun)
        counts = [record["generation"] for record in records_of(log)]
        assert counts == sorted(set(counts))
        assert counts[-1] == 30
    run(maxiter=2, **options)
    assert {record["generation"] for record in records_of(log)} <= {1, 2}


def test_a_resumed_log_is_never_rewritten(tmp_path, monkeypatch):
    log, file = tmp_path / "log", tmp_path / "run.npz"
    options = {"checkpoint": file, "log": log, "tolx": 0, "tolfun": 0}
    run(maxiter=20, **options)
    begun, inode = log.read_bytes(), log.stat().st_ino
    log.write_bytes(begun + b'{"evaluations": 1000000}\n{"evaluations": 100')
    seen = []

    def killed(path, length):
        seen.append(log.read_bytes())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "truncate", killed)
        with pytest.raises(KeyboardInterrupt):
            run(maxiter=30, **options)
    assert seen == [log.read_bytes()]
    assert seen[0].startswith(begun)  # killed at its only step: all is there
    run(maxiter=30, **options)
    assert log.read_bytes().startswith(begun)
    assert records_of(log)[-1]["generation"] == 30
    assert log.stat().st_ino == inode


def test_a_history_knows_what_was_not_waited_for(tmp_path):
    def fun(x):
        try:
            os.close(os.open(tmp_path / "hanging", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return float(x @ x)
        time.sleep(1000)

    result = run(fun, vectorized=False, workers=2, quorum=0.5, maxiter=3, history=True)
    assert result.late >= 1
    assert result.history["late"][-1] == result.late
    assert (result.failures, result.history["failures"]) == (0, [0, 0, 0])


def test_a_log_has_one_writer(tmp_path):
    log, refused = tmp_path / "log", []

    def second(x):
        with pytest.raises(ValueError, match=r"log=.* is being written by another run"):
            run(log=log)
        refused.append(log.read_text())

    result = run(log=log, callback=second, maxiter=3)
    assert len(refused) == 3
    assert records_of(log)[-1]["generation"] == result.nit == 3  # what the first had written is there
    assert run(log=log, maxiter=2).nit == 2  # and when it has ended, another may begin
    assert records_of(log)[-1]["generation"] == 2


def test_any_number_of_runs_may_log_to_a_device():
    def second(x):
        run(log=os.devnull, maxiter=2)

    assert run(log=os.devnull, callback=second, maxiter=2).nit == 2
