"""Network traffic and time of replicas and of vectors on a local Dask or Ray cluster.

    python benchmarks/cluster.py                     # bytes per generation at n = 10^3 and 10^6, replicas
    python benchmarks/cluster.py --time --n 100000   # 50 generations, replicas and vectors in turn

Bytes are counted twice: the messages themselves, and all that passes the loopback interface, heartbeats and
protocol included. For the second the script moves into a network namespace of its own where it may.
"""

import argparse
import os
import subprocess
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LMMA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import lmma
from lmma.cluster import Replicated
from lmma.evaluation import evaluator


class Watched:
    """Workers that keep their evaluator in sight."""

    def __init__(self, workers):
        self.workers = workers

    def evaluator(self, *args, **options):
        self.evaluate = evaluator(*args, workers=self.workers, **options)
        return self.evaluate


def on_the_wire():
    """Return the bytes that have passed the loopback interface."""
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file:
            if line.strip().startswith("lo:"):
                return int(line.split()[1])
    raise RuntimeError("there is no loopback interface")


def quick(x):
    return float(x[0])


def slow(x):
    time.sleep(0.03)  # long enough for a message of its own
    return float(x[0])


def measure(workers, n, generations, fun, popsize):
    """Return bytes of messages, bytes on the wire, and seconds, each for a generation."""
    watched, marks = Watched(workers), []

    def callback(x):
        messages = watched.evaluate.sent + watched.evaluate.received
        marks.append((messages, on_the_wire(), time.perf_counter()))

    begin = time.perf_counter()
    result = lmma.minimize(
        fun, np.ones(n), 1.0, method="lm-ma-es", popsize=popsize, rng=1, maxiter=generations,
        workers=watched, callback=callback, tolfun=0, tolx=0,
    )  # fmt: skip
    steps = np.diff(marks[1:], axis=0)  # the first generation brings everybody the objective and the state
    popsize = result.nfev // result.nit
    messages, wire, seconds = np.median(steps, axis=0)
    return popsize, messages, wire, seconds, time.perf_counter() - begin, result


def start(kind, workers):
    if kind == "ray":
        import ray

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        return ray
    from distributed import Client, LocalCluster

    return Client(
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", choices=("dask", "ray"), default="dask")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--n", type=int, nargs="*", default=[1000, 1_000_000])
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("--time", action="store_true", help="replicas and vectors in turn")
    args = parser.parse_args()
    if "LMMA_ALONE" not in os.environ and not args.time:
        os.environ["LMMA_ALONE"] = "1"
        if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode == 0:
            own = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
            os.execvp(own[0], [*own, sys.executable, *sys.argv])
        print("no namespace of one's own here: other programs' traffic counts too")
    cluster = start(args.kind, args.workers)
    idle, began = on_the_wire(), time.perf_counter()
    time.sleep(5)
    idle = (on_the_wire() - idle) / (time.perf_counter() - began)
    print(f"{args.kind}, {args.workers} workers; idle: {idle:,.0f} bytes/s on the wire")
    print(f"{'n':>9} {'how':8} {'lam':>4} {'messages':>13} {'wire':>13} {'s/gen':>8} {'s in all':>8}")
    for n in args.n:
        results = []
        for how in ("replicas", "vectors", "replicas", "vectors") if args.time else ("replicas",):
            workers = Replicated(cluster) if how == "replicas" else cluster
            popsize, messages, wire, seconds, whole, result = measure(
                workers, n, args.generations, quick if args.time else slow, None if args.time else 40
            )
            print(
                f"{n:9} {how:8} {popsize:4} {messages:13,.0f} {wire:13,.0f} {seconds:8.3f} {whole:8.2f}",
                flush=True,
            )
            results.append(result)
        assert all(np.array_equal(results[0].mean, other.mean) for other in results), "results differ"


if __name__ == "__main__":
    main()
