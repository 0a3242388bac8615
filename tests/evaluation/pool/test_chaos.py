"""An objective that fails in every possible way: the run reaches its target and counts every failure."""

import sys

import pytest

from chaos import assert_every_fault_is_counted


@pytest.mark.parametrize("channel", ["shared", "piped"])
def test_every_fault_is_survived_and_counted(channel, monkeypatch, tmp_path):
    if channel == "piped":
        monkeypatch.setitem(sys.modules, "lmma.evaluation.pool.shared", None)
    assert_every_fault_is_counted(4, 1.0, tmp_path, timeout=1.0, budget=4000)


@pytest.mark.slow
def test_every_fault_is_survived_and_counted_at_n_50(tmp_path):
    result, faults = assert_every_fault_is_counted(50, 1e-6, tmp_path, timeout=2.0, budget=100_000)
    assert result.fun <= 1e-6
    print(result.nfev, dict(faults), result.failed, result.deaths)
