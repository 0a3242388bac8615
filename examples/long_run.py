"""An unattended run with bounds, workers, a checkpoint and a log. Run it, kill it, run it again."""

import numpy as np

import lmma


def fun(x):
    """Stand in for an expensive simulation that fails now and then."""
    if np.sin(1000 * x[0]) > 0.9:
        raise RuntimeError("the mesh could not be built")
    return float(np.sum((x - 0.3) ** 2))


result = lmma.minimize(
    fun,
    np.full(20, 0.5),
    bounds=[0, 1],
    workers=2,  # processes
    timeout=60,  # seconds an evaluation may take
    restarts=2,
    checkpoint="run.npz",  # the same call again goes on from here
    log="run.jsonl",  # lmma plot run.jsonl
    ftarget=1e-8,
    rng=1,
)
print(result.message)
print(f"{result.nfev} evaluations, {result.failures} failed: {dict(result.failed)}")
