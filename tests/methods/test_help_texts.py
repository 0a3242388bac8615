"""Examples in docstrings of strategies run, and every public strategy has some."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import lmma
from lmma.methods import strategy_class


@pytest.mark.parametrize("method", lmma.methods())
def test_every_method_has_references_and_an_example_that_holds(method):
    cls = strategy_class(method)
    for section in ("Examples\n", "References\n"):
        assert section in cls.__doc__
    tests = doctest.DocTestFinder(recurse=False).find(cls, globs={"np": np, "lmma": lmma})
    outcome = doctest.DocTestRunner().run(tests[0])
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("function", [lmma.strategy, lmma.methods], ids=lambda function: function.__name__)
def test_examples_of_functions_hold(function):
    for test in doctest.DocTestFinder(recurse=False).find(function, globs={"np": np, "lmma": lmma}):
        assert doctest.DocTestRunner().run(test).failed == 0


def test_the_page_on_the_family_has_every_method_and_its_constants():
    page = (Path(__file__).resolve().parents[2] / "docs" / "family.md").read_text(encoding="utf-8")
    table, constants = page.partition("## Constants")[::2]
    for method in lmma.methods():
        assert f"\n| `{method}` | " in table, method
        assert f"`{method}`" in constants, method
