"""An objective that fails in every possible way, and a check that every failure is counted."""

import hashlib
import os
import random
import signal
import time
from collections import Counter

import numpy as np

import lmma
from lmma.problems import rotated
from lmma.problems.base import Problem

RATES = {"raise": 0.05, "nan": 0.05, "hang": 0.01, "kill": 0.01}


def chaotic(function, folder, hang):
    """Return ``function`` with faults; each is written down before it strikes.

    A fault depends on x and on how often x has killed a worker already, so the run is the same every time.
    """

    def fun(x):
        note(folder / "begun", b".")
        name = hashlib.sha256(x.tobytes()).hexdigest()[:32]
        kills = len(list(folder.glob(f"{name}.*")))
        draw = random.Random(f"{name} {kills}").random()
        for kind, rate in RATES.items():
            draw -= rate
            if draw < 0:
                note(folder / "faults", kind.encode() + b"\n")
                if kind == "raise":
                    raise OSError("injected")
                if kind == "nan":
                    return float("nan")
                if kind == "hang":
                    time.sleep(hang)
                if kind == "kill":
                    (folder / f"{name}.{kills}").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                break
        return float(function(x[np.newaxis])[0])

    return fun


def note(file, words):
    with open(file, "ab", buffering=0) as log:
        log.write(words)  # one write: whole even if others write too


def ellipsoid(n, condition, seed):
    axes = condition ** (np.arange(n) / (n - 1))
    plain = Problem("ellipsoid of another condition", lambda X: np.square(X) @ axes)
    return rotated(plain, n, np.random.default_rng(seed)).function


def assert_every_fault_is_counted(n, target, folder, timeout, budget, workers=2):
    fun = chaotic(ellipsoid(n, 1e4, 3), folder, hang=10_000)
    result = lmma.minimize(
        fun, np.ones(n), 1.0, method="ma-es", rng=1, workers=workers, timeout=timeout,
        ftarget=target, maxfevals=budget,
    )  # fmt: skip
    faults = Counter((folder / "faults").read_text().split())
    assert result.success, result.message
    died = result.failed.get("died", 0)  # three kills in a row on one candidate
    begun = len((folder / "begun").read_bytes())
    assert result.nfev == begun - faults["kill"] + died  # what was killed is begun again, but counted once
    assert result.failed.get("OSError", 0) == faults["raise"]
    assert result.failed.get("nan", 0) == faults["nan"]
    assert result.failed.get("timeout", 0) == faults["hang"]
    assert result.deaths == faults["kill"]
    assert result.failures == faults["raise"] + faults["nan"] + faults["hang"] + died
    assert min(faults[kind] for kind in RATES) > 0
    return result, faults
