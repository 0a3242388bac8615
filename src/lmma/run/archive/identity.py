"""Identity of an objective: the properties that must match for its archived values to be used."""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.run.checkpoint import name_of

if TYPE_CHECKING:
    from lmma.run.setup import Setup

MAX_DEPTH = 20  # of functions that call functions


def identity_of(fun: Any, setup: Setup, dtype: str) -> dict[str, Any]:
    """Return the properties of the objective that determine its values."""
    options = setup.options
    parts = [] if setup.constraints is None else setup.constraints.parts
    functions = [part.function for part in parts if part.function is not None]
    space = options.space
    return {
        "variables": None if space is None else [list(pair) for pair in space.described().items()],
        "fun": name_of(fun),
        "n": len(setup.x0),
        "dtype": dtype,
        "constraints": [name_of(function) for function in functions],
        "code": code_of(fun, options.args, *functions),
    }


def code_of(*things: Any) -> str:
    """Return the version of Python, which determines the bytecode, and a digest of the code of functions.

    The digest covers functions of the same module that they call, arguments of ``partial``, numbers, texts
    and arrays. Other objects are represented by their type, so that mutable state, such as a counter of
    calls, does not change it.
    """
    text = repr([_described(thing, set(), 0) for thing in things])
    version = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{version} {hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"


def _described(thing: Any, seen: set[int], depth: int) -> Any:
    """Return a description of ``thing`` that is the same in every process."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        return thing
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "biufcU":
        return (
            thing.dtype.str,
            thing.shape,
            hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest(),
        )
    if depth > MAX_DEPTH or id(thing) in seen:
        return "..."
    seen = seen | {id(thing)}
    if isinstance(thing, tuple | list):
        return [_described(part, seen, depth + 1) for part in thing]
    if isinstance(thing, dict):
        return [(str(key), _described(part, seen, depth + 1)) for key, part in thing.items()]
    if isinstance(thing, set | frozenset):
        return sorted(repr(_described(part, seen, depth + 1)) for part in thing)
    if isinstance(thing, functools.partial):
        return _described((thing.func, thing.args, thing.keywords), seen, depth)
    if isinstance(thing, MethodType):
        return _described(thing.__func__, seen, depth)
    if isinstance(thing, FunctionType):
        return _function(thing, seen, depth)
    if isinstance(thing, CodeType):
        return _code(thing, seen, depth)
    argv = getattr(thing, "argv", None)  # of an external program
    call = getattr(type(thing), "__call__", None)  # noqa: B004 (its code, not whether it has one)
    calls = _function(call, seen, depth) if isinstance(call, FunctionType) else None
    return (type(thing).__qualname__, calls, _described(argv, seen, depth + 1))


def _function(function: FunctionType, seen: set[int], depth: int) -> Any:
    called = [function.__globals__.get(name) for name in _names(function.__code__)]
    if function.__closure__:
        called += [cell.cell_contents for cell in function.__closure__ if _is_filled(cell)]
    mine = [f for f in called if isinstance(f, FunctionType) and f.__module__ == function.__module__]
    return (
        _code(function.__code__, seen, depth),
        _described((function.__defaults__, function.__kwdefaults__), seen, depth + 1),
        [_described(other, seen, depth + 1) for other in mine],
    )


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: CodeType) -> list[str]:
    """Return the global names used by a function and by its nested functions."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inner]


def _code(code: CodeType, seen: set[int], depth: int) -> Any:
    constants = [_described(part, seen, depth + 1) for part in code.co_consts]
    if constants and isinstance(constants[0], str) and not _uses_first_constant(code):
        constants[0] = None  # the docstring
    return (code.co_code.hex(), code.co_names, code.co_varnames, constants)


def _uses_first_constant(code: CodeType) -> bool:
    return any(step.opcode in dis.hasconst and step.arg == 0 for step in dis.get_instructions(code))
