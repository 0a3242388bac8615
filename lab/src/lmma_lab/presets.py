"""The paper's experimental section as data: four figures, three presets.

========  ==================================================================================
fig1      internal cost per sample over n, LM-MA-ES and fast MA-ES; also memory
fig2      evaluations and seconds to 1e-10, LM-MA-ES and MA-ES, six functions
fig3      evaluations to 1e-10 of all methods, VD-CMA-ES on rotated functions as well
figS1     convergence on separable and on rotated functions; also exact invariances
========  ==================================================================================

``smoke`` tests the pipeline in small dimensions, about which the paper makes no claim. ``quick`` decides most
claims in minutes: three seeds, the paper's smallest dimensions, slow functions only where a claim needs them.
``paper`` is the full section with five seeds; it takes days on two cores.
"""

from __future__ import annotations

from collections.abc import Callable

from lmma_lab import suites
from lmma_lab.tasks import Experiment, Grid, Invariance, Memory, Task, Timing

SIX = tuple(problem.name for problem in suites.get("paper"))
ROTATED = tuple(problem.name for problem in suites.get("paper-rotated"))
FAST = ("sphere", "rosenbrock", "cigar", "different-powers")  # less than a million evaluations at n = 128
CURVES = ("ellipsoid", "discus", "cigar", "different-powers")  # of figure S1

LM, MA, CMA, ACMA = "lm-ma-es", "ma-es", "cma-es", "acma-es"
LMCMA, VD, ARCHIVE = "lm-cma-es", "vd-cma-es", "lm-ma-es-archive"

# Evaluations per dimension. LM-MA-ES needs 67,000 on the discus. VD-CMA-ES needs at most 3,200 on functions
# it solves and the archive variant 10,400; a run that exceeds these budgets counts as many times slower.
ENOUGH, ENOUGH_FOR_VD, ENOUGH_FOR_ARCHIVE = 200_000, 6_500, 16_000

TITLES = {
    "fig1": "Internal cost per sample",
    "fig2": "Evaluations and seconds to 1e-10: LM-MA-ES and MA-ES",
    "fig3": "Evaluations to 1e-10: all methods",
    "figS1": "Convergence on separable and on rotated functions",
}


def smoke() -> dict[str, Experiment]:
    """Return experiments that test the whole pipeline in seconds."""
    return {
        "fig1": _cost((LM, (128, 256, 512)), (MA, (128, 256, 512)), memory=(256, 512)),
        "fig2": _experiment("fig2", Grid(("sphere", "cigar"), (LM, MA), (5, 10), 1)),
        "fig3": _experiment(
            "fig3",
            Grid(("sphere",), (LM, MA, LMCMA, VD, CMA, ACMA), (5, 10), 1),
            Grid(("rotated-ellipsoid",), (VD,), (10,), 1, budget=500),
        ),
        "figS1": _experiment(
            "figS1", Grid(("cigar", "rotated-cigar"), (LM,), (10,), 1), *_invariances(n=10, seeds=1)
        ),
    }


