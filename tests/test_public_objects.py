"""Every public object shows itself on one line, and can be copied, pickled and sent to other processes."""

import copy
import importlib.util
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import lmma
from lmma import attack, plotting, problems, restarts

LONGEST = 200  # signs of a line


def classes():
    """Return every class that is public, by name."""
    modules = [value for name in lmma.__all__ if inspect.ismodule(value := getattr(lmma, name))]
    found = {}
    for module in (lmma, *modules):
        for name in getattr(module, "__all__", ()):
            if inspect.isclass(value := getattr(module, name)):
                found[name] = value
    return found


def sphere(x):
    return float(x @ x)


def probabilities(X):
    first = 1 / (1 + np.exp(-X.sum(axis=1)))
    return np.column_stack([first, 1 - first])


def told(cls):
    es = cls(np.ones(40), 0.5, rng=1)
    es.tell(np.sum(es.ask() ** 2, axis=1))
    return es


def attacked():
    X = np.array([[0.5, 0.2], [0.1, 0.3]])
    return attack.campaign(probabilities, X, [0, 0], budget=40, sigma0=0.5, high=1.0)


def small_forest():
    sklearn = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(1).uniform(0, 1, (40, 3)).astype(np.float32)
    model = sklearn.RandomForestClassifier(5, random_state=0).fit(X, (X[:, 0] > 0.5).astype(int))
    return attack.compile_forest(model)


def figure():
    series = plotting.Series("lm-ma-es", tuple(range(1000)), tuple(range(1000)))
    return plotting.FigureData("figure", "title", "caption", (plotting.Panel("a", "x", "y", (series,)),))


def images():
    X = np.zeros((500, 64), np.uint8)
    return attack.Dataset("digits", X, np.zeros(500, int), X, np.zeros(500, int), (8, 8), 16.0)


BOX = np.full(500, 0.5)
# How to make one of each; abstract classes are made by those that fill them in
MADE = {
    "BIPOP": lambda: lmma.BIPOP(3), "IPOP": lambda: lmma.IPOP(3), "Plan": lambda: restarts.Plan(1, 10),
    "CheckResult": lambda: lmma.check(sphere, np.ones(500), rng=1),
    "Checkpoint": lambda: lmma.Checkpoint("run.npz", extra={"words": ["long"] * 1000}),
    "CheckpointError": lambda: lmma.CheckpointError("damaged"),
    "ClusterError": lambda: lmma.ClusterError("lost"),
    "EvaluationError": lambda: lmma.EvaluationError("failed"),
    "Replicated": lambda: lmma.Replicated("dask://" + "long" * 100 + ":8786"),
    "Choice": lambda: lmma.Choice(["a", "b", 3]), "Fixed": lambda: lmma.Fixed(3),
    "Integer": lambda: lmma.Integer(1, 9, shape=(3, 2)),
    "Real": lambda: lmma.Real(1e-3, 9, log=True, unit="m/s"),
    "Space": lambda: lmma.Space({f"variable_{k}": lmma.Real(0, 1) for k in range(300)}),
    "Tree": lambda: lmma.Tree({f"layer_{k}": np.zeros((3, 2)) for k in range(300)}),
    "Returned": lambda: lmma.constraints.Returned(np.zeros(500), np.ones(500)),
    "Project": lambda: lmma.bounds.box([0.0, 1.0], BOX, boundary="project"),
    "Reflect": lambda: lmma.bounds.box([0.0, 1.0], BOX, boundary="reflect"),
    "Smooth": lambda: lmma.bounds.box([0.0, 1.0], BOX, boundary="smooth"),
    "Wrap": lambda: lmma.bounds.box([0.0, 1.0], BOX, boundary="wrap"),
    "Problem": lambda: problems.get("sphere"),
    "Campaign": attacked, "Record": lambda: attacked().records[0], "CompiledForest": small_forest,
    "Dataset": images,
    "Objective": lambda: attack.Objective(probabilities, np.zeros(500), 0), "Projection": attack.Projection,
    "Bands": lambda: plotting.Bands((0, 10)), "FigureData": figure, "Panel": lambda: figure().panels[0],
    "Series": lambda: figure().panels[0].series[0],
}  # fmt: skip
ABSTRACT = {"Strategy", "ES", "Box", "Schedule", "Variable"}
HOLDS_A_DATABASE = {"RecordStore"}
STRATEGIES = {name for name, cls in classes().items() if issubclass(cls, lmma.Strategy)} - ABSTRACT


def made(name):
    return told(classes()[name]) if name in STRATEGIES else MADE[name]()


def everything():
    return sorted(set(classes()) - ABSTRACT - HOLDS_A_DATABASE)


def result():
    return lmma.minimize(sphere, np.ones(60), 0.5, rng=1, maxfevals=300, history=True, polish=True)


def test_every_public_class_is_looked_at_here():
    assert set(classes()) == set(MADE) | STRATEGIES | ABSTRACT | HOLDS_A_DATABASE


@pytest.mark.parametrize("name", everything())
def test_each_shows_itself_on_one_line_and_survives_copies(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    each = made(name)
    assert "\n" not in repr(each)
    assert len(repr(each)) <= LONGEST
    assert " at 0x" not in repr(each)
    for again in (pickle.loads(pickle.dumps(each)), copy.deepcopy(each), copy.copy(each)):
        assert type(again) is type(each)
        assert repr(again) == repr(each)


def test_a_long_result_prints_25_lines_at_most_and_a_short_space_shows_all():
    assert len(str(result()).splitlines()) <= 25
    assert repr(lmma.Space(a=lmma.Real(0, 1))) == "Space(a=Real(0.0, 1.0))"


def travellers():
    return [made(name) for name in everything() if name not in ("CompiledForest",)] + [result()]


def test_all_of_them_go_through_another_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = travellers()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = list(pool.map(copy.copy, here))
    assert [repr(each) for each in there] == [repr(each) for each in here]


@pytest.mark.skipif(importlib.util.find_spec("joblib") is None, reason="joblib is not installed")
def test_all_of_them_go_through_joblib(tmp_path, monkeypatch):
    import joblib

    monkeypatch.chdir(tmp_path)
    here = travellers()
    joblib.dump(here, tmp_path / "all.joblib")
    there = joblib.load(tmp_path / "all.joblib")
    assert [repr(each) for each in there] == [repr(each) for each in here]


def test_a_store_of_attacks_says_where_it_is(tmp_path):
    from lmma.store import Store

    with Store(tmp_path / "store.sqlite") as store:
        assert repr(attack.RecordStore(store, {"method": "ma-es"})) == "<records of ma-es in store.sqlite>"
