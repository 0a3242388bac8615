"""Installation commands in messages work."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from lmma import _text

SOURCE = Path(_text.__file__).parent


def test_modules_are_installed_by_the_name_pip_knows():
    assert _text.how_to_install("sklearn") == "pip install scikit-learn"
    assert _text.how_to_install("sklearn.ensemble") == "pip install scikit-learn"
    assert _text.how_to_install("cma") == "pip install cma"


def test_extras_come_from_the_checkout_where_there_is_one(monkeypatch, tmp_path):
    root = SOURCE.parents[1]
    if (root / "pyproject.toml").is_file():
        monkeypatch.chdir(root)
        assert _text.how_to_install("plot") == "pip install '.[plot]'"
        monkeypatch.chdir(tmp_path)
        assert _text.how_to_install("plot") == f"pip install '{root}[plot]'"
    package = installed(monkeypatch, tmp_path, None)
    assert _text.how_to_install("plot", package) == "pip install 'lmma[plot]'"


def test_compiled_modules_are_built_again_from_where_they_came(monkeypatch, tmp_path):
    root = SOURCE.parents[1]
    if (root / "pyproject.toml").is_file():
        monkeypatch.chdir(root)
        assert _text.how_to_rebuild() == "pip install --verbose --editable ."
    package = installed(monkeypatch, tmp_path, None)
    assert _text.how_to_rebuild(package).endswith(" --force-reinstall --no-deps --no-cache-dir lmma")


def installed(monkeypatch, folder, noted):
    """Return lmma as it lies where pip puts it, with this note of where it came from."""
    package = SimpleNamespace(read_text=lambda name: {"direct_url.json": noted}[name])
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: package)
    return _text.LMMA._replace(module=str(folder / "lib" / "lmma" / "_text.py"))


def test_extras_come_from_the_folder_that_pip_installed_from(monkeypatch, tmp_path):
    sources = tmp_path / "my sources"
    sources.mkdir()
    address = sources.as_uri()
    package = installed(monkeypatch, tmp_path, f'{{"url": "{address}", "dir_info": {{}}}}')
    assert _text.how_to_install("plot", package) == "pip install 'lmma[plot]'"  # the folder is gone
    (sources / "pyproject.toml").touch()
    assert _text.how_to_install("plot", package) == f"pip install '{sources}[plot]'"
    assert _text.how_to_rebuild(package).endswith(f"--no-cache-dir '{sources}'")


@pytest.mark.parametrize("noted", ["no JSON", "[]", '{"url": "https://example.org/lmma.whl"}', '{"url": 3}'])
def test_any_other_note_means_an_index(monkeypatch, tmp_path, noted):
    package = installed(monkeypatch, tmp_path, noted)
    assert _text.how_to_install("plot", package) == "pip install 'lmma[plot]'"


def test_words_are_quoted_for_the_shell_that_is_there(monkeypatch):
    assert _text._quoted("lmma[plot]") == "'lmma[plot]'"
    monkeypatch.setattr("os.name", "nt")
    assert _text._quoted("lmma[plot]") == '"lmma[plot]"'  # single quotes mean nothing to Windows


def test_every_extra_that_is_advised_exists():
    root = SOURCE.parents[1]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    import tomllib

    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(_text.LMMA.extras) <= set(extras)


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: file.stem)
def test_installation_advice_is_written_in_one_module_only(file):
    if file.name not in ("_text.py", "availability.py"):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "pip install" in line]
        assert not [line for line in lines if not re.search(r"^\S.*pip install|^pip install", line)]
