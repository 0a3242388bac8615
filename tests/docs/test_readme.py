"""What the README and the examples show is run as it stands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "readme_figure.py")
LMMA = shlex.join([sys.executable, "-m", "lmma"])


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


def named(block):
    """The file a listing says it is, if it says so."""
    match = re.match(r"# (\w+\.py)\n", block)
    return match and match[1]


@pytest.mark.parametrize("block", [b for kind, b in BLOCKS if kind == "python" and not named(b)])
def test_programs_of_the_readme_run(block, python):
    assert python("-c", block) != ""


def test_commands_of_the_readme_run(shell, tmp_path):
    for kind, block in BLOCKS:
        if kind == "python" and named(block):
            (tmp_path / named(block)).write_text(block)
    commands = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
    assert {line.split()[0] for line in commands} == {"make", "lmma"}
    for line in commands:
        if line.startswith("lmma"):  # `make` is how these tests were started
            assert shell("-c", line.replace("lmma", LMMA, 1)) != ""
    assert (tmp_path / "ellipsoid.png").read_bytes().startswith(b"\x89PNG")


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make ([\w-]+)", README, re.MULTILINE)
    assert "test" in targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, python):
    assert python(path) != ""


def test_example_of_an_external_program_runs(shell, tmp_path):
    command = tmp_path / "lmma"
    command.write_text(f'#!/bin/sh\nexec {LMMA} "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = ROOT / "examples" / "external_program" / "run.sh"
    assert "target is reached" in shell(script, PATH=path, PYTHON=sys.executable)
