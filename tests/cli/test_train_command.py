"""``lmma train``; skipped where Gymnasium is not installed."""

import json

import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'lmma[rl]'")

SHORT = ("--seed", 1, "--test-episodes", 20, "--quiet")


def test_trains_saves_draws_and_plays(lmma, drawn):
    done = lmma("train", "CartPole-v1", *SHORT, "--save", "policy.npz", "--plot", "curve.svg")
    assert done.returncode == 0, done.stderr
    assert "mean policy over 20 fresh episodes" in done.stdout
    assert done.stderr == ""
    texts, curves = drawn("curve.svg")
    assert "solved 475" in texts
    assert max(curves) >= 2
    played = lmma("train", "CartPole-v1", "--play", "policy.npz", "--episodes", 10, "--json")
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["reward"] > 400
    shown = lmma("show", "policy.npz")
    assert "CartPole-v1" in shown.stdout


def test_the_same_command_resumes_to_the_same_result(lmma):
    words = ("train", "CartPole-v1", *SHORT, "--solved", "none", "--json", "--no-stagnation", "--tolfun", 0)
    whole = json.loads(lmma(*words, "--max-evaluations", 80).stdout)
    lmma(*words, "--max-evaluations", 30, "--checkpoint", "run.npz")
    again = json.loads(lmma(*words, "--max-evaluations", 80, "--checkpoint", "run.npz").stdout)
    for result in (whole, again):
        del result["seconds"], result["curve"]["seconds"]
    assert whole == again
    assert whole["nfev"] == 80
    assert whole["exit_status"] == 0
    refused = lmma("resume", "run.npz")
    assert refused.returncode == 2
    assert "repeat the command" in refused.stderr


def test_progress_is_shown_in_episodes(lmma):
    done = lmma("train", "CartPole-v1", "--seed", 1, "--test-episodes", 20)
    assert "episodes" in done.stderr
    assert "mean policy" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("CartPol-v1",), "did you mean CartPole-v1"),
        (("CartPole-v1", "--policy", "mpl:3"), "--policy must be"),
        (("CartPole-v1", "--render"), "--play"),
        (("CartPole-v1", "--play", "nothing.npz"), "does not exist"),
        (("CartPole-v1", "--play", "nothing.npz", "--save", "x.npz"), "cannot be combined with --play"),
        (("CartPole-v1", "--save", "policy.txt"), ".npz"),
        (("CartPole-v1", "--save", "a.npz", "--checkpoint", "a.npz"), "both name"),
        (("CartPole-v1", "--solved", "high"), "expected a number"),
        (("CartPole-v1", "--bounds", "0,1"), "unrecognized"),
        (("CartPole-v1", "--max-evaluations", "3"), "--max-evaluations"),
    ],
    ids=lambda value: None if isinstance(value, str) else "_".join(value[1:]) or "misspelt",
)
def test_mistakes_are_reported_in_one_line(lmma, words, told):
    done = lmma("train", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
