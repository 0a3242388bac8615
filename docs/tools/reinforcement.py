"""Draw docs/images/reinforcement.svg: learning curves of policies, from lab/results/reinforcement.

python docs/tools/reinforcement.py

Needs matplotlib alone; benchmarks/reinforcement.py made the records.
"""

import json
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from lmma.output.plotting.style import assign_styles, save, style_axes, thousands

DOCS = Path(__file__).resolve().parents[1]
RUNS = DOCS.parent / "lab" / "results" / "reinforcement" / "runs.jsonl"
PICTURE = DOCS / "images" / "reinforcement.svg"
THRESHOLDS = {
    "CartPole-v1": 475, "LunarLander-v3": 200, "Pendulum-v1": -200, "Swimmer-v5": 325, "HalfCheetah-v5": 3430
}  # fmt: skip
SETTINGS = ("lmma", "open-es", "ars")


def main() -> None:
    """Draw a panel for each environment, a line for each run."""
    runs = [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]
    style = assign_styles(SETTINGS)
    figure = Figure(figsize=(9.6, 5.6), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    for axes, (env, threshold) in zip(panels, THRESHOLDS.items(), strict=False):
        for run in runs:
            points = [(at, reward) for at, reward in run["curve"] if at > 0]
            if run["env"] != env or run["setting"] not in style or not points:
                continue
            colour, marker = style[run["setting"]]
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=0.9, alpha=0.8, marker=marker,
                      markevery=[-1], markersize=4)  # fmt: skip
        axes.axhline(threshold, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.set_title(f"{env}, solved at {threshold:,}", fontsize=10)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(thousands)
        axes.xaxis.set_minor_formatter(NullFormatter())
        style_axes(axes)
    for axes in panels[2:5]:
        axes.set_xlabel("episodes of candidates")
    for axes in panels[::3]:
        axes.set_ylabel("reward of the mean policy")
    legend = panels[-1]
    legend.axis("off")
    for setting, (colour, marker) in style.items():
        legend.plot([], [], color=colour, marker=marker, label=setting)
    legend.legend(frameon=False, loc="center", title="a line is a run; its mark is where it ended")
    save(figure, PICTURE)


if __name__ == "__main__":
    main()
