"""Users' values in messages: short, and also of what cannot be printed."""

from __future__ import annotations


def shown(value: object) -> str:
    """Return ``repr(value)``, cut where it is long; also of what cannot be printed."""
    try:
        words = repr(value)
    except Exception:
        words = object.__repr__(value)
    return words if len(words) <= 200 else f"{words[:197]}..."
