"""The objective: a built-in problem, ``module:function``, or an external program."""

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
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lmma.cli.status import UsageError

if TYPE_CHECKING:
    from lmma.problems import Problem
    from lmma.space import Space


@dataclass(frozen=True)
class Target:
    """An objective, its name and call convention, and its built-in problem if it is one."""

    name: str
    function: Callable[..., Any]
    vectorized: bool = False
    problem: Problem | None = None


def find_target(
    name: str | None, command: str | None, vectorized: bool, space: Space | None = None
) -> Target:
    """Return the objective that the arguments name, or raise UsageError."""
    if (name is None) == (command is None):
        given = "neither" if name is None else "both"
        raise UsageError(f"expected either TARGET (a problem or module:function) or --command, got {given}")
    if command is not None:
        if vectorized:
            raise UsageError("--vectorized cannot be combined with --command: a program takes one candidate")
        return _program(command, space)
    assert name is not None
    if ":" in name:
        return _function(name, vectorized)
    if space is not None:
        raise UsageError(f"--space cannot be combined with the built-in problem {name}: use module:function")
    return _problem(name)


def _problem(name: str) -> Target:
    from lmma import problems

    try:
        problem = problems.get(name)
    except ValueError as error:
        raise UsageError(f"{error}. For a Python function, use module:function") from None
    return Target(name, problem, vectorized=True, problem=problem)


def import_here(module_name: str) -> ModuleType:
    """Import a user's module, searching the current directory first, as ``python -m`` does.

    Afterwards the directory moves to the end of the path, so that a stray ``json.py`` in it cannot replace a
    module that lmma imports. Worker processes do the same while they load the user's code.
    """
    from lmma.evaluation.pool import processes

    here = os.getcwd()
    sys.path[:] = [here, *(entry for entry in sys.path if entry not in ("", here))]
    try:
        return importlib.import_module(module_name)
    finally:
        sys.path.append(sys.path.pop(sys.path.index(here)) if here in sys.path else here)
        if here not in processes.user_path:
            processes.user_path.append(here)


def import_methods_here(methods: Iterable[str]) -> None:
    """Import the modules of methods given as ``module:Class``; errors are reported when they are used."""
    for method in methods:
        if ":" in method:
            with contextlib.suppress(Exception):
                import_here(method.partition(":")[0])


def _function(name: str, vectorized: bool) -> Target:
    function = import_object(name, "TARGET")
    if not callable(function):
        raise UsageError(f"{name} is {function!r:.60}, not a function")
    return Target(name, function, vectorized)


def import_object(name: str, argument: str) -> Any:
    """Import the object named by ``module:name``, searching the current directory first."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise UsageError(f"{argument} must be module:function, such as mymodule:loss, got {name!r}")
    if module_name.endswith(".py"):
        module_name = _module_of(module_name, argument)
    try:
        module = import_here(module_name)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inner = next((f for f in reversed(frames) if "importlib" not in f.filename), None)
        in_module = inner is not None and inner.filename != __file__
        where = f" at {inner.filename}:{inner.lineno}" if in_module and inner is not None else ""
        option = f"{argument}: " if argument.startswith("--") else ""
        raise UsageError(
            f"{option}cannot import {module_name!r}{where}: {type(error).__name__}: {error}"
        ) from None
    try:
        return functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        from lmma._text import nearest

        known = [word for word in dir(module) if callable(getattr(module, word, None))]
        raise UsageError(f"module {module_name!r} has no {path!r}{nearest(path, known)}") from None


def _module_of(file: str, argument: str) -> str:
    """Return the name of the module in ``file``, given by its path from the current directory."""
    parts = Path(file).with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        raise UsageError(
            f"{argument}: {file} must be a file in or below the current directory, and a valid module name: "
            f"change to its directory and use {Path(file).stem}:function"
        )
    return ".".join(parts)


def pickle_by_value(function: Callable[..., Any]) -> None:
    """Pickle a function of the current directory by value, for machines that do not have its file."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = os.path.abspath(getattr(module, "__file__", None) or os.sep)
    if module is not None and os.path.dirname(file) == os.getcwd():
        cloudpickle.register_pickle_by_value(module)


def _program(command: str, space: Space | None) -> Target:
    from lmma.evaluation.program import NamedProgram, Program

    try:
        program = Program(command) if space is None else NamedProgram(command, space)
    except ValueError as error:
        raise UsageError(f"--command: {error}") from None
    if shutil.which(program.argv[0]) is None:
        raise UsageError(f"--command: program {program.argv[0]!r} not found or not executable")
    return Target(command, program)
