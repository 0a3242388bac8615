"""A space: values go in and come out exactly, and what cannot be meant is refused by name."""

import math
import pickle

import numpy as np
import pytest

import lmma
from lmma import Choice, Fixed, Integer, Real, Space
from lmma.space.calling import NamedValues, takes_keywords
from lmma.space.toml_file import read_space

EVERYTHING = Space(
    speed=Real(1, 9, unit="m/s"), rate=Real(1e-5, 0.1, log=True), gear=Integer(1, 6),
    oil=Choice(["A", "C", None]),
    gravity=Fixed(9.81), wall=Real(-1, 1, shape=(2, 3)), teeth=Integer(10, 99, shape=2),
    on=Choice([True, False], shape=(2,)),
)  # fmt: skip
VALUES = {
    "speed": 3.0, "rate": 1e-3, "gear": 4, "oil": "C", "gravity": 9.81,
    "wall": np.arange(6).reshape(2, 3) / 8,
    "teeth": np.array([17, 99]), "on": np.array([False, True]),
}  # fmt: skip


def same(a, b):
    return a.keys() == b.keys() and all(
        np.all(np.isclose(a[name], b[name], rtol=1e-14))
        if name == "rate"
        else np.array_equal(a[name], b[name])
        for name in a
    )


def test_values_come_back_as_they_were():
    vector = EVERYTHING.encode(VALUES)
    assert vector.shape == (EVERYTHING.n,) == (4 + 6 + 2 + 2,)
    assert same(EVERYTHING.decode(vector), VALUES)
    assert len(EVERYTHING.labels) == EVERYTHING.n
    assert EVERYTHING.labels[:6] == ["speed", "rate", "gear", "oil", "wall[0,0]", "wall[0,1]"]
    twice = pickle.loads(pickle.dumps(EVERYTHING))
    assert twice == EVERYTHING
    assert same(twice.decode(vector), VALUES)


def test_values_have_the_types_of_python():
    values = EVERYTHING.decode(EVERYTHING.middle)
    assert type(values["speed"]) is float
    assert type(values["gear"]) is int
    assert values["teeth"].dtype == np.int64
    assert values["gravity"] == 9.81
    assert EVERYTHING.decode(EVERYTHING.encode(VALUES | {"oil": None}))["oil"] is None


def test_the_middle_of_a_logarithmic_variable_is_a_geometric_mean():
    assert EVERYTHING.decode(EVERYTHING.middle)["rate"] == pytest.approx(1e-3)
    assert EVERYTHING.decode(EVERYTHING.middle)["speed"] == 5.0


def test_no_value_leaves_its_limits_by_rounding():
    space = Space(a=Real(0.1, 0.7, log=True), b=Real(3e-7, 1e-3, log=True, shape=4))
    for corner in (space.bounds.lb, space.bounds.ub):
        values = space.decode(corner)
        assert 0.1 <= values["a"] <= 0.7
        assert np.all((values["b"] >= 3e-7) & (values["b"] <= 1e-3))


def test_rows_are_decoded_one_by_one_or_as_columns():
    rows = np.vstack((EVERYTHING.encode(VALUES), EVERYTHING.middle))
    first, second = EVERYTHING.decode(rows)
    columns = EVERYTHING.columns(rows)
    assert columns["wall"].shape == (2, 2, 3)
    assert columns["oil"].tolist() == [first["oil"], second["oil"]]
    assert columns["gear"].tolist() == [first["gear"], second["gear"]]
    assert columns["gravity"] == 9.81


def test_steps_are_shares_of_each_width():
    space = Space(a=Real(0, 10), b=Real(1e-4, 1, log=True), c=Integer(0, 5))
    np.testing.assert_allclose(space.steps(), [3.0, 0.3 * math.log(1e4), 1.5])
    np.testing.assert_allclose(space.steps({"a": 0.01}), [0.1, 0.3 * math.log(1e4), 1.5])
    np.testing.assert_allclose(space.steps(0.1), [1.0, 0.1 * math.log(1e4), 0.5])


def test_a_start_may_leave_variables_out():
    space = Space(a=Real(0, 10), c=Choice(["one", "two"]), b=Real(0, 4))
    assert space.start({"a": 3}).tolist() == [3.0, -1.0, 2.0]
    assert space.start({"c": "two"}).tolist() == [5.0, 1.0, 2.0]


WRONG = {
    "upside down": (lambda: Real(3, 1), "low must be less than high, got 3 and 1"),
    "no width": (lambda: Real(3, 3), r"Fixed\(3\) is one value"),
    "log of zero": (lambda: Real(0, 1, log=True), "log=True needs a positive low"),
    "infinite": (lambda: Real(0, math.inf), "high must be finite"),
    "words": (lambda: Real("a", 1), "low must be a number"),
    "a fraction": (lambda: Integer(0.5, 3), "low must be an integer"),
    "integers upside down": (lambda: Integer(3, 1), "low must be less than high"),
    "too large": (lambda: Integer(0, 2**60), "integer of at most 2.53"),
    "one choice": (lambda: Choice(["a"]), "two or more values"),
    "a word to choose": (lambda: Choice("ab"), "list of values"),
    "the same twice": (lambda: Choice([1, 2, 1.0]), "must differ, 1.0 is there twice"),
    "shape": (lambda: Real(0, 1, shape=0), "shape must be a positive number"),
    "nothing to search": (lambda: Space(a=Fixed(1)), "needs a variable to search"),
    "empty": (Space, "needs a variable to search"),
    "keyword": (lambda: Space({"for": Real(0, 1)}), "name must be one that a Python function"),
    "reserved": (lambda: Space(file=Real(0, 1)), "cannot be called 'file'"),
    "twice": (lambda: Space({"a": Real(0, 1)}, a=Real(0, 1)), "'a' is there twice"),
    "a number": (lambda: Space(a=3), r"a must be lmma.Real, .* Fixed\(3\)"),
    "a class": (lambda: Space(a=Real), r"give its limits, Real\("),
    "a pair": (lambda: Space(a=(0, 1)), "a must be lmma.Real"),
}


