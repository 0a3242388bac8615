import os
import subprocess
import sys

import pytest

from lmma.kernels import twin

try:
    from lmma.kernels import _core, compiled
except ImportError:
    _core = None


def _instruction_sets():
    """Every set of kernels this machine can run, the NumPy twin first."""
    if _core is None:
        return ["numpy"]
    here = _core.instructions()
    return ["numpy", "portable"] if here == "portable" else ["numpy", "portable", here]


@pytest.fixture(params=_instruction_sets())
def kernels(request):
    """The kernels' functions, in turn from NumPy and compiled for each instruction set."""
    if request.param == "numpy":
        yield twin
        return
    before = _core.instructions()
    _core.instructions(request.param)
    yield compiled
    _core.instructions(before)


@pytest.fixture(params=_instruction_sets()[1:] or [None])
def core(request):
    """The compiled core, once for each instruction set."""
    if request.param is None:
        pytest.skip("the compiled core was not built")
    before = _core.instructions()
    _core.instructions(request.param)
    yield compiled
    _core.instructions(before)


@pytest.fixture
def run_python():
    """Return a function that runs code in a process of its own, with more environment variables."""

    def run(code, **environment):
        return subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
        )

    return run
