"""Description of a record store for ``lmma show``."""

from __future__ import annotations

import shlex
from pathlib import Path

from lmma.cli.show import Row
from lmma.cli.status import UsageError
from lmma_lab.store import StoreError
from lmma_lab.store.contents import contents


def rows_of(file: Path) -> list[Row]:
    """Return the rows that ``lmma show`` prints for a store."""
    try:
        inside = contents(file)
    except StoreError as error:
        raise UsageError(str(error)) from None
    records = ", ".join(f"{count:,} of {kind}" for kind, count in sorted(inside.records.items()))
    return [
        ("store", f"{file}: {sum(inside.records.values()):,} records"),
        ("records", records or "none yet"),
        *([("methods", _listed(inside.methods))] if inside.methods else []),
        *([("n", ", ".join(f"{n:,}" for n in inside.sizes[:20]))] if inside.sizes else []),
        ("in progress", f"{inside.claims:,}"),
        *([("set aside", f"{inside.set_aside:,} invalid records")] if inside.set_aside else []),
        (
            "to resume",
            f"repeat the command with --out {shlex.quote(str(file.parent))}; finished tasks are kept",
        ),
    ]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{name} ({count:,})" for name, count in sorted(counts.items(), key=lambda pair: -pair[1])[:20]
    )
