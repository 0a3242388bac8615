"""Advice to install names commands that work."""

import re
from pathlib import Path
from types import SimpleNamespace

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
    installed(monkeypatch, tmp_path, None)
    assert install.how_to_install("plot") == "pip install 'lmma[plot]'"


def test_compiled_modules_are_built_again_from_where_they_came(monkeypatch, tmp_path):
    root = SOURCE.parents[1]
    if (root / "pyproject.toml").is_file():
        monkeypatch.chdir(root)
        assert install.how_to_rebuild() == "pip install --verbose --editable ."
    installed(monkeypatch, tmp_path, None)
    assert install.how_to_rebuild().endswith(" --force-reinstall --no-deps --no-cache-dir lmma")


def installed(monkeypatch, folder, noted):
    """Have the package lie where pip puts it, with this note of where it came from."""
    monkeypatch.setattr(install, "__file__", str(folder / "lib" / "lmma" / "kernels" / "install.py"))
    package = SimpleNamespace(read_text=lambda name: {"direct_url.json": noted}[name])
    monkeypatch.setattr(install.metadata, "distribution", lambda name: package)


def test_extras_come_from_the_folder_that_pip_installed_from(monkeypatch, tmp_path):
    sources = tmp_path / "my sources"
    sources.mkdir()
    address = sources.as_uri()
    installed(monkeypatch, tmp_path, f'{{"url": "{address}", "dir_info": {{}}}}')
    assert install.how_to_install("plot") == "pip install 'lmma[plot]'"  # the folder is gone, or another's
    (sources / "pyproject.toml").touch()
    assert install.how_to_install("plot") == f"pip install '{sources}[plot]'"
    assert install.how_to_rebuild().endswith(f"--no-cache-dir '{sources}'")


@pytest.mark.parametrize("noted", ["no JSON", "[]", '{"url": "https://example.org/lmma.whl"}', '{"url": 3}'])
def test_any_other_note_means_an_index(monkeypatch, tmp_path, noted):
    installed(monkeypatch, tmp_path, noted)
    assert install.how_to_install("plot") == "pip install 'lmma[plot]'"


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
