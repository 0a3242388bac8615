"""Advice to install names commands that work."""

import re
from pathlib import Path

import pytest

from lmma.kernels import install

SOURCE = Path(install.__file__).parents[1]


def test_modules_are_installed_by_the_name_pip_knows():
    assert install.how_to_install("sklearn") == "pip install scikit-learn"
    assert install.how_to_install("sklearn.ensemble") == "pip install scikit-learn"
    assert install.how_to_install("cma") == "pip install cma"


def test_extras_come_from_the_checkout_where_there_is_one(monkeypatch, tmp_path):
    root = SOURCE.parents[1]
    if (root / "pyproject.toml").is_file():
        monkeypatch.chdir(root)
        assert install.how_to_install("plot") == "pip install '.[plot]'"
        monkeypatch.chdir(tmp_path)
        assert install.how_to_install("plot") == f"pip install '{root}[plot]'"
    monkeypatch.setattr(install, "__file__", str(tmp_path / "lib" / "lmma" / "kernels" / "install.py"))
    assert install.how_to_install("plot") == "pip install 'lmma[plot]'"


def test_compiled_modules_are_built_again_from_where_they_came(monkeypatch, tmp_path):
    root = SOURCE.parents[1]
    if (root / "pyproject.toml").is_file():
        monkeypatch.chdir(root)
        assert install.how_to_rebuild() == "pip install --verbose --editable ."
    monkeypatch.setattr(install, "__file__", str(tmp_path / "lib" / "lmma" / "kernels" / "install.py"))
    assert install.how_to_rebuild().endswith(" --force-reinstall --no-deps --no-cache-dir lmma")


def test_words_are_quoted_for_the_shell_that_is_there(monkeypatch):
    assert install._quoted("lmma[plot]") == "'lmma[plot]'"
    monkeypatch.setattr(install.os, "name", "nt")
    assert install._quoted("lmma[plot]") == '"lmma[plot]"'  # single quotes mean nothing to Windows


def test_every_extra_that_is_advised_exists():
    root = SOURCE.parents[1]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    import tomllib

    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(install.EXTRAS) <= set(extras)


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: file.stem)
def test_nobody_else_gives_such_advice(file):
    if file.name not in ("install.py", "presence.py"):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "pip install" in line]
        assert not [line for line in lines if not re.search(r"^\S.*pip install|^pip install", line)]


def test_a_page_says_why_a_picture_is_missing(monkeypatch):
    from lmma.output.plotting.data import FigureData
    from lmma.output.report import html, markdown
    from lmma.output.report.parts import Chart

    monkeypatch.setattr(html, "plotly_script", lambda: None)
    part = Chart(FigureData("none", "A figure", "", []))
    for page in (html.as_html("t", "l", [part]), markdown.as_markdown("t", "l", [part])):
        assert "neither plotly nor matplotlib is installed" in page
        assert "pip install" in page
