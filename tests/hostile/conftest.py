import pytest
from fuzzing import Fuzzer


@pytest.fixture
def fuzz(request, record_property):
    """Runs a case for many seeds, ``short`` of them or with --slow ``long``; prints what came of them."""
    return Fuzzer(request.node, request.config.getoption("--slow"), record_property)
