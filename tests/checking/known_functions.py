"""Functions of known kind, with the expected report of a check."""

import hashlib
import shlex
import sys
import time

import numpy as np

from lmma.evaluation.program import Program

N = 10


def sphere(x):
    return float(x @ x)


def rosenbrock(x):
    return float(((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum())


def ellipsoid(x):
    return float(10 ** np.linspace(0, 6, len(x)) @ x**2)


def offset(x):
    return sphere(x) + 1e6


def logistic(x):
    data = np.random.default_rng(0).standard_normal((30, len(x)))
    return float(np.logaddexp(0, -data @ (x - 0.3)).sum() + 0.1 * (x @ x))


class Noisy:
    def __init__(self, share, seed):
        self.share, self.rng = share, np.random.default_rng(seed)

    def __call__(self, x):
        return sphere(x) * (1 + self.share * self.rng.standard_normal())


class Drowned:
    """Noise larger than what a step changes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, x):
        return sphere(x) + 300 * self.rng.standard_normal()


def six_digits(x):
    return float(f"{sphere(x):.5e}")


def four_digits(x):
    return float(f"{rosenbrock(x):.3e}")


def two_decimals(x):
    return round(sphere(x), 2)


def single_precision(x):
    x = np.asarray(x, dtype=np.float32)
    return float(x @ x)


def single_inside(x):
    """In single precision inside, where the values do not show it."""
    x = np.asarray(x, dtype=np.float32)
    return float(x @ x) * np.pi


def solver(x):
    """As of a solver with a tolerance: neighbours scatter by a millionth."""
    return sphere(x) * (1 + 1e-6 * np.sin(1e9 * float(x.sum())))


def plateaus(x):
    return float((np.floor(4 * x) ** 2).sum())


def wrong_answers(x):
    """How many of 40 examples are wrong: whole numbers."""
    data = np.random.default_rng(1).standard_normal((40, len(x)))
    return float((data @ (x - 0.7) > 0).sum())


def counted(x):
    return float(np.abs(np.round(x)).sum())


def failing_often(x):
    if int(hashlib.sha256(x.tobytes()).hexdigest(), 16) % 3 == 0:
        raise RuntimeError("the mesh is degenerate")
    return sphere(x)


def not_everywhere(x):
    return float(np.sqrt(x.min() + 1.0)) + sphere(x) if x.min() > -1 else float("nan")


def slow(x):
    time.sleep(0.008)
    return sphere(x)


UNITS = 10.0 ** np.linspace(-6, 6, 10)


def badly_scaled(x):
    return float(((x / UNITS - 1) ** 2).sum())


def step_and_bowl(x):
    return sphere(x) + (20.0 if x.sum() > 0.0 else 0.0)


def discontinuous(x):
    return sphere(x) + 5 * float((x > 0.25).sum())


class Network:
    """Weights of a small network, the loss of a batch drawn for each call."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.X = np.random.default_rng(5).standard_normal((500, 4))
        self.y = np.tanh(self.X.sum(axis=1))

    def __call__(self, w):
        batch = self.rng.integers(0, 500, 32)
        hidden = np.tanh(self.X[batch] @ w[:20].reshape(4, 5))
        return float(np.mean((hidden @ w[20:25] - self.y[batch]) ** 2))


def network_with_seed(w, seed=0):
    rng = np.random.default_rng(seed or None)
    X = np.random.default_rng(5).standard_normal((500, 4))
    batch = rng.integers(0, 500, 32)
    hidden = np.tanh(X[batch] @ w[:20].reshape(4, 5))
    return float(np.mean((hidden @ w[20:25] - np.tanh(X[batch].sum(axis=1))) ** 2))


def kink(x):
    return float(np.abs(x).sum())


def ridge(x):
    return float(10 * abs(x.sum() - 0.5) + x @ x)


def largest(x):
    return float(np.max(np.abs(x)) + 0.1 * (x @ x))


def rastrigin(x):
    return float((x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum())


def constant(x):
    return 3.0


def hashed(x):
    return int(hashlib.sha256(np.asarray(x).tobytes()).hexdigest()[:12], 16) / 16**12


def tiny(x):
    return 1e-300 * sphere(x)


def small(x):
    return 1e-12 * rosenbrock(x)


def external(seed):
    code = "import sys; print('%.6g' % sum((float(w) - 1) ** 2 for w in sys.stdin.read().split()))"
    return Program(shlex.join([sys.executable, "-S", "-E", "-c", code]))


def start(seed, n=N, scale=1.0):
    return scale * np.random.default_rng(100 + seed).uniform(-1, 1, n) + 0.5


# name: how to make it of a seed, its start, what it is, and what to use
KNOWN = {
    "sphere": (lambda s: sphere, start, {"smooth"}, "lmma"),
    "rosenbrock": (lambda s: rosenbrock, start, {"smooth"}, "lmma"),
    "ellipsoid of condition 1e6": (lambda s: ellipsoid, start, {"smooth"}, "lmma"),
    "sphere far above 0": (lambda s: offset, start, {"smooth"}, "lmma"),
    "logistic regression": (lambda s: logistic, start, {"smooth"}, "lmma"),
    "noise of a millionth": (lambda s: Noisy(1e-6, s), start, {"noisy"}, "lmma"),
    "noise of a hundredth": (lambda s: Noisy(1e-2, s), start, {"noisy"}, "lmma"),
    "noise that hides all": (Drowned, start, {"noisy"}, "lmma"),
    "six digits": (lambda s: six_digits, start, {"rounded"}, "lmma"),
    "four digits": (lambda s: four_digits, start, {"rounded"}, "lmma"),
    "two decimals": (lambda s: two_decimals, start, {"rounded"}, "lmma"),
    "float32": (lambda s: single_precision, start, {"single precision"}, "lmma"),
    "float32 inside": (lambda s: single_inside, start, {"rough"}, "lmma"),
    "a solver's tolerance": (lambda s: solver, start, {"rough"}, "lmma"),
    "piecewise constant": (lambda s: plateaus, start, {"piecewise constant"}, "lmma"),
    "errors counted": (lambda s: wrong_answers, start, {"piecewise constant"}, "lmma"),
    "integer plateaus": (lambda s: counted, lambda s: start(s, N, 6.0), {"piecewise constant"}, "lmma"),
    "failing often": (lambda s: failing_often, start, {"smooth"}, "lmma"),
    "failing outside": (lambda s: not_everywhere, start, {"smooth", "kinked", "jumping"}, "lmma"),
    "slow": (lambda s: slow, start, {"smooth"}, "lmma"),
    "badly scaled": (lambda s: badly_scaled, lambda s: UNITS * (1 + start(s)), {"smooth"}, "lmma"),
    "a step": (lambda s: step_and_bowl, lambda s: np.zeros(N), {"jumping"}, "lmma"),
    "discontinuous": (lambda s: discontinuous, start, {"jumping"}, "lmma"),
    "a network with mini-batches": (Network, lambda s: start(s, 25), {"noisy"}, "lmma"),
    "a network with a seed": (lambda s: network_with_seed, lambda s: start(s, 25), {"noisy"}, "lmma"),
    "absolute values": (lambda s: kink, start, {"kinked"}, "lmma"),
    "a ridge": (lambda s: ridge, lambda s: np.zeros(N), {"kinked"}, "lmma"),
    "the largest": (lambda s: largest, start, {"kinked"}, "lmma"),
    "rastrigin": (lambda s: rastrigin, lambda s: start(s, N, 5.0), {"rugged"}, "lmma"),
    "constant": (lambda s: constant, start, {"constant"}, "neither"),
    "a hash": (lambda s: hashed, start, {"structureless"}, "neither"),
    "tiny": (lambda s: tiny, start, {"smooth"}, "lmma"),
    "small": (lambda s: small, start, {"smooth"}, "lmma"),
    "an external program": (external, start, {"rounded"}, "lmma"),
}
