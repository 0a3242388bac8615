"""If the compiled core is missing, the reference implementation is used, with one warning per process."""

import os
import subprocess
import sys

HIDE = "import sys; sys.modules['lmma.kernels._core'] = None\n"
RUN = """
import numpy as np
import lmma
for method in ("lm-ma-es", "ma-es", "pulse-full"):
    lmma.minimize(lambda x: float(x @ x), np.ones(3), 0.5, method=method, maxfevals=60, rng=1)
"""
COMMAND = "from lmma.cli import main; raise SystemExit(main({words!r}))"
MINIMIZE = ["minimize", "sphere", "--dim", "3", "--max-evaluations", "30", "--quiet",
            "--values", "ranks"]  # fmt: skip


def test_every_kernel_is_taken_from_one_implementation(core, run_python):
    code = """
from lmma import kernels
from types import FunctionType
for name in sorted(kernels.__all__):
    kernel = getattr(kernels, name)
    if isinstance(kernel, FunctionType) and name not in ("fold", "in_use", "name"):
        print(kernel.__module__)
"""
    assert set(run_python(code, LMMA_KERNELS="").stdout.split()) == {"lmma.kernels.native"}
    modules = set(run_python(code, LMMA_KERNELS="numpy").stdout.split())
    assert modules == {f"lmma.kernels.reference{part}" for part in ("", "_integers", "_pulse")}


def test_importing_says_nothing(run_python):
    done = run_python(HIDE + "import lmma\nprint(lmma.minimize.__name__)", LMMA_KERNELS="")
    assert (done.stdout, done.stderr) == ("minimize\n", "")


def test_the_first_candidates_come_with_one_warning(run_python):
    done = run_python(HIDE + RUN, LMMA_KERNELS="")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
    assert "the compiled core is missing (it was not built)" in done.stderr
    assert "C compiler" in done.stderr
    assert "LMMA_KERNELS=numpy" in done.stderr


def test_nothing_is_said_where_numpy_is_asked_for_or_nothing_is_missing(run_python, core):
    assert run_python(HIDE + RUN, LMMA_KERNELS="numpy").stderr == ""
    assert run_python(RUN, LMMA_KERNELS="").stderr == ""


def test_asking_for_the_compiled_core_fails_where_it_is_missing_and_names_the_remedy(run_python):
    done = run_python(HIDE + "import lmma.methods", LMMA_KERNELS="compiled")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: LMMA_KERNELS=compiled")
    assert "C compiler" in last


def test_a_module_that_does_not_load_says_why(run_python, tmp_path):
    broken = tmp_path / "_core.abi3.so"
    broken.write_bytes(b"no shared object")
    code = f"""
import importlib.abc, importlib.machinery, importlib.util, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "lmma.kernels._core":
            return importlib.util.spec_from_file_location(name, {str(broken)!r})
sys.meta_path.insert(0, Finder())
from lmma import kernels
print(kernels.in_use())
"""
    said = run_python(code, LMMA_KERNELS="").stdout
    assert said.startswith("NumPy; the compiled core is missing: it fails to load: ")
    assert str(broken) in said


def test_the_version_names_the_kernels(run_python, core):
    version = COMMAND.format(words=["--version"])
    compiled = run_python(version, LMMA_KERNELS="", LMMA_NUM_THREADS="3").stdout
    assert compiled.startswith("lmma ")
    assert "(kernels: compiled " in compiled
    assert compiled.endswith(", 3 threads)\n")
    assert run_python(version, LMMA_KERNELS="", LMMA_NUM_THREADS="1").stdout.endswith(", 1 thread)\n")
    asked_for = run_python(version, LMMA_KERNELS="numpy").stdout
    assert asked_for.endswith("(kernels: NumPy, set by LMMA_KERNELS)\n")
    hidden = run_python(HIDE + version, LMMA_KERNELS="")
    assert hidden.stdout.endswith("(kernels: NumPy; the compiled core is missing: it was not built)\n")
    assert hidden.stderr == ""


def test_a_command_says_it_in_one_line(run_python):
    done = run_python(HIDE + COMMAND.format(words=MINIMIZE), LMMA_KERNELS="")
    assert done.returncode in (0, 1)  # 1: the budget was spent before a target was reached
    lines = [line for line in done.stderr.splitlines() if "compiled core" in line]
    assert len(lines) == 1
    assert lines[0].startswith("lmma: the compiled core is missing")
    assert "RuntimeWarning" not in done.stderr
    listing = run_python(HIDE + COMMAND.format(words=["methods", "--verbose"]), LMMA_KERNELS="")
    assert listing.stderr == ""
    assert "kernels      NumPy; the compiled core is missing" in listing.stdout


CHILDREN = """
import sys
sys.modules["lmma.kernels._core"] = None
import multiprocessing
import numpy as np
import lmma
def draw(seed):
    return lmma.LMMAES(np.ones(3), 0.5, rng=seed).ask().shape
if __name__ == "__main__":
    draw(0)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(draw, range(4), chunksize=1)[-1])
"""


def test_processes_of_a_run_do_not_repeat_it(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(CHILDREN)
    environment = {**os.environ, "LMMA_KERNELS": ""}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.stdout == "(7, 3)\n", done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
