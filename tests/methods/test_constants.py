"""Types of keyword arguments and result fields, for editors and type checkers."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import lmma
from lmma.methods.constants import Constants, StrategyOptions
from lmma.methods.registry import strategy_class

USE = """
import lmma

result = lmma.minimize(lambda x: float(x @ x), [1.0, 2.0], 0.5, maxfevals=100, m=3, method="lm-ma-es")
reveal_type(result.fun)
reveal_type(result.reason)
reveal_type(result.nfev)
reveal_type(result.history)
reveal_type(result.to_json())
lmma.minimize(lambda x: float(x @ x), [1.0, 2.0], 0.5, maxfeval=100)
lmma.strategy("lm-ma-es", [1.0, 2.0], 0.5, popsiz=3)
"""


def test_the_typed_constants_are_those_of_the_methods():
    known = {name for method in lmma.methods() for name in strategy_class(method).known_options()}
    assert set(Constants.__annotations__) == known


def test_the_typed_options_of_strategies_are_those_of_their_signature():
    signature = inspect.signature(lmma.Strategy.__init__).parameters
    common = {name for name, each in signature.items() if each.kind is each.KEYWORD_ONLY}
    assert set(StrategyOptions.__annotations__) - set(Constants.__annotations__) == common | {"start"}


def test_the_typed_fields_of_a_result_exist():
    space = lmma.Space(a=lmma.Real(0, 1))
    found = set(lmma.minimize(lambda a: a, space, rng=1, maxfevals=30))
    found |= set(lmma.minimize(lambda x: (float(x @ x), [1 - x[0]]), np.ones(2), 0.5, rng=1, maxfevals=30))
    found |= set(lmma.minimize(lambda s: s["a"] ** 2, {"a": 1.0}, rng=1, maxfevals=300, polish=True))
    noise = np.random.default_rng(1)
    found |= set(
        lmma.minimize(
            lambda x: float(x @ x) + noise.normal(), np.ones(2), 0.5, rng=1, noise="mix", maxfevals=300
        )
    )
    typed = set(lmma.RunResult.__annotations__) - {"archive", "calls"}  # tests/run/test_archive.py
    assert typed == found - {"archive", "calls"}


def test_mypy_sees_fields_and_misspelt_arguments(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "use.py"]
    text = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    for line, kind in ((5, '"float"'), (6, '"str"'), (7, '"int"'), (8, "list[Any]]"), (9, '"str"')):
        assert any(
            f"use.py:{line}: note: Revealed type" in each and kind.strip('"') in each
            for each in text.splitlines()
        )
    assert 'use.py:10: error: Unexpected keyword argument "maxfeval"' in text
    assert 'use.py:11: error: Unexpected keyword argument "popsiz"' in text
