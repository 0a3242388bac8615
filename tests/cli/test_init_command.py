"""lmma init writes two files that run unchanged, and never overwrites existing ones."""

import json
import os
import re
import sys

import pytest

from lmma.cli import init, main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("model", None)


def test_the_files_run_as_they_are(capsys, tmp_path):
    assert main(["init"]) == 0
    out = capsys.readouterr().out
    assert "lmma minimize --space space.toml" in out
    assert sorted(os.listdir()) == ["model.py", "space.toml"]
    assert main(["minimize", "--space", "space.toml", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failures"] == 0
    assert found["maxcv"] <= 1e-8
    assert set(found["x"]) == {"diameter", "wall", "insulation", "ribs", "material"}
    assert main(["check", "--space", "space.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"] == 0


def test_every_option_in_the_comments_can_be_used(lmma, tmp_path):
    main(["init"])
    lines = (tmp_path / "space.toml").read_text().splitlines()
    active = [re.sub(r"^# ([\w-]+ = )", r"\1", line) for line in lines]
    assert sum(a != b for a, b in zip(active, lines, strict=True)) >= 8
    budget = "max-evaluations = 2000"
    (tmp_path / "space.toml").write_text("\n".join(active).replace(budget, "max-evaluations = 60"))
    (tmp_path / "model.py").write_text(
        (tmp_path / "model.py").read_text().replace("ribs, material)", "ribs, material, thickness, gravity)")
    )
    done = lmma("minimize", "--space", "space.toml", "--json", "--quiet")
    assert done.returncode in (0, 1), done.stderr  # 60 evaluations may not find a feasible point
    found = json.loads(done.stdout)
    assert (found["failures"], len(found["x"]["thickness"])) == (0, 10)
    assert {"run.npz", "run.jsonl"} <= set(os.listdir())


@pytest.mark.parametrize("name", list(init.FILES))
def test_a_file_that_exists_is_kept(name, capsys, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / name).write_text("mine")
    assert main(["init", "here"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert name in err
    assert "--force" in err
    assert [path.read_text() for path in (tmp_path / "here").iterdir()] == ["mine"]
    assert main(["init", "here", "--force"]) == 0
    assert sorted(os.listdir("here")) == ["model.py", "space.toml"]
    assert (tmp_path / "here" / name).read_text() == init.FILES[name]


def test_a_link_to_nowhere_counts_as_a_file(tmp_path):
    (tmp_path / "model.py").symlink_to(tmp_path / "other.py")
    assert main(["init"]) == 2
    assert not (tmp_path / "other.py").exists()


def test_a_new_folder_is_made_and_named(capsys):
    assert main(["init", "a new/one"]) == 0
    assert "cd 'a new/one'" in capsys.readouterr().out
    assert sorted(os.listdir("a new/one")) == ["model.py", "space.toml"]


def test_a_folder_that_cannot_be_made_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["init", "file/inside"]) == 4
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "file" in err
