"""Calculation for 1,000 workers and n = 10^8, and a simulation that checks it.

    python benchmarks/cluster_plan.py

The simulation runs the driver's own code (``lmma.evaluation.cluster``, ``lmma.evaluation.replicas``) against
workers that exist as events on a virtual clock: messages have their real size, evaluations take log-normal
times, nothing is computed. What the driver itself costs is measured on the real clock.
"""

import argparse
import heapq
import os
import pickle
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LMMA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import lmma
from lmma import kernels
from lmma.evaluation import EvaluationOptions
from lmma.evaluation.cluster import driver
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.cluster.messages import Reply, Transport
from lmma.evaluation.objective import dumps
from lmma.evaluation.replicas.replica import ReplicaReply, ReplicaState
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver

MESSAGE = 3e3  # bytes a message and its reply cost besides their contents; benchmarks/cluster.py, Dask
HOPS = 2  # Dask's scheduler passes everything on


class Simulated(Transport):
    """Workers on a virtual clock."""

    name = "Simulation"

    def __init__(self, workers, spread, function=None, seed=1):
        self.names = {f"worker {k}": 1 for k in range(workers)}
        self.spread, self.function = spread, function
        self.random = np.random.default_rng(seed)
        self.clock = 0.0
        self.work = 0.0  # seconds spent on evaluations
        self.messages = 0
        self.due = []  # (when, request, reply)
        self.states = {}  # worker -> number of the state it has
        self.free_at = dict.fromkeys(self.names, 0.0)

    def workers(self):
        return self.names

    def send(self, request, worker, message):
        self.messages += 1
        payload = pickle.loads(message).payload
        begin = max(self.clock, self.free_at[worker])
        if payload is None:
            reply = Reply("ready")
        elif isinstance(payload, np.ndarray):
            begin += self.takes()
            reply = Reply("done", self.function(payload), seconds=1.0)
        else:
            if isinstance(payload, ReplicaState):
                self.states[worker] = payload.number
            replica = {
                "state": self.states[worker],
                "position": payload.position,
                "checksum": None,
                "kernels": kernels.name(),
            }
            if isinstance(payload, ReplicaState) or payload.rows is None:
                reply = ReplicaReply("ready", **replica)
            else:
                begin += self.takes()
                reply = ReplicaReply("done", self.random.random(len(payload.rows)), seconds=1.0, **replica)
        self.free_at[worker] = begin
        heapq.heappush(self.due, (begin, request, pickle.dumps(reply)))

    def takes(self):
        seconds = float(np.exp(self.spread * self.random.standard_normal()))
        self.work += seconds
        return seconds

    def replies(self, seconds):
        when, request, reply = heapq.heappop(self.due)
        self.clock = max(self.clock, when)
        return [(request, reply)]

    def close(self, tokens):
        pass


class OnTransport:
    """Workers reached by the given transport, through a driver of the given class."""

    def __init__(self, transport, driver_class):
        self.transport, self.driver_class = transport, driver_class

    def evaluator(self, fun, args, on_error, **options):
        objective, options = dumps((fun, args)), EvaluationOptions(on_error, **options)
        self.evaluate = self.driver_class(objective, options, self.transport)
        return self.evaluate


def volume(workers, popsize, generations=6):
    """Print what travels, and what the driver does, with the given number of workers."""
    transport = Simulated(workers, 0.5)
    replicas = OnTransport(transport, ReplicatedDriver)
    marks = []

    def note(x):
        evaluate = replicas.evaluate
        marks.append((evaluate.sent, evaluate.received, transport.messages, time.process_time()))

    lmma.minimize(
        np.sum, np.ones(50), 1.0, method="lm-ma-es", popsize=popsize, rng=1, maxiter=generations,
        workers=replicas, callback=note, tolfun=0, stagnation=False,
    )  # fmt: skip
    sent, received, messages, cpu = np.mean(np.diff(marks[1:], axis=0), axis=0)
    wire = HOPS * (sent + received) + messages * MESSAGE
    print(
        f"{workers:8} {popsize:7} {messages:8,.0f} {sent / 1e6:9.2f} {received / 1e6:9.2f} {wire / 1e6:9.2f} "
        f"{wire / 1.25e9:9.4f} {cpu:9.3f}"
    )


def stragglers(workers, popsize, spread, quorum, generations=30):
    """Return virtual seconds per generation, share of time workers evaluate, share of evaluations late."""
    transport = Simulated(workers, spread, lambda X: np.sum(X**2, axis=1))
    result = lmma.minimize(
        np.sum, np.ones(100), 1.0, method="csa-es", popsize=popsize, rng=1, maxiter=generations,
        workers=OnTransport(transport, VectorDriver),
        quorum=quorum, tolfun=0, stagnation=False,
    )  # fmt: skip
    assert result.nit == generations, result.message
    work = transport.work - sum(max(0.0, end - transport.clock) for end in transport.free_at.values())
    return transport.clock / generations, work / (transport.clock * workers), result.late / result.nfev


