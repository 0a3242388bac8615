"""How much memory there is, so that a request that cannot fit is refused before it is allocated."""

from __future__ import annotations

import os
from collections.abc import Mapping

SMALL = 2**28  # bytes below which nobody asks whether they are there


class DoesNotFit(MemoryError):
    """A strategy needs more memory than there is; the words name what was asked for and the remedy."""


def in_words(error: MemoryError, what: str) -> DoesNotFit:
    """Return ``error`` with words of ours, where an allocation failed that should have fitted."""
    if isinstance(error, DoesNotFit):
        return error
    return DoesNotFit(
        f"{what} does not fit in the memory this process may have ({error}): "
        "take a smaller popsize, or a method that needs less, such as 'lm-ma-es'"
    )


def available_memory() -> int | None:
    """Return the bytes this process may hope for, or None where the system does not tell."""
    known = [size for size in (_meminfo(), _control_group(), _limit()) if size is not None]
    if known:
        return min(known)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def refuse_what_does_not_fit(what: str, needed: int, leaner: Mapping[str, int]) -> None:
    """Raise MemoryError if fewer than ``needed`` bytes are free; advise the first of ``leaner`` that fits."""
    there = available_memory()
    if there is None or needed <= there:
        return
    fitting = [name for name, size in leaner.items() if size <= there]
    remedy = f"{fitting[0]} would fit" if fitting else "no method fits: use fewer variables or more memory"
    raise DoesNotFit(
        f"{what} needs about {readable(needed)} ({needed} bytes) of memory, {readable(there)} are free: "
        f"{remedy}"
    )


def _meminfo() -> int | None:
    """Return what Linux estimates it can hand out without swapping."""
    try:
        for line in _read("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: the caller asks elsewhere
    return None


def _control_group() -> int | None:
    """Return what the limit of this control group, a container's for instance, leaves free."""
    try:
        limit = _read("/sys/fs/cgroup/memory.max").strip()
        used = int(_read("/sys/fs/cgroup/memory.current"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used)


def _limit() -> int | None:
    """Return what ``ulimit -v`` leaves free."""
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
    with open(path, encoding="ascii") as file:  # without pathlib: `import lmma` is to be quick
        return file.read()


def readable(size: float) -> str:
    """Return a size in bytes as people read it, such as ``'3.2 GB'``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
