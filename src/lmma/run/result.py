"""The result of a run, assembled in one place."""

from __future__ import annotations

import math
from collections import UserDict
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.run import noise
from lmma.run.endings import Spell, Stop, in_python
from lmma.run.warm_start import Learned
from lmma.space import Tree

if TYPE_CHECKING:
    from lmma.run.run import Run
    from lmma.run.run_result import RunResult
    from lmma.strategies.parts.bounds import Array, Values


def final_result(run: Run, stop: Stop) -> RunResult:
    """Return the result of a run that ended for the reason ``stop``."""
    result = intermediate_result(run)
    result.update(
        success=succeeded(run, stop),
        status=stop.ending.status,
        message=message(run, stop),
        reason=stop.reason,
        errors=list(run.evaluate.errors),
        runs=run.single_runs(stop.reason),
        learned=Learned(run.strategy),
        warnings=_warnings(run),
    )
    if run.strategy.noise.treatment is not None:
        result["noise"] = noise.summary(run)
    if run.verdict is not None:
        seen = result.get("x_seen", result.x)
        result.update(
            **_point(run, run.verdict.x),
            fun=run.verdict.found.fun,
            fun_error=run.verdict.found.error,
            x_seen=seen,
            fun_seen=run.counters.best_fun,
        )
        if run.verdict.found.raw is not None:
            result.update(
                maxcv=run.verdict.found.violation, constr=run.constraints.as_given(run.verdict.found.raw)
            )
    if run.polished is not None:
        result.update(polish=run.polished.summary(), fun=run.polished.fun, **_point(run, run.polished.x))
    if run.recorder is not None:
        result["history"] = run.recorder.columns()
    return result


def intermediate_result(run: Run) -> RunResult:
    """Return what is known so far: the present strategy's state, and counts over all restarts."""
    from lmma.run.run_result import RunResult  # with SciPy, which a run needs no sooner

    counters, evaluate = run.counters, run.evaluate
    result = RunResult(run.strategy.result)
    result.update(
        fun=counters.best_fun,
        nfev=counters.evaluations,
        nit=counters.generation,
        failures=counters.failures,
        failed=UserDict(evaluate.failures),  # SciPy cannot print an empty dict
        late=counters.late,
        deaths=evaluate.deaths,
    )
    if counters.best_x is not None:
        result["x"] = counters.best_x.copy()
    result.update(_point(run, result.x))
    if math.isfinite(run.strategy.average_fun):
        result.update(x_seen=result.x, fun_seen=counters.best_fun)
        level, x = noise.answer_so_far(run)
        result.update(fun=level, **_point(run, x))
    if counters.raw_at_best is not None:
        result.update(_in_the_light_of_constraints(run, counters.raw_at_best))
    return result


def _in_the_light_of_constraints(run: Run, raw: Values) -> dict[str, Any]:
    """Return what a result says of constraints, and the value at its x, feasible or not."""
    known = run.strategy.constraints
    return {
        "fun": run.counters.fun_at_best,
        "maxcv": run.counters.violation,
        "constr": run.constraints.as_given(raw.copy()),
        "multipliers": run.constraints.multipliers(None if known is None else known.multipliers),
    }


def _point(run: Run, x: Array) -> dict[str, Any]:
    """Return a point as a result has it: with a space, by name and as the vector that stands for it.

    With a tree x is a structure of views of the vector.
    """
    space = run.options.space
    if space is None:
        return {"x": x}
    if isinstance(space, Tree):
        return {"x": space.decode(x), "vector": x, "tree": space}
    return {"x": space.decode(x), "vector": x}


def succeeded(run: Run, stop: Stop) -> bool:
    """Return whether the run did what it was asked to: reach its target, or converge where there is none."""
    if _met_by_polishing(run):
        return True
    return stop.ending.success and not _missed(run, stop) and math.isfinite(run.counters.best_fun)


def message(run: Run, stop: Stop, spell: Spell = in_python) -> str:
    """Return in plain words why the run ended, naming arguments as ``spell`` does."""
    counters, sentences = run.counters, [stop.message(spell)]
    if _missed(run, stop):
        sentences.append(f"The target {spell('ftarget', '')} = {run.options.ftarget:.6g} was not reached.")
    if counters.raw_at_best is not None and math.isinf(counters.best_fun):
        which, violation = run.constraints.worst(counters.raw_at_best)
        sentences.append(
            f"No feasible point was found: the smallest violation is {violation:.3g}, of {which}; x is that "
            "point."
        )
    elif counters.evaluations and not math.isfinite(counters.best_fun):
        sentences.append("No evaluation gave a finite value.")
    if said := noise.words(run):
        sentences.append(said)
    if run.polished is not None:
        sentences.append(run.polished.words())
    if stop.reason in ("stagnation", "maxfevals", "maxiter", "maxtime") and (often := _often_tied(run)):
        sentences.append(often)
    if stop.reason == "failures" and run.evaluate.errors:
        first = run.evaluate.errors[0]
        sentences.append(f"The first: {first.kind}: {first.message}")
    if count := len(counters.finished):
        sentences.append("1 restart was made." if count == 1 else f"{count} restarts were made.")
    return " ".join(sentences)


def _often_tied(run: Run) -> str:
    """Return a word on few digits where a hundredth of the generations could not tell their best apart."""
    strategy = run.strategy
    ties = strategy.ties.count
    if not ties or 100 * ties < strategy.generation:
        return ""
    source = "fun or float32" if strategy.dtype == np.float32 else "fun"
    return (
        f"In {ties} of {strategy.generation} generations the best candidates had equal values: {source} may "
        "give them with too few digits."
    )


def _missed(run: Run, stop: Stop) -> bool:
    target = run.options.ftarget
    return (
        target is not None and stop.ending.success and stop.reason != "ftarget" and not _met_by_polishing(run)
    )


def _met_by_polishing(run: Run) -> bool:
    target, polished = run.options.ftarget, run.polished
    return target is not None and polished is not None and polished.fun <= target


def _warnings(run: Run) -> list[str]:
    words = run.warnings + run.evaluate.warnings
    if run.checkpoint is not None:
        words = words + run.checkpoint.warnings
    if run.log is not None and run.log.warning:
        words = [*words, run.log.warning]
    return words