@pytest.mark.parametrize(("make", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_a_variable_is_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


MISFITS = {
    "outside": ({"speed": 99}, "speed must be a number from 1 to 9, got 99"),
    "a fraction": ({"gear": 2.5}, "gear must be an integer from 1 to 6"),
    "unknown": ({"sped": 3}, "no variable 'sped' in the space, did you mean 'speed'"),
    "no choice": ({"oil": "B"}, "oil must be one of"),
    "fixed": ({"gravity": 1.6}, "gravity is fixed to 9.81"),
    "shape": ({"wall": [1, 2]}, r"wall must be an array of shape \(2, 3\)"),
    "nan": ({"speed": math.nan}, "speed must be a number"),
}


@pytest.mark.parametrize(("change", "words"), MISFITS.values(), ids=MISFITS)
def test_values_that_do_not_fit_are_refused_by_name(change, words):
    with pytest.raises(ValueError, match=words):
        EVERYTHING.encode(VALUES | change)
    with pytest.raises(ValueError, match=words):
        lmma.minimize(lambda v: 0.0, change, space=EVERYTHING)


# Calling

PAIR = Space(a=Real(0, 1), b=Integer(1, 5))
CALLS = {
    "keywords": (lambda a, b: (a, b), True), "any keywords": (lambda **values: values, True),
    "one of them and any": (lambda a, **rest: a, True), "defaults": (lambda a, b, c=3: a, True),
    "a dict": (lambda values: values, False), "a dict and more": (lambda values, scale=2: values, False),
    "only keywords": (lambda *, a, b: a, True), "star": (lambda *args: args, False),
}  # fmt: skip


@pytest.mark.parametrize(("fun", "keywords"), CALLS.values(), ids=CALLS)
def test_a_function_is_called_as_its_signature_asks(fun, keywords):
    assert takes_keywords(fun, PAIR) is keywords
    NamedValues(fun, PAIR)(PAIR.middle)


def test_a_function_that_fits_no_call_is_refused_by_name():
    with pytest.raises(TypeError, match="does not take the variable 'b'"):
        lmma.minimize(lambda a: a, PAIR)
    with pytest.raises(TypeError, match="wants 'c', which the space does not have"):
        lmma.minimize(lambda a, b, c: a, PAIR)


# TOML

GOOD = """
[variables]
speed = { real = [1, 9], unit = "m/s" }
rate = { real = [1e-5, 0.1], log = true }
gear = { integer = [1, 6] }
oil = { choice = ["A", "C"] }
wall = { real = [-1, 1], shape = [2, 3] }
gravity = 9.81
[run]
objective = "model:loss"
"""
MISTAKES = {
    "unknown key": ("a = { rael = [1, 2] }", "variable 'a' has an unknown key 'rael', did you mean 'real'"),
    "unknown detail": ("a = { real = [1, 2], lgo = true }", "unknown key 'lgo', did you mean 'log'"),
    "detail of another": ("a = { choice = [1, 2], log = true }", "unknown key 'log'"),
    "a list": ("a = [1, 2]", "variable 'a' is a list: write { real"),
    "two kinds": ("a = { real = [1, 2], integer = [1, 2] }", "must have one of real, integer"),
    "upside down": ("a = { real = [2, 1] }", "variable 'a': low must be less than high"),
    "one limit": ("a = { real = [2] }", r"real must be \[low, high\]"),
    "unit": ("a = { real = [1, 2], unit = 3 }", "unit must be a text"),
    "no toml": ("a = {", "is no TOML"),
    "twice": ("a = 1\na = 2", "is no TOML"),
    "unknown table": ("a = { real = [0, 1] }\n[runs]\nseed = 1", "unknown table 'runs', did you mean 'run'"),
}


def test_a_file_says_what_python_says(tmp_path):
    (tmp_path / "a.toml").write_text(GOOD)
    file = read_space(tmp_path / "a.toml")
    assert file.run == {"objective": "model:loss"}
    assert file.space == Space(
        speed=Real(1, 9, unit="m/s"), rate=Real(1e-5, 0.1, log=True), gear=Integer(1, 6),
    oil=Choice(["A", "C"]),
        wall=Real(-1, 1, shape=(2, 3)), gravity=Fixed(9.81),
    )  # fmt: skip


@pytest.mark.parametrize(("text", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_file_is_named(text, words, tmp_path):
    (tmp_path / "a.toml").write_text(f"[variables]\n{text}\n")
    with pytest.raises(ValueError, match=words):
        read_space(tmp_path / "a.toml")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none.toml cannot be read"):
        read_space(tmp_path / "none.toml")
