"""Output of the command line for noisy runs; noise is not mentioned without any."""

import json

NOISY = """
import numpy as np
rng = np.random.default_rng(1)
def loss(x):
    return float(x @ x + rng.standard_normal())
"""


def test_a_noisy_run_is_drawn_and_summed_up_with_its_noise(lmma, drawn, tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    words = ("minimize", "noisy:loss", "--x0", 3, "--dim", 6, "--seed", 1, "--noise", "auto")
    words += ("--max-evaluations", 2500, "--method", "lm-ma-es", "--quiet")
    done = lmma(*words, "--json", "--plot", "a.svg", "--log", "a.jsonl")
    outcome = json.loads(done.stdout)
    texts, _ = drawn("a.svg")
    assert {"rank quality", "learning rate", "average of recent candidates"} <= set(texts)
    assert f"result, {outcome['fun']:.3g} ± {outcome['fun_error']:.2g}" in texts
    assert outcome["noise"]["found"]
    assert outcome["noise"]["rate"] < 1
    assert 0 < outcome["fun_error"] < 2
    assert outcome["fun_seen"] < outcome["fun"]
    assert len(outcome["x_seen"]) == 6
    done = lmma(*words)
    assert f"{outcome['fun']:.6g} +- {outcome['fun_error']:.2g} (best observed" in done.stdout
    assert f"rank quality {max(0.0, outcome['noise']['quality']):.2f}" in done.stdout
    said = lmma("show", "a.jsonl").stdout
    assert "of recent candidates" in said
    assert "rank quality" in said
    assert lmma("plot", "a.jsonl", "--output", "b.svg").returncode == 0
    texts, _ = drawn("b.svg")
    assert {"rank quality", "learning rate", "value"} <= set(texts)


def test_a_grown_population_is_reported_with_the_initial_one(lmma, tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    words = ("minimize", "noisy:loss", "--x0", 3, "--dim", 6, "--seed", 1, "--noise", "population")
    done = lmma(*words, "--max-evaluations", 3000, "--popsize", 10)
    assert "generations of 10, then up to" in done.stdout
    assert "times the candidates" in done.stdout
    assert "times the candidates" in done.stderr  # the line of progress
    assert "evaluations per candidate" not in done.stderr


def test_a_result_without_noise_does_not_speak_of_it(lmma):
    outcome = json.loads(lmma("minimize", "sphere", "--dim", 3, "--seed", 1, "--json", "--quiet").stdout)
    assert {"noise", "fun_error", "fun_seen", "x_seen"}.isdisjoint(outcome)
