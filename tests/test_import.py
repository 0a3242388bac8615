"""`import lmma` is fast and has no side effects."""

import statistics

import pytest

TIMED = """
import time
start = time.process_time()
import numpy
middle = time.process_time()
import lmma
print((time.process_time() - start) / (middle - start))
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


def test_import_costs_at_most_one_and_a_half_times_numpy(python, tmp_path):
    # From bytecode, written by a first import. Processor time of both in one process, so that what else the
    # machine does slows them alike; the median, so that it does not matter where it does not.
    bytecode = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    python("-c", TIMED, env=bytecode)
    ratios = [float(python("-c", TIMED, env=bytecode)) for _ in range(9)]
    assert statistics.median(ratios) <= 1.5, ratios


def test_import_touches_no_global_state(python):
    python("-c", STATE)


def test_import_leaves_no_files_and_says_nothing(python, tmp_path):
    assert python("-c", "import lmma") == ""
    assert list(tmp_path.iterdir()) == []


def test_import_needs_numpy_alone(python):
    code = (
        "import sys, numpy\n"
        "before = {name.partition('.')[0] for name in sys.modules}\n"
        "import lmma\n"
        "after = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*after - before - sys.stdlib_module_names)"
    )
    assert python("-c", code) == "lmma\n"


@pytest.mark.parametrize("module", ["multiprocessing", "subprocess", "sqlite3", "json", "zipfile"])
def test_import_leaves_alone_what_only_some_runs_need(module, python):
    code = (
        "import sys, numpy\nbefore = {0!r} in sys.modules\nimport lmma\nprint(before, {0!r} in sys.modules)"
    )
    assert python("-c", code.format(module)) == "False False\n"
