"""Workers join and leave, and the driver is killed and restarted: the result is the same."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lmma
from lmma.evaluation.replicas import Replicated
from lmma.run.checkpoint import CheckpointError, read

RUN = Path(__file__).with_name("restarted_run.py")


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def grown_and_shrunk(workers, grow, shrink, folder):
    """Run with one more worker from generation 2 on, and one less from generation 9 on; compare."""

    def fun(x):
        (folder / str(os.getppid())).touch()
        time.sleep(0.02)
        return float(np.sum((x - 0.5) ** 2 * np.arange(1, 6)))

    generation = 0

    def callback(x):
        nonlocal generation
        generation += 1
        if generation == 2:
            grow()
        if generation >= 9 and len(list(folder.iterdir())) == 3 and not shrunk:
            shrunk.append(shrink())

    shrunk = []
    options = {"rng": 1, "maxiter": 25, "popsize": 12, "tolfun": 0}
    there = lmma.minimize(fun, np.ones(5), 1.0, **options, callback=callback, workers=workers)
    assert len(shrunk) == 1  # the third worker took part, and left
    here = lmma.minimize(
        lambda x: float(np.sum((x - 0.5) ** 2 * np.arange(1, 6))), np.ones(5), 1.0, **options
    )
    assert (there.failures, there.nfev) == (0, here.nfev)
    assert np.array_equal(there.x, here.x)
    assert np.array_equal(there.mean, here.mean)


def test_workers_of_dask_join_and_leave(dask_cluster, dask_client, tmp_path):
    def grow():
        dask_cluster.scale(3)
        dask_client.wait_for_workers(3, timeout=60)

    workers = Replicated(dask_client, check=1)
    grown_and_shrunk(workers, grow, lambda: dask_cluster.scale(2), tmp_path)
    wait_until(lambda: len(dask_client.nthreads()) == 2)


def test_nodes_of_ray_join_and_leave(ray_cluster, ray_session, tmp_path):
    workers = Replicated(ray_session, check=1)
    nodes = []

    def grow():
        nodes.append(ray_cluster.add_node(num_cpus=1))
        wait_until(lambda: ray_session.cluster_resources()["CPU"] == 3)

    grown_and_shrunk(workers, grow, lambda: ray_cluster.remove_node(nodes[0], allow_graceful=False), tmp_path)
    wait_until(lambda: ray_session.cluster_resources()["CPU"] == 2)


@pytest.mark.parametrize(("kind", "how"), [("dask", "replicas"), ("ray", "vectors")])
def test_a_driver_killed_and_started_again_comes_to_the_same_end(kind, how, request, tmp_path):
    if kind == "dask":
        address = request.getfixturevalue("dask_cluster").scheduler_address
    else:
        address = request.getfixturevalue("ray_cluster").address
    saved, result = tmp_path / "run.npz", tmp_path / "result.npz"
    words = [sys.executable, str(RUN), kind, address, how, str(saved), str(result)]
    run = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: generations(saved) >= 1, 120)  # the next save may be late: it waits for slow disks
    run.kill()
    run.wait()
    assert not result.exists()
    assert subprocess.run(words, stderr=subprocess.PIPE, timeout=120).returncode == 0

    import restarted_run

    here = lmma.minimize(restarted_run.value, np.ones(6), 1.0, rng=1, maxiter=restarted_run.GENERATIONS)
    with np.load(result) as there:
        assert np.array_equal(there["x"], here.x)
        assert np.array_equal(there["mean"], here.mean)
        assert there["nfev"] == here.nfev


def generations(file):
    try:
        return read(file)[0]["counters"]["generation"]
    except CheckpointError:
        return 0
