"""Build the optional compiled part; everything else is declared in pyproject.toml.

Plain C against the stable ABI of Python 3.11 (buffers in, numbers out): no build dependency beyond a
C compiler, no run-time dependency, one wheel for every later Python. The extension is optional: without a
compiler the installation succeeds and the NumPy reference does the work. LMMA_REQUIRE_COMPILED=1 turns a
failed build into an error.
"""

import os
import re
import sys
import tomllib
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

windows = sys.platform == "win32"
flags = ["/O2", "/std:c11"] if windows else ["-O3", "-std=gnu11", "-fno-math-errno", "-pthread"]
optional = os.environ.get("LMMA_REQUIRE_COMPILED", "0") in ("", "0")


core = Extension(
    "lmma.kernels._core",
    sources=["src/lmma/kernels/_core.c"],
    depends=[*glob("src/lmma/kernels/*.h"), *glob("src/lmma/kernels/*.inc")],
    extra_compile_args=flags,
    extra_link_args=[] if windows else ["-pthread"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=optional,
)


def readme() -> str:
    """Return the README with absolute links: a package index knows no files beside it."""
    with open("pyproject.toml", "rb") as file:
        source = tomllib.load(file)["project"]["urls"]["Source"]
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\])\((?!https?:)", rf"\1({source}/raw/main/", text)
    return re.sub(r"\]\((?!https?:|#)", f"]({source}/blob/main/", text)


setup(
    ext_modules=[core],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
