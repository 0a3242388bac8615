"""The compiled forest builds with GCC and with Clang, without a warning, and works."""

import subprocess
import sys

import pytest

import native

LAB = native.ROOT / "lab"
USE = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_forest", sys.argv[1])
forest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(forest)
words = np.array([[np.float32(0.5).view(np.uint32), 2], [0, 0], [1, 0]], np.uint32)  # class 0 if x <= 0.5
rows = np.linspace(0, 1, 40)[:, None]
for simd in (0, 1):
    forest.simd(simd)
    tree = forest.Forest(words=words, stride=2, bits=31, roots=np.array([0, 3], np.uint64),
                         used=np.zeros(1, np.uint32), values=np.empty((0, 2)), n_features=1, n_classes=2)
    out = np.empty((40, 2))
    tree.evaluate(rows, out, 32, 2, 1)
    assert np.array_equal(out[:, 1], rows[:, 0] > 0.5)
print(forest.simd())
"""


def used(module):
    """Return what a process says that uses the module."""
    done = subprocess.run([sys.executable, "-c", USE, module], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_forest_builds_without_a_warning_and_works(compiler, tmp_path):
    installed = pytest.importorskip("lmma_lab.attack._forest", reason="the compiled forest was not built")
    (made,) = native.build(LAB, native.available(compiler), tmp_path, native.STRICT)
    assert used(made) == used(installed.__file__)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_forest_builds_without_vectors(compiler, tmp_path):
    flags = [*native.STRICT, "-DLMMA_NO_VECTORS"]
    (made,) = native.build(LAB, native.available(compiler), tmp_path, flags)
    assert used(made) == "False\n"


def test_the_built_modules_are_those_that_setup_names():
    (extension,) = native.extensions(LAB)
    assert extension["name"] == "lmma_lab.attack._forest"
    for source in (*extension["sources"], *extension["depends"]):
        assert (LAB / source).exists()
