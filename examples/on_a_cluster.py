"""The same optimisation on any cluster: Dask, Ray, or the processes of this machine.

dask scheduler                                          # on one machine
dask worker tcp://HEAD:8786 --nworkers -1 --nthreads 1  # on every machine
python examples/on_a_cluster.py dask://HEAD:8786

ray start --head                                        # on one machine
ray start --address HEAD:6379                           # on every other
python examples/on_a_cluster.py ray://auto

python examples/on_a_cluster.py                         # or here
"""

import sys

import numpy as np

import lmma
from lmma.cluster import Replicated

N = 1000


def load():
    """Stand in for a data set of gigabytes: read once by each process, never sent."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(200, N))
    return inputs, inputs @ rng.normal(size=N)


def loss(x, data):
    """Return how badly the weights ``x`` explain the data, by a measure without a gradient."""
    inputs, outputs = data
    return float(np.mean(np.abs(inputs @ x - outputs)) + 0.01 * np.count_nonzero(np.abs(x) > 3))


def main(address=None):
    """Run on the cluster at ``address``, with a replica on each worker, or in two processes here."""
    options = {"method": "lm-ma-es", "rng": 1, "maxiter": 30, "timeout": 60}
    if address is None:
        data = load()
        result = lmma.minimize(lambda x: loss(x, data), np.zeros(N), 0.1, **options, workers=2)
    else:
        workers = Replicated(address, initializer=load)
        result = lmma.minimize(loss, np.zeros(N), 0.1, **options, workers=workers)
    print(f"{result.fun!r} after {result.nfev} evaluations")  # the same number everywhere
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
