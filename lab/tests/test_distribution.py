"""The distribution: versions, extras and the advice to install them."""

import re
import tomllib
from pathlib import Path

import pytest

import lmma
import lmma_lab
from lmma._text import how_to_rebuild
from lmma_lab.install import LAB, how_to_install
from repository import ROOT

PROJECT = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LMMA_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = Path(lmma_lab.__file__).parent


def test_both_distributions_have_one_version():
    assert PROJECT["version"] == lmma.__version__
    assert PROJECT["dependencies"] == [f"lmma=={lmma.__version__}"]


@pytest.mark.parametrize("field", ["requires-python", "license", "authors"])
def test_both_distributions_are_described_alike(field):
    assert PROJECT[field] == LMMA_PROJECT[field]


def test_both_distributions_have_one_licence_and_the_same_addresses():
    assert (ROOT / "lab" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert PROJECT["urls"].items() <= LMMA_PROJECT["urls"].items()


def test_advice_names_extras_that_exist(monkeypatch):
    assert set(LAB.extras) <= set(PROJECT["optional-dependencies"])
    monkeypatch.chdir(ROOT / "lab")
    assert how_to_install("bench") == "pip install '.[bench]'"
    assert how_to_install("cma") == "pip install cma"
    assert how_to_rebuild(LAB) == "pip install --verbose --editable ."


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: file.stem)
def test_no_other_module_gives_such_advice(file):
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "pip install" in line]
    assert not [line for line in lines if not re.search(r"^\S.*pip install|^pip install", line)]
