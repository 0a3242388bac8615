"""Build the optional compiled part of lmma-lab; everything else is declared in pyproject.toml.

The extension is optional: without a C compiler the installation succeeds and NumPy walks the forests.
LMMA_REQUIRE_COMPILED=1 turns a failed build into an error.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.sdist import sdist

windows = sys.platform == "win32"
flags = ["/O2", "/std:c11"] if windows else ["-O3", "-std=gnu11", "-fno-math-errno", "-pthread"]
optional = os.environ.get("LMMA_REQUIRE_COMPILED", "0") in ("", "0")

# lmma's header for C extensions: in the repository the one of lmma, in a source distribution a copy of it.
HEADER = Path("common.h")
IN_REPOSITORY, IN_SDIST = Path("..", "src", "lmma", "kernels"), Path("include")
include = IN_REPOSITORY if (IN_REPOSITORY / HEADER).is_file() else IN_SDIST


class SourceDistribution(sdist):
    """A source distribution that carries the header it shares with lmma."""

    def make_release_tree(self, base_dir, files):
        """Add the header to the files of the distribution."""
        super().make_release_tree(base_dir, files)
        target = Path(base_dir, IN_SDIST)
        target.mkdir(exist_ok=True)
        self.copy_file(str(include / HEADER), str(target / HEADER))


setup(
    ext_modules=[
        Extension(
            "lmma_lab.attack._forest",
            sources=["src/lmma_lab/attack/_forest.c"],
            depends=[str(include / HEADER), "src/lmma_lab/attack/_forest_walk.h"],
            include_dirs=[str(include)],
            extra_compile_args=flags,
            extra_link_args=[] if windows else ["-pthread"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=optional,
        )
    ],
    cmdclass={"sdist": SourceDistribution},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
