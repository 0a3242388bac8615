"""Runs over a space: values by name in, values by name out, for every evaluator and after a resume."""

import json

import numpy as np
import pytest

import lmma
from lmma import CheckpointError, Choice, Fixed, Integer, Real, Space

SPACE = Space(
    speed=Real(1, 9, unit="m/s"), rate=Real(1e-5, 0.1, log=True), gear=Integer(1, 6),
    oil=Choice(["A", "C", "D"]),
    gravity=Fixed(9.81), wall=Real(-1, 1, shape=2),
)  # fmt: skip
BEST = {"speed": 3.0, "rate": 1e-3, "gear": 4, "oil": "C"}


def loss(speed, rate, gear, oil, gravity, wall):
    assert type(gear) is int
    assert gravity == 9.81
    far = (speed - 3) ** 2 + np.log10(rate / 1e-3) ** 2 + (gear - 4) ** 2 + (oil != "C")
    return far + float(np.square(wall - 0.25).sum())


def rows(values):
    oil = np.where(values["oil"] == "C", 0, 1)
    far = (values["speed"] - 3) ** 2 + np.log10(values["rate"] / 1e-3) ** 2 + (values["gear"] - 4) ** 2 + oil
    return far + np.square(values["wall"] - 0.25).sum(axis=1)


@pytest.fixture(scope="module")
def found():
    return lmma.minimize(loss, SPACE, rng=1)


def test_the_result_is_by_name_and_as_a_vector(found):
    assert found.success
    assert found.fun < 1e-10
    assert {name: found.x[name] for name in ("gear", "oil", "gravity")} == {
        "gear": 4,
        "oil": "C",
        "gravity": 9.81,
    }
    assert found.x["speed"] == pytest.approx(3)
    assert found.vector.shape == (6,)
    assert loss(**found.x) == found.fun
    assert "gear" in str(found)


@pytest.mark.parametrize(
    ("fun", "options"),
    [
        (lambda values: loss(**values), {}),
        (rows, {"vectorized": True}),
        (loss, {"workers": 2}),
        (loss, {"workers": map}),
    ],
    ids=["dict", "vectorized", "pool", "map"],
)
def test_the_run_is_the_same_however_fun_is_called(fun, options):
    a, b = (lmma.minimize(f, SPACE, rng=1, maxfevals=300, **o) for f, o in ((loss, {}), (fun, options)))
    assert a.fun == pytest.approx(b.fun, rel=1e-12)
    np.testing.assert_allclose(a.vector, b.vector, rtol=1e-9)


def test_a_start_a_step_and_points_are_given_by_name():
    seen = []
    point = {"speed": 3, "rate": 1e-3, "gear": 4, "oil": "C", "wall": [0.25, 0.25]}
    result = lmma.minimize(
        lambda values: seen.append(values) or loss(**values), {"speed": 8.0}, {"speed": 1e-9}, space=SPACE,
        inject=[point], maxiter=1, rng=1,
    )  # fmt: skip
    assert all(abs(values["speed"] - 8) < 1e-6 for values in seen[:-1])
    assert seen[-1]["oil"] == "C"
    assert result.fun < 1e-20


def test_an_earlier_result_hands_over_what_it_learned(found):
    again = lmma.minimize(loss, found, space=SPACE, rng=2)
    assert again.fun < 1e-10
    assert again.nfev < found.nfev / 2
    other = lmma.minimize(loss, found, space=SPACE, rng=2, method="sep-cma-es")
    assert other.fun < 1e-10


def test_restarts_search_the_whole_space():
    result = lmma.minimize(loss, SPACE, rng=1, restarts=1, maxfevals=6000)
    assert len(result.runs) == 2
    assert result.runs[1].best_fun < 1e-10


def test_callback_and_log_have_names(tmp_path):
    seen = []
    lmma.minimize(loss, SPACE, rng=1, maxiter=3, callback=seen.append, log=tmp_path / "a.jsonl")
    assert seen[-1].keys() == set(SPACE)
    last = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[-1])
    assert last["x"].keys() == set(SPACE)
    assert last["x"]["gravity"] == 9.81
    assert isinstance(last["x"]["wall"], list)


@pytest.mark.parametrize("method", ["pulse-full", "d-lm-ma-es"])
def test_a_resumed_run_over_a_space_equals_the_unbroken_one(method, tmp_path):
    file = tmp_path / "a.npz"
    unbroken = lmma.minimize(loss, SPACE, rng=1, maxiter=30, method=method)
    lmma.minimize(loss, SPACE, rng=1, maxiter=12, checkpoint=file, method=method)
    resumed = lmma.minimize(loss, SPACE, rng=1, maxiter=30, checkpoint=file, method=method)
    assert np.array_equal(unbroken.vector, resumed.vector)
    assert unbroken.fun == resumed.fun


