"""Success of attacks over the initial step size and over the budget, on random images.

    python benchmarks/attack_sweeps.py --data DIR --model forest.npz --store out/attack --out results

Records go to the store of ``lmma attack --out``, so what was attacked before is not attacked again. A run
with a large budget begins like one with a small budget: one campaign shows all of them.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from lmma.output.plotting.style import COLOURS, quieten, save
from lmma_lab.attack.pipeline import Settings, run_attack

STEPS = (0.5, 1.0, 2.0, 3.0, 5.0)
BUDGETS = (250, 500, 1000, 2000, 4000)


def curve(axis, distances, images, **style):
    reached = np.sort(distances)
    share = 100 * np.arange(1, len(reached) + 1) / images
    axis.step(np.append(reached, 1000), np.append(share, share[-1]), where="post", lw=1.5, **style)


def draw(steps, progress, popsize, path):
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (sigma0, records), colour in zip(steps.items(), COLOURS, strict=False):
        hits = [r.l2 for r in records if r.success]
        curve(left, hits, len(records), color=colour, label=f"step size {sigma0:g}")
    left.set_xscale("log")
    left.set_xlim(10, 300)
    left.set_xticks((10, 20, 50, 100, 200), labels=("10", "20", "50", "100", "200"), minor=False)
    left.minorticks_off()
    left.set_xlabel("L2 distance allowed, grey values")
    left.set_ylabel("images with an adversarial, %")
    left.legend(frameon=False, fontsize=8)
    right.plot(popsize * np.arange(len(progress)), 100 * progress, color=COLOURS[1], lw=1.5)
    right.set_xlabel("queries an image (step size 1)")
    right.axvline(1000, color="0.6", lw=0.8, ls=":")
    right.set_xlim(0, popsize * (len(progress) - 1))
    for axis in (left, right):
        quieten(axis)
        axis.set_ylim(0, 100)
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the MNIST files")
    parser.add_argument("--model", required=True, help="forest saved by lmma attack")
    parser.add_argument("--store", required=True, help="folder for the records")
    parser.add_argument("--out", type=Path, required=True, help="folder for sweeps.json and sweeps.png")
    parser.add_argument("--images", type=int, default=300)
    options = parser.parse_args()

    def attack(**changed):
        settings = Settings(data=options.data, model=options.model, images=options.images, **changed)
        return run_attack(settings, options.store).campaigns["lm-ma-es"]

    steps = {sigma0: attack(sigma0=sigma0) for sigma0 in STEPS}
    long = attack(budget=max(BUDGETS))
    popsize = long[0].queries // (len(long[0].curve) - 1)
    progress = np.mean([record.curve < 0 for record in long], axis=0)
    numbers = {
        "images": options.images,
        "step size": {
            f"{sigma0:g}": {
                "success": float(np.mean([r.success for r in records])),
                "median L2": float(np.median([r.l2 for r in records if r.success])),
                "median Linf": float(np.median([r.linf for r in records if r.success])),
            }
            for sigma0, records in steps.items()
        },
        "budget": {str(b): float(progress[math.ceil(b / popsize)]) for b in BUDGETS},
    }
    (options.out / "sweeps.json").write_text(json.dumps(numbers, indent=1) + "\n")
    draw(steps, progress, popsize, options.out / "sweeps.png")
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
