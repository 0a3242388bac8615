"""Attacks on user classifiers with user images."""

import json
import sys

import numpy as np
import pytest

from lmma.cli import main
from lmma_lab.attack.user_model import dataset_of, load_user_data

MODULE = """
import numpy as np

W = np.random.default_rng(0).standard_normal((16, 3))


def predict_proba(X):
    e = np.exp(np.tanh(X) @ W)
    return e / e.sum(axis=1, keepdims=True)


class Model:
    def predict_proba(self, X):
        return predict_proba(X)


model = Model()
number = 3


def images():
    X = np.random.default_rng(1).uniform(0, 1, (60, 16))
    return X, predict_proba(X).argmax(axis=1)


def broken():
    raise RuntimeError("no disk")


def one_column(X):
    return X[:, :1]
"""


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attacked_module.py").write_text(MODULE)
    yield
    sys.modules.pop("attacked_module", None)


def attack(capsys, *words):
    status = main(
        ["attack", "--quiet", "--no-figures", "--images", "6", "--budget", "300", "--sigma0", "0.1", *words]
    )
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("model", ["predict_proba", "model", "model.predict_proba"])
def test_a_classifier_of_ones_own_is_fooled_and_asked_again(model, capsys):
    words = ("--model", f"attacked_module:{model}", "--data", "attacked_module:images", "--json")
    status, out, _ = attack(capsys, *words)
    numbers = json.loads(out)
    assert status == 0
    assert numbers["summaries"]["lm-ma-es"]["successes"] == numbers["confirmed"]["lm-ma-es"] > 0
    assert (numbers["trees"], numbers["accuracy"], numbers["data"]) == (0, 1.0, "attacked_module:images")


def test_images_from_a_file(capsys, tmp_path):
    sys.path.insert(0, str(tmp_path))
    try:
        import attacked_module

        X, y = attacked_module.images()
    finally:
        sys.path.remove(str(tmp_path))
    np.savez(tmp_path / "own.npz", X=X.reshape(-1, 4, 4), y=y, high=1.0)
    status, out, _ = attack(capsys, "--model", "attacked_module:predict_proba", "--data", "own.npz")
    assert status == 0
    assert "own.npz: a user classifier" in out


def test_the_same_command_resumes_and_another_classifier_starts_a_new_campaign(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same size and second is another
    words = ("--model", "attacked_module:predict_proba", "--data", "attacked_module:images", "--json")
    first = json.loads(attack(capsys, *words)[1])
    again = json.loads(attack(capsys, *words)[1])
    assert again["summaries"] == first["summaries"]
    sys.modules.pop("attacked_module")
    (tmp_path / "attacked_module.py").write_text(MODULE.replace("default_rng(0)", "default_rng(7)"))
    other = json.loads(attack(capsys, *words)[1])
    assert other["summaries"] != first["summaries"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "attacked_module:number", "--data", "attacked_module:images"], "not a function"),
        (
            ["--model", "attacked_module:one_column", "--data", "attacked_module:images"],
            "at least two classes",
        ),
        (["--model", "attacked_module:nothing", "--data", "attacked_module:images"], "has no 'nothing'"),
        (["--model", "attacked_module:predict_proba", "--data", "attacked_module:broken"], "no disk"),
        (["--model", "attacked_module:predict_proba", "--data", "attacked_module:number"], "must be (X, y)"),
        (["--model", "attacked_module:predict_proba", "--data", "none.npz"], "none.npz"),
        (["--data", "attacked_module:images"], "no X_train and y_train"),
    ],
    ids=["number", "column", "nothing", "broken", "no images", "no file", "no model"],
)
def test_mistakes_are_reported_in_one_line(words, message, capsys):
    status, _, err = attack(capsys, *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"X": np.zeros((3, 4)), "y": np.zeros(2, int)}, "one row per label"),
        ({"X": np.full((3, 4), np.nan), "y": np.zeros(3, int)}, "finite"),
        ({"X": np.zeros((3, 4)), "y": np.zeros(3)}, "column numbers"),
        ({"X": np.zeros((3, 4))}, "must hold X and y"),
        ({"X": np.zeros((3, 4)), "y": np.zeros(3, int), "shape": (3, 3)}, "does not match 4 pixels"),
    ],
    ids=["lengths", "nan", "labels", "no labels", "shape"],
)
def test_data_that_cannot_be_meant_are_rejected(given, words):
    with pytest.raises(ValueError, match=words):
        dataset_of(given, "mine")


def test_omitted_properties_are_derived_from_the_images(tmp_path):
    data = dataset_of((np.zeros((2, 5, 3)), np.array([0, 1])), "mine")
    assert (data.shape, data.high, data.X_test.shape) == ((5, 3), 1.0, (2, 15))
    assert dataset_of((np.zeros((2, 7)), [0, 1]), "mine").shape == (1, 7)
    np.savez(tmp_path / "a.npz", X_test=np.full((2, 9), 200, np.uint8), y_test=[0, 1])
    data = load_user_data(tmp_path / "a.npz")
    assert (data.shape, data.high, data.X_test.dtype) == ((3, 3), 255.0, np.uint8)


def test_a_file_with_pickled_objects_is_rejected(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([{}, {}], dtype=object), y=[0, 1])
    with pytest.raises(ValueError, match=r"cannot be read as an \.npz file"):
        load_user_data(tmp_path / "a.npz")
