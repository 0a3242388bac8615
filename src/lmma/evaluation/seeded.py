"""Common random numbers: objectives that are told which ones to use, the same for all they are compared with.

A seed travels with its candidate, as two numbers behind the last coordinate: whoever evaluates rows, in a
pool or on a cluster, need not know of it. In this process nothing travels, and no candidate is copied for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array, Function

NAMES = ("seed", "generation")


def wanted_seeds(
    fun: Function, args: tuple[object, ...], wished: bool | None, taken: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return which of ``seed`` and ``generation`` a function is to be called with.

    Those that its signature names and that have neither a default nor a value in ``args``; with ``wished``
    also those that have a default, with False none. Names that are ``taken`` mean variables.
    """
    if wished is False:
        return ()
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    given = 1 + len(args)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    open_to_us = [p for place, p in enumerate(parameters) if not (p.kind in positional and place < given)]
    names = [name for name in NAMES if name not in tuple(taken)]
    wants = tuple(
        p.name for p in open_to_us if p.name in names and (wished or p.default is inspect.Parameter.empty)
    )
    if wished and not wants:
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
            return tuple(names)
        raise ValueError(
            "common_random_numbers=True needs a fun that takes seed= or generation=, such as "
            "def fun(x, seed): rng = numpy.random.default_rng(seed)"
        )
    return wants


@final
class Seeded:
    """Calls ``fun(x, *args, seed=..., generation=...)`` with what :func:`with_seed` put behind ``x``.

    Where ``numbers`` are set, ``x`` is the candidate alone.
    """

    def __init__(self, fun: Callable[..., Any], wants: tuple[str, ...], dtype: str) -> None:
        self.fun = fun
        self.wants = wants
        self.dtype = dtype
        self.numbers: tuple[int, int] | None = None  # seed and generation of the candidates at hand

    def __call__(self, x: npt.NDArray[Any], *args: Any) -> Any:
        """Evaluate one candidate, or the rows of many, which share one seed."""
        point = x
        if self.numbers is None:
            seed, generation = (int(number) for number in np.atleast_2d(x)[0, -2:])
            point = np.ascontiguousarray(x[..., :-2], dtype=self.dtype)
            point.flags.writeable = x.flags.writeable
        else:
            seed, generation = self.numbers
        numbers = {"seed": seed, "generation": generation}
        return self.fun(point, *args, **{name: numbers[name] for name in self.wants})


def with_seed(candidates: Array, seed: int, generation: int) -> Array:
    """Return candidates with their seed and generation behind the last coordinate."""
    rows, n = candidates.shape
    wide = np.empty((rows, n + 2))  # double precision also of others: a seed has 32 bits
    wide[:, :n] = candidates
    wide[:, n:] = seed, generation
    return wide
