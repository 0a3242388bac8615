"""Check that a strategy fits in memory, and that a file does not request an implausible amount of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmma._files import EXPANSION, LARGEST
from lmma.methods.ask_tell import Strategy
from lmma.methods.registry import strategy_class
from lmma.numerics.memory import require_memory
from lmma.numerics.recombination import default_popsize

UNQUESTIONED = 2**26  # bytes that options in any file may require
GROWTH = 1024  # of the population, by restarts or because of noise; more is implausible


def check_memory(
    cls: type[Strategy], n: int, popsize: int, itemsize: int, options: Mapping[str, Any] | None = None
) -> None:
    """Raise MemoryError if ``cls`` with its ``options`` needs more memory than is available."""
    options = options or {}
    usual, more = cls.memory(n, popsize, itemsize), cls.memory_of_options(n, popsize, itemsize, options)
    alternatives = _alternatives(cls, n, popsize, itemsize)
    name = f"{cls.name} with n={n}, popsize={popsize}"
    if more:
        name += "".join(f", {option}={value!r:.20}" for option, value in options.items())
        alternatives = {f"the default of {', '.join(options)}": usual} | alternatives
    require_memory(name, usual + more, alternatives)


def check_saved_options(
    cls: type[Strategy], n: int, popsize: int, itemsize: int, options: Mapping[str, Any], stored: int
) -> None:
    """Raise ValueError if a strategy in a file with ``stored`` bytes of state needs implausibly much memory.

    Most of what options such as ``m`` require is state, and therefore stored. Candidates are not.
    """
    usual, more = cls.memory(n, popsize, itemsize), cls.memory_of_options(n, popsize, itemsize, options)
    if usual > max(LARGEST, EXPANSION * stored) or more > max(UNQUESTIONED, EXPANSION * stored):
        raise ValueError(f"its search needs {usual + more:,} bytes, too many for a file of {stored:,} bytes")


def check_saved_popsize(strategy: Strategy, popsize: int) -> None:
    """Raise ValueError if a file enlarges the population of the user's ``strategy`` implausibly."""
    n, itemsize = strategy.method.n, strategy.dtype.itemsize
    if not n or popsize <= GROWTH * strategy.popsize:
        return
    needed = type(strategy).memory(n, popsize, itemsize)
    if needed > LARGEST:
        raise ValueError(f"popsize={popsize} needs {needed:,} bytes; the run began with {strategy.popsize}")


def _alternatives(cls: type[Strategy], n: int, popsize: int, itemsize: int) -> dict[str, int]:
    """Return changes of arguments that need less memory than ``cls``, with the bytes that each needs."""
    same, lean, usual = cls.memory, strategy_class("lm-ma-es"), default_popsize(n)
    methods = {"": same} if cls.name == lean.name else {"method='lm-ma-es'": lean.memory}
    if popsize > usual:
        methods = {"": same} | methods
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
