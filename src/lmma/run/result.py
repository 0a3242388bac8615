"""From a session to its result: watched while it runs, saved, and described at its end."""

from __future__ import annotations

import inspect
import math
from collections import UserDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lmma.evaluation import Evaluator
from lmma.run.observers import JsonLog, Observer, Progress, ProgressLine
from lmma.run.run import Session
from lmma.run.stopping import Stop, describe
from lmma.run.warm_start import Learned
from lmma.strategies import Strategy

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.run.checkpoint import Checkpoint


def resume(session: Session, saved: Checkpoint, *, any_key: bool) -> bool:
    """Put ``session`` where its checkpoint left off; return False if there is none to go on from."""
    if not saved.file.exists():
        return False
    from lmma.run.checkpoint import CheckpointError, read

    try:
        session.restore(*read(saved.file), any_key=any_key)
    except CheckpointError as error:
        if str(saved.file) in str(error):
            raise
        raise CheckpointError(f"checkpoint {saved.file} is refused: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"checkpoint {saved.file} is refused: {error!r}") from None
    return True


def conduct(
    session: Session,
    *,
    saved: Checkpoint | None = None,
    log: JsonLog | None = None,
    line: ProgressLine | None = None,
    callback: Callable[..., Any] | None = None,
    observers: Iterable[Observer] = (),
    catch_interrupt: bool = False,
) -> OptimizeResult:
    """Run a session to its end with all that watches it; return the result."""
    observers = [watch for watch in (line, log, session.recorder) if watch is not None] + list(observers)
    if saved is not None:
        observers.append(lambda _: saved.save_if_due(session.gather))
    if callback is not None:  # last: it may end the run
        observers.append(calls_back(callback, session))
    try:
        stop = session.run(observers, catch_interrupt=catch_interrupt)
    finally:
        if saved is not None and session.tally.whole and session.tally.evaluations:
            saved.save(session.gather)
        session.evaluate.close()
        for watch in (line, log):
            if watch is not None:
                watch.close()
    result = describe_session(session, stop)
    if saved is not None:
        result["warnings"] += saved.warnings
    if log is not None and log.warning:
        result["warnings"].append(log.warning)
    return result


def describe_session(session: Session, stop: Stop) -> OptimizeResult:
    """Return the result of a session that ended for the reason ``stop``."""
    tally = session.tally
    result = finish(session.strategy, session.evaluate, stop, session.limits.ftarget)
    update_counts(result, session)
    if stop.reason == "failures" and session.evaluate.errors:
        first = session.evaluate.errors[0]
        result["message"] += f" The first: {first.kind}: {first.message}"
    result["legs"] = session.legs(stop.reason)
    if tally.legs:
        result["message"] += f" {len(tally.legs)} restarts were made."
    if session.recorder is not None:
        result["history"] = session.recorder.columns()
    result["warnings"] = session.warnings + session.evaluate.warnings
    return result


def update_counts(result: OptimizeResult, session: Session) -> None:
    """Set what a result says about the whole session rather than its last strategy."""
    tally, evaluate = session.tally, session.evaluate
    result.update(
        fun=tally.best_fun,
        nfev=tally.evaluations,
        nit=tally.generation,
        failures=tally.failures,
        failed=UserDict(evaluate.failures),  # SciPy cannot print an empty dict
        late=tally.late,
        deaths=evaluate.deaths,
    )
    if tally.best_x is not None:
        result["x"] = tally.best_x.copy()
    if session.box is not None:
        result["mean"] = session.box.inside(session.strategy.mean)


def finish(es: Strategy, evaluate: Evaluator, stop: Stop, ftarget: float | None) -> OptimizeResult:
    """Return the result of one strategy that ended for the reason ``stop``."""
    result = es.result
    result.update(describe(stop, ftarget))
    if not math.isfinite(es.best_fun):
        result["success"] = False
        result["message"] += " No evaluation gave a finite value."
    result["reason"] = stop.reason
    result["errors"] = list(evaluate.errors)
    result["learned"] = Learned(es)
    return result


def calls_back(callback: Callable[..., Any], session: Session) -> Observer:
    """Return an observer that calls ``callback`` as SciPy would."""
    try:
        wants_result = list(inspect.signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):  # a builtin without a signature
        wants_result = False

    def observe(progress: Progress) -> None:
        if wants_result:
            result = session.strategy.result
            update_counts(result, session)
            answer = callback(intermediate_result=result)
        else:
            best = session.tally.best_x
            answer = callback(session.strategy.mean.copy() if best is None else best.copy())
        if answer is True:
            raise StopIteration

    return observe
