"""What a shell may offer after a Tab, by argcomplete where it is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def offer(action: argparse.Action, words: Callable[[], list[str]], *, between_commas: bool = False) -> None:
    """Have a shell offer ``words()`` for an argument; where it takes several, after each comma."""

    def completer(prefix: str = "", **_: Any) -> list[str]:
        before = prefix[: prefix.rfind(",") + 1] if between_commas else ""
        return [before + word for word in words()]

    action.completer = completer  # type: ignore[attr-defined]  # argcomplete looks for it


def method_names() -> list[str]:
    """Return what --method takes."""
    from lmma.strategies.registry import methods

    return ["auto", *methods()]


def problem_names() -> list[str]:
    """Return what the built-in problems are called."""
    from lmma import problems

    return problems.names(wrapped=True)


def complete_words(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks, and exit; return where argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser, always_complete_options="long")
