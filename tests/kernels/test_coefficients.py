"""The coefficients of the normal numbers are those computed by benchmarks/normal_coefficients.py."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from lmma.kernels import reference

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("coefficients", ROOT / "benchmarks/normal_coefficients.py")
coefficients = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = coefficients  # dataclasses look their module up
_spec.loader.exec_module(coefficients)
SERIES = coefficients.SERIES


def test_the_header_holds_these_numbers_and_no_others():
    header = (ROOT / "src/lmma/kernels/core_normal.inc").read_text()
    spread = [float(number) for number in re.findall(r"SPREAD\((-?[0-9][0-9.e-]*)f?\)", header)]
    accounted = {number for series in SERIES.values() for number in series.in_use}
    assert set(spread) == accounted | set(coefficients.EXACT)


@pytest.mark.parametrize(("used", "name"), [(reference._SINE64, "sine64"), (reference._SINE32, "sine32")])
def test_the_reference_numbers_are_those_of_the_sine_times_root_two(used, name):
    np.testing.assert_allclose(used, np.sqrt(2) * np.array(SERIES[name].in_use), rtol=1e-13)


@pytest.mark.parametrize("name", SERIES)
def test_their_error_is_below_the_rounding_of_a_result(name):
    series = SERIES[name]
    assert coefficients.error_in_use(series) < series.bound


@pytest.mark.parametrize("name", SERIES)
def test_no_polynomial_of_the_degree_does_better_than_rounding_allows(name):
    # the constant 1 in place of the best one doubles the error of cosines; rounding coefficients below 2 to
    # float64 adds up to 2^-53
    least = float(coefficients.remez(SERIES[name])[1])
    used = coefficients.error_in_use(SERIES[name])
    assert least <= used <= 2.01 * least + 2.0**-53
