"""Shell completion through argcomplete, if it is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def set_completer(
    action: argparse.Action, choices: Callable[[], list[str]], *, comma_separated: bool = False
) -> None:
    """Complete an argument with ``choices()``; if ``comma_separated``, complete after each comma."""

    def completer(prefix: str = "", **_: Any) -> list[str]:
        before = prefix[: prefix.rfind(",") + 1] if comma_separated else ""
        return [before + word for word in choices()]

    action.completer = completer  # type: ignore[attr-defined]  # read by argcomplete


def method_names() -> list[str]:
    """Return the values of --method."""
    from lmma.methods.registry import methods

    return ["auto", *methods()]


def problem_names() -> list[str]:
    """Return the names of the built-in problems, with and without prefixes."""
    from lmma import problems

    return problems.names(wrapped=True)


def complete_and_exit(parser: argparse.ArgumentParser) -> None:
    """Print completions for the shell and exit; return if argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser, always_complete_options="long")
