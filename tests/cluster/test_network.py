"""Workers that stop responding: the network is cut, or the process is stopped, during a run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lmma

NETWORK_CUT = Path(__file__).with_name("network_cut.py")


def namespaces_are_allowed():
    try:
        probe = "ip link add a0 type veth peer name a1 && unshare --net true"
        done = subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@pytest.mark.parametrize("how", ["vectors", "replicas"])
def test_a_dask_worker_cut_off_from_the_network_is_done_without(tmp_path, how):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'lmma[dask]'")
    if not namespaces_are_allowed():
        pytest.skip("network namespaces are not allowed here: a process is stopped instead, see below")
    done = subprocess.run(
        ["unshare", "--net", sys.executable, str(NETWORK_CUT), str(tmp_path), how],
        capture_output=True, text=True, timeout=150, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"]
    assert found["nfev"][0] == found["nfev"][1]
    assert (found["failures"], found["late"], found["deaths"]) == (0, 0, 1)
    assert found["workers"] == 1
    # Only the evaluation that was cut off is begun twice, unless the cut came between two
    assert found["begun"] - found["nfev"][0] in (0, 1)


def test_a_worker_that_falls_silent_is_done_without(tmp_path, request):
    # As if its network were cut: it stays connected and says nothing
    if namespaces_are_allowed() and not request.config.getoption("--slow"):
        pytest.skip("the network itself could be cut, see above; run with --slow for this too")
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'lmma[dask]'")

    def fun(x):
        note = tmp_path / "stopped"
        if float(x @ x) > 1 and not note.exists():
            note.write_text(str(os.getppid()))
            os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(0.03)
        return float(x @ x)

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options, scheduler_kwargs={"worker_ttl": "5s"}) as short_lived,
        short_lived.get_client() as client,
    ):
        try:
            there = lmma.minimize(fun, np.ones(6), 1.0, rng=1, maxiter=15, workers=client)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((tmp_path / "stopped").read_text()), signal.SIGKILL)
    here = lmma.minimize(lambda x: float(x @ x), np.ones(6), 1.0, rng=1, maxiter=15)
    assert (there.deaths, there.failures, there.nfev) == (1, 0, here.nfev)
    assert np.array_equal(there.mean, here.mean)
