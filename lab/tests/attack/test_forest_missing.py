"""Without the compiled forest, NumPy evaluates, with one warning."""

import pytest

HIDE = "import sys; sys.modules['lmma_lab.attack._forest'] = None\n"


def test_importing_says_nothing(run_python):
    done = run_python(HIDE + "import lmma_lab.attack", LMMA_KERNELS="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_first_forest_comes_with_one_warning(run_python):
    pytest.importorskip("sklearn")
    code = """
from sklearn.ensemble import RandomForestClassifier
from lmma_lab.attack import compile_forest
model = RandomForestClassifier(2, random_state=0).fit([[0.0], [1.0]], [0, 1])
compile_forest(model), compile_forest(model), compile_forest(model, engine="numpy")
"""
    done = run_python(HIDE + code, LMMA_KERNELS="")
    assert done.stderr.count("RuntimeWarning") == 1
    assert "the compiled forest evaluator is missing" in done.stderr
    assert run_python(HIDE + code, LMMA_KERNELS="numpy").stderr == ""
