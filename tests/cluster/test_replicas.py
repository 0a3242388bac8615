"""With replicas only values are transferred, and results are bitwise the same as with vectors."""

import os
import signal
import time

import numpy as np
import pytest

import lmma
from lmma.evaluation.cluster.messages import ClusterError
from lmma.evaluation.replicas import Replicated
from lmma.kernels.blas import blas_threads, using_blas_threads


def curved(x):
    return float(np.sum((x - 0.3) ** 2 * np.arange(1, len(x) + 1)) + 0.1 * abs(x[0] * x[-1]))


def same(one, other):
    for name in ("x", "mean", "fun", "sigma", "nfev", "nit", "failures", "late", "reason"):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    mine, yours = one.learned.strategy.get_state(), other.learned.strategy.get_state()
    for name in mine:
        np.testing.assert_array_equal(mine[name], yours[name], err_msg=name)


def run(fun=curved, n=7, x0=0.5, **options):
    return lmma.minimize(fun, np.full(n, x0), 0.4, **{"rng": 1, "maxiter": 12, **options})


@pytest.mark.parametrize("method", lmma.methods())
def test_every_method_gives_the_run_it_gives_here(dask_client, method):
    same(run(method=method), run(method=method, workers=Replicated(dask_client, check=5)))


def test_all_ways_give_the_same_run(dask_client, ray_session):
    options = {"n": 40, "method": "lm-ma-es", "maxiter": 20}
    here = run(**options)
    for workers in (2, dask_client, ray_session, Replicated(dask_client), Replicated(ray_session)):
        same(here, run(**options, workers=workers))


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": [0, 1], "boundary": "smooth"},
        {"bounds": [0.31, 1], "boundary": "reflect"},
        {"bounds": [0.31, 1], "boundary": "project", "maxiter": 25},
        {"dtype": "float32", "method": "lm-ma-es"},
        {"inject": np.full((15, 7), 0.31) + 0.01 * np.arange(15)[:, None]},  # more than one generation
        {"method": "lm-ma-es", "m": 3, "popsize": 9},
    ],
    ids=["smooth", "reflect", "project", "float32", "inject", "constants"],
)
def test_everything_a_run_can_do_it_does_with_replicas(dask_client, options):
    if "bounds" in options:
        options = {"x0": 0.5, **options}
    here = run(**options)
    same(here, run(**options, workers=Replicated(dask_client, check=3)))


def test_replicas_follow_a_run_through_its_restarts(dask_client):
    options = {"restarts": 1, "maxiter": 60, "n": 2, "tolfun": 1e-1, "tolx": 1e-1}
    here = run(**options)
    assert len(here.runs) >= 2
    same(here, run(**options, workers=Replicated(dask_client, check=3)))


def test_failures_and_candidates_drawn_again_are_followed(cluster):
    def fun(x):
        if x[0] > 0.55:
            raise ArithmeticError("too large")
        return np.nan if x[1] > 0.6 else curved(x)

    for on_error in ("worst", "resample"):
        options = {"on_error": on_error, "bounds": [-3, 1], "maxfevals": 90}
        here, there = run(fun, **options), run(fun, **options, workers=Replicated(cluster, check=2))
        assert here.failed == there.failed != {}
        same(here, there)


def test_vectorised_objectives_and_warm_starts_work_with_replicas(dask_client):
    def fun(X):
        return np.array([curved(x) for x in X])

    first = run(method="ma-es")
    here, there = (
        lmma.minimize(fun, first, rng=2, maxiter=8, vectorized=True, workers=workers)
        for workers in (1, Replicated(dask_client))
    )
    same(here, there)


def test_replicas_add_up_alike_whatever_the_threads_of_the_run(dask_client):
    if blas_threads() is None:
        pytest.skip("this NumPy does not use OpenBLAS")
    options = {"fun": lambda x: float(x[0]), "n": 20_001, "method": "lm-ma-es", "popsize": 4}
    with using_blas_threads(1):
        one = run(**options)
    with using_blas_threads(2):
        same(one, run(**options))
        same(one, run(**options, workers=Replicated(dask_client, check=1)))


