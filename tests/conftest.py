import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["real_clusters"]
SOURCE = Path(__file__).resolve().parents[1] / "src"

# Worker processes, signals and clusters as POSIX systems have them; elsewhere they are refused.
POSIX = [
    "cli/test_processes.py",
    "cluster",
    "evaluation/cluster",
    "evaluation/pool",
    "hostile/test_fuzz_pool.py",
]
collect_ignore = [] if os.name == "posix" else POSIX

# A job started in the background ignores Ctrl-C, and so would every program that a test starts to interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the long versions too")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    for item in items:  # a cluster's tests all in one process of xdist, so that it is started once
        names = [*getattr(item, "fixturenames", ()), item.nodeid]
        if "ray_session" in names or "tests/cluster" in item.nodeid:
            other = "ray_session" in names or "[ray" in item.nodeid or "mpi" in item.nodeid
            item.add_marker(pytest.mark.xdist_group("ray" if other else "dask"))
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="long version: run with --slow"))


@pytest.fixture
def environment():
    """An environment in which a new Python finds lmma, installed or not, and takes warnings for errors."""
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(SOURCE), *([known] if known else [])])
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "error", "COLUMNS": "100"}


@pytest.fixture
def python(environment, tmp_path):
    """Runs ``python ...`` as a process of its own in an empty directory; returns what it printed."""

    def run(*words, env=None, quiet=True, timeout=300):
        done = subprocess.run(
            [sys.executable, *map(str, words)], cwd=tmp_path, env=environment | (env or {}),
            capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        assert not (quiet and done.stderr), f"{words}\n{done.stderr}"
        return done.stdout

    return run