def to_target(workers, popsize, spread, quorum, n=20):
    """Return evaluations that counted and virtual seconds until an ellipsoid is solved."""
    axes = 1e3 ** (np.arange(n) / (n - 1))
    times, counts = [], []
    for seed in (1, 2, 3):
        transport = Simulated(workers, spread, lambda X: np.square(X) @ axes, seed)
        result = lmma.minimize(
            np.sum, np.ones(n), 1.0, method="ma-es", popsize=popsize, rng=seed, ftarget=1e-6, quorum=quorum,
            workers=OnTransport(transport, VectorDriver),
        )  # fmt: skip
        assert result.success, result.message
        times.append(transport.clock)
        counts.append(result.nit)
    return float(np.median(counts)), float(np.median(times))


def speeds(n=1_000_000, popsize=45):
    """Return seconds, for one thread and a million variables: a candidate, an update, a normal vector."""
    es = lmma.LMMAES(np.zeros(n), 1.0, popsize=popsize, rng=1, dtype="float32")
    es.method.transform.age = es.method.parameters.m  # all direction vectors in use
    out, ask, tell, draw = None, [], [], []
    z = np.empty((4, n), dtype=np.float32)
    for k in range(4):
        begin = time.perf_counter()
        out = es.ask(out)
        middle = time.perf_counter()
        es.tell(np.arange(popsize, dtype=float))
        end = time.perf_counter()
        kernels.normals((1, 2), k, 0, z)
        ask.append((middle - begin) / popsize)
        tell.append(end - middle)
        draw.append((time.perf_counter() - end) / len(z))
    return min(ask), min(tell), min(draw)


def plan(n=10**8, workers=1000, threads=32, gigabit=10):
    """Print the arithmetic."""
    ask, tell, draw = speeds()
    m = 4 + int(3 * np.log(n))
    print("measured, one thread, n = 10^6, float32, in ms:")
    print(f"  a candidate {ask * 1e3:.1f}, an update {tell * 1e3:.1f}, normal numbers {draw * 1e3:.1f}\n")
    wire = gigabit / 8 * 1e9
    vector = 4 * n
    print(
        f"n = {n:.0e}, {workers} workers of {threads} cores, float32: {vector / 1e9:.1f} GB a vector, m = {m}"
    )
    print(f"{'lam':>6} {'how':34} {'GB/gen':>9} {'s on wire':>10} {'GB memory':>10} {'s compute':>10}")
    ratio = (m + 2) / (45 + 2)  # a candidate costs a pass over each direction vector
    for lam in (m, 1000):
        own = max(1, lam // workers)
        names = HOPS * 2 * workers * lam * 8 + (lam + workers) * MESSAGE  # values go out twice, in case
        everything = (lam * ask + tell) * ratio
        least = (own * ask + tell) * ratio + lam // 2 * draw
        for how, travels, kept, seconds in (
            ("vectors from the driver", lam * vector, lam, everything),
            ("replicas, each asks for all", names, lam, everything),
            ("replicas, own candidates, z redrawn", names, own, least),
        ):
            memory = (m + 2 * kept + 8) * vector
            print(
                f"{lam:6} {how:34} {travels / 1e9:9.4f} {travels / wire:10.4f} {memory / 1e9:10.0f} "
                f"{seconds * n / 1e6 / threads:10.1f}"
            )
    state = (m + 5) * vector
    print(
        f"a joining worker receives {state / 1e9:.1f} GB of state: {state / wire:.0f} s at {gigabit} Gbit/s\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only-plan", action="store_true", help="no simulation")
    args = parser.parse_args()
    driver.WORKER_TIMEOUT = 1e9
    plan()
    if args.only_plan:
        return
    print("what travels in a generation with replicas (MB), by the driver's own code")
    print(f"{'workers':>8} {'lam':>7} {'messages':>8}", end=" ")
    print(f"{'sent':>9} {'received':>9} {'wire':>9} {'s/10Gb':>9} {'s driver':>9}")
    for workers, popsize in ((10, 100), (100, 100), (100, 1000), (1000, 1000), (1000, 4000)):
        volume(workers, popsize)
    print("\nstragglers: 1,000 workers, evaluations of median 1 s, log-normal with the given spread")
    print(f"{'spread':>7} {'lam':>6} {'quorum':>7} {'s/gen':>8} {'busy':>6} {'late':>6}")
    for spread in (0.25, 0.5, 1.0):
        for popsize in (1000, 4000):
            for quorum in (1.0, 0.95, 0.9, 0.8):
                seconds, busy, late = stragglers(1000, popsize, spread, quorum, 20)
                print(f"{spread:7} {popsize:6} {quorum:7} {seconds:8.2f} {busy:6.0%} {late:6.1%}", flush=True)
    print("\nto a target (ellipsoid, n = 20, MA-ES, 100 workers, lam = 100, median of 3 runs)")
    print(f"{'spread':>7} {'quorum':>7} {'generations':>11} {'seconds':>8}")
    for spread in (0.5, 1.0):
        for quorum in (1.0, 0.95, 0.9, 0.8, 0.6):
            count, seconds = to_target(100, 100, spread, quorum)
            print(f"{spread:7} {quorum:7} {count:11.0f} {seconds:8.0f}", flush=True)


if __name__ == "__main__":
    main()
