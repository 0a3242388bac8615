"""Control the loop yourself: ask for candidates, evaluate them anywhere, tell their values."""

import numpy as np

import lmma

n = 50
es = lmma.LMMAES(np.full(n, 3.0), 1.0, rng=1)
scales = np.logspace(0, 1, n)

while not es.stop() and es.best_fun > 1e-8:
    candidates = es.ask()  # (popsize, n), one candidate a row
    es.tell(((candidates * scales) ** 2).sum(axis=1))  # lower is better; NaN where an evaluation failed

print(f"best value {es.best_fun:.3e} after {es.evaluations:,} evaluations, step size {es.sigma:.2e}")

# What was learned: the inverse Hessian up to a factor, as an operator
metric = es.result.hess_inv
first, last = np.eye(n)[0], np.eye(n)[-1]
print(f"metric along the first axis {first @ (metric @ first):.3f}, the last {last @ (metric @ last):.3f}")
