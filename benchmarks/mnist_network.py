"""MNIST by a network of 25,450 weights without gradients: lmma, open-es and evosax, same evaluations.

    python benchmarks/mnist_network.py --data FOLDER --evaluations 60000 --seeds 1 2 3 --out FILE.jsonl

Cross entropy on mini-batches, the same for all candidates of a generation, another in the next. What is
reported is the accuracy of the *mean* of the search on the 10,000 test images, not that of the luckiest.
"""

import argparse
import itertools
import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

import lmma
from lmma.integrations.torch import objective
from lmma_lab.attack import load_mnist

# method -> (popsize, sigma0, options); step sizes by a look at a few with seed 0, 256 images a batch
OURS = {
    "pulse": (64, 0.05, {}),
    "lm-ma-es": (64, 0.1, {}),
    "open-es": (64, 0.05, {"learning_rate": 0.2}),
}
# the same for evosax; PGPE's steps of the mean are Adam's, with the learning rate of open-es
EVOSAX = {"SNES": (64, 0.1, {}), "PGPE": (64, 0.05, {"learning_rate": 0.2})}


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
    import optax
    from evosax.algorithms import distribution_based

    popsize, sigma0, options = given
    net = network(seed)
    fun = objective(net, loss, batch=digits.batch)
    points, look = curve(digits, fun, budget // 12)
    start = fun.tree.start()
    more = {"optimizer": optax.adam(options["learning_rate"] * sigma0)} if options else {}
    strategy = getattr(distribution_based, name)(population_size=popsize, solution=start, **more)
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
    words.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
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
    for seed, method in itertools.product(args.seeds, args.methods.split(",")):
        run, table = (by_lmma, OURS) if method in lmma.methods() else (by_evosax, EVOSAX)
        popsize, sigma0, options = table.get(method, (64, 0.05, {}))
        if args.set:
            options = {word.partition("=")[0]: float(word.partition("=")[2]) for word in args.set}
        if args.noise and run is by_lmma:
            options = options | {"noise": args.noise}
        given = (args.popsize or popsize, args.sigma0 or sigma0, options)
        begun, wall = time.process_time(), time.perf_counter()
        points = run(method, digits, seed, args.evaluations, given)
        record = {
            "method": method, "seed": seed, "batch": args.batch, "popsize": given[0], "sigma0": given[1],
            "options": options, "points": points, "cpu": round(time.process_time() - begun, 1),
            "wall": round(time.perf_counter() - wall, 1),
        }  # fmt: skip
        print(json.dumps(record), flush=True)
        if args.out:
            with open(args.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
