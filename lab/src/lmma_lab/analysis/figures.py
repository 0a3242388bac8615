"""Data of the paper's figures, computed from records: medians and quartiles for each panel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lmma_lab.analysis.samples import Evidence, Records
from lmma_lab.plotting.data import FigureData, Panel, Series, Unreached
from lmma_lab.presets import (
    ACMA,
    ARCHIVE,
    CMA,
    CURVES,
    LM,
    LMCMA,
    MA,
    SIX,
    TITLES,
    VD,
)  # fmt: skip

NAMES = {
    LM: "LM-MA-ES", MA: "MA-ES", LMCMA: "LM-CMA-ES", VD: "VD-CMA-ES", CMA: "CMA-ES", ACMA: "active CMA-ES",
    ARCHIVE: "LM-MA-ES, archive",
}  # fmt: skip
ROTATED_VD = "VD-CMA-ES, rotated"
ORDER = (*NAMES.values(), ROTATED_VD)
BAND = (
    "Lines are medians of the runs that reached the target, bands their quartiles. An open marker with an "
    "arrow marks runs that ended without reaching it."
)


def figures(records: Records) -> dict[str, FigureData]:
    """Return the four figures of the paper, computed from the available records."""
    evidence = Evidence(records)
    drawn = (
        cost_figure(evidence, records),
        two_methods_figure(evidence),
        all_methods_figure(evidence),
        rotation_figure(evidence),
    )
    return {data.name: _without_empty_panels(data) for data in drawn}


def _without_empty_panels(data: FigureData) -> FigureData:
    """Remove empty panels and list them in the caption; leave a figure unchanged if all are empty."""
    filled = tuple(panel for panel in data.panels if panel.measured())
    if not filled or len(filled) == len(data.panels):
        return data
    titles = {panel.title for panel in filled}
    empty = list(dict.fromkeys(panel.title for panel in data.panels if panel.title not in titles))
    caption = f"{data.caption} Not run: {', '.join(empty)}." if empty else data.caption
    return replace(data, panels=filled, caption=caption)


def method_name(method: str) -> str:
    """Return the display name of a method."""
    return NAMES.get(method, method)


def problem_name(problem: str) -> str:
    """Return the display name of a problem."""
    return problem.replace("-", " ").capitalize()


def cost_figure(evidence: Evidence, records: Records, methods: Sequence[str] = (LM, MA)) -> FigureData:
    """Return figure 1: CPU time per sample, and memory, over n."""
    timing = []
    for method in methods:
        found = [r for r in records if r["kind"] == "timing" and r["spec"]["method"] == method]
        found.sort(key=lambda record: record["spec"]["n"])
        if found:
            times = [record["seconds"] for record in found]
            timing.append(
                Series(
                    method_name(method),
                    tuple(record["spec"]["n"] for record in found),
                    tuple(t["best"] * 1e6 for t in times),
                    notes=tuple(f"median {t['median'] * 1e6:.2f} of {t['rounds']} rounds" for t in times),
                )
            )
    memory = [
        Series(method_name(method), tuple(points), tuple(value / 2**20 for value in points.values()))
        for method in methods
        if (points := evidence.memory(method))
    ]
    panels = (
        Panel("Time", "dimension n", "CPU microseconds per sample", tuple(timing), guides=("n log n", "n²")),
        Panel("Memory", "dimension n", "peak MiB", tuple(memory), guides=("n log n", "n²")),
    )
    caption = (
        "Internal cost without an objective, one thread: the best of many short rounds, and peak memory."
    )
    return FigureData("fig1", TITLES["fig1"], caption, panels, columns=2, share_x=False, order=ORDER)


def two_methods_figure(evidence: Evidence) -> FigureData:
    """Return figure 2: evaluations and seconds, LM-MA-ES and MA-ES."""
    panels = [
        Panel(
            problem_name(problem), "dimension n", label,
            tuple(s for method in (LM, MA) if (s := to_target(evidence, problem, method, what))),
            guides=guides,
        )
        for what, label, guides in (
            ("evaluations", "evaluations", ("n", "n²")), ("seconds", "CPU seconds", ("n²", "n³")),
        )
        for problem in SIX
    ]  # fmt: skip
    return FigureData("fig2", TITLES["fig2"], BAND, tuple(panels), order=ORDER)


def all_methods_figure(evidence: Evidence) -> FigureData:
    """Return figure 3: evaluations of every method; dashed lines show VD-CMA-ES on rotated functions."""
    panels = []
    for problem in SIX:
        series = [to_target(evidence, problem, method) for method in NAMES]
        rotated = to_target(evidence, f"rotated-{problem}", VD, label=ROTATED_VD, dashed=True)
        found = tuple(s for s in (*series, rotated) if s)
        panels.append(Panel(problem_name(problem), "dimension n", "evaluations", found, guides=("n", "n²")))
    caption = f"{BAND} A method is missing where it was not run."
    return FigureData("fig3", TITLES["fig3"], caption, tuple(panels), order=ORDER)


def to_target(
    evidence: Evidence,
    problem: str,
    method: str,
    what: str = "evaluations",
    *,
    label: str = "",
    dashed: bool = False,
) -> Series | None:
    """Return the series of evaluations or seconds to the target over n: medians and quartiles.

    Only runs that reached the target count; without any, return None.
    """
    x, y, lower, upper, notes = [], [], [], [], []
    unreached: list[Unreached] = []
    for n in evidence.dims(problem, method):
        sample = evidence.sample(problem, method, n)
        unreached += _unreached(evidence.unreached(problem, method, n), n, what)
        if sample is None or not sample.solved:
            continue
        values = sample.evaluations if what == "evaluations" else sample.seconds
        quartiles = np.quantile(values, (0.25, 0.5, 0.75))
        x.append(n)
        lower.append(float(quartiles[0]))
        y.append(float(quartiles[1]))
        upper.append(float(quartiles[2]))
        notes.append(f"{len(values)} of {sample.runs} runs reached the target")
    if not x and not unreached:
        return None
    return Series(
        label or method_name(method), tuple(x), tuple(y), tuple(lower), tuple(upper), tuple(notes), dashed,
        unreached=tuple(unreached),
    )  # fmt: skip


def _unreached(records: Records, n: int, what: str) -> list[Unreached]:
    """Return one marker for all runs that missed the target, at the largest effort among them."""
    if not records:
        return []
    most = max(records, key=lambda record: record["evaluations"])
    best = "none" if most["best_fun"] is None else f"{most['best_fun']:.2g}"
    runs = f"{len(records)} run{'s' if len(records) > 1 else ''} ended without reaching the target"
    note = f"{runs}; the longest after {most['evaluations']:,} evaluations at f = {best} ({most['reason']})"
    spent = most["evaluations"] if what == "evaluations" else most["cpu_seconds"]
    return [Unreached(n, float(spent), note)]


def rotation_figure(evidence: Evidence, problems: Iterable[str] = CURVES) -> FigureData:
    """Return figure S1: median runs of LM-MA-ES on separable and on rotated functions."""
    panels = []
    order: list[str] = []
    for problem in problems:
        series = []
        for prefix, kind, dashed in (("", "separable", False), ("rotated-", "rotated", True)):
            for n in evidence.dims(f"{prefix}{problem}", LM):
                if not evidence.dims(f"rotated-{problem}", LM) or n not in evidence.dims(
                    f"rotated-{problem}", LM
                ):
                    continue
                order.append(f"n = {n}, separable")
                curve = median_run(evidence.runs[f"{prefix}{problem}", LM, n])
                series.append(
                    Series(f"n = {n}, {kind}", *curve, dashed=dashed, colour_of=f"n = {n}, separable")
                )  # fmt: skip
        panels.append(
            Panel(
                problem_name(problem), "evaluations", "best value", tuple(series), log_x=False, target=1e-10
            )
        )
    caption = "The median run of LM-MA-ES by evaluations, on the original and the randomly rotated function."
    return FigureData(
        "figS1", TITLES["figS1"], caption, tuple(panels), columns=2, order=tuple(dict.fromkeys(order))
    )


def median_run(records: Records) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the curve of the median run, with failed runs ranked last."""
    ranked = sorted(records, key=lambda record: record["evaluations_to_target"] or math.inf)
    curve = ranked[(len(ranked) - 1) // 2]["curve"]
    return tuple(curve["evaluations"]), tuple(curve["best_fun"])


def comparison(records: Records) -> FigureData:
    """Return a figure of evaluations to the target for any problems, methods and dimensions."""
    wanted = {(r["spec"]["target"], r["spec"]["sigma0"]) for r in records if r["kind"] == "run"}
    evidence = Evidence(records, protocol=next(iter(wanted), None))
    problems = list(dict.fromkeys(problem for problem, _, _ in evidence.runs))
    methods = list(dict.fromkeys(method for _, method, _ in evidence.runs))
    panels = [
        Panel(problem_name(p), "dimension n", "evaluations",
              tuple(s for m in methods if (s := to_target(evidence, p, m))), guides=("n", "n²"))
        for p in problems
    ]  # fmt: skip
    order = (*ORDER, *(method for method in methods if method not in NAMES))
    return FigureData("comparison", "Evaluations to the target", BAND, tuple(panels), order=order)
