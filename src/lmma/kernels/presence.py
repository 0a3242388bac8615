"""What is said where a compiled module is missing: once in a process, by the first who would have used it.

Installing without a compiler is supported and the NumPy twins do the same work, so nothing fails and
importing says nothing. But it takes several times as long, and an installation may have wanted the compiled
module and not have got it, unnoticed.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable

CHOICE = os.environ.get("LMMA_KERNELS", "")
if CHOICE not in ("", "numpy", "compiled"):
    raise ValueError(f"LMMA_KERNELS={CHOICE!r} must be 'numpy', 'compiled' or unset")

_said: set[str] = set()


def reason(error: ImportError) -> str:
    """Return why a compiled module is not there: it was never built, or it does not load."""
    if isinstance(error, ModuleNotFoundError):
        return "it was not built"
    return f"it does not load, {error}"


def warn(text: str) -> None:
    """Warn whoever called the function that found a module missing."""
    warnings.warn(text, RuntimeWarning, stacklevel=4)


def remedy() -> str:
    """Return what to do about a compiled module that is missing."""
    from lmma.kernels.install import how_to_rebuild  # `import lmma` is to be quick

    return f"with a C compiler at hand, {how_to_rebuild()} builds it, or shows why not"


tell: Callable[[str], None] = warn  # the command line puts a line of its own here


def say_once(part: str, why: str) -> None:
    """Say that NumPy does the work of ``part``; not again, and not in the processes that a run starts."""
    if part in _said or CHOICE == "numpy" or _has_parent():
        return
    _said.add(part)
    tell(
        f"{part} is missing ({why}): NumPy does its work, several times slower; {remedy()},"
        " or set LMMA_KERNELS=numpy to say that this is meant"
    )


def _has_parent() -> bool:
    started = sys.modules.get("multiprocessing")  # imported in every process that it started
    return started is not None and started.parent_process() is not None
