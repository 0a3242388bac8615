"""Hot loops: drawing, transforming and recombining candidates.

The same few functions exist twice: in plain NumPy (``twin.py``, always available) and compiled
(``compiled.py``). The compiled ones are used where they were built; the environment variable
``LMMA_KERNELS`` (``numpy`` or ``compiled``) overrides that. Where they are missing and nobody asked for
NumPy, the first candidates drawn come with a RuntimeWarning (``presence.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from lmma.kernels import presence
from lmma.kernels.twin import Key, Update, fold
from lmma.kernels.twin_integers import Drawn, Grid
from lmma.kernels.twin_pulse import Learned, Limits, Metric, Ranks, Rates, Turns

__all__ = [
    "Drawn",
    "Grid",
    "Key",
    "Learned",
    "Limits",
    "Metric",
    "Ranks",
    "Rates",
    "Turns",
    "Update",
    "add_squares",
    "backend",
    "default_threads",
    "fade",
    "fold",
    "grow",
    "in_use",
    "lm_direction",
    "lm_gram",
    "lm_sample",
    "lm_update",
    "lm_workspace",
    "missing",
    "name",
    "normals",
    "pulse_learn",
    "pulse_renew",
    "pulse_sample",
    "recombine",
    "rescale",
    "round_integers",
    "settle_integers",
    "squares",
    "stretched",
]

PART = "the compiled core"
P = ParamSpec("P")
R = TypeVar("R")

missing: str | None = None  # why the compiled core is not there, where it was tried
try:
    if presence.CHOICE == "numpy":
        raise ImportError("the NumPy twin is asked for")
    from lmma.kernels.compiled import (
        backend,
        default_threads,
        fade,
        lm_direction,
        lm_gram,
        lm_sample,
        lm_update,
        lm_workspace,
        normals,
        recombine,
        rescale,
        squares,
    )
    from lmma.kernels.compiled_integers import round_integers, settle_integers
    from lmma.kernels.compiled_pulse import (
        add_squares,
        grow,
        pulse_learn,
        pulse_renew,
        pulse_sample,
        stretched,
    )
except ImportError as error:
    if presence.CHOICE != "numpy":
        missing = presence.reason(error)
    if presence.CHOICE == "compiled":
        raise ImportError(
            f"LMMA_KERNELS=compiled, but {PART} is missing ({missing}): {presence.remedy()},"
            " or unset LMMA_KERNELS"
        ) from error
    from lmma.kernels.twin import (
        backend,
        default_threads,
        fade,
        lm_direction,
        lm_gram,
        lm_sample,
        lm_update,
        lm_workspace,
        normals,
        recombine,
        rescale,
        squares,
    )
    from lmma.kernels.twin_integers import round_integers, settle_integers
    from lmma.kernels.twin_pulse import (
        add_squares,
        grow,
        pulse_learn,
        pulse_renew,
        pulse_sample,
        stretched,
    )


def name() -> str:
    """Return which kernels are in use, without the number of threads: others may differ in the last bit."""
    return backend().partition(",")[0]


def in_use() -> str:
    """Return which kernels are in use, in a few words, and why not the compiled ones."""
    if missing is not None:
        return f"NumPy; {PART} is missing: {missing}"
    if presence.CHOICE == "numpy":
        return "NumPy, as LMMA_KERNELS asks"
    from lmma.kernels import _core

    instructions, threads = _core.instructions(), default_threads()
    name = "AVX2" if instructions == "avx2" else instructions
    return f"compiled {name}, {threads} thread{'s' if threads > 1 else ''}"


def _announced(kernel: Callable[P, R]) -> Callable[P, R]:
    """Return ``kernel``, whose first call says that the core is missing."""

    @wraps(kernel)
    def first(*args: P.args, **kwargs: P.kwargs) -> R:
        presence.say_once(PART, str(missing))
        return kernel(*args, **kwargs)

    return first


if missing is not None:  # every strategy draws its candidates through one of these
    normals, lm_sample = _announced(normals), _announced(lm_sample)
    pulse_sample = _announced(pulse_sample)
