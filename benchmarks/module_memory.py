"""Peak memory of a run over a torch module of ten million parameters, in single precision.

    python benchmarks/module_memory.py [--width 3162] [--popsize 16] [--method lm-ma-es]

Printed: what the process takes before the run, at its peak, and what the strategy says that it needs; the
rest is what the way to the module costs, mini-batches and their seeds included.
"""

import argparse
import os
import resource
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import torch

import lmma
from lmma.integrations.torch import objective
from lmma.methods import strategy_class


def peak():
    """Return the most memory that this process has held, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--width", type=int, default=3162)
    words.add_argument("--popsize", type=int, default=16)
    words.add_argument("--method", default="lm-ma-es")
    words.add_argument("--generations", type=int, default=3)
    args = words.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Linear(args.width, args.width)
    inputs = torch.randn(64, args.width)

    def batch(generator):
        return inputs[torch.randint(64, (4,), generator=generator)]

    fun = objective(net, lambda net, x: (net(x) ** 2).mean(), batch=batch, chunk=1)
    fun(fun.tree.start()[None], 0)  # what PyTorch needs for itself
    n, before = fun.tree.n, peak()
    result = lmma.minimize(
        fun,
        net,
        0.01,
        method=args.method,
        popsize=args.popsize,
        vectorized=True,
        maxiter=args.generations,
        rng=1,
    )
    needed = strategy_class(args.method).memory(n, args.popsize, 4) / 2**20
    one = 4 * n / 2**20
    words = f"{args.method}, popsize {args.popsize}, {result.nit} generations, {result.vector.dtype}"
    print(f"n = {n:,}, {words}")
    print(f"MB: before {before:,.0f}, peak {peak():,.0f}, strategy {needed:,.0f}, one vector {one:.0f}")
    print(f"vectors beyond the strategy's: {(peak() - before - needed) / one:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
