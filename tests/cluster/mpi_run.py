"""Runs on an MPI pool: ``mpiexec -n 3 python -m mpi4py.futures mpi_run.py FOLDER``; prints one JSON line."""

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py.futures import MPIPoolExecutor

import lmma
from chaos import assert_every_fault_is_counted


def fun(x):
    return float(np.sum(x**2 * np.arange(1, 7)))


def main():
    options = {"rng": 1, "maxiter": 12, "bounds": [-1, 5]}
    here = lmma.minimize(fun, np.ones(6), 1.0, **options)
    with MPIPoolExecutor() as executor:
        there = lmma.minimize(fun, np.ones(6), 1.0, **options, workers=executor)
        result, faults = assert_every_fault_is_counted(
            4, 1.0, Path(sys.argv[1]), timeout=1.0, budget=4000, workers=executor
        )
        same = bool(np.array_equal(here.x, there.x) and np.array_equal(here.mean, there.mean))
        print(json.dumps({"same": same, "deaths": result.deaths, "faults": dict(faults)}), flush=True)


if __name__ == "__main__":
    main()
