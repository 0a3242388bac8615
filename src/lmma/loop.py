"""The loop every run goes through: ask, evaluate, tell, observe, stop."""

from __future__ import annotations

import time
from collections.abc import Iterable

from lmma.evaluation import Evaluator
from lmma.history import Observer, Progress
from lmma.stopping import Limits, Stop
from lmma.strategies import Strategy


def run(
    strategy: Strategy,
    evaluate: Evaluator,
    limits: Limits,
    observers: Iterable[Observer] = (),
    *,
    catch_interrupt: bool = False,
) -> Stop:
    """Run ``strategy`` until a rule says why to stop; return that reason.

    An observer that raises ``StopIteration`` ends the run. With ``catch_interrupt`` so does Ctrl-C;
    otherwise it is raised, and the strategy holds the best so far.
    """
    observers = tuple(observers)
    start = time.perf_counter()
    try:
        while (stop := limits.check(strategy, time.perf_counter() - start)) is None:  # [A1:3] [A1:21]
            strategy.tell(evaluate(strategy.ask()))
            progress = Progress(
                strategy.evaluations,
                strategy.generation,
                strategy.best_fun,
                strategy.sigma,
                strategy.failures,
                time.perf_counter() - start,
            )
            for observe in observers:
                observe(progress)
    except StopIteration:
        return Stop("callback")
    except KeyboardInterrupt:
        if not catch_interrupt:
            raise
        return Stop("interrupted")
    return stop
