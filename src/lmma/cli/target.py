"""What to minimise: a built-in problem, ``module:function``, or an external program."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lmma.cli.status import UsageError

if TYPE_CHECKING:
    from lmma.problems import Problem
    from lmma.space import Space


@dataclass(frozen=True)
class Target:
    """An objective, how it is called, and the problem behind it if it is a built-in one."""

    name: str
    function: Callable[..., Any]
    vectorized: bool = False
    problem: Problem | None = None


def find_target(
    name: str | None, command: str | None, vectorized: bool, space: Space | None = None
) -> Target:
    """Return what the arguments name, or say what is wrong with them."""
    if (name is None) == (command is None):
        given = "neither" if name is None else "both"
        raise UsageError(
            f"give either TARGET (a problem or module:function) or --command, got {given}"
            " (see lmma minimize --help)"
        )
    if command is not None:
        if vectorized:
            raise UsageError("--vectorized is for Python functions: a program takes one candidate at a time")
        return _program(command, space)
    assert name is not None
    if ":" in name:
        return _function(name, vectorized)
    if space is not None:
        raise UsageError(
            f"--space has names, which the built-in problem {name} does not know: give module:function"
        )
    return _problem(name)


def _problem(name: str) -> Target:
    from lmma import problems

    try:
        problem = problems.get(name)
    except ValueError as error:
        raise UsageError(f"{error}. A function of your own is module:function") from None
    return Target(name, problem, vectorized=True, problem=problem)


def import_here(module_name: str) -> ModuleType:
    """Import a module that the user named, modules of the current directory first, as ``python -m`` does.

    Afterwards the directory is searched last: a stray ``json.py`` there takes the place of nothing that lmma
    itself imports. Worker processes have it first as well, while they load the user's code.
    """
    from lmma.evaluation.pool import processes

    here = os.getcwd()
    sys.path[:] = [here, *(entry for entry in sys.path if entry not in ("", here))]
    try:
        return importlib.import_module(module_name)
    finally:
        sys.path.append(sys.path.pop(sys.path.index(here)) if here in sys.path else here)
        if here not in processes.first_for_the_user:
            processes.first_for_the_user.append(here)


def import_methods_here(methods: Iterable[str]) -> None:
    """Import the modules of methods given as ``module:Class``; what is wrong is said by who uses them."""
    for method in methods:
        if ":" in method:
            with contextlib.suppress(Exception):
                import_here(method.partition(":")[0])


def _function(name: str, vectorized: bool) -> Target:
    function = named_object(name, "TARGET")
    if not callable(function):
        raise UsageError(f"{name} is {function!r:.60}, not a function")
    return Target(name, function, vectorized)


def named_object(name: str, argument: str) -> Any:
    """Return what ``module:name`` names, imported from the current directory if it is there."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise UsageError(f"{argument} must be module:function, such as mymodule:loss, got {name!r}")
    try:
        module = import_here(module_name)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inner = next((f for f in reversed(frames) if "importlib" not in f.filename), None)
        own = inner is not None and inner.filename != __file__
        where = f" at {inner.filename}:{inner.lineno}" if own and inner is not None else ""
        raise UsageError(f"cannot import {module_name!r}{where}: {type(error).__name__}: {error}") from None
    try:
        return functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        from lmma.strategies.parts.checks import nearest

        known = [word for word in dir(module) if callable(getattr(module, word, None))]
        raise UsageError(f"module {module_name!r} has no {path!r}{nearest(path, known)}") from None


def travel_by_value(function: Callable[..., Any]) -> None:
    """Have a function of the current directory reach machines that do not have its file."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = os.path.abspath(getattr(module, "__file__", None) or os.sep)
    if module is not None and os.path.dirname(file) == os.getcwd():
        cloudpickle.register_pickle_by_value(module)


def _program(command: str, space: Space | None) -> Target:
    from lmma.evaluation.named_program import NamedProgram
    from lmma.evaluation.program import Program

    try:
        program = Program(command) if space is None else NamedProgram(command, space)
    except ValueError as error:
        raise UsageError(f"--command: {error}") from None
    if shutil.which(program.words[0]) is None:
        raise UsageError(f"--command: there is no program {program.words[0]!r} that can be run")
    return Target(command, program)
