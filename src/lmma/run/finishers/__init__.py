"""Finishers: post-processing of a finished search, before the result is returned.

A finisher is a function ``finish(state, evaluation, ...) -> Update | None``. It evaluates further points and
returns changes to the result. The checkpoint has been written before, so a resumed run is finished again with
the same outcome. If a finisher raises an exception, the result of the search is kept (``run.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Update:
    """Changes that a finisher makes to the result."""

    sentence: str = ""  # appended to the message
    x: npt.NDArray[np.floating] | None = None  # replaces the best evaluation; None to keep it
    fun: float = np.nan  # value at x
    fields: dict[str, Any] = field(default_factory=dict)  # further fields of the result
    keeps_seen: bool = False  # whether to report the best evaluation as x_seen and fun_seen
    exact: bool = False  # whether fun is a single value, which may reach the target, not an average
    evaluations: int = 0  # made by the finisher, counted separately
