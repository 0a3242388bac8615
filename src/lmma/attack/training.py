"""Training the forest that is to be attacked, with a word on how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from lmma.attack.data import Dataset

__all__ = ["train_forest"]

_SMALL = 10**6  # pixels in all, below which starting processes takes longer than growing the trees


def train_forest(
    data: Dataset,
    *,
    trees: int = 1000,
    seed: int = 0,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    chunk: int = 25,
) -> Any:
    """Return scikit-learn's RandomForestClassifier with its defaults, fitted to the training part.

    The trees are grown in chunks, which gives the very forest that one call of ``fit`` would give.

    Parameters
    ----------
    data : Dataset
    trees, seed : int
        ``n_estimators`` and ``random_state``.
    jobs : int, optional
        Processes that grow trees; by default one for small data, otherwise one for each processor.
    progress : callable, optional
        Called with the number of trees grown so far and their final number.
    chunk : int
        Trees between two such calls.
    """
    from joblib import parallel_config  # type: ignore[import-untyped,unused-ignore]
    from sklearn.ensemble import RandomForestClassifier

    if trees < 1:
        raise ValueError(f"trees={trees}: a forest needs at least one tree")
    if jobs is None:
        jobs = 1 if data.X_train.size < _SMALL else -1
    model = RandomForestClassifier(n_estimators=0, random_state=seed, n_jobs=jobs, warm_start=True)
    # processes, not the threads scikit-learn prefers: those swap Python's global list of warning filters
    # under one another's feet, which now and then leaves it empty
    with contextlib.nullcontext() if jobs == 1 else parallel_config(backend="loky"):
        for grown in [*range(chunk, trees, chunk), trees]:
            model.set_params(n_estimators=grown).fit(data.X_train, data.y_train)
            if progress is not None:
                progress(grown, trees)
    return model.set_params(n_jobs=1, warm_start=False)
