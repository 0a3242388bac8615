"""Minimise a Python function of 50 variables, with a budget, a target and a callback."""

import numpy as np

import lmma

rng = np.random.default_rng(1)
A = rng.standard_normal((80, 50))
b = A @ np.linspace(-1, 1, 50)


def misfit(x: np.ndarray) -> float:
    """How badly x explains the measurements b."""
    return float(np.mean(np.abs(A @ x - b) ** 1.5))


def watch(intermediate_result) -> None:
    r = intermediate_result
    if r.nit % 500 == 0:
        print(f"{r.nfev:7,} evaluations: {r.fun:.3e}")


result = lmma.minimize(misfit, np.zeros(50), 0.3, rng=1, maxfevals=100_000, ftarget=1e-8, callback=watch)
print(result.message)
print("best value", result.fun, "after", result.nfev, "evaluations with", result.method)
print("largest error in x", np.abs(result.x - np.linspace(-1, 1, 50)).max())
