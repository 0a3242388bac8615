import re
import subprocess
import sys

import pytest


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
