"""Messages on the command line name options as they are spelled there."""

import numpy as np
import pytest

from lmma.cli import main
from lmma.cli.options import with_flags


@pytest.mark.parametrize(("words", "said"), [
    ("minimize sphere --restarts x", "--restarts must be a whole number (0 for none), 'ipop'"),
    ("minimize sphere --dim -3", "at least 1, got '-3'"),
    ("minimize sphere --dim 1.5", "at least 1, got '1.5'"),
    ("minimize sphere --max-evaluations 1e-3", "at least 1, got '1e-3'"),
    ("minimize sphere --methd ma-es", "--methd ma-es (did you mean '--method'?)"),
    ("minimize sphere --log no/run.jsonl", "--log: no/run.jsonl cannot be written: no such file"),
    ("resume", "arguments are required: FILE (see"),
    ("resume text", "cannot use checkpoint"),
    ("show text", "text is not a checkpoint, log, archive or result of lmma"),
    ("plot text", "text is not a log written by lmma minimize --log"),
    ("plot numpy.npz", "numpy.npz is not a log written by lmma minimize --log"),
    ("watch numpy.npz --once a.html", "numpy.npz is not a log written by lmma minimize --log"),
    ("watch text --once a.html", "text is not a log written by lmma minimize --log"),
    ("check sphere --calls 1", "--calls must be a whole number of at least 20, got 1"),
    ("minimize --space a.toml", "variable 'a' has an unknown key 'low': use { real = [low, high] }"),
])  # fmt: skip
def test_a_mistake_is_answered_on_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("hello")
    (tmp_path / "a.toml").write_text("[variables]\na = { low = 0 }\n")
    np.savez(tmp_path / "numpy.npz", a=np.ones(9))
    assert main(words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(("text", "said"), [
    ("workers='mpi' found no other MPI processes", "--cluster mpi found no other MPI processes"),
    ("workers must be at most 9: more workers than cores rarely help",
     "--workers must be at most 9: more workers than cores rarely help"),
    ("constraints must be a function", "--constraints must be a function"),
    ("constraints contain no finite limit", "constraints contain no finite limit"),
    ("bounds cannot be combined with space, which defines the bounds",
     "--bounds cannot be combined with --space, which defines the bounds"),
])  # fmt: skip
def test_names_of_arguments_become_options_but_nouns_do_not(text, said):
    assert with_flags(ValueError(text)) == said


def test_the_help_of_check_and_train_describes_these_commands(capsys):
    assert main(["check", "--help"]) == 0
    check = " ".join(capsys.readouterr().out.split())
    assert "evaluations planned for the run" in check
    assert check.index("stopping options") < check.index("--calls N maximum") < check.index("output options")
    assert main(["train", "--help"]) == 0
    train = " ".join(capsys.readouterr().out.split())
    assert "without reaching --solved" in train
    assert "--target" not in train
