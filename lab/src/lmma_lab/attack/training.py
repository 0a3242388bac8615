"""Training of the forest to attack, with progress reports."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from lmma_lab.attack.data import Dataset

__all__ = ["train_forest"]

_SMALL = 10**6  # total pixels; below, starting processes takes longer than growing the trees


def train_forest(
    data: Dataset,
    *,
    trees: int = 1000,
    seed: int = 0,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    chunk: int = 25,
) -> Any:
    """Return scikit-learn's RandomForestClassifier with default parameters, fitted to the training part.

    The trees are grown in chunks, with the same result as a single call of ``fit``.

    Parameters
    ----------
    data : Dataset
    trees, seed : int
        ``n_estimators`` and ``random_state``.
    jobs : int, optional
        Number of processes; by default one for small data, otherwise one per processor.
    progress : callable, optional
        Called with the number of trees grown so far and the total.
    chunk : int
        Trees between calls of `progress`.
    """
    from joblib import parallel_config  # type: ignore[import-untyped,unused-ignore]
    from sklearn.ensemble import RandomForestClassifier

    if trees < 1:
        raise ValueError(f"trees must be at least 1, got trees={trees}")
    if jobs is None:
        jobs = 1 if data.X_train.size < _SMALL else -1
    model = RandomForestClassifier(n_estimators=0, random_state=seed, n_jobs=jobs, warm_start=True)
    # Processes instead of scikit-learn's threads, which concurrently replace Python's global list of warning
    # filters and sometimes leave it empty.
    with contextlib.nullcontext() if jobs == 1 else parallel_config(backend="loky"):
        for grown in [*range(chunk, trees, chunk), trees]:
            model.set_params(n_estimators=grown).fit(data.X_train, data.y_train)
            if progress is not None:
                progress(grown, trees)
    return model.set_params(n_jobs=1, warm_start=False)
