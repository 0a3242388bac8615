"""A noisy run with repeats is bitwise the same on every evaluator, even if it is killed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import lmma
from lmma.evaluation.replicas import Replicated


def disturbed(x, seed):
    """A sphere with noise that a seed and the candidate determine, in whatever process."""
    own = np.frombuffer(np.ascontiguousarray(x[:2], dtype=np.float64).tobytes(), dtype=np.uint32)
    return float(x @ x) + float(np.random.default_rng([seed, *own.tolist()]).standard_normal())


def run(**options):
    settings = {"rng": 1, "maxfevals": 1200, "noise": "auto", **options}
    return lmma.minimize(disturbed, np.full(6, 3.0), 1.0, **settings)


def same(one, other):
    for name in ("x", "mean", "fun", "fun_error", "sigma", "nfev", "nit", "reason", "x_seen", "noise"):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture(scope="module", params=["auto", "average"])
def here(request):
    """How noise is treated, and the run in this process."""
    found = run(noise=request.param)
    assert found.noise["found"]
    assert found.nfev > found.nit * 9  # of a generation: candidates were evaluated again
    return request.param, found


def test_a_pool_gives_the_run_of_one_process(here):
    noise, serial = here
    same(serial, run(noise=noise, workers=2))


def test_dask_gives_the_run_of_one_process(here, dask_client):
    noise, serial = here
    same(serial, run(noise=noise, workers=dask_client))


def test_replicas_on_dask_give_the_run_of_one_process(here, dask_client):
    noise, serial = here
    same(serial, run(noise=noise, workers=Replicated(dask_client, check=1)))


SCRIPT = """
import os, signal, sys
import numpy as np
import lmma
from lmma.checkpoint import Checkpoint
from test_noise_everywhere import disturbed as plain

calls = 0

def disturbed(x, seed):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(x, seed)

lmma.minimize(disturbed, np.full(6, 3.0), 1.0, rng=1, maxfevals=1200, noise=sys.argv[3],
              checkpoint=Checkpoint(sys.argv[1], every=0))
"""


def test_a_run_killed_three_times_ends_as_the_unbroken_one(here, tmp_path):
    noise, serial = here
    saved = tmp_path / "run.npz"
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    for calls in (171, 250, 333):  # in the middle of generations, and of their repeats
        command = [sys.executable, "-c", SCRIPT, str(saved), str(calls), noise]
        ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False)
        assert ended.returncode == -signal.SIGKILL
    same(serial, run(noise=noise, checkpoint=saved))
