"""Runs described by a few options, to be killed and restarted, each in a separate process."""

import json
import math
import os
import sys
import time
import traceback

import numpy as np
import scipy.optimize  # noqa: F401 (as lmma.run.run)

import lmma
import lmma.run.result
import lmma.run.run  # else each process would import it when it runs
from fuzzing import one_of
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver
from lmma.methods import strategy_class
from lmma.run.checkpoint import Checkpoint, CheckpointError
from local_transport import LocalTransport, OnTransport

IN_USE = 5  # exit status of a process that was refused
EVALUATORS = ["one by one", "rows", "pool", "quorum", "vectors", "replicas"]
GENERATIONS = 60


def configuration(rng):
    """Return what a run shall be like, as JSON can say it, and words for it that can be counted."""
    n = int(rng.integers(2, 6))
    kind = one_of(rng, ["one by one", "one by one", "rows", "rows", "pool", "quorum", "vectors", "replicas"])
    options = {
        "method": one_of(rng, ["auto", *lmma.methods()]),
        "rng": int(rng.integers(1000)),
        "dtype": one_of(rng, ["float64", "float64", "float32"]),
        "maxiter": GENERATIONS,
        "tolfun": one_of(rng, [0.0, 1e-11, 1e-1]),
        "restarts": one_of(rng, [0, 0, 3, "ipop", "bipop:4"]),
        "on_error": one_of(rng, ["worst", "worst", "resample"]),
        "history": one_of(rng, [False, 8]),
    }
    if rng.random() < 0.4:
        options["bounds"] = one_of(rng, [[0.1, 4.0], [[-1.0, 3.0]] * n, [[0.2, None]] * n])
        options["boundary"] = one_of(rng, ["smooth", "reflect", "project"])
    cls = strategy_class("pulse" if options["method"] == "auto" else options["method"])
    if not cls.can_resample:
        options["on_error"] = "worst"
    if rng.random() < 0.4 and cls.can_inject:
        rows = one_of(rng, [1, 3, 30])  # the last are more than one generation takes
        options["inject"] = rng.uniform(0.2, 2.0, (rows, n)).round(3).tolist()
    if kind == "quorum":
        options |= {"restarts": 0, "tolfun": 0.0, "stagnation": False, "on_error": "worst"}
    chosen = {
        "n": n,
        "evaluator": kind,
        "sigma0": one_of(rng, [0.7, 0.05, np.linspace(0.2, 1.0, n).tolist()]),
        "warm": bool(rng.random() < 0.3),
        "log": bool(rng.random() < 0.3),
        "fails": bool(rng.random() < 0.5) and kind != "quorum",
        "options": options,
    }
    words = [kind, options["dtype"], *(word for word in ("warm", "log", "fails") if chosen[word])]
    words += [word for word in ("restarts", "bounds", "inject", "history") if options.get(word)]
    return chosen, words


def objective(chosen, pause):
    """Return the objective; how long an evaluation takes is no part of its identity."""
    fails, straggles = chosen["fails"], chosen["evaluator"] == "quorum"

    def fun(x):
        time.sleep(pause * (20.0 if straggles and math.sin(1e4 * float(x[0])) > 0.8 else 1.0))
        if fails and math.sin(100.0 * float(x[0])) > 0.9:
            raise OSError("now and then")
        return float(np.sum((x.astype(float) - 0.3) ** 2 * 10.0 ** np.arange(len(x))))

    def rows(X):
        time.sleep(pause)
        values = np.sum((X.astype(float) - 0.3) ** 2 * 10.0 ** np.arange(X.shape[1]), axis=1)
        return np.where(fails & (np.sin(100.0 * X[:, 0].astype(float)) > 0.9), np.nan, values)

    return rows if chosen["evaluator"] == "rows" else fun


def execute(chosen, checkpoint, pause=0.0, *, alone=False):
    """Run what was chosen; ``alone`` evaluates in this process, whatever was chosen."""
    kind, options = chosen["evaluator"], dict(chosen["options"])
    fun = objective(chosen, pause)
    x0, sigma0 = np.full(chosen["n"], 0.5), chosen["sigma0"]
    if chosen["warm"]:
        first = options | {"maxiter": 6, "restarts": 0, "inject": None, "history": False}
        x0 = lmma.minimize(objective(chosen, 0.0), x0, sigma0, vectorized=kind == "rows", **first)
        sigma0 = None
    if not alone:
        options["workers"] = {
            "pool": 2,
            "quorum": 2,
            "vectors": OnTransport(LocalTransport("a", "b"), VectorDriver),
            "replicas": OnTransport(LocalTransport("a", "b"), ReplicatedDriver, check=3),
        }.get(kind, 1)
        options["quorum"] = 0.5 if kind == "quorum" else 1.0
    return lmma.minimize(
        fun, x0, sigma0, **options, vectorized=kind == "rows", checkpoint=Checkpoint(checkpoint, every=0.0),
        log=f"{checkpoint}.jsonl" if chosen["log"] else None,
    )  # fmt: skip


def outcome(result):
    """Return what must be the same however often the run was killed, as JSON can say it."""
    named = {name: result[name] for name in ("nfev", "nit", "failures", "reason", "message", "status")}
    return named | {
        "x": result.x.tolist(),
        "fun": result.fun,
        "mean": result.mean.tolist(),
        "sigma": float(result.sigma),
        "failed": dict(result.failed),
        "runs": [[run.popsize, run.evaluations, run.best_fun, run.reason, run.small] for run in result.runs],
    }


def child(chosen, pause, checkpoint, mark, answer):
    """Run in a process of its own; what came of it is written to the file ``answer``, whole or not at all."""
    os.environ |= mark  # what this process starts inherits it
    status = 0
    try:
        words = json.dumps(outcome(execute(chosen, checkpoint, pause)))
    except CheckpointError as error:
        status, words = IN_USE if "is in use by" in str(error) else 1, str(error)
    except BaseException:
        status, words = 1, traceback.format_exc()
    with open(f"{answer}.part", "w") as file:
        file.write(words)
    os.replace(f"{answer}.part", answer)
    sys.exit(status)
