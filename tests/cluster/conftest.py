"""Tests on real clusters; the clusters themselves are in ``real_clusters.py``."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def always_importable(importable):
    """Have all processes that these tests start find lmma where this one found it."""
