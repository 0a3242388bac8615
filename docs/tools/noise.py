"""Draw docs/images/noise.svg and noise_run.svg: searches of noisy functions, and the plot of one run.

python docs/tools/noise.py
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import lmma
from lmma.output.plotting.style import COLOURS, save, style_axes, thousands

PICTURE = Path(__file__).resolve().parents[1] / "images" / "noise.svg"
N, BUDGET = 40, 40_000
KINDS = {"f + N(0, 1)": (1.0, 0.0), "f (1 + 0.3 N(0, 1))": (0.0, 0.3)}


def path(add: float, times: float, noise: str | None) -> tuple[list[int], list[float], list[float]]:
    """Return evaluations, the true value of the mean, and the quality of ranks now and then."""
    rng = np.random.default_rng(1)

    def fun(rows: np.ndarray) -> np.ndarray:
        values = np.sum(np.square(rows), axis=1)
        return values * (1 + times * rng.standard_normal(len(rows))) + add * rng.standard_normal(len(rows))

    es = lmma.strategy("lm-ma-es", np.full(N, 3.0), 1.0, rng=1, noise=noise)
    spent, evaluations, truth, quality = 0, [], [], []
    while spent < BUDGET:
        candidates, rows = es.ask(), es.rows_to_repeat
        es.tell(fun(candidates), repeats=fun(candidates[rows]) if len(rows) else None)
        spent += es.popsize + len(rows)
        evaluations.append(spent)
        truth.append(float(np.sum(np.square(es.mean))))
        quality.append(es.noise.quality)
    return evaluations[::8], truth[::8], quality[::8]  # enough for a picture


def run() -> None:
    """Draw what ``result.plot()`` shows."""
    rng = np.random.default_rng(1)
    result = lmma.minimize(
        lambda x: float(x @ x + rng.standard_normal()), np.full(20, 3.0), 1.0, rng=1, noise="auto",
        maxfevals=10_000, history=True,
    )  # fmt: skip
    save(result.plot(title="sphere + N(0, 1), n = 20"), PICTURE.with_name("noise_run.svg"))


def main() -> None:
    """Draw the pictures."""
    run()
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, height_ratios=(2, 1))
    for column, (title, (add, times)) in enumerate(KINDS.items()):
        above, below = axes[:, column]
        for noise, colour in ((None, COLOURS[1]), ("auto", COLOURS[0])):
            evaluations, truth, quality = path(add, times, noise)
            above.semilogy(evaluations, truth, color=colour, linewidth=1.3, label=f"noise={noise!r}")
            if noise:
                below.plot(evaluations, quality, color=colour, linewidth=1.3)
        above.set_title(f"sphere, n = {N}: {title}", fontsize=10)
        above.legend(frameon=False)
        below.set_ylim(-0.3, 1.05)
        below.set_xlabel("evaluations")
        below.set_xticks(range(0, BUDGET + 1, BUDGET // 4))
        below.xaxis.set_major_formatter(thousands)
        for place in (above, below):
            style_axes(place)
    axes[0, 0].set_ylabel("true value of the mean")
    axes[1, 0].set_ylabel("quality")
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
