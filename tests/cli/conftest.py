import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def environment():
    """An environment in which a new Python finds lmma, installed or not."""
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(SOURCE), *([known] if known else [])])
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "error", "COLUMNS": "100"}


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
