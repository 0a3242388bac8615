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


def environment():
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(ROOT / "src"), *([known] if known else [])])
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "error"}


def run(words, directory, env=None):
    done = subprocess.run(
        words, cwd=directory, env=env or environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def named(block):
    """The file a listing says it is, if it says so."""
    match = re.match(r"# (\w+\.py)\n", block)
    return match and match[1]


@pytest.mark.parametrize("block", [b for kind, b in BLOCKS if kind == "python" and not named(b)])
def test_programs_of_the_readme_run(block, tmp_path):
    assert run([sys.executable, "-c", block], tmp_path) != ""


def test_commands_of_the_readme_run(tmp_path):
    for kind, block in BLOCKS:
        if kind == "python" and named(block):
            (tmp_path / named(block)).write_text(block)
    commands = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
    assert {line.split()[0] for line in commands} == {"make", "lmma"}
    for line in commands:
        if line.startswith("lmma"):  # `make` is how these tests were started
            assert run(["sh", "-c", line.replace("lmma", LMMA, 1)], tmp_path) != ""
    assert (tmp_path / "ellipsoid.png").exists()


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_of_the_readme_lead_somewhere():
    for link in re.findall(r"\]\(([^)\s]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, tmp_path):
    assert run([sys.executable, str(path)], tmp_path) != ""


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_example_of_an_external_program_runs(tmp_path):
    command = tmp_path / "lmma"
    command.write_text(f'#!/bin/sh\nexec {LMMA} "$@"\n')
    command.chmod(0o755)
    env = environment()
    env |= {"PATH": f"{tmp_path}{os.pathsep}{env['PATH']}", "PYTHON": sys.executable}
    script = ROOT / "examples" / "external_program" / "run.sh"
    assert "target is reached" in run(["sh", str(script)], tmp_path, env)
