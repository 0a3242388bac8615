"""A run on a cluster that stays up: ``python restarted_run.py KIND ADDRESS HOW CHECKPOINT RESULT``."""

import sys
import time

import numpy as np

import lmma
from lmma.evaluation.replicas import Replicated
from lmma.run.checkpoint import Checkpoint

GENERATIONS = 30


def fun(x):
    time.sleep(0.06)
    return value(x)


def value(x):
    return float(np.sum((x - 0.5) ** 2 * np.arange(1, len(x) + 1)))


def main(kind, address, how, checkpoint, result):
    if kind == "dask":
        from distributed import Client

        cluster = Client(address)
    else:
        import ray as cluster

        cluster.init(address=address, log_to_driver=False)
    found = lmma.minimize(
        fun, np.ones(6), 1.0, rng=1, maxiter=GENERATIONS, checkpoint=Checkpoint(checkpoint, every=0),
        workers=Replicated(cluster) if how == "replicas" else cluster,
    )  # fmt: skip
    np.savez(result, x=found.x, mean=found.mean, nfev=found.nfev)


if __name__ == "__main__":
    main(*sys.argv[1:])
