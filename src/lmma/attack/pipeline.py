"""The whole attack as one piece of work: data, forest, campaigns, numbers.

This is what ``lmma attack`` runs. Records land in one folder; run again with the same settings, it goes on
where it was interrupted.
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

from lmma.attack.campaign import campaign
from lmma.attack.data import Dataset, load_digits, load_mnist
from lmma.attack.forest import CompiledForest, compile_forest
from lmma.attack.forest_file import load_forest, save_forest
from lmma.attack.own import checked_classifier, digest_of_classifier, load_own
from lmma.attack.records import Record, RecordStore, fingerprint, record_fault
from lmma.attack.summary import Pairing, Summary, confirmed, pair, summarise
from lmma.attack.training import train_forest
from lmma.store import FILE, Store, key_of

__all__ = ["AttackReport", "Settings", "run_attack"]

# (what is going on, done, of how many, a word more)
ShowProgress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Settings:
    """What to attack and how; None stands for the default of the data set.

    Attributes
    ----------
    data : path, Dataset or None
        Folder with the MNIST files, an .npz file with X and y, or images of your own; None takes
        scikit-learn's bundled digits, or MNIST if `download`.
    download : bool
        Take MNIST from the cache, or from OpenML if it is not there.
    model : path, callable or None
        The compiled forest: loaded if the file exists, otherwise trained and saved there. Or any function
        from rows to class probabilities.
    trees, seed : int
        Size of a forest to be trained; seed of training, choice of images and campaigns.
    images : int or None
        How many correctly classified test images, chosen at random; None takes all.
    methods : sequence of str
        Compared on the same images and seeds; the first is the reference.
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
    """The records of all campaigns and their numbers: one entry for each method, in the order asked for."""

    dataset: Dataset
    trees: int  # 0: the classifier is no forest
    accuracy: float
    attacked: int
    by: str  # who confirmed the adversarials
    summaries: dict[str, Summary] = field(default_factory=dict)
    confirmed: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    pairings: dict[str, Pairing] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)  # what was wrong with records of earlier runs
    campaigns: dict[str, list[Record]] = field(default_factory=dict)

    def numbers(self) -> dict[str, Any]:
        """Return all but images and records, ready for JSON."""
        bare = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("dataset", "campaigns")}
        for name in ("summaries", "pairings"):
            bare[name] = {method: _finite(asdict(entry)) for method, entry in bare[name].items()}
        return {"data": self.dataset.name} | bare


def _finite(entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` with null, as JSON has it, for medians of nothing."""
    return {name: None if math.isnan(value) else value for name, value in entry.items()}


def run_attack(
    settings: Settings, out: str | os.PathLike[str], progress: ShowProgress | None = None
) -> AttackReport:
    """Carry out `settings`, keep every record in the folder `out` and return the report.

    Parameters
    ----------
    settings : Settings
    out : path
        Folder of the store; made if it does not exist.
    progress : callable, optional
        Called with (what is going on, done, of how many, a word more).
    """
    progress = progress or (lambda *_: None)
    data = _data(settings)
    with Store(Path(out) / FILE, record_fault) as store:  # before training: it may be impossible
        report = _attack(settings, data, store, progress)
        report.words = store.words
    reference = settings.methods[0]
    for method in settings.methods[1:]:
        report.pairings[method] = pair(report.campaigns[reference], report.campaigns[method])
    return report


def _attack(settings: Settings, data: Dataset, store: Store, progress: ShowProgress) -> AttackReport:
    """Train or load the forest, and attack it with each method."""
    labels = np.unique(data.y_test)
    if settings.target is not None and settings.target not in labels:
        raise ValueError(f"target class {settings.target} is none of {', '.join(map(str, labels))}")
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
    # all that decides the record of one image, beside its number
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
    """The classifier that is attacked, and who confirms that it was fooled."""

    predict_proba: Callable[..., Any]
    classes: NDArray[Any]  # label of each column of its answers
    answers: NDArray[Any]  # to all test images
    judge: Callable[[NDArray[Any]], Any]
    by: str
    trees: int
    digest: str


def _data(settings: Settings) -> Dataset:
    """Return the images: a user's, MNIST, or what comes with scikit-learn."""
    given = settings.data
    if isinstance(given, Dataset):
        return given
    if given is not None and Path(given).suffix.lower() == ".npz":
        return load_own(Path(given))
    if given is None and not settings.download:
        return load_digits()
    return load_mnist(given, download=settings.download)


def _attacked(settings: Settings, data: Dataset, trees: int, progress: ShowProgress) -> Attacked:
    """Return the classifier: a user's own, or a forest that is loaded or trained."""
    if callable(settings.model):
        ask = settings.model
        count = checked_classifier(ask, data, getattr(ask, "__name__", type(ask).__name__))
        answers = np.asarray(ask(data.X_test.astype(np.float64)))
        digest = digest_of_classifier(ask, data)
        return Attacked(ask, np.arange(count), answers, ask, "the classifier, asked again", 0, digest)
    forest, judge, by = _forest(settings, data, trees, progress)
    flat = forest.flat
    return Attacked(
        forest.predict_proba, forest.classes_, forest.predict_proba(data.X_test, threads=settings.threads),
        judge, by, forest.n_trees, fingerprint(flat.words, flat.roots, flat.values),
    )  # fmt: skip


def _forest(
    settings: Settings, data: Dataset, trees: int, progress: ShowProgress
) -> tuple[CompiledForest, Callable[[NDArray[Any]], Any], str]:
    """Return the forest, and the classifier (with its name) that is to confirm the adversarials."""
    assert not callable(settings.model)
    path = None if settings.model is None else Path(settings.model)
    if path is not None and not os.access(path.parent, os.W_OK if not path.exists() else os.R_OK):
        raise ValueError(
            f"model {path}: the folder {path.parent} is missing or cannot be written; make it first"
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
            f"data {data.name} has no X_train and y_train to train a forest on: give them, or a model of "
            "your own"
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
    """Return the images to attack: the first ones of a random order, so that more extend fewer."""
    if target is not None:
        correct = correct[columns[correct] != target]
    if settings.images is None:
        return correct
    if settings.images < 1:
        raise ValueError(f"images={settings.images}: attack at least one image")
    return np.sort(np.random.default_rng(settings.seed).permutation(correct)[: settings.images])


def _keep_forest(store: Store, basis: dict[str, Any], report: AttackReport) -> None:
    """Keep what is known of the forest: the claims about it are judged from records, too."""
    spec = {name: basis[name] for name in ("data", "digest", "model", "trees")}
    content = {"kind": "forest", "spec": spec, "accuracy": report.accuracy,
               "images": len(report.dataset.y_test)}  # fmt: skip
    store.put(key_of("forest", spec), "forest", content)


class _Counter:
    """Counts records as they come in, and those that were there before."""

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
