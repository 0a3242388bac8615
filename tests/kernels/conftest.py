import pytest

from lmma.kernels import reference

try:
    from lmma.kernels import _core, native
except ImportError:
    _core = None


def _instruction_sets():
    """Every set of kernels this machine can run, the reference implementation first."""
    if _core is None:
        return ["numpy"]
    here = _core.instructions()
    return ["numpy", "portable"] if here == "portable" else ["numpy", "portable", here]


@pytest.fixture(params=_instruction_sets())
def kernels(request):
    """The kernels' functions, in turn from NumPy and compiled for each instruction set."""
    if request.param == "numpy":
        yield reference
        return
    before = _core.instructions()
    _core.instructions(request.param)
    yield native
    _core.instructions(before)


@pytest.fixture(params=_instruction_sets()[1:] or [None])
def core(request):
    """The compiled core, once for each instruction set."""
    if request.param is None:
        pytest.skip("the compiled core was not built")
    before = _core.instructions()
    _core.instructions(request.param)
    yield native
    _core.instructions(before)
