import pytest


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the long versions too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="long version: run with --slow"))
