"""Options and fixtures of both test trees, tests/ and lab/tests/."""

import os
import re
import signal
import subprocess
import sys

import pytest

from repository import SOURCES
from tiers import FULL

pytest_plugins = ["real_clusters"]

# Signals, shared memory and clusters of POSIX systems; tests/evaluation/test_piped_pool.py runs everywhere.
POSIX = [
    "tests/cli/test_processes.py",
    "tests/cluster",
    "tests/evaluation/cluster",
    "tests/evaluation/pool",
    "tests/hostile/test_fuzz_pool.py",
]
collect_ignore = [] if os.name == "posix" else POSIX

# A job started in the background ignores Ctrl-C, and so would every program that a test starts to interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the long versions too")
    parser.addoption("--fast", action="store_true", help="leave out what tests/tiers.py lists")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    for item in items:  # a cluster's tests all in one process of xdist, so that it is started once
        names = [*getattr(item, "fixturenames", ()), item.nodeid]
        if "ray_session" in names or "tests/cluster" in item.nodeid:
            other = "ray_session" in names or "[ray" in item.nodeid or "mpi" in item.nodeid
            item.add_marker(pytest.mark.xdist_group("ray" if other else "dask"))
    if config.getoption("--fast"):
        left_out = [item for item in items if item.nodeid.startswith(FULL)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.nodeid.startswith(FULL)]
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="long version: run with --slow"))


@pytest.fixture
def environment():
    """An environment in which a new Python finds lmma, installed or not, and takes warnings for errors."""
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([SOURCES, *([known] if known else [])])
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


@pytest.fixture
def lmma(environment, tmp_path):
    """Runs ``lmma ...`` as a process of its own in an empty directory."""

    def run(*words, **options):
        return subprocess.run(
            [sys.executable, "-m", "lmma", *map(str, words)],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, **options,
        )  # fmt: skip

    return run


@pytest.fixture
def started(environment, tmp_path):
    """Starts ``lmma ...`` and returns the process; whatever still runs at the end is killed."""
    processes = []

    def start(*words, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        command = [sys.executable, "-m", "lmma", *map(str, words)]
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def drawn(tmp_path):
    """Returns what an SVG shows: its texts, and how many points each curve inside its axes has."""

    def read(name):
        svg = (tmp_path / name).read_text(encoding="utf-8")
        curves = re.findall(r'<path d="([^"]*)" clip-path', svg)
        return re.findall(r"<!-- (.*?) -->", svg), [len(re.findall("[ML]", curve)) for curve in curves]

    return read


@pytest.fixture
def run_python():
    """Return a function that runs code in a process of its own, with more environment variables."""

    def run(code, **environment):
        return subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
        )

    return run


@pytest.fixture
def fuzz(request, record_property):
    """Runs a case for many seeds, ``short`` of them or with --slow ``long``; prints what came of them."""
    from fuzzing import Fuzzer

    return Fuzzer(request.node, request.config.getoption("--slow"), record_property)


@pytest.fixture
def shown(capsys):
    """Returns what ``lmma show`` says, as label -> text."""

    from lmma.cli import main

    def show(*words):
        assert main(["show", *map(str, words)]) == 0
        lines = capsys.readouterr().out.splitlines()
        return {line[:12].strip(): line[14:] for line in lines}

    return show


@pytest.fixture
def refused(capsys):
    """Returns the one line in which ``lmma show`` refuses a file."""

    from lmma.cli import main

    def show(*words):
        assert main(["show", *map(str, words)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return show
