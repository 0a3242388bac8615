"""Wrappers that call an objective with named values or a structure instead of a vector."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma._text import nearest
from lmma.space.space import Space
from lmma.space.tree import Tree


@final
class NamedValues:
    """Decodes a vector and calls ``fun`` with the named values; can be pickled for workers.

    Parameters
    ----------
    fun : callable
        ``fun(speed=..., gear=...)`` or ``fun({"speed": ..., "gear": ...})``.
    space : Space
        The space that decodes the vector.
    args : tuple
        Further positional arguments, passed after the dict.
    more : tuple of str
        Names of other keyword arguments of ``fun``.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        space: Space,
        args: tuple[Any, ...] = (),
        more: tuple[str, ...] = (),
    ) -> None:
        self.fun = fun
        self.space = space
        self.by_keyword = takes_keywords(fun, space, args, more)

    def __call__(self, x: npt.NDArray[np.floating], *args: Any, **more: Any) -> Any:
        """Return ``fun`` of the decoded ``x``; rows are decoded to one array per variable."""
        values = self.space.decode(x) if x.ndim == 1 else self.space.columns(x)
        return self.fun(**values, **more) if self.by_keyword else self.fun(values, *args, **more)


@final
class Structures:
    """Decodes a vector and calls ``fun`` with the structure; can be pickled for workers."""

    def __init__(self, fun: Callable[..., Any], tree: Tree) -> None:
        self.fun = fun
        self.tree = tree

    def __call__(self, x: npt.NDArray[np.floating], *args: Any, **more: Any) -> Any:
        """Return ``fun`` of the decoded ``x``; rows are decoded to one structure of stacked arrays."""
        structure = self.tree.decode(x) if x.ndim == 1 else self.tree.columns(x)
        return self.fun(structure, *args, **more)


def takes_keywords(
    fun: Callable[..., Any], space: Space, args: tuple[Any, ...] = (), more: tuple[str, ...] = ()
) -> bool:
    """Return whether ``fun`` takes the variables as keywords; False if it takes one dict.

    Raises TypeError if ``fun`` takes keywords that do not match the variables of the space.
    """
    if args or hasattr(fun, "takes_values"):
        return False
    try:
        signature = inspect.signature(fun).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    parameters = {name: parameter for name, parameter in signature.items() if name not in more}
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not any(name in named for name in space) and not (anything and not _needed(named)):
        positional = [
            p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if len(positional) == 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
            return False
        if len(_needed(named)) <= 1 and positional:
            return False
    missing = [] if anything else [name for name in space if name not in named]
    if missing:
        raise TypeError(
            f"fun does not accept the variable {missing[0]!r}{nearest(missing[0], list(named))}: "
            f"add a parameter {missing[0]!r} or **others, or take a single dict of all values"
        )
    unknown = [name for name in _needed(named) if name not in space]
    if unknown:
        raise TypeError(
            f"fun requires {unknown[0]!r}, which is not in the space{nearest(unknown[0], list(space))}: add "
            "a variable (lmma.Fixed for a constant), or give the parameter a default"
        )
    return True


def _needed(named: dict[str, inspect.Parameter]) -> list[str]:
    return [name for name, parameter in named.items() if parameter.default is parameter.empty]
