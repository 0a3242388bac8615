"""Users' values in messages: short, and also of what cannot be printed."""

from __future__ import annotations


def shown(value: object) -> str:
    """Return ``repr(value)``, cut where it is long; also of what cannot be printed."""
    try:
        words = repr(value)
    except Exception:
        words = object.__repr__(value)
    return words if len(words) <= 200 else f"{words[:197]}..."


def one_line(text: object, width: int = 200) -> str:
    """Return a text on one line, cut where it is long; what a terminal would obey is spelled out."""
    words = " ".join(str(text)[: 4 * width].split())
    words = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in words)
    return words if len(words) <= width else f"{words[: width - 3]}..."
