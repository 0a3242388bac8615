"""Both compiled modules build with GCC and with Clang, without a warning, and work.

An installation where they do not build goes on without them: only a check that fails brings it to light.
"""

import shutil
import subprocess
import sys

import pytest

import native

USE = """
import importlib.util, sys
import numpy as np
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
core, forest = load("_core", sys.argv[1]), load("_forest", sys.argv[2])
from lmma.kernels import twin
for dtype, eps in ((np.float64, 1e-14), (np.float32, 1e-5)):
    for instructions in dict.fromkeys(("portable", core.instructions())):
        core.instructions(instructions)
        ours, wanted = np.empty((7, 1001), dtype), np.empty((7, 1001), dtype)
        core.normals(1, 2, 3, 4, ours, 2)
        twin.normals((1, 2), 3, 4, wanted)
        assert np.max(abs(ours - wanted)) < eps, instructions
words = np.array([[np.float32(0.5).view(np.uint32), 2], [0, 0], [1, 0]], np.uint32)  # class 0 if x <= 0.5
rows = np.linspace(0, 1, 40)[:, None]
for simd in (0, 1):
    forest.simd(simd)
    tree = forest.Forest(words=words, stride=2, bits=31, roots=np.array([0, 3], np.uint64),
                         used=np.zeros(1, np.uint32), values=np.empty((0, 2)), n_features=1, n_classes=2)
    out = np.empty((40, 2))
    tree.evaluate(rows, out, 32, 2, 1)
    assert np.array_equal(out[:, 1], rows[:, 0] > 0.5)
print(core.instructions(), forest.simd())
"""


def available(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed here, so that this build is not checked")
    return compiler


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_both_modules_build_without_a_warning_and_work(compiler, tmp_path):
    made = native.build(available(compiler), tmp_path, native.STRICT)
    done = subprocess.run([sys.executable, "-c", USE, *made], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = subprocess.run([sys.executable, "-c", USE, *installed()], capture_output=True, text=True)
    assert done.stdout == here.stdout  # the same instruction sets: AVX2 where the machine has it


def installed():
    """The modules in use, where there are any."""
    pytest.importorskip("lmma.kernels._core", reason="the compiled core was not built")
    pytest.importorskip("lmma.attack._forest", reason="the compiled forest was not built")
    return [sys.modules[name].__file__ for name in ("lmma.kernels._core", "lmma.attack._forest")]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_both_modules_build_without_vectors(compiler, tmp_path):
    made = native.build(available(compiler), tmp_path, [*native.STRICT, "-DLMMA_NO_VECTORS"])
    done = subprocess.run([sys.executable, "-c", USE, *made], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "portable False\n"), done.stderr


def test_a_build_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="no-such-flag"):
        native.build(available("gcc"), tmp_path, ["-fno-such-flag-as-this"])


def test_what_is_built_is_what_setup_names():
    names = {extension["name"] for extension in native.extensions()}
    assert names == {"lmma.kernels._core", "lmma.attack._forest"}
    for extension in native.extensions():
        for source in extension["sources"]:
            assert (native.ROOT / source).exists()