def quick() -> dict[str, Experiment]:
    """Return experiments that decide most claims in minutes."""
    return {
        "fig1": _cost(
            (LM, (128, 256, 512, 1024, 2048, 4096, 8192, 16384)), (MA, (128, 256, 512, 1024, 2048, 4096)),
            memory=(512, 1024, 2048),
        ),
        "fig2": _experiment(
            "fig2",
            Grid(FAST, (LM,), (128,), 3),
            Grid(("sphere", "cigar"), (LM,), (256,), 3),
            Grid(("rosenbrock", "different-powers"), (LM,), (256,), 2),
            Grid(("ellipsoid", "discus"), (LM,), (128,), 1),
            Grid(("sphere",), (LM,), (512,), 3),
            Grid(("cigar",), (LM,), (512,), 1),
            Grid(("sphere",), (LM,), (1024,), 3),
            Grid(("sphere", "discus", "cigar", "different-powers"), (MA,), (128,), 3),
            Grid(("ellipsoid", "rosenbrock"), (MA,), (128,), 1),
            Grid(("sphere", "cigar"), (MA,), (256,), 3),
            Grid(("different-powers",), (MA,), (256,), 1),
            Grid(("sphere", "cigar"), (MA,), (512,), 1),
        ),
        "fig3": _experiment(
            "fig3",
            Grid(("sphere", "cigar", "different-powers"), (VD,), (128,), 3, ENOUGH_FOR_VD),
            Grid(("ellipsoid", "discus"), (VD,), (128,), 3, ENOUGH_FOR_VD),
            Grid(("rosenbrock",), (VD,), (128,), 1, ENOUGH_FOR_VD),
            Grid(("rotated-sphere", "rotated-cigar"), (VD,), (128,), 3, ENOUGH_FOR_VD),
            Grid(("rotated-ellipsoid", "rotated-discus"), (VD,), (128,), 1, ENOUGH_FOR_VD),
            Grid(("sphere", "cigar"), (LMCMA,), (128, 256), 3),
            Grid(("cigar",), (LMCMA,), (512,), 1),
            Grid(("rosenbrock",), (LMCMA,), (128,), 2),
            Grid(("rosenbrock",), (LMCMA,), (256,), 1),
            Grid(("sphere", "cigar"), (CMA, ACMA), (128,), 3),
            Grid(("discus",), (CMA, ACMA), (128,), 2),
            Grid(("sphere", "rosenbrock", "different-powers"), (ARCHIVE,), (128,), 1, ENOUGH_FOR_ARCHIVE),
        ),
        "figS1": _experiment(
            "figS1",
            Grid(("sphere", "cigar", "different-powers"), (LM,), (128,), 5),
            Grid(("rotated-sphere", "rotated-cigar", "rotated-different-powers"), (LM,), (128,), 5),
            Grid(("rotated-ellipsoid",), (LM,), (128,), 1),
            Grid(("shifted-cigar", "shifted-different-powers"), (LM,), (128,), 3),
            Grid(("ellipsoid",), (LM,), (128,), 1),
            *_invariances(n=128, seeds=3),
        ),
    }  # fmt: skip


def paper() -> dict[str, Experiment]:
    """Return the experiments of the paper at full size, by figure."""
    low, all_dims = (128, 256, 512, 1024), (128, 256, 512, 1024, 2048, 4096, 8192)
    return {
        "fig1": _cost((LM, (*all_dims, 16384, 32768, 65536)), (MA, all_dims), memory=(512, 1024, 2048, 4096)),
        "fig2": _experiment("fig2", Grid(SIX, (LM,), all_dims), Grid(SIX, (MA,), low)),
        "fig3": _experiment(
            "fig3",
            Grid(SIX, (LM, LMCMA), all_dims),
            Grid(SIX, (VD,), all_dims, budget=ENOUGH_FOR_VD),
            Grid(ROTATED, (VD,), low, budget=ENOUGH_FOR_VD),
            Grid(SIX, (MA, CMA, ACMA), low),
            Grid(SIX, (ARCHIVE,), (128, 256), budget=ENOUGH_FOR_ARCHIVE),
        ),
        "figS1": _experiment(
            "figS1",
            Grid(CURVES, (LM,), (128, 256, 512)),
            Grid(tuple(f"rotated-{name}" for name in CURVES), (LM,), (128, 256, 512)),
            Grid(tuple(f"shifted-{name}" for name in CURVES), (LM,), (128, 256, 512)),
            *_invariances(n=128, seeds=5),
        ),
    }


PRESETS: dict[str, Callable[[], dict[str, Experiment]]] = {"smoke": smoke, "quick": quick, "paper": paper}


def preset(name: str) -> dict[str, Experiment]:
    """Return the experiments of a preset, by figure."""
    try:
        return PRESETS[name]()
    except KeyError:
        raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}") from None


def _experiment(name: str, *parts: Grid | Task) -> Experiment:
    return Experiment.of(name, TITLES[name], *parts)


def _cost(*methods: tuple[str, tuple[int, ...]], memory: tuple[int, ...]) -> Experiment:
    timings = [Timing(method, n) for method, dims in methods for n in dims]
    memories = [Memory(method, n) for method, _ in methods for n in memory]
    return _experiment("fig1", *timings, *memories)


def _invariances(n: int, seeds: int) -> list[Task]:
    pairs = [(LM, change) for change in ("monotone", "translation", "scale")] + [(MA, "update")]
    return [Invariance(method, change, n, seed) for method, change in pairs for seed in range(1, seeds + 1)]
