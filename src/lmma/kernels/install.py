"""What to type where a package is missing: one place that knows how each is called by pip."""

from __future__ import annotations

import os
from pathlib import Path

# modules whose package has another name
PACKAGES = {
    "sklearn": "scikit-learn", "cocoex": "coco-experiment", "mpi4py.futures": "mpi4py", "cma": "cma",
    "dask": "distributed",
}  # fmt: skip
# parts of lmma that bring what they need
EXTRAS = ("plot", "report", "attack", "dask", "ray", "mpi", "optuna", "bench", "largescale")


def how_to_install(what: str) -> str:
    """Return the command that installs one of lmma's extras, such as ``"plot"``, or a module's package."""
    if what not in EXTRAS:
        top = what.partition(".")[0]
        return f"pip install {PACKAGES.get(what, PACKAGES.get(top, top))}"
    root = Path(__file__).resolve().parents[3]
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'lmma[{what}]'"
    place = "." if root == Path(os.getcwd()).resolve() else str(root)  # a checkout
    return f"pip install '{place}[{what}]'"
