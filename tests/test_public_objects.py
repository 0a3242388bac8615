"""Every public object has a one-line repr, and can be copied, pickled and sent to other processes."""

import copy
import importlib.util
import inspect
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import lmma
from copies import check_copies
from lmma import problems, restarts


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


def told(cls):
    es = cls(np.ones(40), 0.5, rng=1)
    es.tell(np.sum(es.ask() ** 2, axis=1))
    return es


BOX = np.full(500, 0.5)


def archive():
    return lmma.minimize(sphere, np.ones(3), 0.5, rng=1, maxfevals=21, archive="runs.db").archive


# How to make one of each; abstract classes are made by those that fill them in
MADE = {
    "Archive": archive, "ArchiveError": lambda: lmma.ArchiveError("damaged"),
    "BIPOP": lambda: lmma.BIPOP(3), "IPOP": lambda: lmma.IPOP(3), "Plan": lambda: restarts.Plan(1, 10),
    "CheckResult": lambda: lmma.check(sphere, np.ones(500), rng=1),
    "Checkpoint": lambda: lmma.Checkpoint("run.npz", extra={"words": ["long"] * 1000}),
    "CheckpointError": lambda: lmma.CheckpointError("damaged"),
    "ClusterError": lambda: lmma.ClusterError("lost"),
    "EvaluationError": lambda: lmma.EvaluationError("failed"),
    "RunResult": lambda: lmma.minimize(sphere, np.ones(500), 0.5, rng=1, maxfevals=60),
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
}  # fmt: skip
ABSTRACT = {"Strategy", "ES", "Box", "Schedule", "Variable"}
STRATEGIES = {name for name, cls in classes().items() if issubclass(cls, lmma.Strategy)} - ABSTRACT


def made(name):
    return told(classes()[name]) if name in STRATEGIES else MADE[name]()


def everything():
    return sorted(set(classes()) - ABSTRACT)


def result():
    return lmma.minimize(sphere, np.ones(60), 0.5, rng=1, maxfevals=300, history=True, polish=True)


def test_every_public_class_is_looked_at_here():
    assert set(classes()) == set(MADE) | STRATEGIES | ABSTRACT


@pytest.mark.parametrize("name", everything())
def test_each_shows_itself_on_one_line_and_survives_copies(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_copies(made(name))


def test_a_long_result_prints_25_lines_at_most_and_a_short_space_shows_all():
    assert len(str(result()).splitlines()) <= 25
    assert repr(lmma.Space(a=lmma.Real(0, 1))) == "Space(a=Real(0.0, 1.0))"


def travellers():
    return [made(name) for name in everything()] + [result()]


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
