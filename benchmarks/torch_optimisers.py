"""The paper's last question: do LM-MA-ES's direction vectors, fed with noisy gradients, accelerate SGD?

    python benchmarks/torch_optimisers.py --out FILE.jsonl [--data MNIST_FOLDER] [--steps 1000] [--seeds 3]

``lmma.integrations.torch.LMMA`` beside SGD with momentum, Adam, Muon and L-BFGS at equal gradient
evaluations, each over a grid of learning rates, with the same noise: quadratics of n = 1,000 plain and
rotated, Rosenbrock's function, and MNIST by a network with one hidden layer. SGD+decay has a rate that falls
linearly to 0: what a step size that adapts is worth beyond a schedule. What is in the file already is not run
again; docs/tools/networks.py makes tables and the verdict of it.
"""

import argparse
import json
import math
import os
import sys
import time

import torch

from lmma.integrations.torch import LMMA

RATES = {
    "SGD+decay": [*(10.0**k for k in range(-5, 1)), 3.0],
    "SGD": [*(10.0**k for k in range(-5, 1)), 3.0],
    "Adam": [*(10.0**k for k in range(-5, 1)), 3.0],
    "LMMA": [*(10.0**k for k in range(-5, 1)), 3.0],
    "LMMA+CSA": [*(10.0**k for k in range(-5, 1)), 3.0],
    "L-BFGS": [0.01, 0.1, 1.0],
    "Muon": [10.0**k for k in range(-4, 0)],
}


def made(name, params, rate):
    """Return the optimiser; Muon takes matrices alone, so that biases get Adam."""
    if name in ("SGD", "SGD+decay"):
        return [torch.optim.SGD(params, lr=rate, momentum=0.9)]
    if name == "Adam":
        return [torch.optim.Adam(params, lr=rate)]
    if name == "L-BFGS":
        return [torch.optim.LBFGS(params, lr=rate, max_iter=1, history_size=10)]
    if name == "Muon":
        matrices = [p for p in params if p.ndim == 2]
        others = [p for p in params if p.ndim != 2]
        return [torch.optim.Muon(matrices, lr=rate), torch.optim.Adam(others, lr=rate)]
    return [LMMA(params, lr=rate, csa=0.01 if name == "LMMA+CSA" else 0.0)]


class Quadratic:
    """Sum of h_i x_i^2 / 2, its gradient with noise of a hundredth of the first one's size."""

    def __init__(self, condition, rotated, n=1000):
        self.h = torch.logspace(0, math.log10(condition), n) / condition
        self.turn = None
        if rotated:
            self.turn = torch.linalg.qr(torch.randn((n, n), generator=torch.Generator().manual_seed(1)))[0]
        self.n = n
        self.noise = 0.01

    def start(self, seed):
        return [torch.nn.Parameter(torch.ones(self.n))]

    def value(self, params):
        x = params[0] if self.turn is None else self.turn @ params[0]
        return 0.5 * (self.h * x * x).sum()

    def closure(self, params, generator):
        loss = self.value(params)
        loss.backward()
        size = self.noise * float(torch.linalg.vector_norm(self.h)) / math.sqrt(self.n)
        params[0].grad += size * torch.randn(self.n, generator=generator)
        return loss


class Rosenbrock(Quadratic):
    """Rosenbrock's function of n = 1,000, divided by n; noise of 0.001 in each entry of the gradient."""

    def __init__(self, n=1000):
        self.n = n

    def start(self, seed):
        return [torch.nn.Parameter(torch.zeros(self.n))]

    def value(self, params):
        x = params[0]
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() / self.n

    def closure(self, params, generator):
        loss = self.value(params)
        loss.backward()
        params[0].grad += 1e-3 / self.n * torch.randn(self.n, generator=generator)
        return loss


class Network:
    """MNIST, 784-128-10, mini-batches of 128."""

    def __init__(self, folder):
        from lmma_lab.attack import load_mnist

        data = load_mnist(folder)
        self.train = torch.tensor(data.X_train / 255.0, dtype=torch.float32), torch.tensor(data.y_train)

    def start(self, seed):
        torch.manual_seed(seed)
        self.net = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        return list(self.net.parameters())

    def value(self, params):
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(self.net(self.train[0][:10_000]), self.train[1][:10_000])

    def closure(self, params, generator):
        rows = torch.randint(60_000, (128,), generator=generator)
        loss = torch.nn.functional.cross_entropy(self.net(self.train[0][rows]), self.train[1][rows])
        loss.backward()
        return loss


def run(problem, name, rate, seed, steps):
    """Return the noiseless loss after so many gradients, infinity where it diverged."""
    params = problem.start(seed)
    optimisers = made(name, params, rate)
    generator = torch.Generator().manual_seed(1000 + seed)

    def closure():
        for optimiser in optimisers:
            optimiser.zero_grad()
        return problem.closure(params, generator)

    for step in range(steps):
        if name == "SGD+decay":
            optimisers[0].param_groups[0]["lr"] = rate * (1 - step / steps)
        if name == "L-BFGS":
            optimisers[0].step(closure)
        else:
            closure()
            for optimiser in optimisers:
                optimiser.step()
        if step % 50 == 0 and not all(torch.isfinite(p).all() for p in params):
            return math.inf
    with torch.no_grad():
        value = float(problem.value(params))
    return value if math.isfinite(value) else math.inf


def finished(path):
    """Return the records that are there; a loss of null has diverged."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--out", required=True)
    words.add_argument("--data", help="folder of MNIST; left out without it")
    words.add_argument("--steps", type=int, default=1000)
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--only", default="", help="problems whose name contains this")
    args = words.parse_args()
    records = finished(args.out)
    torch.set_num_threads(1)
    problems = {"Rosenbrock": Rosenbrock()}
    for condition in (1e2, 1e4, 1e6):
        for rotated in (False, True):
            problems[f"quadratic 1e{math.log10(condition):.0f}{' rotated' if rotated else ''}"] = Quadratic(
                condition, rotated
            )
    if args.data:
        problems["MNIST"] = Network(args.data)
    done = {(record["problem"], record["optimiser"], record["rate"]) for record in records}
    for label, problem in problems.items():
        if args.only not in label:
            continue
        for name, rates in RATES.items():
            if name == "Muon" and (label != "MNIST" or not hasattr(torch.optim, "Muon")):
                continue
            for rate in rates:
                if (label, name, rate) in done:
                    continue
                begun = time.process_time()
                losses = [run(problem, name, rate, seed, args.steps) for seed in range(args.seeds)]
                record = {"problem": label, "optimiser": name, "rate": rate, "gradients": args.steps,
                          "losses": [loss if math.isfinite(loss) else None for loss in losses],
                          "seconds": round(time.process_time() - begun, 2)}  # fmt: skip
                records.append(record)
                print(json.dumps(record), flush=True)
                with open(args.out, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
