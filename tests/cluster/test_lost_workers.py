"""Workers of a cluster leave and join; every candidate is evaluated to completion and counted once."""

import os
import signal
import time

import numpy as np
import pytest

import lmma


def sphere(x):
    return float(np.sum(x**2 * np.arange(1, len(x) + 1)))


def treacherous(folder, times):
    """Return an objective that kills the worker it runs on, not just its own process, now and then."""

    def fun(x):
        note(folder / "begun")
        for k in range(times):
            if int(1000 * sphere(x)) % 5 == k and not (folder / f"killed {k}").exists():
                (folder / f"killed {k}").touch()
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(1000)  # until the system ends this process too
        value = sphere(x)
        time.sleep(0.03)  # long enough for a message of its own
        note(folder / "done")
        return value

    def note(file):
        with open(file, "ab", buffering=0) as log:
            log.write(b".")

    return fun


@pytest.mark.parametrize("times", [1, 3])
def test_rows_of_a_killed_worker_are_evaluated_again_and_counted_once(cluster, tmp_path, times):
    options = {"rng": 1, "maxiter": 15}
    here = lmma.minimize(sphere, np.ones(6), 1.0, **options)
    there = lmma.minimize(treacherous(tmp_path, times), np.ones(6), 1.0, **options, workers=cluster)
    assert len(list(tmp_path.glob("killed *"))) == times
    assert there.deaths == times
    assert (there.failures, there.late, there.nfev) == (0, 0, here.nfev)
    assert len((tmp_path / "done").read_bytes()) == there.nfev
    assert len((tmp_path / "begun").read_bytes()) == there.nfev + times
    assert np.array_equal(there.x, here.x)
    assert np.array_equal(there.mean, here.mean)


def test_a_candidate_that_kills_three_workers_fails(cluster):
    def fun(x):
        if x[0] == 2:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        return x[0]

    evaluate = lmma.evaluation.evaluator(fun, workers=cluster)
    values = evaluate(np.arange(4.0)[:, None])
    evaluate.close()
    assert np.array_equal(values, [0.0, 1.0, np.nan, 3.0], equal_nan=True)
    assert (evaluate.record.failures, evaluate.record.deaths) == ({"died": 1}, 3)
