"""What a run ended for, and the words for it: one ending for each reason.

In the words of an ending ``{value}`` is what was measured, ``{limit}`` what it was compared with and
``{error}`` what an exception said; any other name is an argument of a run, which the library and the command
line each spell in their own way: ``{tolx}``, ``{restarts[=]}`` (an argument to give),
``{stagnation[False]}`` (an argument to give that value).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Spell = Callable[[str, str], str]  # an argument's name and the value to give it, "" for the name alone


@dataclass(frozen=True)
class Ending:
    """One reason to stop: what it means for the result, for restarts, and in words."""

    reason: str
    status: int  # of the result; 0 for a target that was reached
    words: str
    success: bool = False  # whether the run did what it was asked to do
    restarts: bool = False  # whether it ends one of several runs, and restarts may follow


@dataclass(frozen=True)
class Stop:
    """Why a run ended: the reason, the argument that set the limit, what was measured, and the limit."""

    reason: str
    argument: str | None = None
    value: float = math.nan
    limit: float = math.nan
    error: str = ""  # the words of an exception that ended the run
    words: str = ""  # in place of the ending's, where less is to be advised

    @property
    def ending(self) -> Ending:
        """What this reason means."""
        words = f"The strategy ended the run: {_literally(self.reason)} = {{value}}."
        return ENDINGS.get(self.reason) or Ending(self.reason, 14, words, restarts=True)

    def message(self, spell: Spell) -> str:
        """Return the reason in plain words, with arguments as ``spell`` writes them."""
        return (self.words or self.ending.words).format_map(_Words(self, spell))


class _Words(Mapping[str, Any]):
    """What stands for the names in the words of an ending."""

    def __init__(self, stop: Stop, spell: Spell) -> None:
        self.stop, self.spell = stop, spell

    def __getitem__(self, name: str) -> Any:
        if name in ("value", "limit", "error"):
            return getattr(self.stop, name)
        return _Spelled(name, self.spell)

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Spelled:
    """An argument's name in a text, ``[=]`` or ``[value]`` after it where it is to be given."""

    def __init__(self, name: str, spell: Spell) -> None:
        self.name, self.spell = name, spell

    def __str__(self) -> str:
        return self.spell(self.name, "")

    def __getitem__(self, value: str) -> str:
        return self.spell(self.name, value)


def _literally(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def in_python(name: str, value: str = "") -> str:
    """Spell an argument as :func:`lmma.minimize` has it."""
    return name if not value else f"{name}=" if value == "=" else f"{name}={value}"


# By reason. Rules add theirs: see stopping.py
ENDINGS: dict[str, Ending] = {
    ending.reason: ending
    for ending in (  # those that no rule finds
        Ending("callback", 6, "The callback asked to stop."),
        Ending(
            "solved",
            18,
            "Solved: the mean policy's reward over fresh episodes, {value:.6g} on average, has reached "
            "{limit:.6g}.",
            success=True,
        ),
        Ending("interrupted", 7, "Interrupted, by Ctrl-C or a signal to end; x is what was found so far."),
        Ending(
            "strategy",
            15,
            "The strategy, or a rule that watches it, failed: {error}; x is what was found so far. "
            "{restarts[=]} starts it again, another {method} may do better.",
            restarts=True,
        ),
        Ending(
            "memory",
            16,
            "Out of memory: a population of {value:.0f} does not fit into what is free; x is what was "
            "found so far. Fewer {restarts[=]}, a smaller {popsize} or a leaner {method} need less.",
        ),
    )
}
