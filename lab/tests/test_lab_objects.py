"""Every public object of the lab has a one-line repr and can be copied and pickled."""

import inspect

import numpy as np
import pytest

from copies import check_copies
from lmma_lab import attack, plotting
from lmma_lab.store import Store


def probabilities(X):
    first = 1 / (1 + np.exp(-X.sum(axis=1)))
    return np.column_stack([first, 1 - first])


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


MADE = {
    "Campaign": attacked, "Record": lambda: attacked().records[0], "CompiledForest": small_forest,
    "Dataset": images,
    "Objective": lambda: attack.Objective(probabilities, np.zeros(500), 0), "Projection": attack.Projection,
    "Bands": lambda: plotting.Bands((0, 10)), "FigureData": figure, "Panel": lambda: figure().panels[0],
    "Series": lambda: figure().panels[0].series[0],
}  # fmt: skip
HOLDS_A_DATABASE = {"RecordStore"}


def test_every_public_class_is_looked_at_here():
    classes = {
        name
        for module in (attack, plotting)
        for name in module.__all__
        if inspect.isclass(getattr(module, name))
    }
    assert classes == set(MADE) | HOLDS_A_DATABASE


@pytest.mark.parametrize("name", MADE)
def test_each_shows_itself_on_one_line_and_survives_copies(name):
    check_copies(MADE[name]())


def test_a_store_of_attacks_says_where_it_is(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        assert repr(attack.RecordStore(store, {"method": "ma-es"})) == "<records of ma-es in store.sqlite>"
