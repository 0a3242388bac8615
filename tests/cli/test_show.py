"""``lmma show``: each kind of file is told apart and summed up; nothing in it is run."""

import sqlite3

import numpy as np
import pytest

import lmma
from lmma.cli import main
from lmma.run.checkpoint_file import read, write
from lmma.store import Store


def sphere(x):
    return float(x @ x)


@pytest.fixture
def shown(capsys):
    """Returns what ``lmma show`` says, as label -> text."""

    def show(*words):
        assert main(["show", *map(str, words)]) == 0
        lines = capsys.readouterr().out.splitlines()
        return {line[:12].strip(): line[14:] for line in lines}

    return show


@pytest.fixture
def refused(capsys):
    """Returns the one line in which ``lmma show`` refuses a file."""

    def show(*words):
        assert main(["show", *map(str, words)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return show


def test_a_checkpoint_of_the_command_line(shown, capsys, tmp_path):
    file, log = tmp_path / "run.npz", tmp_path / "run.jsonl"
    words = ["minimize", "ellipsoid", "--dim", "8", "--seed", "1", "--max-evaluations", "300"]
    main([*words, "--checkpoint", str(file), "--log", str(log), "--json"])
    capsys.readouterr()
    said = shown(file)
    assert said["method"].startswith("pulse-full, n = 8, 10 a generation")
    assert said["evaluations"] == "300 in 30 generations"
    assert "maxfevals = 300" in said["stopped"]
    assert said["begun by"].startswith("lmma minimize ellipsoid --dim 8")
    assert said["to go on"] == f"lmma resume {file}"
    best = f"{read(file)[0]['counters']['best_fun']:.10g}"
    assert said["best value"] == best
    said = shown(log)
    assert said["best value"] == best
    assert said["evaluations"] == "300 in 30 generations"
    assert said["to see it"] == f"lmma plot {log}, or lmma watch"
    assert said["stopped"].startswith("maxfevals")


def test_a_checkpoint_of_a_program_and_its_x(shown, tmp_path):
    file = tmp_path / "run.npz"
    result = lmma.minimize(
        sphere, [1.0] * 5, 0.5, rng=1, maxfevals=3000, restarts=3, tolfun=1, checkpoint=file
    )
    said = shown(file, "--save-x", tmp_path / "x.npy")
    assert np.array_equal(np.load(tmp_path / "x.npy"), result.x)
    assert said["objective"] == "sphere"
    assert f"checkpoint={str(file)!r}" in said["to go on"]
    assert said["restarts"].startswith(f"{len(result.runs) - 1} so far")


def test_a_run_that_was_killed_has_not_stopped(shown, tmp_path):
    from lmma.checkpoint import Checkpoint

    file = tmp_path / "run.npz"
    seen = []

    def callback(x):
        seen.append(shown(file)["stopped"] if file.exists() else "")

    lmma.minimize(sphere, [1.0] * 5, 0.5, maxiter=3, checkpoint=Checkpoint(file, every=0), callback=callback)
    assert "goes on, or was killed" in seen[-1]
    assert "maxiter = 3" in shown(file)["stopped"]


def test_a_result(shown, tmp_path):
    file = tmp_path / "result.npz"
    result = lmma.minimize(sphere, [1.0] * 50, 0.5, rng=1, maxfevals=300)
    result.save(file)
    said = shown(file, "--save-x", tmp_path / "x.txt")
    assert np.array_equal(np.loadtxt(tmp_path / "x.txt"), result.x)
    assert said["method"] == f"{result.method}, n = 50"
    assert said["stopped"] == result.message
    assert "lmma.load(" in said["to go on"]


def test_a_store_is_read_and_not_touched(shown, tmp_path):
    file = tmp_path / "store.sqlite"
    with Store(file) as store:
        for number in range(3):
            record = {"kind": "run", "spec": {"method": "ma-es", "n": 10 + number}}
            store.put(f"key{number}", "run", record)
        store.claim(["another"])
        said = shown(file)  # while somebody has it open
        assert said["in flight"] == "1"
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = shown(file)
    assert said["store"].endswith("3 records")
    assert said["records"] == "3 of run"
    assert said["methods"] == "ma-es (3)"
    assert said["n"] == "10, 11, 12"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_databases_and_views_are_refused(refused, tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("create table people (name text)")
    db.close()
    assert "no store of lmma" in refused(other)
    Store(tmp_path / "store.sqlite").close()
    db = sqlite3.connect(tmp_path / "store.sqlite")
    db.execute(
        "create view forever as with recursive c(x) as (select 1 union all select x from c) select x from c"
    )
    db.commit()
    db.close()
    assert "no store of lmma" in refused(tmp_path / "store.sqlite")
    (tmp_path / "store.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert "cannot be read" in refused(tmp_path / "store.sqlite")


def test_damaged_empty_and_missing_files_are_refused_in_one_line(refused, tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(sphere, [1.0] * 5, 0.5, maxfevals=80, checkpoint=file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-200])
    assert "checksum" in refused(file)
    assert "cannot be read" in refused(tmp_path / "nothing.npz")
    assert "cannot be read" in refused(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert "holds no records yet" in refused(tmp_path / "empty")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 4)
    assert "is no log" in refused(tmp_path / "noise")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    assert "refused" in refused(tmp_path / "other.npz")


def test_there_is_no_x_in_a_log(refused, tmp_path):
    log = tmp_path / "run.jsonl"
    lmma.minimize(sphere, [1.0] * 5, 0.5, maxfevals=80, log=log)
    assert "--save-x: there is no x" in refused(log, "--save-x", tmp_path / "x.npy")


def test_the_file_itself_is_not_written_over(refused, tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    assert "name another" in refused(tmp_path / "x.npy", "--save-x", tmp_path / "x.npy")


def test_what_a_terminal_would_obey_is_spelled_out(capsys, tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(sphere, [1.0] * 5, 0.5, maxfevals=80, checkpoint=file)
    header, arrays = read(file)
    header["identity"]["fun"] = "\x1b[2J\x1b]0;title\x07 gone\nbest value    0"
    header["ended"] = "\x9b31m" + "long " * 10_000
    header["extra"] = {"words": ["minimize", "\x1b[2J"]}
    header.pop("arrays")
    write(file, header, arrays)
    assert main(["show", str(file)]) == 0
    out = capsys.readouterr().out
    assert all(sign.isprintable() for sign in out.replace("\n", ""))
    assert max(map(len, out.splitlines())) < 450
    assert sum(line.startswith("best value") for line in out.splitlines()) == 1


def test_a_checkpoint_of_a_noisy_run_shows_averages_beside_the_luckiest_value(shown, tmp_path):
    rng = np.random.default_rng(1)

    def search(noise, file):
        start, options = np.full(6, 3.0), {"rng": 1, "maxfevals": 2000, "method": "lm-ma-es"}
        fun = lambda x: sphere(x) + rng.standard_normal()  # noqa: E731
        return lmma.minimize(fun, start, 1.0, noise=noise, checkpoint=tmp_path / file, **options)

    result = search("auto", "noisy.npz")
    said = shown(tmp_path / "noisy.npz")
    assert said["average"].endswith("of recent candidates")
    assert float(said["average"].split()[0]) > float(said["best value"]) == pytest.approx(result.fun_seen)
    assert said["noise"].startswith(
        f"quality of ranks {max(0.0, result.noise['quality']):.2f}, learning rate"
    )
    search(None, "plain.npz")
    assert {"average", "noise"}.isdisjoint(shown(tmp_path / "plain.npz"))
