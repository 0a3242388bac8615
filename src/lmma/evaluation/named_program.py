"""An external program that is given values by name: in its command, or in a file of JSON or TOML."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from lmma.evaluation.program import Printed, Program

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
FILES = {"file": "json", "json": "json", "toml": "toml"}  # placeholder -> form of the file


@final
class NamedProgram:
    """A callable that runs ``command`` with values and returns the number it prints last.

    Parameters
    ----------
    command : str
        As of :class:`Program`. ``{speed}`` stands for the value of the variable speed, ``{json}`` (or
        ``{file}``) and ``{toml}`` for the path of a temporary file with all values by name. Where none of
        these is there, the values go to standard input as JSON.
    names : iterable of str
        The variables there are.
    """

    takes_values = True  # one dict, whatever its signature looks like

    def __init__(self, command: str, names: Any) -> None:
        self.program = Program(command)
        self.words = self.program.words
        self.name = command
        used = {match for word in self.words for match in PLACEHOLDER.findall(word)}
        forms = sorted({FILES[name] for name in used if name in FILES})
        if len(forms) > 1:
            raise ValueError("the command asks for a file of JSON and for one of TOML: take one")
        known = set(names)
        for name in sorted(used - known - set(FILES)):
            if close := difflib.get_close_matches(name, sorted(known), n=1):
                raise ValueError(
                    f"the command has {{{name}}}, which is no variable: did you mean {close[0]!r}?"
                )
        self.form = forms[0] if forms else ""
        self.named = used & known

    def __call__(self, values: Mapping[str, Any]) -> Printed:
        """Return the value of one candidate, and constraints if the program prints them after it."""
        replaced = {f"{{{name}}}": as_word(values[name]) for name in self.named}
        text = as_toml(values) if self.form == "toml" else as_json(values) + "\n"
        if self.form:
            places = [f"{{{name}}}" for name, form in FILES.items() if form == self.form]
            return self.program.run_with_file(text, f".{self.form}", places, replaced)
        return self.program.run_with_text("" if self.named else text, replaced)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def as_word(value: Any) -> str:
    """Return a value as a word of a command: numbers read back exactly, arrays are JSON."""
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    return repr(plain) if isinstance(plain, float) else json.dumps(plain)


def as_json(values: Mapping[str, Any]) -> str:
    """Return values as one object of JSON."""
    return json.dumps(_plain(values))


def as_toml(values: Mapping[str, Any]) -> str:
    """Return values as TOML, a line each."""
    return "".join(f"{name} = {_toml(_plain(value))}\n" for name, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(name)} = {_toml(entry)}' for name, entry in value.items())} }}"
    return '""' if value is None else repr(value) if isinstance(value, float) else json.dumps(value)
