"""The compiled core builds with GCC and with Clang, without a warning, and works.

An installation where it does not build continues without it: only this check shows the failure.
"""

import subprocess
import sys

import pytest

import native

USE = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
from lmma.kernels import reference
for dtype, eps in ((np.float64, 1e-14), (np.float32, 1e-5)):
    for instructions in dict.fromkeys(("portable", core.instructions())):
        core.instructions(instructions)
        ours, wanted = np.empty((7, 1001), dtype), np.empty((7, 1001), dtype)
        core.normals(1, 2, 3, 4, ours, 2)
        reference.normals((1, 2), 3, 4, wanted)
        assert np.max(abs(ours - wanted)) < eps, instructions
print(core.instructions())
"""


def used(module):
    """Return what a process says that uses the module."""
    done = subprocess.run([sys.executable, "-c", USE, module], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_core_builds_without_a_warning_and_works(compiler, tmp_path):
    installed = pytest.importorskip("lmma.kernels._core", reason="the compiled core was not built")
    (made,) = native.build(native.ROOT, native.available(compiler), tmp_path, native.STRICT)
    assert used(made) == used(installed.__file__)  # the same instruction sets: AVX2 where the machine has it


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_core_builds_without_vectors(compiler, tmp_path):
    flags = [*native.STRICT, "-DLMMA_NO_VECTORS"]
    (made,) = native.build(native.ROOT, native.available(compiler), tmp_path, flags)
    assert used(made) == "portable\n"


MANY = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
path = np.ones(3)
core.fade(path, 0.5, 0.5, np.ones(3))
try:
    core.lm_gram(np.eye(3), path, path, path, 1.0)
except SystemError as error:
    print(error)
"""


@pytest.mark.slow
def test_more_arrays_than_a_call_can_hold_are_an_error(tmp_path):
    (made,) = native.build(native.ROOT, native.available("gcc"), tmp_path, ["-O1", "-DMOST_VIEWS=3"])
    done = subprocess.run([sys.executable, "-c", MANY, made], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "u: a call cannot hold more than 3 arrays\n"), done.stderr


def test_a_build_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="no-such-flag"):
        native.build(native.ROOT, native.available("gcc"), tmp_path, ["-fno-such-flag-as-this"])


def test_every_source_of_the_core_is_named_in_setup_and_shipped():
    (extension,) = native.extensions(native.ROOT)
    folder = native.ROOT / "src/lmma/kernels"
    sources = {path for kind in ("c", "h", "inc") for path in folder.glob(f"*.{kind}")}
    assert {native.ROOT / name for name in extension["sources"] + extension["depends"]} == sources
    shipped = (native.ROOT / "MANIFEST.in").read_text().split()
    assert {"*.h", "*.inc"} <= set(shipped)


def test_the_built_modules_are_those_that_setup_names():
    (extension,) = native.extensions(native.ROOT)
    assert extension["name"] == "lmma.kernels._core"
    for source in extension["sources"]:
        assert (native.ROOT / source).exists()
