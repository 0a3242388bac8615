"""What to type where a package is missing: one place that knows how each is called by pip."""

from __future__ import annotations

import json
import os
import shlex
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

# modules whose package has another name
PACKAGES = {
    "sklearn": "scikit-learn", "cocoex": "coco-experiment", "mpi4py.futures": "mpi4py", "cma": "cma",
    "dask": "distributed",
}  # fmt: skip
# parts of lmma that bring what they need
EXTRAS = (
    "plot", "report", "attack", "dask", "ray", "mpi", "optuna", "optimagic", "tensorboard", "mlflow", "wandb",
    "torch", "jax", "rl", "bench", "largescale",
)  # fmt: skip


def how_to_install(what: str) -> str:
    """Return the command that installs one of lmma's extras, such as ``"plot"``, or a module's package."""
    if what not in EXTRAS:
        top = what.partition(".")[0]
        return f"pip install {PACKAGES.get(what, PACKAGES.get(top, top))}"
    where = _checkout() or _installed_from() or "lmma"
    return f"pip install {_quoted(f'{where}[{what}]')}"


def how_to_rebuild() -> str:
    """Return the command that builds the compiled modules, and shows why where it cannot."""
    if (place := _checkout()) is not None:
        return f"pip install --verbose --editable {_quoted(place)}"
    where = _quoted(_installed_from() or "lmma")
    return f"pip install --verbose --force-reinstall --no-deps --no-cache-dir {where}"


def _checkout() -> str | None:
    """Return the folder of the repository that this module lies in, None for one that was installed."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "pyproject.toml").is_file():
        return None
    return "." if root == Path(os.getcwd()).resolve() else str(root)


def _installed_from() -> str | None:
    """Return the folder of sources that pip installed lmma from, None for a package from an index.

    pip notes it in direct_url.json, as PEP 610 has it.
    """
    try:
        noted = json.loads(metadata.distribution("lmma").read_text("direct_url.json") or "{}")
        address = urlsplit(str(noted.get("url", "")))
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return None
    folder = Path(unquote(address.path))
    return str(folder) if address.scheme == "file" and (folder / "pyproject.toml").is_file() else None


def _quoted(word: str) -> str:
    """Return a word as the system's shell must be given it."""
    return shlex.quote(word) if os.name == "posix" else f'"{word}"'