def changed(**variables):
    return Space({**SPACE, **variables})


CHANGES = {
    "limits": (
        changed(speed=Real(1, 10, unit="m/s")),
        r"variable 'speed' is .*Real\(1.0, 9.0.* in the file and .*10.0",
    ),
    "kind": (changed(gear=Real(1, 6)), "variable 'gear' is"),
    "a value more": (changed(oil=Choice(["A", "C", "D", "E"])), "variable 'oil' is"),
    "fixed value": (changed(gravity=Fixed(1.6)), "variable 'gravity' is"),
    "one more": (changed(extra=Real(0, 1)), "variable 'extra' is only here"),
    "order": (Space(dict(reversed(list(SPACE.items())))), "order of the variables differs"),
}


@pytest.mark.parametrize(("other", "words"), CHANGES.values(), ids=CHANGES)
def test_a_checkpoint_of_a_changed_space_is_rejected_by_the_variable(other, words, tmp_path):
    file = tmp_path / "a.npz"
    lmma.minimize(lambda values: values["speed"], SPACE, rng=1, maxiter=2, checkpoint=file)
    with pytest.raises(CheckpointError, match=words):
        lmma.minimize(lambda values: values["speed"], other, rng=1, maxiter=4, checkpoint=file)


def test_integers_of_plain_vectors(tmp_path):
    result = lmma.minimize(
        lambda x: float(np.square(x - 0.3).sum()), np.full(6, 4.0), bounds=(-5, 5),
        integrality=[0, 0, 0, 1, 1, 1],
        rng=1, checkpoint=tmp_path / "a.npz",
    )  # fmt: skip
    assert result.success
    assert result.x[3:].tolist() == [0, 0, 0]
    np.testing.assert_allclose(result.x[:3], 0.3, atol=1e-5)
    with pytest.raises(CheckpointError, match="integrality differs"):
        lmma.minimize(
            lambda x: float(x @ x), np.full(6, 4.0), bounds=(-5, 5), rng=1, checkpoint=tmp_path / "a.npz"
        )


def test_a_search_of_integers_alone_ends_when_no_neighbour_is_better():
    result = lmma.minimize(
        lambda x: float(np.abs(x - 3).sum()), np.zeros(8), bounds=(-9, 9), integrality=True, rng=1
    )
    assert (result.reason, result.success, result.fun) == ("integer_search_exhausted", True, 0.0)
    binary = lmma.minimize(
        lambda x: float(10 - x.sum()), np.full(10, 0.5), bounds=(0, 1), integrality=True, rng=1
    )
    assert (binary.reason, binary.fun) == ("integer_search_exhausted", 0.0)


def test_mixed_units_are_handled_by_default():
    width = 10.0 ** np.linspace(-2, 6, 9)
    result = lmma.minimize(
        lambda x: float(np.square(x / width - 0.2).sum()), np.zeros(9),
        bounds=list(zip(-width, width, strict=True)),
        rng=1, maxfevals=5000,
    )  # fmt: skip
    assert result.fun < 1e-10


WRONG = {
    "twice": ({"x0": SPACE, "space": SPACE}, "got a space both as x0 and as space="),
    "bounds": ({"x0": SPACE, "bounds": (0, 1)}, "bounds cannot be combined with space"),
    "integrality": ({"x0": SPACE, "integrality": True}, "integrality cannot be combined with space"),
    "no space": ({"x0": None, "space": {"a": 1}}, "space must be an lmma.Space"),
    "vector": ({"x0": [1.0, 2.0], "space": SPACE}, "a vector of this space must have 6 numbers"),
    "outside": ({"x0": np.full(6, 99.0), "space": SPACE}, "x0 must lie within bounds"),
    "sigma0": ({"x0": SPACE, "sigma0": -1}, "sigma0 of a space must be a share"),
    "sigma0 by a wrong name": (
        {"x0": SPACE, "sigma0": {"sped": 0.1}},
        "unknown variable 'sped'.*did you mean 'speed'",
    ),
    "inject": ({"x0": SPACE, "inject": {"speed": 3}}, "no value for 'rate'"),
}


@pytest.mark.parametrize(("given", "words"), WRONG.values(), ids=WRONG)
def test_an_argument_that_contradicts_a_space_is_rejected(given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        lmma.minimize(lambda values: 0.0, **given)


def test_ask_and_tell_over_a_space():
    es = lmma.strategy("lm-ma-es", SPACE, rng=1, start={"speed": 2})
    while not es.stop() and es.evaluations < 8000:
        es.tell([loss(**values) for values in SPACE.decode(es.ask())])
    assert es.best_fun < 1e-8
    assert SPACE.decode(es.best_x)["oil"] == "C"
