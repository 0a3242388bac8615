"""Kernels: the inner loops that draw, transform and recombine candidates.

Every kernel has two implementations of the same name: in NumPy (``reference.py``, ``reference_pulse.py`` and
``reference_integers.py``, always available) and compiled (``native.py``). The compiled kernels are used if
they were built; the environment variable ``LMMA_KERNELS`` (``numpy`` or ``compiled``) overrides that. If they
are missing and ``LMMA_KERNELS`` is unset, the first call that draws candidates emits a RuntimeWarning
(``availability.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from lmma.kernels import availability
from lmma.kernels.reference import (
    Key,
    Update,
    backend,
    default_threads,
    fade,
    fold,
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
from lmma.kernels.reference_integers import Drawn, Grid, recentre_integers, round_integers
from lmma.kernels.reference_pulse import (
    Learned,
    Limits,
    Metric,
    Ranks,
    Rates,
    ThroughCore,
    add_squares,
    grow,
    pulse_learn,
    pulse_renew,
    pulse_sample,
    stretched,
)

__all__ = [
    "Drawn",
    "Grid",
    "Key",
    "Learned",
    "Limits",
    "Metric",
    "Ranks",
    "Rates",
    "ThroughCore",
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
    "recentre_integers",
    "recombine",
    "rescale",
    "round_integers",
    "squares",
    "stretched",
]

PART = "the compiled core"
P = ParamSpec("P")
R = TypeVar("R")

missing: str | None = None  # reason why importing the compiled core failed, if it was tried
if availability.CHOICE != "numpy":
    try:
        from lmma.kernels import native
    except ImportError as error:
        missing = availability.reason(error)
        if availability.CHOICE == "compiled":
            raise ImportError(
                f"LMMA_KERNELS=compiled, but {PART} is missing ({missing}): {availability.remedy()},"
                " or unset LMMA_KERNELS"
            ) from error
    else:  # replace each kernel by its compiled version
        globals().update({name: getattr(native, name) for name in __all__ if hasattr(native, name)})


def name() -> str:
    """Return the name of the kernels in use; kernels with other names may differ in the last bits."""
    return backend().partition(",")[0]


def in_use() -> str:
    """Return a short description of the kernels in use, with the reason if they are not compiled."""
    if missing is not None:
        return f"NumPy; {PART} is missing: {missing}"
    if availability.CHOICE == "numpy":
        return "NumPy, set by LMMA_KERNELS"
    from lmma.kernels import _core

    instructions, threads = _core.instructions(), default_threads()
    name = "AVX2" if instructions == "avx2" else instructions
    return f"compiled {name}, {threads} thread{'s' if threads > 1 else ''}"


def _with_warning(kernel: Callable[P, R]) -> Callable[P, R]:
    """Return ``kernel``, wrapped to warn on its first call that the compiled core is missing."""

    @wraps(kernel)
    def warn_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        availability.warn_once(PART, str(missing))
        return kernel(*args, **kwargs)

    return warn_and_call


if missing is not None:  # every method draws its candidates through one of these
    normals, lm_sample = _with_warning(normals), _with_warning(lm_sample)
    pulse_sample = _with_warning(pulse_sample)
