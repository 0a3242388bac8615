"""Parts of the default: evaluations to the target with one part at a time left out.

    python benchmarks/ablation.py --n 64 --seeds 401-405
    python benchmarks/ablation.py --n 16 --functions wood,rosenbrock,sum-of-powers --how 6-digits

Starts, counts and functions are those of smooth.py. Each row replaces one function or constant of the library
for the time of its runs.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Iterator
from importlib import import_module
from unittest import mock

import numpy as np
from smooth import ELEVEN, cell, numbers, solve

quasi_newton = import_module("lmma.methods.quasi_newton")
portfolio = import_module("lmma.methods.portfolio")
gate = import_module("lmma.methods.gate")
Vector = np.ndarray


def without_curvature(self: object, f: float) -> Vector:
    """One-sided slopes without the term for the curvature of the metric."""
    g = (self.known() - f) / self.a
    g[~np.isfinite(g)] = 0.0
    return g


def only_bfgs(self: object, g: Vector, step: Vector, trial: object, iteration: int) -> dict:
    """One direction: that of the BFGS update."""
    sy, ss = float(self.s @ self.y), float(self.s @ self.s)
    if self.turned or not sy > 1e-8 * ss:
        return {quasi_newton.Direction.NEWTON: -g}
    trial.pending, trial.shrink = quasi_newton.Pending.BFGS, 1.0
    update = self.update(1.0)
    return {quasi_newton.Direction.BFGS: update.previous(-update.slopes(g))}


def equal_curvatures(learn_first: object) -> object:
    """The first stencil gives slopes and the mean second derivative alone."""

    def learn(self: object, values: Vector) -> None:
        known = type(self.stencil).central_slopes

        def mean(stencil: object, *given: object) -> tuple[Vector, Vector]:
            g, d = known(stencil, *given)
            return g, np.full_like(d, np.nanmean(np.abs(d)))

        with mock.patch.object(type(self.stencil), "central_slopes", mean):
            learn_first(self, values)

    return learn


@contextlib.contextmanager
def without(part: str) -> Iterator[None]:
    """Leave out one part of the default."""
    method, stencil = quasi_newton.QuasiNewtonMethod, quasi_newton.Stencil
    changes = {
        "": (),
        "second derivatives of the first stencil": (
            (method, "_learn_first", equal_curvatures(method._learn_first)),
        ),
        "separable mode": ((method, "_is_not_separable", lambda self: True),),
        "one-sided differences": (
            (method, "_stencil_size", central_only(method._stencil_size)),
        ),
        "curvature in one-sided differences": ((stencil, "one_sided_slopes", without_curvature),),
        "three directions": ((quasi_newton.MatrixModel, "directions", only_bfgs),),
        "gate: always smooth": ((gate, "LEAST", -math.inf), (gate, "MOST", math.inf), (gate, "PLATEAU", 2.0)),
        "gate: always rough": ((gate, "LEAST", math.inf),),
        "challenges": ((portfolio, "FIRST_CHALLENGE", 10**9),),
        "looks of the evolution strategy": ((portfolio, "FIRST_LOOK", 10**9),),
        "interpolation": ((portfolio, "MODEL_UP_TO", 0),),
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for owner, name, new in changes[part]:
            stack.enter_context(mock.patch.object(owner, name, new))
        yield


def central_only(size: object) -> object:
    """Stencils with two points for each slope."""

    def always(self: object, phase: object, error: float) -> float:
        chosen = size(self, phase, error)
        return chosen or math.sqrt(2 * quasi_newton.CENTRAL * error) * self.progress.grow

    return always


PARTS = (
    "", "second derivatives of the first stencil", "separable mode", "one-sided differences",
    "curvature in one-sided differences", "three directions", "gate: always smooth", "gate: always rough",
    "challenges", "looks of the evolution strategy", "interpolation",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--seeds", type=numbers, default=list(range(401, 406)))
    parser.add_argument("--target", type=float, default=1e-10)
    parser.add_argument("--how", default="exact")
    parser.add_argument("--functions", default=",".join(ELEVEN))
    parser.add_argument("--budget", type=int, default=4000, help="evaluations per variable")
    given = parser.parse_args()
    functions = given.functions.split(",")
    print("| left out | " + " | ".join(functions) + " |")
    print("|---|" + "---|" * len(functions))
    for part in PARTS:
        with without(part):
            cells = [
                cell(
                    [
                        solve(name, given.how, given.n, "auto", s, given.target, given.budget)
                        for s in given.seeds
                    ]
                )
                for name in functions
            ]
        print(f"| {part or 'nothing'} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
