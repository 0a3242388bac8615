"""Whether a strategy fits in memory, and what would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmma.strategies.parts.memory import SMALL, refuse_what_does_not_fit
from lmma.strategies.parts.recombination import default_popsize

if TYPE_CHECKING:
    from lmma.strategies.base import Strategy


def refuse_strategy_that_does_not_fit(strategy: Strategy) -> None:
    """Raise MemoryError if there is less memory than ``strategy`` says it needs."""
    needed = strategy.memory(strategy.n, strategy.popsize, strategy.dtype.itemsize)
    if needed < SMALL:
        return
    refuse_what_does_not_fit(
        f"{strategy.name} with n={strategy.n}, popsize={strategy.popsize}", needed, _leaner(strategy)
    )


def _leaner(strategy: Strategy) -> dict[str, int]:
    """Return what needs less memory than ``strategy``, as arguments to give, and how much each needs."""
    from lmma.strategies.registry import strategy_class

    n, popsize, itemsize = strategy.n, strategy.popsize, strategy.dtype.itemsize
    own, lean, usual = type(strategy).memory, strategy_class("lm-ma-es"), default_popsize(n)
    methods = {"": own} if strategy.name == lean.name else {"method='lm-ma-es'": lean.memory}
    if popsize > usual:
        methods = {"": own} | methods
    sizes = {"": popsize} | ({f"popsize={usual}": usual} if popsize > usual else {})
    single = {"": itemsize} | ({"dtype='float32'": 4} if itemsize > 4 else {})
    return {
        " with ".join(filter(None, (" and ".join(filter(None, (method, size))), precision))): (
            memory(n, rows, width)
        )
        for precision, width in single.items()
        for size, rows in sizes.items()
        for method, memory in methods.items()
        if method or size or precision
    }
