"""Docstrings: every public object has one that begins with a sentence, and its examples run."""

import doctest
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import lmma

SOURCE = Path(lmma.__file__).parent


def public(name, thing):
    """Yield everything public that is reached from ``thing``, with the name a user would write."""
    yield name, thing
    if isinstance(thing, ModuleType):
        for inner in thing.__all__ if hasattr(thing, "__all__") else own_names(thing):
            yield from public(f"{name}.{inner}", getattr(thing, inner))
    elif inspect.isclass(thing):
        for inner, member in vars(thing).items():
            inherited = any(hasattr(base, inner) for base in thing.__mro__[1:])  # has its help text there
            if not (inner.startswith("_") or inherited or inspect.isclass(member)) and is_documented(member):
                yield f"{name}.{inner}", member


def own_names(module):
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]


def is_documented(thing):
    return inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, property | ModuleType)


PUBLIC = {
    name: thing
    for each in lmma.__all__
    for name, thing in public(f"lmma.{each}", getattr(lmma, each))
    if is_documented(thing)
}
MODULES = ["lmma"] + [module.name for module in pkgutil.walk_packages([str(SOURCE)], "lmma.")]


def source_of(module):
    path = SOURCE.parent / module.replace(".", "/")
    return next(file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists())


WITH_EXAMPLES = [
    module
    for module in MODULES
    if "._" not in module and ">>> " in source_of(module).read_text(encoding="utf-8")
]


def test_the_walk_reaches_what_users_use():
    assert {
        "lmma.minimize",
        "lmma.Strategy.tell",
        "lmma.Strategy.result",
        "lmma.problems.get",
    } <= PUBLIC.keys()
    assert {"lmma", "lmma.problems", "lmma.scipy_method", "lmma.testing"} <= set(WITH_EXAMPLES)


def test_everything_public_has_a_help_text_that_begins_with_a_sentence():
    without = []
    for name, thing in PUBLIC.items():
        text = inspect.getdoc(getattr(thing, "__func__", thing)) or ""
        if not re.match(r"[A-Z`].*[^.] .*[^.]\.(\n\n|$)", text):
            without.append((name, text.partition("\n")[0]))
    assert without == []


@pytest.mark.parametrize(
    "thing", ["", "bounds", "checkpoint", "problems", "restarts", "scipy_method", "testing"]
)
def test_public_modules_show_an_example(thing):
    text = inspect.getdoc(getattr(lmma, thing) if thing else lmma)
    assert ">>> " in text


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_help_texts_run(module, tmp_path, monkeypatch):
    if (framework := module.removeprefix("lmma.integrations.").partition("_")[0]) in ("jax", "torch"):
        pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(import_module(module), extraglobs={"lmma": lmma, "np": np})
    assert done.attempted > 0
    assert done.failed == 0
    assert list(tmp_path.iterdir()) == []
