"""The complete attack of ``lmma attack``: data, forest, campaigns and summary.

Records are stored in one folder. A repeated run with the same settings resumes where it was interrupted.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma_lab.attack.campaign import campaign
from lmma_lab.attack.data import Dataset, load_digits, load_mnist
from lmma_lab.attack.forest import CompiledForest, compile_forest
from lmma_lab.attack.forest_file import load_forest, save_forest
from lmma_lab.attack.records import Record, RecordStore, fingerprint, record_fault
from lmma_lab.attack.summary import Pairing, Summary, confirmed, pair, summarise
from lmma_lab.attack.training import train_forest
from lmma_lab.attack.user_model import checked_classifier, digest_of_classifier, load_user_data
from lmma_lab.store import FILE, Store, key_of

__all__ = ["AttackReport", "Settings", "run_attack"]

# (stage, done, total, unit or remark)
ShowProgress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Settings:
    """Settings of an attack; None selects the default for the data set.

    Attributes
    ----------
    data : path, Dataset or None
        Folder with the MNIST files, an .npz file with X and y, or a data set. None selects scikit-learn's
        bundled digits, or MNIST if `download`.
    download : bool
        Use MNIST from the cache, and download it from OpenML if it is missing.
    model : path, callable or None
        File of a compiled forest, which is loaded if it exists, otherwise trained and saved. Or any function
        from rows to class probabilities.
    trees, seed : int
        Number of trees if a forest is trained; seed of training, choice of images and campaigns.
    images : int or None
        Number of correctly classified test images, chosen at random; None selects all.
    methods : sequence of str
        Methods to compare on the same images and seeds; the first is the reference.
    sigma0, budget, clip, round, target : as in `campaign`
    """

    data: str | os.PathLike[str] | Dataset | None = None
    download: bool = False
    model: str | os.PathLike[str] | Callable[[Any], Any] | None = None
    trees: int | None = None
    seed: int = 0
    images: int | None = 50
    methods: Sequence[str] = ("lm-ma-es",)
    sigma0: float | None = None
    budget: int = 1000
    clip: bool = False
    round: bool = False
    target: int | None = None
    threads: int = 1


@dataclass
class AttackReport:
    """Records and statistics of all campaigns: one entry per method, in the given order."""

    dataset: Dataset
    trees: int  # 0 if the classifier is not a forest
    accuracy: float
    attacked: int
    by: str  # classifier that confirmed the adversarials
    summaries: dict[str, Summary] = field(default_factory=dict)
    confirmed: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    pairings: dict[str, Pairing] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)  # warnings about records of earlier runs
    campaigns: dict[str, list[Record]] = field(default_factory=dict)

    def numbers(self) -> dict[str, Any]:
        """Return everything except images and records, ready for JSON."""
        bare = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("dataset", "campaigns")}
        for name in ("summaries", "pairings"):
            bare[name] = {method: _finite(asdict(entry)) for method, entry in bare[name].items()}
        return {"data": self.dataset.name} | bare


def _finite(entry: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN, the median of no values, by None, because JSON has no NaN."""
    return {name: None if math.isnan(value) else value for name, value in entry.items()}


def run_attack(
    settings: Settings, out: str | os.PathLike[str], progress: ShowProgress | None = None
) -> AttackReport:
    """Run the attack, store every record in the folder `out`, and return the report.

    Parameters
    ----------
    settings : Settings
    out : path
        Folder of the store; created if it does not exist.
    progress : callable, optional
        Called with (stage, done, total, unit or remark).
    """
    progress = progress or (lambda *_: None)
    data = _data(settings)
    with Store(Path(out) / FILE, record_fault) as store:  # before training, because opening may fail
        report = _attack(settings, data, store, progress)
        report.words = store.warnings
    reference = settings.methods[0]
    for method in settings.methods[1:]:
        report.pairings[method] = pair(report.campaigns[reference], report.campaigns[method])
    return report


def _attack(settings: Settings, data: Dataset, store: Store, progress: ShowProgress) -> AttackReport:
    """Train or load the classifier, and attack it with each method."""
    labels = np.unique(data.y_test)
    if settings.target is not None and settings.target not in labels:
        raise ValueError(f"target class {settings.target} is not one of {', '.join(map(str, labels))}")
    small = data.name == "digits"
    sigma0 = settings.sigma0 if settings.sigma0 is not None else (0.2 if small else 1.0)
    trees = settings.trees if settings.trees is not None else (200 if small else 1000)
    attacked = _attacked(settings, data, trees, progress)
    columns = np.searchsorted(attacked.classes, data.y_test)
    right = attacked.classes[np.asarray(attacked.answers).argmax(axis=1)]
    accuracy = float(np.mean(right == data.y_test))
    target = None if settings.target is None else int(np.searchsorted(attacked.classes, settings.target))
    chosen = _chosen(np.flatnonzero(right == data.y_test), columns, target, settings)
    report = AttackReport(data, attacked.trees, accuracy, len(chosen), attacked.by)
    # everything except the image number that determines a record
    basis = {
        "data": data.name, "digest": fingerprint(data.X_test, data.y_test), "trees": attacked.trees,
        "model": attacked.digest,
        "sigma0": float(sigma0), "budget": settings.budget, "clip": settings.clip, "round": settings.round,
        "target": settings.target, "seed": settings.seed,
    }  # fmt: skip
    if attacked.trees:
        _keep_forest(store, basis, report)
    for method in settings.methods:
        start = time.perf_counter()
        kept = RecordStore(store, basis | {"method": method})
        records = campaign(
            attacked.predict_proba, data.X_test[chosen], columns[chosen], images=chosen.tolist(),
            method=method, sigma0=sigma0, budget=settings.budget, seed=settings.seed,
            target=target, clip=settings.clip, round=settings.round, high=data.high,
            threads=settings.threads, store=kept, observer=_Counter(method, kept, chosen, progress),
        ).records  # fmt: skip
        report.seconds[method] = time.perf_counter() - start
        report.campaigns[method] = records
        report.summaries[method] = summarise(records)
        report.confirmed[method] = confirmed(records, attacked.judge)
    return report


