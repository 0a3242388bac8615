"""MNIST by a network of 25,450 weights without gradients: ours beside open-es and evosax, same evaluations.

    python benchmarks/mnist_network.py --data FOLDER --evaluations 60000 --seeds 3 --out FILE.json

Cross entropy on mini-batches, the same for all candidates of a generation, another in the next. What is
reported is the accuracy of the *mean* of the search on the 10,000 test images, not that of the luckiest.
"""

import argparse
import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

import lmma
from lmma.attack import load_mnist
from lmma.integrations.torch import objective

# method -> (popsize, sigma0, options); step sizes by a look at a few in 6,400 evaluations
OURS = {
    "pulse": (64, 0.1, {}),
    "lm-ma-es": (64, 0.1, {}),
    "open-es": (64, 0.05, {"learning_rate": 0.2}),
}
EVOSAX = {"SNES": (64, 0.1), "PGPE": (64, 0.1)}


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(784, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))


class Digits:
    """Images as tensors, mini-batches by seed, and the accuracy of a vector of weights."""

    def __init__(self, folder, size):
        data = load_mnist(folder)
        self.train = torch.tensor(data.X_train / np.float32(255)), torch.tensor(data.y_train)
        self.test = torch.tensor(data.X_test / np.float32(255)), torch.tensor(data.y_test)
        self.size = size

    def batch(self, generator):
        rows = torch.randint(len(self.train[0]), (self.size,), generator=generator)
        return self.train[0][rows], self.train[1][rows]

    def accuracy(self, net):
        images, labels = self.test
        with torch.no_grad():
            return float((net(images).argmax(1) == labels).float().mean())


def loss(net, images, labels):
    return torch.nn.functional.cross_entropy(net(images), labels)


def curve(digits, fun, report):
    """Return a function that notes the accuracy of the mean at doubling numbers of evaluations."""
    points = []

    def look(evaluations, mean, last=False):
        if last or evaluations >= report * len(points) + report:
            points.append([evaluations, digits.accuracy(fun.tree.decode(mean.astype(np.float32)))])

    return points, look


def by_lmma(method, digits, seed, budget, given):
    popsize, sigma0, options = given  # options of minimize, and constants of the method
    net = network(seed)
    fun = objective(net, loss, batch=digits.batch)
    points, look = curve(digits, fun, budget // 12)
    result = lmma.minimize(
        fun, net, sigma0, method=method, popsize=popsize, vectorized=True, maxfevals=budget, rng=seed,
        tolx=0, tolfun=0, stagnation=False,
        callback=lambda intermediate_result: look(intermediate_result.nfev, intermediate_result.mean),
        **options,
    )  # fmt: skip
    look(result.nfev, result.mean, last=True)
    return points


def by_evosax(name, digits, seed, budget, given):
    import jax
    from evosax.algorithms import distribution_based

    popsize, sigma0 = given
    net = network(seed)
    fun = objective(net, loss, batch=digits.batch)
    points, look = curve(digits, fun, budget // 12)
    start = fun.tree.start()
    strategy = getattr(distribution_based, name)(population_size=popsize, solution=start)
    params = strategy.default_params.replace(std_init=sigma0)
    key = jax.random.key(seed)
    state = strategy.init(key, start, params)
    rng = np.random.default_rng(seed)
    for generation in range(budget // popsize):
        key, ask, tell = jax.random.split(key, 3)
        X, state = strategy.ask(ask, state, params)
        values = fun(np.asarray(X, dtype=np.float32), int(rng.integers(2**31)))
        state, _ = strategy.tell(tell, X, values.astype(np.float32), state, params)
        look((generation + 1) * popsize, np.asarray(strategy.get_mean(state)))
    look(budget // popsize * popsize, np.asarray(strategy.get_mean(state)), last=True)
    return points


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--data", required=True)
    words.add_argument("--evaluations", type=int, default=60_000)
    words.add_argument("--batch", type=int, default=256)
    words.add_argument("--seeds", type=int, default=1)
    words.add_argument("--methods", default="pulse,lm-ma-es,open-es,SNES,PGPE")
    words.add_argument("--sigma0", type=float)
    words.add_argument("--set", action="append", default=[])
    words.add_argument("--popsize", type=int)
    words.add_argument("--noise", help="what is done about values that differ, for ours")
    words.add_argument("--threads", type=int, default=1)
    words.add_argument("--out")
    args = words.parse_args()
    torch.set_num_threads(args.threads)
    digits = Digits(args.data, args.batch)
    records = []
    for seed in range(args.seeds):
        for method in args.methods.split(","):
            begun, wall = time.process_time(), time.perf_counter()
            run, table = (by_lmma, OURS) if method in lmma.methods() else (by_evosax, EVOSAX)
            given = list(table.get(method, (64, 0.05, {})))
            given[1] = args.sigma0 or given[1]
            given[0] = args.popsize or given[0]
            if args.set:
                given[2] = {word.partition("=")[0]: float(word.partition("=")[2]) for word in args.set}
            if args.noise and run is by_lmma:
                given[2] = given[2] | {"noise": args.noise}
            points = run(method, digits, seed, args.evaluations, tuple(given))
            spent = {"cpu": time.process_time() - begun, "wall": time.perf_counter() - wall}
            records.append({"method": method, "seed": seed, "sigma0": given[1], "points": points, **spent})
            print(
                method, seed, given, *(f"{n}:{a:.3f}" for n, a in points), f"{spent['cpu']:.0f} s", flush=True
            )
            if args.out:
                with open(args.out, "w", encoding="utf-8") as file:
                    json.dump(records, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
