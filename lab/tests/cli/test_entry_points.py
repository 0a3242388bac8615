"""Entry points that the installed lab registers with ``lmma``."""

import os
import tomllib

import pytest

from completing import offered
from lmma.cli import all_commands, main
from lmma.cli.extensions import EXTERNAL_COMMANDS, Command, Reader, registered
from repository import ROOT


def test_the_lab_registers_the_commands_that_lmma_knows_of():
    project = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"]["lmma.commands"]
    assert list(declared) == list(EXTERNAL_COMMANDS)
    assert declared.keys() <= registered("lmma.commands", Command).keys(), "install it: pip install -e lab"
    assert project["entry-points"]["lmma.readers"].keys() <= registered("lmma.readers", Reader).keys()


@pytest.mark.parametrize("command", EXTERNAL_COMMANDS)
def test_each_command_has_help_with_examples(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"usage: lmma {command}" in out
    if command != "bench":  # whose benchmarks have some
        assert "examples:" in out


def test_the_list_of_commands_imports_nothing_heavy(python):
    code = (
        "import sys\n"
        "from lmma.cli import main\n"
        "main(['--help'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('lmma_lab')))"
    )
    out = python("-c", code)
    assert all(f"\n    {name}" in out for name in all_commands())
    assert out.splitlines()[-1] == "lmma_lab lmma_lab.entry_points"


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
def test_options_and_names_are_offered_after_a_tab():
    pytest.importorskip("argcomplete", reason="argcomplete is not installed")
    assert "lm-ma-es,pulse-full" in offered("lmma compare --methods lm-ma-es,pu")
    assert "reproduce" in offered("lmma re")
