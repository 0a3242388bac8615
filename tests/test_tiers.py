"""The tests excluded from the fast tier exist."""

import pytest

from repository import ROOT
from tiers import FULL


@pytest.mark.parametrize("entry", FULL)
def test_excluded_tests_exist(entry):
    path, _, name = entry.partition("::")
    assert (ROOT / path).exists()
    assert path.endswith("/") == (ROOT / path).is_dir()
    assert not name or f"def {name}" in (ROOT / path).read_text(encoding="utf-8")
