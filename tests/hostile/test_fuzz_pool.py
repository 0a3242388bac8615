"""Workers killed at random: counts are correct, the result is that of one process, no process is left."""

import contextlib
import os
import random
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lmma
from fuzzing import one_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are counted in /proc")


def children():
    """Return the processes this one has started and that are still there."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(word) for word in (task / "children").read_text().split()}
    return found


def mortal(folder, share, seed):
    """Return a sphere that kills its own process for a share of the candidates, each at most twice."""

    def fun(x):
        name = x.tobytes().hex()[:48]
        deaths = len(list(folder.glob(f"{name}.*")))
        if deaths < 2 and random.Random(f"{name} {deaths} {seed}").random() < share:
            (folder / f"{name}.{deaths}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(x @ x)

    return fun


def test_killed_workers_change_nothing(fuzz, tmp_path):
    total = []

    def case(rng):
        folder = tmp_path / str(len(total))
        folder.mkdir()
        before = children()
        given = {
            "method": one_of(rng, lmma.methods()),
            "rng": int(rng.integers(1000)),
            "maxfevals": int(rng.integers(80, 160)),
            "popsize": one_of(rng, [4, 8, 20]),
        }
        workers = int(rng.integers(1, 4)) + 1
        x0 = rng.normal(size=int(rng.integers(2, 6)))
        fun = mortal(folder, float(rng.uniform(0.04, 0.2)), int(rng.integers(1000)))
        serial = lmma.minimize(lambda x: float(x @ x), x0, 0.5, **given)
        from_outside = rng.random() < 0.3
        with killer(before) if from_outside else contextlib.nullcontext([]) as killed:
            result = lmma.minimize(fun, x0, 0.5, workers=workers, **given)
        deaths = len(list(folder.iterdir()))
        total.append(deaths + len(killed))
        told = f"{workers} workers, {deaths} deaths, {len(killed)} killed from outside, {given}"
        assert np.array_equal(result.x, serial.x), told
        assert (result.fun, result.nfev, result.nit) == (serial.fun, serial.nfev, serial.nit), told
        assert (result.failures, dict(result.failed)) == (0, {}), f"{result.failed}: {told}"
        assert result.reason == serial.reason, told
        least, most = deaths, deaths + len(killed)  # one killed while it starts is replaced and not counted
        assert least <= result.deaths <= most, f"{result.deaths} counted: {told}"
        left = children() - before
        assert not left, f"processes are left: {left}: {told}"
        return "killed from outside" if killed else "killed" if deaths else "nobody died"

    fuzz(case, short=3, long=65, at_least=["killed"])
    print(f"{sum(total):,} workers died",
          file=sys.__stderr__ if os.environ.get("LMMA_FUZZ_SHOW") else sys.stdout)  # fmt: skip
    assert sum(total) > 0 or "LMMA_FUZZ_SEED" in os.environ


@contextlib.contextmanager
def killer(before):
    """Kill one worker after the other from outside, two at most in one run: three would fail a candidate."""
    killed, ended = [], threading.Event()

    def kill():
        while not ended.wait(0.15) and len(killed) < 2:
            if workers := sorted(children() - before):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(workers[0], signal.SIGKILL)
                    killed.append(workers[0])

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()
