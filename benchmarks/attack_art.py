"""LM-MA-ES against attacks of the Adversarial Robustness Toolbox, same images, same number of queries.

    pip install 'lmma-lab[bench-attack]'
    python benchmarks/attack_art.py --data DIR --model forest.npz --out attacks.json --figure attacks.png

`forest.npz` is what ``lmma attack --model`` saves. Attacks that `attacks.json` holds are not made again.

Every query of every attack goes through one counter, which keeps the closest adversarial it has seen and ends
the attack when the budget is spent: so an attack is credited with whatever it came across, and none can
overdraw. A point asked for again costs nothing, since an attacker would remember the answer (ART's Square
asks for each point up to three times). All images are clipped to valid grey values. HopSkipJump sees the
predicted class only, by its nature; the others see probabilities. Square and SimBA stop at their first
success, and Square searches a ball of given size, so each size is an attack of its own; LM-MA-ES and
HopSkipJump use the rest of the budget to come closer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import time
from pathlib import Path

import numpy as np

from lmma_lab.attack import Projection, campaign, load_forest, load_mnist
from lmma_lab.attack.pruned import NearForest
from lmma_lab.report.tables import markdown_table

LIMITS = {
    "l2": (10, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000, np.inf),
    "linf": (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, np.inf),
}
STEPS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
BALLS = (50, 100, 200)
BOXES = (1, 2, 3, 5, 10)


class BudgetSpent(Exception):
    pass


class Counter:
    """The classifier as ART sees it: images in [0, 1], every new point counted."""

    def __init__(self, forest, x0, label, budget):
        self.forest = NearForest(forest, x0, 5.0, Projection(clip=True))  # the same answers, sooner
        self.x0, self.label, self.budget = x0, label, budget
        self.queries = 0
        self.l2 = self.linf = np.inf
        self._known = {}

    def __call__(self, X):
        rows = np.clip(np.asarray(X, dtype=np.float64).reshape(len(X), -1) * 255, 0, 255)
        rows = np.where(
            np.isnan(rows), self.x0, rows
        )  # ART's Square in L2 divides by zero where nothing changed
        keys = [row.tobytes() for row in rows]
        new = [k for k, key in enumerate(keys) if key not in self._known]
        if new:
            left = self.budget - self.queries
            if left <= 0:
                raise BudgetSpent
            p = self.forest.predict_proba(rows[new])
            self._known.update(zip([keys[k] for k in new], p, strict=True))
            counted = new[:left]  # of a batch that overdraws, the rest does not count
            wrong = [k for k in counted if self._known[keys[k]].argmax() != self.label]
            if wrong:
                difference = rows[wrong] - self.x0
                self.l2 = min(self.l2, float(np.linalg.norm(difference, axis=1).min()))
                self.linf = min(self.linf, float(np.abs(difference).max(axis=1).min()))
            self.queries += len(new)
        return np.array([self._known[key] for key in keys])


def attacks(budget):
    from art.attacks.evasion import HopSkipJump, SimBA, SquareAttack

    def simba(kind, epsilon):
        return lambda classifier: SimBA(
            classifier, attack=kind, epsilon=epsilon, max_iter=budget, order="random", verbose=False
        )

    def square(norm, size):  # its schedule of shrinking squares fits the budget
        return lambda classifier: SquareAttack(
            classifier, norm=norm, eps=size / 255, max_iter=budget, nb_restarts=1, verbose=False
        )

    return {
        "HopSkipJump": lambda c: HopSkipJump(c, norm=2, max_iter=64, init_eval=50, verbose=False),
        "HopSkipJump, Linf": lambda c: HopSkipJump(c, norm=np.inf, max_iter=64, init_eval=50, verbose=False),
        **{f"SimBA, DCT, steps of {255 * step:.0f}": simba("dct", step) for step in (0.02, 0.05, 0.1, 0.2)},
        "SimBA, pixels, steps of 51": simba("px", 0.2),
        **{f"Square, L2 {size}": square(2, size) for size in BALLS},
        **{f"Square, Linf {size}": square(np.inf, size) for size in BOXES},
    }


def run_art(make, forest, x0, label, budget, shape):
    from art.estimators.classification import BlackBoxClassifierNeuralNetwork

    counter = Counter(forest, x0, label, budget)
    classifier = BlackBoxClassifierNeuralNetwork(  # SimBA insists on this kind; nothing of a network is used
        counter, (*shape, 1), len(forest.classes_), channels_first=False, clip_values=(0.0, 1.0)
    )
    np.random.seed(0)  # noqa: NPY002 - ART draws from the global generators; HopSkipJump's start from its own
    random.seed(0)
    x = (x0 / 255).reshape(1, *shape, 1).astype(np.float32)
    with contextlib.suppress(BudgetSpent), np.errstate(invalid="ignore"):
        make(classifier).generate(x, y=np.eye(len(forest.classes_))[[label]])
    return counter.l2, counter.linf, min(counter.queries, budget)


def shares(closest, norm):
    """Return the share of images with an adversarial within each limit; null is no adversarial."""
    distances = np.array([np.inf if d is None else d for d in closest[norm]])
    return [float(np.mean(distances <= min(limit, 1e300))) for limit in LIMITS[norm]]


def table(results, norm):
    """Return the shares of all attacks as Markdown; a ball of Square is one point of its curve."""
    words = [f"{limit:g}" if np.isfinite(limit) else "any" for limit in LIMITS[norm]]
    rows = [[f"{'L2' if norm == 'l2' else 'Linf'} at most", *words]]
    for name, closest in results.items():
        rows.append([name, *(f"{100 * share:.1f}" for share in shares(closest, norm))])
    return markdown_table(rows)


def draw(results, images, path):
    from matplotlib.figure import Figure

    from lmma.output.plotting.style import COLOURS, quieten, save

    figure = Figure(figsize=(10.5, 4.9), layout="constrained")
    panels = figure.subplots(1, 2)
    search = [f"LM-MA-ES, step {step:g}" for step in (0.5, 1, 3, 10)]
    simba = [f"SimBA, DCT, steps of {step}" for step in (13, 51)]
    lines = {"l2": [*search, "HopSkipJump", *simba], "linf": [*search, "HopSkipJump, Linf", *simba]}
    styles = {"LM-MA-ES": COLOURS[0], "HopSkipJump": COLOURS[1], "SimBA": COLOURS[2], "Square": COLOURS[3]}
    dashes = ["-", "--", ":", "-."]
    for axis, (norm, names) in zip(panels, lines.items(), strict=True):
        used = {}
        right = 3000 if norm == "l2" else 255
        for name in names:
            if name not in results:
                continue
            family = name.partition(",")[0]
            style = dashes[used.setdefault(family, 0)]
            used[family] += 1
            reached = np.sort([d for d in results[name][norm] if d is not None])
            share = 100 * np.arange(1, len(reached) + 1) / images
            x, y = np.append(reached, right), np.append(share, share[-1] if len(share) else 0)
            axis.step(x, y, where="post", color=styles[family], ls=style, lw=1.5, label=name)
        sizes = BALLS if norm == "l2" else BOXES
        word = "L2" if norm == "l2" else "Linf"
        points = [(s, results[f"Square, {word} {s}"]) for s in sizes if f"Square, {word} {s}" in results]
        success = [100 * np.mean([d is not None and d < 1.001 * s for d in r[norm]]) for s, r in points]
        axis.plot([s for s, _ in points], success, "o:", color=styles["Square"], ms=5, lw=1,
                  label="Square, one run a size")  # fmt: skip
        quieten(axis)
        axis.set_xscale("log")
        axis.set_xlim((10, right) if norm == "l2" else (1, right))
        marks = [
            m for m in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000) if axis.get_xlim()[0] <= m <= right
        ]
        axis.set_xticks(marks, labels=[f"{mark:,}" for mark in marks])
        axis.minorticks_off()
        axis.set_ylim(0, 100)
        axis.set_xlabel(f"{word} distance allowed, grey values")
    panels[0].set_ylabel("images with an adversarial, %")
    # the same on both sides; HopSkipJump minimises the norm it is drawn against
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False,
                  fontsize=8)  # fmt: skip
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the MNIST files")
    parser.add_argument("--model", required=True, help="forest saved by lmma attack")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--budget", type=int, default=1012)
    parser.add_argument("--seed", type=int, default=300)
    parser.add_argument("--out", type=Path, required=True, help="file for the distances, as JSON")
    parser.add_argument("--figure", type=Path, help="file for the curves")
    parser.add_argument("--only", default="", help="only attacks whose names begin with this")
    options = parser.parse_args()
    data = load_mnist(options.data)
    forest, _ = load_forest(options.model)
    correct = np.flatnonzero(forest.predict(data.X_test) == data.y_test)
    chosen = np.sort(np.random.default_rng(options.seed).choice(correct, options.images, replace=False))
    content = {"images": options.images, "budget": options.budget, "seed": options.seed, "attacks": {}}
    if options.out.exists():
        before = json.loads(options.out.read_text())
        if {**before, "attacks": {}} != content:
            parser.error(f"{options.out} is of other images or another budget: give another --out")
        content = before
    results = content["attacks"]

    def keep(name, distances, start):
        finite = [[round(d, 2) if np.isfinite(d) else None for d in column] for column in distances[:2]]
        results[name] = {
            "l2": finite[0], "linf": finite[1], "queries": float(np.mean(distances[2])),
            "seconds": round((time.process_time() - start) / len(chosen), 4),
        }  # fmt: skip
        print(f"{name:28}" + "".join(f"{v:7.1%}" for v in shares(results[name], "l2")), flush=True)
        options.out.write_text(json.dumps(content))

    def missing(name):
        return name not in results and name.startswith(options.only)

    for sigma0 in STEPS:
        if missing(f"LM-MA-ES, step {sigma0:g}"):
            start = time.process_time()
            records = campaign(
                forest.predict_proba, data.X_test[chosen], data.y_test[chosen], images=chosen.tolist(),
                sigma0=sigma0, budget=options.budget, clip=True,
            ).records  # fmt: skip
            found = [(r.l2, r.linf, r.queries) if r.success else (np.inf, np.inf, r.queries) for r in records]
            keep(f"LM-MA-ES, step {sigma0:g}", list(zip(*found, strict=True)), start)
    for name, make in attacks(options.budget).items():
        if missing(name):
            start = time.process_time()
            found = [
                run_art(
                    make, forest, data.X_test[i].astype(float), data.y_test[i], options.budget, data.shape
                )
                for i in chosen
            ]
            keep(name, list(zip(*found, strict=True)), start)
    for norm in LIMITS:
        print(f"\nSuccess, %, of {options.images} images\n\n{table(results, norm)}")
    if options.figure:
        draw(results, options.images, options.figure)


if __name__ == "__main__":
    main()
