"""Workers of Dask and Ray killed at random: counts are correct, and the result is that of one process."""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import lmma
from fuzzing import one_of
from lmma.cluster import Replicated

pytestmark = pytest.mark.slow  # a cluster takes long to start, and each of its workers to start again


def sphere(x):
    return float(np.sum(x.astype(float) ** 2 * np.arange(1, len(x) + 1)))


def mortal(folder, share, most, seed):
    """Return a sphere that kills the worker it runs on, or its own process, for a share of the candidates.

    Each candidate does so twice at most, for at the third death it fails; all together ``most`` times. A file
    for each death says by its name what died.
    """

    def fun(x):
        (folder / f"process {os.getpid()}").touch()
        name = x.tobytes().hex()[:48]
        deaths = len(list(folder.glob(f"death {name}.*")))
        chance = random.Random(f"{name} {deaths} {seed}")
        if deaths < 2 and len(list(folder.glob("death *"))) < most and chance.random() < share:
            whole = chance.random() < 0.8
            (folder / f"death {name}.{deaths} of {'worker' if whole else 'process'}").touch()
            os.kill(os.getppid() if whole else os.getpid(), signal.SIGKILL)
            time.sleep(1000)  # until the system ends this process too
        return sphere(x)

    return fun


def left_in(folder, patience=20.0):
    """Return processes that evaluated and are still there; they may take a while to go."""
    deadline = time.monotonic() + patience
    while True:
        noted = [Path("/proc") / file.name.split()[1] / "stat" for file in folder.glob("process *")]
        left = [path.parent.name for path in noted if lives(path)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def lives(stat):
    try:
        return stat.read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_killed_workers_of_a_cluster_change_nothing(fuzz, kind, request, tmp_path):
    cluster = request.getfixturevalue({"dask": "dask_client", "ray": "ray_session"}[kind])
    total = Counter()

    def case(rng):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))  # one that failed may have left its own
        given = {
            "method": one_of(rng, lmma.methods()),
            "dtype": one_of(rng, ["float64", "float32"]),
            "rng": int(rng.integers(1000)),
            "maxiter": int(rng.integers(10, 20)),
            "popsize": one_of(rng, [6, 12]),
        }
        x0 = rng.normal(size=int(rng.integers(2, 6)))
        replicas = bool(rng.random() < 0.5)
        fun = mortal(
            folder, float(rng.uniform(0.08, 0.25)), int(rng.integers(8, 25)), int(rng.integers(1000))
        )
        here = lmma.minimize(sphere, x0, 0.5, **given)
        workers = Replicated(cluster, check=1) if replicas else cluster
        there = lmma.minimize(fun, x0, 0.5, workers=workers, **given)
        deaths = len(list(folder.glob("death *")))
        total.update(path.name.split()[-1] for path in folder.glob("death *"))
        told = f"{kind}, {'replicas' if replicas else 'vectors'}, {deaths} deaths, {given}"
        assert np.array_equal(there.x, here.x), told
        assert np.array_equal(there.mean, here.mean), told
        assert (there.fun, there.nfev, there.nit) == (here.fun, here.nfev, here.nit), told
        assert (there.failures, dict(there.failed), there.late) == (0, {}, 0), f"{there.failed}: {told}"
        assert there.deaths == deaths, f"{there.deaths} counted: {told}"
        assert not (left := left_in(folder)), f"processes are left: {left}: {told}"
        shutil.rmtree(folder)
        return "replicas" if replicas else "vectors"

    fuzz(case, short=2, long=10, at_least=["replicas", "vectors"])
    print(f"{total['worker']:,} workers of {kind} died, and {total['process']:,} processes of theirs",
          file=sys.__stderr__ if os.environ.get("LMMA_FUZZ_SHOW") else sys.stdout)  # fmt: skip
    assert total["worker"] > 0 or "LMMA_FUZZ_SEED" in os.environ
