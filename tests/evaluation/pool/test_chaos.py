"""An objective that breaks in every way: the run reaches its target, and every fault is counted."""

import pytest

from chaos import assert_every_fault_is_counted


def test_every_fault_is_survived_and_counted(tmp_path):
    assert_every_fault_is_counted(4, 1.0, tmp_path, timeout=1.0, budget=4000)


@pytest.mark.slow
def test_every_fault_is_survived_and_counted_at_n_50(tmp_path):
    result, faults = assert_every_fault_is_counted(50, 1e-6, tmp_path, timeout=2.0, budget=100_000)
    assert result.fun <= 1e-6
    print(result.nfev, dict(faults), result.failed, result.deaths)
