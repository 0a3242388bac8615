"""LM-MA-ES against attacks of the Adversarial Robustness Toolbox, same images, same number of queries.

    pip install adversarial-robustness-toolbox
    python benchmarks/attack_art.py --data DIR --model forest.npz [--images 300] [--budget 1012]

`forest.npz` is what ``lmma attack --model`` saves. Every query of every attack goes through one counter,
which keeps the closest adversarial it has seen and ends the attack when the budget is spent: so an attack is
credited with whatever it came across, and none can overdraw. All images are clipped to valid grey values.
HopSkipJump sees the predicted class only, by its nature; the others see probabilities.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from pathlib import Path

import numpy as np

from lmma.attack import campaign, load_forest, load_mnist

LIMITS = (10, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000)


class BudgetSpent(Exception):
    pass


class Counter:
    """The classifier as ART sees it: images in [0, 1], every query counted."""

    def __init__(self, forest, x0, label, budget):
        self.forest, self.x0, self.label, self.budget = forest, x0, label, budget
        self.queries, self.closest = 0, np.inf

    def __call__(self, X):
        rows = np.clip(np.asarray(X, dtype=np.float64).reshape(len(X), -1) * 255, 0, 255)
        left = self.budget - self.queries
        if left <= 0:
            raise BudgetSpent
        p = self.forest.predict_proba(rows)
        counted = slice(0, left)  # of a batch that overdraws, the rest does not count
        wrong = p[counted].argmax(axis=1) != self.label
        if wrong.any():
            l2 = np.linalg.norm(rows[counted][wrong] - self.x0, axis=1)
            self.closest = min(self.closest, float(l2.min()))
        self.queries += len(rows)
        return p


def attacks():
    from art.attacks.evasion import HopSkipJump, SimBA, SquareAttack

    def hop_skip_jump(classifier):
        return HopSkipJump(classifier, norm=2, max_iter=64, max_eval=1000, init_eval=50, verbose=False)

    def simba(epsilon):
        return lambda classifier: SimBA(
            classifier, attack="px", epsilon=epsilon, max_iter=2000, order="random", verbose=False
        )

    def square(l2):
        return lambda classifier: SquareAttack(
            classifier, norm=2, eps=l2 / 255, max_iter=2000, nb_restarts=1, verbose=False
        )

    return {
        "HopSkipJump": hop_skip_jump,
        "SimBA, steps of 51": simba(0.2),
        "SimBA, steps of 127": simba(0.5),
        "Square, L2 <= 100": square(100),
        "Square, L2 <= 300": square(300),
    }


def run_art(make, forest, x0, label, budget, shape):
    from art.estimators.classification import BlackBoxClassifierNeuralNetwork

    counter = Counter(forest, x0, label, budget)
    classifier = BlackBoxClassifierNeuralNetwork(  # SimBA insists on this kind; nothing of a network is used
        counter, (*shape, 1), len(forest.classes_), channels_first=False, clip_values=(0.0, 1.0)
    )
    np.random.seed(0)  # noqa: NPY002 - ART draws from the global generator
    x = (x0 / 255).reshape(1, *shape, 1).astype(np.float32)
    with contextlib.suppress(BudgetSpent):
        make(classifier).generate(x, y=np.eye(len(forest.classes_))[[label]])
    return counter.closest


def shares(closest):
    closest = np.asarray(closest)
    return [round(float(np.mean(closest <= limit)), 4) for limit in (*LIMITS, np.finfo(float).max)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--budget", type=int, default=1012)
    parser.add_argument("--seed", type=int, default=300)
    parser.add_argument("--out", help="file for the numbers, as JSON")
    options = parser.parse_args()
    data = load_mnist(options.data)
    forest, _ = load_forest(options.model)
    correct = np.flatnonzero(forest.predict(data.X_test) == data.y_test)
    chosen = np.sort(np.random.default_rng(options.seed).choice(correct, options.images, replace=False))
    print(f"{'attack':28}" + "".join(f"{f'<={limit}':>7}" for limit in LIMITS) + f"{'any':>7}{'s/image':>9}")
    table = {}

    def show(name, closest, seconds):
        table[name] = shares(closest)
        print(f"{name:28}" + "".join(f"{v:7.1%}" for v in table[name]) + f"{seconds:9.2f}", flush=True)
        if options.out:
            content = {"images": len(closest), "limits": [*LIMITS, None], "shares": table}
            Path(options.out).write_text(json.dumps(content))

    for sigma0 in (1.0, 3.0, 10.0):
        start = time.process_time()
        records = campaign(
            forest.predict_proba, data.X_test[chosen], data.y_test[chosen], images=chosen.tolist(),
            sigma0=sigma0, budget=options.budget, clip=True,
        ).records  # fmt: skip
        closest = [r.l2 if r.success else np.inf for r in records]
        show(f"LM-MA-ES, sigma0={sigma0:g}", closest, (time.process_time() - start) / len(chosen))
    for name, make in attacks().items():
        start = time.process_time()
        closest = [
            run_art(make, forest, data.X_test[i].astype(float), data.y_test[i], options.budget, data.shape)
            for i in chosen
        ]
        show(name, closest, (time.process_time() - start) / len(chosen))


if __name__ == "__main__":
    main()
