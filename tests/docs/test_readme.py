"""The claims of the README hold, and its examples run unchanged."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from pages import LMMA, ROOT, listings

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def shell(environment, tmp_path):
    """Runs ``sh ...`` in an empty directory and returns what it printed."""
    if shutil.which("sh") is None:
        pytest.skip("needs a shell")

    def run(*words, **variables):
        done = subprocess.run(
            ["sh", *map(str, words)], cwd=tmp_path, env=environment | variables,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_the_first_example_of_the_readme_succeeds(python):
    """What a newcomer copies first finds the optimum, and says so."""
    first = next(listing for listing in listings(ROOT / "README.md") if listing.kind == "python")
    out = python(
        "-c",
        f"{first.text}\nassert result.success, result.message\nprint(abs(result.x - range(1, 21)).max())",
    )
    assert "Target reached" in out
    assert (
        float(out.splitlines()[-1]) < 0.01
    )  # |x_i - i| is at most the sum of 20 errors of (1e-6)^(2/3) = 1e-4 each


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"`make ([\w-]+)`", README)
    assert "test" in targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


NEEDS = {"cartpole_policy": "gymnasium", "digits_network": "torch"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, python):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    assert python(path) != ""


def test_example_of_an_external_program_runs(shell, tmp_path):
    command = tmp_path / "lmma"
    command.write_text(f'#!/bin/sh\nexec {LMMA} "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = ROOT / "examples" / "external_program" / "run.sh"
    assert "Target reached" in shell(script, PATH=path, PYTHON=sys.executable)
