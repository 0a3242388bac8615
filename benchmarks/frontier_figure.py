"""Draw evaluations to 1e-10 over n, ours and other packages', from the runs that frontier.py has published.

python benchmarks/frontier_figure.py lab/results/frontier/runs.csv lab/results/frontier/growth.png
"""

import csv
import sys
from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

METHODS = ("pulse-full", "pulse", "lm-cma-es", "pycma", "pycma-vkd", "fcmaes-crfmnes")
PROBLEMS = (
    "sphere", "ellipsoid", "discus", "cigar", "rotated-cigar", "rotated-discus", "rotated-different-powers",
    "rotated-ellipsoid",
)  # fmt: skip
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#56B4E9", "#CC79A7")
MARKERS = "osD^vP"


def main(source: str, target: str) -> None:
    """Read the runs and write the figure."""
    counts = defaultdict(list)
    with open(source) as file:
        for row in csv.DictReader(file):
            if row["evaluations_to_target"]:
                counts[row["problem"], row["method"], int(row["n"])].append(int(row["evaluations_to_target"]))
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for axes, problem in zip(figure.subplots(2, 4).flat, PROBLEMS, strict=True):
        for method, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=True):
            points = sorted(
                (n, np.median(c)) for (p, m, n), c in counts.items() if (p, m) == (problem, method)
            )
            if points:
                axes.loglog(
                    *zip(*points, strict=True), color=colour, marker=marker, markersize=5, label=method
                )
        axes.set_title(problem.replace("rotated-", "rotated ").replace("-", " "), fontsize=10)
        axes.set_xticks([64, 128, 256, 512], ["64", "128", "256", "512"])
        axes.minorticks_off()
        axes.set_xlabel("n", fontsize=9)
        axes.set_xlim(55, 600)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supylabel("evaluations to 1e-10", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(target, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