@dataclass(frozen=True)
class Attacked:
    """The classifier under attack, and the one that confirms the adversarials."""

    predict_proba: Callable[..., Any]
    classes: NDArray[Any]  # label of each column of probabilities
    answers: NDArray[Any]  # probabilities of all test images
    judge: Callable[[NDArray[Any]], Any]
    by: str
    trees: int
    digest: str


def _data(settings: Settings) -> Dataset:
    """Return the data set: the user's, MNIST, or scikit-learn's digits."""
    given = settings.data
    if isinstance(given, Dataset):
        return given
    if given is not None and Path(given).suffix.lower() == ".npz":
        return load_user_data(Path(given))
    if given is None and not settings.download:
        return load_digits()
    return load_mnist(given, download=settings.download)


def _attacked(settings: Settings, data: Dataset, trees: int, progress: ShowProgress) -> Attacked:
    """Return the classifier: the user's function, or a forest that is loaded or trained."""
    if callable(settings.model):
        ask = settings.model
        count = checked_classifier(ask, data, getattr(ask, "__name__", type(ask).__name__))
        answers = np.asarray(ask(data.X_test.astype(np.float64)))
        digest = digest_of_classifier(ask, data)
        return Attacked(ask, np.arange(count), answers, ask, "the classifier itself", 0, digest)
    forest, judge, by = _forest(settings, data, trees, progress)
    flat = forest.flat
    return Attacked(
        forest.predict_proba, forest.classes_, forest.predict_proba(data.X_test, threads=settings.threads),
        judge, by, forest.n_trees, fingerprint(flat.words, flat.roots, flat.values),
    )  # fmt: skip


def _forest(
    settings: Settings, data: Dataset, trees: int, progress: ShowProgress
) -> tuple[CompiledForest, Callable[[NDArray[Any]], Any], str]:
    """Return the forest, the classifier that confirms the adversarials, and the name of the latter."""
    assert not callable(settings.model)
    path = None if settings.model is None else Path(settings.model)
    if path is not None and not os.access(path.parent, os.W_OK if not path.exists() else os.R_OK):
        raise ValueError(
            f"model {path}: the folder {path.parent} is missing or not writable; create it first"
        )
    if path is not None and path.exists():
        forest, _ = load_forest(path)
        if forest.n_features_in_ != data.X_test.shape[1] or not np.isin(data.y_test, forest.classes_).all():
            raise ValueError(
                f"model {path} was trained on {forest.n_features_in_} pixels and labels"
                f" {list(forest.classes_)}; it does not fit {data.name}"
            )
        second = CompiledForest(forest.flat, engine="numpy")
        return forest, second.predict_proba, "the second evaluator (NumPy)"
    if not len(data.X_train):
        raise ValueError(
            f"data {data.name} has no X_train and y_train to train a forest; add them, or pass a classifier "
            "as model"
        )
    model = train_forest(
        data, trees=trees, seed=settings.seed, progress=lambda k, n: progress("training", k, n, "trees")
    )
    forest = compile_forest(model)
    if path is not None:
        notes = {"data": data.name, "trees": trees, "seed": settings.seed}
        save_forest(forest, path, notes=notes)
    return forest, model.predict_proba, "scikit-learn"


def _chosen(
    correct: NDArray[np.intp], columns: NDArray[np.intp], target: int | None, settings: Settings
) -> NDArray[np.intp]:
    """Return the images to attack, the first of a random order, so that a larger number adds images."""
    if target is not None:
        correct = correct[columns[correct] != target]
    if settings.images is None:
        return correct
    if settings.images < 1:
        raise ValueError(f"images must be at least 1, got images={settings.images}")
    return np.sort(np.random.default_rng(settings.seed).permutation(correct)[: settings.images])


def _keep_forest(store: Store, basis: dict[str, Any], report: AttackReport) -> None:
    """Store a record of the forest, from which the claims about it are decided."""
    spec = {name: basis[name] for name in ("data", "digest", "model", "trees")}
    content = {"kind": "forest", "spec": spec, "accuracy": report.accuracy,
               "images": len(report.dataset.y_test)}  # fmt: skip
    store.put(key_of("forest", spec), "forest", content)


class _Counter:
    """Progress counter of new records, which starts with those of earlier runs."""

    def __init__(
        self, method: str, kept: RecordStore, chosen: NDArray[np.intp], progress: ShowProgress
    ) -> None:
        there = kept.records(chosen.tolist())
        self.method, self.total, self.progress = method, len(chosen), progress
        self.done, self.successes = len(there), sum(record.success for record in there)
        if self.done:
            progress(method, self.done, self.total, "images, from an earlier run")

    def __call__(self, record: Record) -> None:
        self.done += 1
        self.successes += record.success
        self.progress(self.method, self.done, self.total, f"images, {self.successes / self.done:.1%} success")
