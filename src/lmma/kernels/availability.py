"""Kernel availability: the choice made by LMMA_KERNELS, and one warning per process if a module is missing.

Installation without a compiler is supported: the reference implementation computes the same results, several
times slower. Because a failed build may go unnoticed, the first call that would have used the compiled module
emits a warning. Importing emits none.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmma._text import Distribution

CHOICE = os.environ.get("LMMA_KERNELS", "")
if CHOICE not in ("", "numpy", "compiled"):
    raise ValueError(f"LMMA_KERNELS={CHOICE!r} must be 'numpy', 'compiled' or unset")

_warned: set[str] = set()


def reason(error: ImportError) -> str:
    """Return the reason why a compiled module is missing: it was not built, or it fails to load."""
    if isinstance(error, ModuleNotFoundError):
        return "it was not built"
    return f"it fails to load: {error}"


def warn(text: str) -> None:
    """Emit a RuntimeWarning at the caller of the kernel."""
    warnings.warn(text, RuntimeWarning, stacklevel=4)


def remedy(of: Distribution | None = None) -> str:
    """Return instructions for building the compiled module of a distribution, by default of lmma."""
    from lmma._text import LMMA, how_to_rebuild  # late: `import lmma` must be fast

    return f"with a C compiler installed, {how_to_rebuild(of or LMMA)} builds it or shows the error"


emit: Callable[[str], None] = warn  # replaced by the command line, which prints one line instead


def warn_once(part: str, why: str, of: Distribution | None = None) -> None:
    """Warn once per process that NumPy replaces ``part`` of a distribution, but not in worker processes."""
    if part in _warned or CHOICE == "numpy" or _has_parent():
        return
    _warned.add(part)
    emit(
        f"{part} is missing ({why}): NumPy is used instead and is several times slower; {remedy(of)},"
        " or set LMMA_KERNELS=numpy to silence this warning"
    )


def _has_parent() -> bool:
    """Return True if multiprocessing started this process."""
    started = sys.modules.get("multiprocessing")  # imported in every process that it started
    return started is not None and started.parent_process() is not None
