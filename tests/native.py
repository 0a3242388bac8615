"""Build the compiled modules in a separate folder, with any compiler and flags, and check them.

    python tests/native.py sanitize       # AddressSanitizer and UndefinedBehaviorSanitizer
    python tests/native.py threads        # ThreadSanitizer

What is built and with which flags is read from each setup.py, so that what is checked is what is installed.
The packages are copied to build/NAME next to the modules made for them: nothing under src is touched.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import types
from contextlib import chdir
from pathlib import Path
from unittest import mock

from repository import ROOT

DISTRIBUTIONS = (ROOT, ROOT / "lab")
STRICT = ["-Wall", "-Wextra", "-Werror"]
WAYS = {
    "sanitize": {
        "flags": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        "runtime": "libasan.so",
        # Python keeps what it interned until the end, which is no leak; its own allocator would hide overruns
        "options": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
        "environment": {"PYTHONMALLOC": "malloc"},
        "tests": [
            "tests/kernels",
            "lab/tests/attack/test_forest.py",
            "lab/tests/attack/test_forest_arguments.py",
        ],
    },
    "threads": {
        "flags": ["-fsanitize=thread"],
        "runtime": "libtsan.so",
        "options": {"TSAN_OPTIONS": "halt_on_error=1"},
        "environment": {"OPENBLAS_NUM_THREADS": "1"},
        "tests": [
            "tests/kernels/test_native.py::test_any_number_of_threads_gives_the_same_bits",
            "tests/kernels/test_generation.py::test_threads_change_no_bit",
            "lab/tests/attack/test_forest.py::test_number_of_rows_and_grouping_do_not_matter",
        ],
    },
}


def available(compiler: str) -> str:
    """Return the compiler, or skip the test that asks for it."""
    if shutil.which(compiler) is None:
        import pytest

        pytest.skip(f"{compiler} is not installed here, so that this build is not checked")
    return compiler


def extensions(distribution: Path) -> list[dict]:
    """Return the arguments of every Extension in a setup.py, without running setuptools."""
    found: list[dict] = []
    stand_in, sdist = types.ModuleType("setuptools"), types.ModuleType("setuptools.command.sdist")
    stand_in.Extension = lambda name, **how: {"name": name, **how}
    stand_in.setup = lambda ext_modules, **rest: found.extend(ext_modules)
    sdist.sdist = object
    modules = {"setuptools": stand_in, "setuptools.command": stand_in, "setuptools.command.sdist": sdist}
    with chdir(distribution), mock.patch.dict(sys.modules, modules):
        runpy.run_path("setup.py")
    return found


def command(extension: dict, compiler: str, target: Path, flags: list[str]) -> list[str]:
    """Return the call of ``compiler`` that makes one module."""
    macros = [f"-D{name}={value}" for name, value in extension["define_macros"]]
    included = {sysconfig.get_path(kind) for kind in ("include", "platinclude")}
    included |= set(extension.get("include_dirs", ()))
    return [
        compiler, "-shared", "-fPIC", *extension["extra_compile_args"], *macros, *flags,
        *(f"-I{folder}" for folder in sorted(included)), *extension["sources"],
        *extension["extra_link_args"], "-o", str(target), "-lm",
    ]  # fmt: skip


def build(distribution: Path, compiler: str, folder: Path, flags: list[str]) -> list[Path]:
    """Make the modules of a distribution under ``folder``, laid out as the package is; raise if one fails."""
    made = []
    for extension in extensions(distribution):
        target = folder / (extension["name"].replace(".", "/") + ".abi3.so")
        target.parent.mkdir(parents=True, exist_ok=True)
        words = command(extension, compiler, target, flags)
        done = subprocess.run(words, cwd=distribution, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}\n{done.stderr}")
        made.append(target)
    return made


def check(way: str, compiler: str, pytest_arguments: list[str]) -> int:
    """Build with a sanitizer and run the tests under it; return 0 if all pass and nothing is reported."""
    how = WAYS[way]
    folder = ROOT / "build" / way
    shutil.rmtree(folder, ignore_errors=True)
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for distribution in DISTRIBUTIONS:
        shutil.copytree(distribution / "src", folder, ignore=unwanted, dirs_exist_ok=True)
        build(distribution, compiler, folder, ["-g", "-O1", "-fno-omit-frame-pointer", *how["flags"]])
    runtime = subprocess.run(
        [compiler, f"-print-file-name={how['runtime']}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(runtime).is_absolute():
        print(f"{compiler} has no {how['runtime']}: install it, or choose another compiler with CC=")
        return 1
    environment = os.environ | how["environment"]
    reports = folder / "reports"  # in files: a test may capture what a process of its own says
    reports.mkdir()
    for name, options in how["options"].items():
        environment[name] = f"{options}:log_path={reports / 'report'}"
    environment |= {"PYTHONPATH": str(folder), "LD_PRELOAD": runtime, "LMMA_SANITIZED": way}
    where = "import lmma.kernels._core as c, lmma_lab.attack._forest as f; print(c.__file__, f.__file__)"
    seen = subprocess.run([sys.executable, "-c", where], env=environment, capture_output=True, text=True)
    if seen.returncode or any(not name.startswith(str(folder)) for name in seen.stdout.split()):
        print(f"the modules under test are not those of {folder}:\n{seen.stdout}{seen.stderr}")
        return 1
    quiet = ["-p", "no:cacheprovider", "--capture=sys"]  # what C writes to standard error stays visible
    tests = [sys.executable, "-m", "pytest", *quiet, *how["tests"], *pytest_arguments]
    status = subprocess.run(tests, cwd=ROOT, env=environment).returncode
    for report in sorted(reports.iterdir()):
        print(report.read_text())
        status = status or 1
    return status


def main() -> int:
    """Run one kind of check from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("rest", nargs="*", help="more arguments for pytest, after --")
    given = parser.parse_args()
    return check(given.way, os.environ.get("CC", "gcc"), given.rest)


if __name__ == "__main__":
    sys.exit(main())
