"""`lmma bench cost`: the table, the record and the plot."""

import json

import numpy as np
import pytest

from lmma import kernels
from lmma.output.plotting.style import COLOURS
from lmma_lab.peers import ADAPTORS
from lmma_lab.plotting import time_per_sample
from lmma_lab.timing import cost, generations
from lmma_lab.timing.stopwatch import best_times
from pictures import colours_in


def test_the_command_writes_a_table_a_record_and_a_plot(lmma, tmp_path):
    done = lmma(
        "bench",
        "cost",
        "--dims",
        "8,12",
        "--repeat",
        "1",
        "--patience",
        "0.01",
        "--no-peers",
        "--out",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "lm-ma-es, float32" in done.stdout
    record = json.loads((tmp_path / "cost.json").read_text())
    for n in ("8", "12"):
        assert all(seconds > 0 for seconds in record["seconds"][n].values())
        assert {"NumPy's draw", "memory copy", "lm-ma-es", "ma-es"} <= set(record["seconds"][n])
    assert set(COLOURS[:4]) <= colours_in(tmp_path / "cost.png")  # lm-ma-es four times, and more


def test_the_figure_shows_microseconds_per_sample_of_every_contender():
    seconds = {"8": {"memory copy": 1e-6, "lm-ma-es": 4e-6, "pycma": 8e-6}, "16": {"lm-ma-es": 1e-5}}
    axes = time_per_sample({"seconds": seconds, "popsize": {"8": 4, "16": 5}}).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["lm-ma-es"].get_xydata().tolist() == [[8, pytest.approx(1.0)], [16, pytest.approx(2.0)]]
    assert lines["memory copy"].get_xydata().tolist() == [[8, pytest.approx(0.25)]]
    assert [lines[name].get_linestyle() for name in ("memory copy", "lm-ma-es", "pycma")] == [":", "-", "--"]
    assert "variables" in axes.get_xlabel()
    assert "microseconds" in axes.get_ylabel()


def test_peers_that_are_missing_are_left_out_with_a_word(monkeypatch):
    class Missing(ADAPTORS["lmmaes"]):
        def _start(self, mean, sigma, seed):
            raise ImportError("No module named 'elsewhere'")

    monkeypatch.setitem(ADAPTORS, "elsewhere", Missing)
    monkeypatch.setattr(cost, "OTHERS", {"elsewhere ES": "elsewhere"})
    said = []
    found = cost.contenders(8, True, said.append)
    assert "elsewhere ES" not in found
    assert "lm-ma-es" in found
    assert "elsewhere ES: skipped, No module named 'elsewhere'" in said


def test_every_peer_of_the_table_has_an_adaptor():
    assert set(cost.OTHERS.values()) <= set(ADAPTORS)


def test_the_exponent_is_that_of_the_time_a_sample():
    lam = cost.default_popsize
    assert cost.exponent({n: n**1.25 * lam(n) for n in (1000, 10_000, 100_000)}) == pytest.approx(1.25)
    assert cost.exponent({128: 1.0, 1000: 2.0}) is None


def test_numpy_kernels_serve_one_generation_only(monkeypatch):
    if not kernels.backend().startswith("compiled"):
        pytest.skip("the compiled core was not built")
    before = kernels.normals, kernels.lm_sample
    generations.on_numpy("lm-ma-es", 20)()
    assert (kernels.normals, kernels.lm_sample) == before


def test_the_best_of_all_turns_counts():
    calls = []
    times = best_times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2, 1.0)
    assert set(times) == {"a", "b"}
    assert np.isfinite(list(times.values())).all()
    assert calls.index("b") < len(calls) - 1 - calls[::-1].index("a")  # they take turns
