"""Artificial records of runs."""

from __future__ import annotations

from typing import Any

from lmma_lab.analysis.samples import PROTOCOL
from lmma_lab.tasks import Solve


def run_record(
    problem: str,
    method: str,
    n: int,
    seed: int,
    evaluations: int | None,
    *,
    seconds: float = 1.0,
    spent: int = 0,
) -> dict[str, Any]:
    """Return what a run would have recorded; evaluations None means it did not reach the target."""
    task = Solve(problem, method, n, seed, 10**9)
    total = spent if evaluations is None else evaluations
    return {
        "kind": "run",
        "spec": {
            "problem": problem, "method": method, "n": n, "seed": seed, "budget": task.budget,
            "target": task.target, "sigma0": task.sigma0,
        },
        "versions": {"lmma": "0", "kernels": "numpy"},
        "machine": {"processor": "any", "cores": 2},
        "success": evaluations is not None,
        "evaluations_to_target": evaluations,
        "evaluations": total,
        "generations": total // 10,
        "popsize": 10,
        "best_fun": 1e-11 if evaluations is not None else 1.0,
        "reason": "ftarget" if evaluations is not None else "maxfevals",
        "seconds": seconds,
        "cpu_seconds": seconds,
        "internal_seconds": seconds / 2,
        "curve": {
            "evaluations": [10 * 2**k for k in range(30)],
            "best_fun": [10.0 ** (5 - k / 2) for k in range(30)],
        },
    }  # fmt: skip


def measured(kind: str, method: str, n: int, value: float) -> dict[str, Any]:
    """Return a record of a time or of memory."""
    record: dict[str, Any] = {
        "kind": kind, "spec": {"method": method, "n": n}, "versions": {"lmma": "0", "kernels": "numpy"},
        "machine": {"processor": "any", "cores": 2}, "popsize": 10,
    }  # fmt: skip
    if kind == "timing":
        return record | {
            "seconds": {"best": value, "lower": value, "median": value, "upper": value, "rounds": 9}
        }
    return record | {"peak_bytes": int(value)}


def invariance(method: str, change: str, difference: float) -> dict[str, Any]:
    """Return a record of two runs that ought to be one."""
    return {
        "kind": "invariance",
        "spec": {"method": method, "change": change, "n": 128, "seed": 1, "generations": 100},
        "versions": {"lmma": "0", "kernels": "numpy"},
        "machine": {"processor": "any", "cores": 2},
        "difference": difference,
    }


def attacks(
    method: str,
    successes: int,
    *,
    images: int = 1000,
    distance: float = 40.0,
    pixels: float = 5.0,
    seconds: float = 0.04,
    **changed: Any,
) -> list[dict[str, Any]]:
    """Return attacks on images 0, 1, 2, ..., of which the first ones succeed."""
    return [
        {
            "kind": "attack",
            "spec": PROTOCOL | {"model": "m", "seed": 0, "method": method, "image": image} | changed,
            "success": image < successes,
            "start": image / images,
            "value": -1 / distance if image < successes else 0.1 + distance / 1000,
            "l2": distance if image < successes else 0.0,
            "linf": pixels if image < successes else 0.0,
            "seconds": seconds,
        }
        for image in range(images)
    ]


def forest(accuracy: float) -> dict[str, Any]:
    """Return what is known of the forest that :func:`attacks` attack."""
    spec = {"data": "mnist", "digest": PROTOCOL["digest"], "model": "m", "trees": 1000}
    return {"kind": "forest", "spec": spec, "accuracy": accuracy, "images": 10_000}
