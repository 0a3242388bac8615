"""A run on two Dask workers in separate network namespaces, one of which is disconnected during the run.

Runs inside a namespace of its own (``unshare --net``), so that nothing outside is touched:
``unshare --net python network_cut.py FOLDER vectors|replicas``. Prints one JSON line.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster

import lmma
from lmma.evaluation.replicas import Replicated

GENERATIONS = 8
CUT_AFTER = 20  # evaluations


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def objective(folder):
    def fun(x):
        with open(folder / "begun", "ab", buffering=0) as log:
            log.write(b".")
        time.sleep(0.2)
        return float(np.sum((x - 0.5) ** 2))

    return fun


def start_worker(k):
    """Start a worker behind a cable of its own; return the process and this end of the cable."""
    here, there = f"here{k}", f"there{k}"
    ip("link", "add", here, "type", "veth", "peer", "name", there)
    ip("addr", "add", f"10.77.{k}.1/24", "dev", here)
    ip("link", "set", here, "up")
    plug_in = f"ip link set lo up; ip addr add 10.77.{k}.2/24 dev {there}; ip link set {there} up"
    worker = f"exec {sys.executable} -m distributed.cli.dask_worker tcp://10.77.{k}.1:8786 --no-nanny"
    process = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"read go; {plug_in}; {worker} --nthreads 1 --no-dashboard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"},
    )
    # The cable's other end goes to the namespace as soon as that is another one
    mine = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{process.pid}/ns/net") == mine:
        time.sleep(0.01)
    ip("link", "set", there, "netns", str(process.pid))
    process.stdin.write(b"go\n")
    process.stdin.close()
    return process, here


def main():
    folder, how = Path(sys.argv[1]), sys.argv[2]
    ip("link", "set", "lo", "up")
    dask.config.set({"distributed.scheduler.worker-ttl": "5s"})  # or it takes longer to notice
    scheduler = LocalCluster(n_workers=0, host="0.0.0.0", scheduler_port=8786, dashboard_address=":0")
    client = Client(scheduler)
    workers = [start_worker(k) for k in (1, 2)]
    client.wait_for_workers(2, timeout=60)

    def cut():
        begun = folder / "begun"
        while not begun.exists() or begun.stat().st_size < CUT_AFTER:
            time.sleep(0.01)
        time.sleep(0.05)  # in the middle of an evaluation
        ip("link", "set", workers[0][1], "down")

    threading.Thread(target=cut, daemon=True).start()
    try:
        result = lmma.minimize(
            objective(folder), np.ones(5), 1.0, rng=1, maxiter=GENERATIONS,
            workers=Replicated(client, check=2) if how == "replicas" else client,
        )  # fmt: skip
        left = len(client.nthreads())
    finally:
        for process, _ in workers:
            process.kill()
    here = lmma.minimize(lambda x: float(np.sum((x - 0.5) ** 2)), np.ones(5), 1.0, rng=1, maxiter=GENERATIONS)
    print(
        json.dumps(
            {
                "same": bool(np.array_equal(result.x, here.x) and np.array_equal(result.mean, here.mean)),
                "nfev": [result.nfev, here.nfev],
                "failures": result.failures,
                "late": result.late,
                "deaths": result.deaths,
                "begun": len((folder / "begun").read_bytes()),
                "workers": left,
            }
        ),
        flush=True,
    )
    os._exit(0)


if __name__ == "__main__":
    main()
