"""Folders of the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = os.pathsep.join([str(ROOT / "src"), str(ROOT / "lab" / "src")])  # as PYTHONPATH has them
