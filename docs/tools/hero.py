"""Draw the figure of the front page: calls and seconds to the optimum, compared with other packages.

    python docs/tools/hero.py [--run]

--run measures again what the picture shows and keeps it in lab/results/hero.json (minutes; needs cma and
fcmaes). 100 variables, start uniform in [-5, 5]^n, sigma0 = 3, values rounded to six significant digits as
simulators print them; calls and processor seconds of one core until the exact value is 1e-8, medians of
three seeds.
"""

import argparse
import json
import os
import time
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LMMA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import lmma
from lmma import problems
from lmma.output.plotting.style import COLOURS, save

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "lab" / "results" / "hero.json"
PICTURE = ROOT / "docs" / "images" / "hero.svg"
N, SEEDS, TARGET, BUDGET = 100, (401, 402, 403), 1e-8, 500_000
PROBLEMS = {
    "sphere": "sphere",
    "ellipsoid": "ellipsoid",
    "rosenbrock": "Rosenbrock",
    "rotated-cigar": "cigar, rotated",
    "rotated-discus": "discus, rotated",
    "rotated-different-powers": "different powers,\nrotated",
}
METHODS = {
    "lmma": ("lmma, default", "o"),
    "pycma": ("pycma", "s"),
    "fcmaes-crfmnes": ("CR-FM-NES (fcmaes)", "^"),
    "l-bfgs": ("L-BFGS-B, differences (SciPy)", "D"),
}


class Arrived(Exception):
    """The exact value has reached the target."""


class Printed:
    """A function with six significant digits, which counts its calls and knows its exact value."""

    def __init__(self, problem, x0):
        self.function = problems.get(problem).function
        self.function(x0[np.newaxis])  # draws the rotation before the clock starts
        self.calls = 0

    def __call__(self, X):
        """Return the rounded values of rows, or raise where one arrives."""
        exact = self.function(X)
        found = np.flatnonzero(exact <= TARGET)
        if len(found):
            self.calls += int(found[0]) + 1
            raise Arrived
        self.calls += len(X)
        if self.calls > BUDGET:
            raise TimeoutError
        digits = 10.0 ** (5 - np.floor(np.log10(exact)))
        return np.round(exact * digits) / digits


def search(method, fun, x0, seed):
    """Run one method until ``fun`` ends it or it ends itself."""
    if method == "l-bfgs":
        from scipy.optimize import minimize

        minimize(lambda x: float(fun(x[np.newaxis])[0]), x0, method="L-BFGS-B",
                 options={"maxfun": BUDGET, "maxiter": BUDGET, "ftol": 0, "gtol": 0})  # fmt: skip
        return
    if method == "lmma":
        lmma.minimize(
            fun, x0, 3.0, rng=seed, vectorized=True, on_error="raise", tolx=0, tolfun=0, stagnation=False
        )
        return
    from lmma.numerics.recombination import default_popsize
    from lmma_lab.peers import ADAPTORS

    adaptor = ADAPTORS[method]
    other = adaptor(x0, 3.0, adaptor.admissible(default_popsize(N)), seed)
    other.compile()
    while True:
        rows = other.propose()
        other.learn(rows, fun(np.asarray(rows)))


def race(problem, method, seed):
    """Return calls and seconds of one run, None where it does not arrive."""
    x0 = problems.get(problem).start(N, np.random.default_rng([seed, N]))
    fun = Printed(problem, x0)
    start = time.process_time()
    try:
        search(method, fun, x0, seed)
    except Arrived:
        return {"calls": fun.calls, "seconds": round(time.process_time() - start, 4)}
    except Exception as error:
        print(f"{problem} {method} {seed}: {type(error).__name__} {error}")
    return None


def measure():
    """Measure what is not there yet, and keep it."""
    records = json.loads(RECORDS.read_text())["runs"] if RECORDS.exists() else {}
    for problem in PROBLEMS:
        for method in METHODS:
            if method in records.setdefault(problem, {}):
                continue
            records[problem][method] = [race(problem, method, seed) for seed in SEEDS]
            print(problem, method, records[problem][method], flush=True)
            keep(records)


def keep(records):
    """Write all runs to the file."""
    RECORDS.write_text(
        json.dumps({"n": N, "seeds": SEEDS, "target": TARGET, "runs": records}, indent=1) + "\n"
    )


def median(runs, what):
    """Return the median over all runs, None where most did not arrive."""
    counts = sorted(run[what] for run in runs if run)
    return counts[len(runs) // 2] if len(counts) > len(runs) // 2 else None


def draw():
    """Draw the picture."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    records = json.loads(RECORDS.read_text())["runs"]
    with matplotlib.rc_context({"font.size": 11, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.4), sharey=True, layout="constrained")
        for axes, what, title in zip(
            panels, ("calls", "seconds"), ("calls of the function", "seconds, one core"), strict=True
        ):
            values = [v for row in records.values() for runs in row.values() if (v := median(runs, what))]
            never = {method: (3.0 * 1.5**k) * max(values) for k, method in enumerate(list(METHODS)[1:])}
            for row, problem in enumerate(PROBLEMS):
                axes.axhline(row, color="#dddddd", lw=0.8, zorder=0)
                for (method, (label, marker)), colour in zip(METHODS.items(), COLOURS, strict=False):
                    value = median(records[problem][method], what)
                    axes.plot(
                        [never[method] if value is None else value], [row], marker, color=colour,
                        ms=11 if method == "lmma" else 8, mfc=colour if value else "white", mew=1.5,
                        label=label if row == 0 else None, clip_on=False, zorder=3 if method == "lmma" else 2,
                    )  # fmt: skip
            axes.axvspan(2 * max(values), 10 * max(values), color="#f4f4f4", zorder=-1)
            axes.set_xscale("log")
            axes.set_xlim(None, 10 * max(values))
            axes.set_title(title, fontsize=12)
            axes.text(
                4.5 * max(values), -0.75, "not reached", ha="center", va="center", fontsize=9, color="#666666"
            )
            for side in ("top", "right", "left"):
                axes.spines[side].set_visible(False)
            axes.tick_params(axis="y", length=0)
        panels[0].set_yticks(range(len(PROBLEMS)), PROBLEMS.values())
        panels[0].set_ylim(len(PROBLEMS) - 0.5, -1.1)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=10)
        save(figure, PICTURE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", action="store_true", help="measure again")
    if parser.parse_args().run:
        measure()
    draw()
