"""``lmma show`` recognises and summarises each kind of file, and runs nothing."""

import numpy as np
import pytest

import lmma
from lmma._archive import read, write
from lmma.cli import main


def sphere(x):
    return float(x @ x)


def test_a_checkpoint_of_the_command_line(shown, capsys, tmp_path):
    file, log = tmp_path / "run.npz", tmp_path / "run.jsonl"
    words = [
        "minimize",
        "ellipsoid",
        "--dim",
        "8",
        "--seed",
        "1",
        "--max-evaluations",
        "300",
        "--values",
        "ranks",
    ]
    main([*words, "--noise", "none", "--checkpoint", str(file), "--log", str(log), "--json"])
    capsys.readouterr()
    said = shown(file)
    assert said["method"].startswith("pulse-full, n = 8, 10 candidates per generation")
    assert said["evaluations"] == "300 in 30 generations"
    assert "maxfevals = 300" in said["stopped"]
    assert said["command"].startswith("lmma minimize ellipsoid --dim 8")
    assert said["to continue"] == f"lmma resume {file} with a larger --max-evaluations"
    best = f"{read(file)[0]['counters']['best_fun']:.10g}"
    assert said["best value"] == best
    said = shown(log)
    assert said["best value"] == best
    assert said["evaluations"] == "300 in 30 generations"
    assert said["to plot"] == f"lmma plot {log}, or lmma watch"
    assert said["stopped"].startswith("maxfevals")


def test_a_checkpoint_of_a_program_and_its_x(shown, tmp_path):
    file = tmp_path / "run.npz"
    result = lmma.minimize(
        sphere, [1.0] * 5, 0.5, rng=1, maxfevals=3000, restarts=3, tolfun=1, checkpoint=file
    )
    said = shown(file, "--save-x", tmp_path / "x.npy")
    assert np.array_equal(np.load(tmp_path / "x.npy"), result.x)
    assert said["objective"] == "sphere"
    assert f"checkpoint={str(file)!r}" in said["to continue"]
    assert said["restarts"].startswith(f"{len(result.runs) - 1} so far")


def test_a_run_that_was_killed_has_not_stopped(shown, tmp_path):
    from lmma.checkpoint import Checkpoint

    file = tmp_path / "run.npz"
    seen = []

    def callback(x):
        seen.append(shown(file)["stopped"] if file.exists() else "")

    lmma.minimize(sphere, [1.0] * 5, 0.5, maxiter=3, checkpoint=Checkpoint(file, every=0), callback=callback)
    assert "still running, or killed" in seen[-1]
    assert "maxiter = 3" in shown(file)["stopped"]


def test_a_result(shown, tmp_path):
    file = tmp_path / "result.npz"
    result = lmma.minimize(sphere, [1.0] * 50, 0.5, rng=1, maxfevals=300)
    result.save(file)
    said = shown(file, "--save-x", tmp_path / "x.txt")
    assert np.array_equal(np.loadtxt(tmp_path / "x.txt"), result.x)
    assert said["method"] == f"{result.method}, n = 50"
    assert said["stopped"] == result.message
    assert "lmma.load(" in said["to continue"]


def test_damaged_empty_and_missing_files_are_rejected_in_one_line(refused, tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(sphere, [1.0] * 5, 0.5, maxfevals=80, checkpoint=file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-200])
    assert "checksum" in refused(file)
    assert "cannot be read" in refused(tmp_path / "nothing.npz")
    assert "cannot be read" in refused(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert "contains no records yet" in refused(tmp_path / "empty")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 4)
    assert "is not a checkpoint, log" in refused(tmp_path / "noise")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    assert "cannot use checkpoint" in refused(tmp_path / "other.npz")


def test_a_log_has_no_x(refused, tmp_path):
    log = tmp_path / "run.jsonl"
    lmma.minimize(sphere, [1.0] * 5, 0.5, maxfevals=80, log=log)
    assert "contains no x" in refused(log, "--save-x", tmp_path / "x.npy")


def test_the_file_itself_is_not_written_over(refused, tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    assert "choose another name" in refused(tmp_path / "x.npy", "--save-x", tmp_path / "x.npy")


def test_control_characters_are_escaped(capsys, tmp_path):
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


def test_a_checkpoint_of_a_noisy_run_shows_averages_and_the_best_observed_value(shown, tmp_path):
    rng = np.random.default_rng(1)

    def search(noise, file):
        start, options = np.full(6, 3.0), {"rng": 1, "maxfevals": 2000, "method": "lm-ma-es"}
        fun = lambda x: sphere(x) + rng.standard_normal()  # noqa: E731
        return lmma.minimize(fun, start, 1.0, noise=noise, checkpoint=tmp_path / file, **options)

    result = search("auto", "noisy.npz")
    said = shown(tmp_path / "noisy.npz")
    assert said["average"].endswith("of recent candidates")
    assert float(said["average"].split()[0]) > float(said["best value"]) == pytest.approx(result.fun_seen)
    assert said["noise"].startswith(f"rank quality {max(0.0, result.noise['quality']):.2f}, learning rate")
    search(None, "plain.npz")
    assert {"average", "noise"}.isdisjoint(shown(tmp_path / "plain.npz"))
