"""Commands and readers of other distributions, and messages if these are missing."""

import sqlite3
import sys
from importlib import metadata
from types import ModuleType

import pytest

from lmma.cli import COMMANDS, extensions, main

PLUGIN = """
from lmma.cli.extensions import Command, Reader
GREET = Command("say hello", "plugin_implementation")
PICTURE = Reader(b"\\x89PNG\\r\\n\\x1a\\n\\0", "plugin_implementation")
SOMETHING = 3
"""


def offer(monkeypatch, group, **values):
    """Have the installed distributions offer these entry points alone."""
    entries = [metadata.EntryPoint(name, value, group) for name, value in values.items()]
    monkeypatch.setattr(
        metadata, "entry_points", lambda **wanted: entries if wanted == {"group": group} else []
    )


@pytest.fixture
def plugin(monkeypatch):
    """A module with extensions; the one that implements them is not imported with it."""
    module, implementation = ModuleType("plugin"), ModuleType("plugin_implementation")
    exec(PLUGIN, vars(module))
    implementation.add_arguments = lambda parser: parser.add_argument("--name", default="world")
    implementation.run = lambda args: print(f"hello {args.name}") or 0
    implementation.rows_of = lambda file: [("picture", file.name)]
    monkeypatch.setitem(sys.modules, "plugin", module)
    return lambda: monkeypatch.setitem(sys.modules, "plugin_implementation", implementation)


@pytest.mark.parametrize("command", list(extensions.EXTERNAL_COMMANDS))
def test_a_command_of_the_lab_says_how_to_install_it(command, monkeypatch, capsys):
    offer(monkeypatch, "lmma.commands")
    for words in ([command], [command, "--help"], [command, "--out", "show"]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err == (f"lmma: {command} requires lmma-lab, which is not installed: pip install lmma-lab\n")


def test_our_commands_do_not_ask_who_else_is_installed(monkeypatch, capsys):
    def asked(**wanted):
        raise AssertionError("reading entry points is slow")

    monkeypatch.setattr(metadata, "entry_points", asked)
    assert main(["problems"]) == 0
    assert main(["minimize", "--help"]) == 0
    assert "sphere" in capsys.readouterr().out


def test_a_command_is_listed_without_its_module(plugin, monkeypatch, capsys):
    offer(monkeypatch, "lmma.commands", greet="plugin:GREET")
    assert main(["--help"]) == 0
    assert "say hello" in capsys.readouterr().out
    assert "plugin_implementation" not in sys.modules


def test_a_command_gets_its_arguments(plugin, monkeypatch, capsys):
    plugin()
    offer(monkeypatch, "lmma.commands", greet="plugin:GREET")
    assert main(["greet", "--name", "minimize"]) == 0
    assert capsys.readouterr().out == "hello minimize\n"
    assert main(["greet", "--nme", "x"]) == 2


def test_a_command_cannot_replace_one_of_ours(plugin, monkeypatch, capsys):
    offer(monkeypatch, "lmma.commands", minimize="plugin:GREET")
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "say hello" not in out
    assert COMMANDS["minimize"].module == "lmma.cli.minimize"


@pytest.mark.parametrize(
    ("value", "words"),
    [("plugin:SOMETHING", "is not a Command"), ("no_such_module:X", "cannot be loaded: ModuleNotFoundError")],
)
def test_a_broken_extension_is_reported_and_skipped(value, words, plugin, monkeypatch, capsys):
    offer(monkeypatch, "lmma.commands", greet=value)
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert "minimize" in out
    assert words in err
    assert err.count("\n") == 1


def test_a_reader_shows_its_kind_of_file(plugin, monkeypatch, capsys, tmp_path):
    plugin()
    offer(monkeypatch, "lmma.readers", picture="plugin:PICTURE")
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert main(["show", str(file)]) == 0
    assert capsys.readouterr().out == "picture       a.png\n"


def test_a_store_without_the_lab_says_how_to_install_it(monkeypatch, capsys, tmp_path):
    offer(monkeypatch, "lmma.readers")
    with sqlite3.connect(tmp_path / "store.sqlite") as db:
        db.execute("create table records (key text)")
    db.close()
    assert main(["show", str(tmp_path / "store.sqlite")]) == 2
    assert "pip install lmma-lab" in capsys.readouterr().err


def test_lmma_alone_never_imports_the_lab(python):
    code = (
        "import sys\n"
        "from lmma.cli import main\n"
        "main('minimize sphere --dim 3 --seed 1 --quiet --max-evaluations 50'.split())\n"
        "main(['check', 'sphere', '--dim', '3'])\n"
        "sys.exit(any(name.partition('.')[0] == 'lmma_lab' for name in sys.modules))"
    )
    python("-c", code, quiet=False)
