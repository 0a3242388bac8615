"""State as named arrays and numbers: collected from a strategy and its parts, and put back.

Every class names in ``STATE`` the attributes it adds; those of its bases count without being repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

State = dict[str, npt.NDArray[Any] | float]  # numbers may be integers


def state_names(cls: type) -> tuple[str, ...]:
    """Return what ``STATE`` names in ``cls`` and in its bases, bases first, each once."""
    names: dict[str, None] = {}
    for owner in reversed(cls.__mro__):
        own = vars(owner).get("STATE", ())
        if isinstance(own, str) or not all(isinstance(name, str) for name in own):
            raise TypeError(
                f"{owner.__name__}.STATE must be a tuple of attributes' names, such as ('path',); got {own!r}"
            )
        names |= dict.fromkeys(own)
    return tuple(names)


def collect(parts: Mapping[str, object], *, copy: bool = True) -> State:
    """Return copies of all that the classes of ``parts`` name in ``STATE``, labelled ``part.name``.

    Without ``copy`` the arrays are those of the parts themselves.
    """
    state: State = {}
    for label, (part, name) in _places(parts).items():
        value = getattr(part, name)
        if isinstance(value, np.ndarray):
            state[label] = value.copy() if copy else value
        elif isinstance(value, int | float | np.number | np.bool_):
            state[label] = value  # type: ignore[assignment]  # NumPy's numbers are numbers
        else:
            raise TypeError(
                f"{type(part).__name__}.STATE names {name!r}, which is {value!r:.60}: "
                "state is made of arrays and numbers"
            )
    return state


def restore(parts: Mapping[str, object], state: Mapping[str, Any]) -> None:
    """Put back what :func:`collect` returned; nothing is changed where anything does not fit."""
    places = _places(parts)
    for label, (part, name) in places.items():
        here, new = getattr(part, name), state[label]
        if np.shape(new) != np.shape(here):
            raise ValueError(f"state[{label!r}] has shape {np.shape(new)}, this run {np.shape(here)}")
    for label, (part, name) in places.items():
        here = getattr(part, name)
        if isinstance(here, np.ndarray):
            np.copyto(here, state[label])
        else:
            setattr(part, name, type(here)(state[label]))


def labels(parts: Mapping[str, object]) -> set[str]:
    """Return the names that the state of ``parts`` has."""
    return set(_places(parts))


def _places(parts: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return for each name of the state who has it, under which attribute."""
    places = {
        (f"{label}." if label else "") + name: (part, name)
        for label, part in parts.items()
        for name in state_names(type(part))
    }
    for part, name in places.values():
        if not hasattr(part, name):
            raise TypeError(f"{type(part).__name__}.STATE names {name!r}, but there is no such attribute")
    return places
