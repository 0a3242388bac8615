"""`import lmma` is cheap and leaves everything as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

TIMED = """
import time
start = time.process_time()
import {module}
print(time.process_time() - start)
"""

STATE = """
import os, signal, sys, threading, warnings
import numpy as np
def state():
    return {
        "random": repr(np.random.get_state()),
        "printing": np.get_printoptions(),
        "errors": np.geterr(),
        "filters": list(warnings.filters),
        "signals": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "environment": dict(os.environ),
        "threads": threading.enumerate(),
        "kernel threads": len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0,
        "path": list(sys.path),
        "directory": os.getcwd(),
        "streams": (sys.stdout, sys.stderr, sys.excepthook),
    }
before = state()
import lmma
after = state()
for name in before:
    assert before[name] == after[name], name
"""


def python(code, directory, **variables):
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(SOURCE), *([known] if known else [])])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, env=os.environ | {"PYTHONPATH": path} | variables,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_import_costs_at_most_one_and_a_half_times_numpy(tmp_path):
    # Both from bytecode, written by a first import. Processor time, taken in turns, the least of each: what
    # else the machine does can only add to it.
    bytecode = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    python("import lmma", tmp_path, **bytecode)
    times = {"numpy": [], "lmma": []}
    for _ in range(6):
        for module in times:
            times[module].append(float(python(TIMED.format(module=module), tmp_path, **bytecode)))
    assert min(times["lmma"]) <= 1.5 * min(times["numpy"]), times


def test_import_touches_no_global_state(tmp_path):
    python(STATE, tmp_path)


def test_import_leaves_no_files_and_says_nothing(tmp_path):
    assert python("import lmma", tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["scipy", "matplotlib", "sklearn", "multiprocessing", "subprocess"])
def test_import_needs_numpy_alone(module, tmp_path):
    python(
        f"import sys, numpy; there = {module!r} in sys.modules\n"
        f"import lmma; assert there or {module!r} not in sys.modules",
        tmp_path,
    )
