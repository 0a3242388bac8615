"""Training the forest that is to be attacked, with a word on how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .data import Dataset

__all__ = ["train_forest"]


def train_forest(
    data: Dataset,
    *,
    trees: int = 1000,
    seed: int = 0,
    jobs: int = -1,
    progress: Callable[[int, int], None] | None = None,
    chunk: int = 25,
) -> Any:
    """Return scikit-learn's RandomForestClassifier with its defaults, fitted to the training part.

    The trees are grown in chunks, which gives the very forest that one call of ``fit`` would give.

    Parameters
    ----------
    data : Dataset
    trees, seed, jobs : int
        ``n_estimators``, ``random_state`` and ``n_jobs``.
    progress : callable, optional
        Called with the number of trees grown so far and their final number.
    chunk : int
        Trees between two such calls.
    """
    from sklearn.ensemble import RandomForestClassifier

    if trees < 1:
        raise ValueError(f"trees={trees}: a forest needs at least one tree")
    model = RandomForestClassifier(n_estimators=0, random_state=seed, n_jobs=jobs, warm_start=True)
    for grown in [*range(chunk, trees, chunk), trees]:
        model.set_params(n_estimators=grown).fit(data.X_train, data.y_train)
        if progress is not None:
            progress(grown, trees)
    return model.set_params(n_jobs=1, warm_start=False)
