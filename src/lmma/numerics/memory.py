"""Available memory, to reject a request that cannot fit before it is allocated."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lmma._text import readable_size

UNCHECKED_BELOW = 2**28  # bytes; smaller requests are not checked


class DoesNotFit(MemoryError):
    """A strategy needs more memory than is available; the message names the request and the remedy."""


def not_enough_memory(error: MemoryError, what: str) -> DoesNotFit:
    """Return the exception for a failed allocation, with a message that names the remedy."""
    if isinstance(error, DoesNotFit):
        return error
    return DoesNotFit(
        f"{what} does not fit in the memory available to this process ({error}): "
        "use a smaller popsize, or a method that needs less, such as 'lm-ma-es'"
    )


def available_memory() -> int | None:
    """Return the number of bytes available to this process, or None if unknown."""
    known = [size for size in (_meminfo(), _control_group(), _limit()) if size is not None]
    if known:
        return min(known)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def require_memory(what: str, needed: int, alternatives: Mapping[str, int]) -> None:
    """Raise MemoryError if fewer than ``needed`` bytes are free; suggest the first alternative that fits."""
    available = available_memory()
    if available is None or needed <= available:
        return
    suitable = [name for name, size in alternatives.items() if size <= available]
    remedy = f"{suitable[0]} would fit" if suitable else "no method fits: use fewer variables or more memory"
    raise DoesNotFit(
        f"{what} needs about {readable_size(needed)} of memory, but only "
        f"{readable_size(available)} are free: {remedy}"
    )


def _meminfo() -> int | None:
    """Return Linux's estimate of the memory available without swapping."""
    try:
        for line in _read("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: the caller tries other sources
    return None


def _control_group() -> int | None:
    """Return the memory left under the limit of this control group, such as a container's."""
    try:
        limit = _read("/sys/fs/cgroup/memory.max").strip()
        used = int(_read("/sys/fs/cgroup/memory.current"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used)


def _limit() -> int | None:
    """Return the address space left under ``ulimit -v``."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        used = int(_read("/proc/self/statm").split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None
    return max(0, limit - used)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:  # not pathlib, to keep `import lmma` fast
        return file.read()