def test_one_replica_serves_several_slots(ray_session, tmp_path):
    def fun(x):
        (tmp_path / f"{os.getppid()} {os.getpid()}").touch()
        time.sleep(0.03)  # long enough for a message of its own
        return curved(x)

    same(run(), run(fun, workers=Replicated(ray_session, check=1, slots=2)))
    hosts, processes = zip(*(file.name.split() for file in tmp_path.iterdir()), strict=True)
    assert (len(set(hosts)), len(set(processes))) == (1, 2)


def test_a_replaced_worker_receives_the_state_and_continues(cluster, tmp_path):
    def fun(x):
        for k in range(2):
            if int(1000 * curved(x)) % 5 == k and not (tmp_path / str(k)).exists():
                (tmp_path / str(k)).touch()
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(1000)
        return curved(x)

    there = run(fun, workers=Replicated(cluster, check=1), maxiter=25)
    assert there.deaths == 2
    same(run(maxiter=25), there)


def test_a_replica_that_diverges_is_noticed_and_sent_the_state_again(dask_client, dask_cluster):
    def spoil():
        from lmma.evaluation.cluster import worker_host

        # hosts of the test before, of another kind, may not have ended yet
        replicas = [host for host in worker_host._hosts.values() if hasattr(host, "_strategy")]
        for replica in replicas:
            replica._strategy.mean += 1e-13
        return len(replicas)

    spoilt = []

    def callback(x):
        if len(spoilt) == 6:
            address = next(iter(dask_client.nthreads()))
            spoilt.append(dask_client.run(spoil, workers=[address])[address])
        else:
            spoilt.append(0)

    there = run(workers=Replicated(dask_client, check=2), callback=callback, maxiter=20)
    assert sum(spoilt) >= 1  # that of the run before may not have ended yet
    assert "diverged and was reset" in there.warnings[0]
    assert len(there.warnings) == 1


def test_data_are_loaded_once_in_each_process(cluster, tmp_path):
    def load():
        with (tmp_path / str(os.getpid())).open("a") as file:
            file.write("once")
        return np.full(7, 0.3)

    def fun(x, power, target):
        return float(np.sum(np.abs(x - target) ** power))

    there = run(fun, args=(2,), workers=Replicated(cluster, initializer=load))
    loaded = [file.read_text() for file in tmp_path.iterdir()]
    assert loaded in (["once"], ["once", "once"])  # a worker may have started when all was done
    same(run(lambda x: fun(x, 2, np.full(7, 0.3))), there)


def test_an_initialiser_that_fails_is_an_error_at_once(cluster):
    def load():
        raise FileNotFoundError("no data set here")

    with pytest.raises(ClusterError, match="no data set here"):
        run(workers=Replicated(cluster, initializer=load))


def test_message_sizes_do_not_depend_on_n(dask_client):
    class Watched:
        def evaluator(self, *args, **options):
            self.evaluate = Replicated(dask_client).evaluator(*args, **options)
            return self.evaluate

    traffic = {}
    for n in (1000, 100_000):
        workers, marks = Watched(), []
        run(
            lambda x: float(x[0]), n=n, method="lm-ma-es", popsize=12, workers=workers,
            callback=lambda x, w=workers, marks=marks: marks.append((w.evaluate.sent, w.evaluate.received)),
        )  # fmt: skip
        traffic[n] = np.median(np.diff(marks, axis=0), axis=0)
    assert np.all(np.abs(traffic[1000] - traffic[100_000]) < 500)
    assert np.all(traffic[100_000] < 20_000)  # a generation of vectors is 9.6 MB


@pytest.mark.parametrize(
    ("unusable", "options", "words"),
    [
        (2, {}, "must be a Dask client"),
        ("nowhere", {}, "dask://host:port"),
        (2, {"check": 0}, "check must be"),
        (2, {"slots": 1.5}, "slots must be"),
        (2, {"initializer": 3}, "initializer must be callable"),
    ],
)
def test_wishes_that_cannot_be_met_are_rejected(unusable, options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        run(workers=Replicated(unusable, **options))
