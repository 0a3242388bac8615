"""Helpers that read size and colours of picture files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np


def colours_in(path: Path, least: int = 20) -> set[str]:
    """Return the colours, as #rrggbb, of at least ``least`` pixels each."""
    from matplotlib.image import imread

    pixels = np.rint(255 * imread(path)[..., :3]).astype(int).reshape(-1, 3)
    counts = Counter(map(tuple, pixels.tolist()))
    return {"#{:02X}{:02X}{:02X}".format(*colour) for colour, count in counts.items() if count >= least}


def size_of(path: Path) -> tuple[int, int]:
    """Return width and height in pixels."""
    from matplotlib.image import imread

    height, width = imread(path).shape[:2]
    return width, height
