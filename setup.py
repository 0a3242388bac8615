"""Build the optional compiled parts; everything else is declared in pyproject.toml.

Plain C against the stable ABI of Python 3.11 (buffers in, numbers out): no build dependency beyond a
C compiler, no run-time dependency, one wheel for every later Python. Each extension is optional: where
no compiler is found the installation succeeds and the NumPy twins do the work.
"""

import sys
from glob import glob

from setuptools import Extension, setup

windows = sys.platform == "win32"
flags = ["/O2", "/std:c11"] if windows else ["-O3", "-std=gnu11", "-fno-math-errno", "-pthread"]


def extension(name: str) -> Extension:
    """Return the optional stable-ABI extension whose single source lies beside its module."""
    source = "src/" + name.replace(".", "/") + ".c"
    return Extension(
        name,
        sources=[source],
        depends=glob("src/lmma/*/*.h"),
        extra_compile_args=flags,
        extra_link_args=[] if windows else ["-pthread"],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[extension("lmma.kernels._core"), extension("lmma.attack._forest")],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
