"""Spaces: values are encoded and decoded exactly, and invalid ones are rejected by name."""

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
    "no width": (lambda: Real(3, 3), r"use Fixed\(3\)"),
    "log of zero": (lambda: Real(0, 1, log=True), "low must be positive with log=True"),
    "infinite": (lambda: Real(0, math.inf), "high must be finite"),
    "words": (lambda: Real("a", 1), "low must be a number"),
    "a fraction": (lambda: Integer(0.5, 3), "low must be an integer"),
    "integers upside down": (lambda: Integer(3, 1), "low must be less than high"),
    "too large": (lambda: Integer(0, 2**60), "integer between -2.53 and 2.53"),
    "one choice": (lambda: Choice(["a"]), "two or more values"),
    "a word to choose": (lambda: Choice("ab"), "values of a choice must be a list"),
    "the same twice": (lambda: Choice([1, 2, 1.0]), "must differ, got 1.0 twice"),
    "shape": (lambda: Real(0, 1, shape=0), "shape must be a positive integer"),
    "nothing to search": (lambda: Space(a=Fixed(1)), "must have at least one Real, Integer or Choice"),
    "empty": (Space, "must have at least one Real, Integer or Choice"),
    "keyword": (lambda: Space({"for": Real(0, 1)}), "must be a valid Python argument name"),
    "reserved": (lambda: Space(file=Real(0, 1)), "'file' is reserved"),
    "twice": (lambda: Space({"a": Real(0, 1)}, a=Real(0, 1)), "duplicate variable 'a'"),
    "a number": (lambda: Space(a=3), r"a must be lmma.Real, .* Fixed\(3\)"),
    "a class": (lambda: Space(a=Real), r"not an instance: use Real\("),
    "a pair": (lambda: Space(a=(0, 1)), "a must be lmma.Real"),
}


@pytest.mark.parametrize(("make", "words"), WRONG.values(), ids=WRONG)
def test_an_invalid_variable_is_rejected(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


MISFITS = {
    "outside": ({"speed": 99}, "speed must be a number from 1 to 9, got 99"),
    "a fraction": ({"gear": 2.5}, "gear must be an integer from 1 to 6"),
    "unknown": ({"sped": 3}, "'sped' \\(did you mean 'speed'\\?\\); known variables: \\['speed'"),
    "no choice": ({"oil": "B"}, "oil must be one of"),
    "fixed": ({"gravity": 1.6}, "gravity is fixed to 9.81"),
    "shape": ({"wall": [1, 2]}, r"wall must be an array of shape \(2, 3\)"),
    "nan": ({"speed": math.nan}, "speed must be a number"),
}


@pytest.mark.parametrize(("change", "words"), MISFITS.values(), ids=MISFITS)
def test_values_that_do_not_fit_are_rejected_by_name(change, words):
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


def test_a_function_that_fits_no_call_is_rejected_by_name():
    with pytest.raises(TypeError, match="does not accept the variable 'b'"):
        lmma.minimize(lambda a: a, PAIR)
    with pytest.raises(TypeError, match="requires 'c', which is not in the space"):
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
    "unknown key": ("a = { rael = [1, 2] }", "variable 'a' has an unknown key 'rael' \\(did you mean 'real'"),
    "unknown detail": ("a = { real = [1, 2], lgo = true }", "unknown key 'lgo' \\(did you mean 'log'"),
    "detail of another": ("a = { choice = [1, 2], log = true }", "unknown key 'log'"),
    "low": ("a = { low = 1, high = 2 }", "unknown key 'low': use { real = \\[low, high\\] }"),
    "constant": ("a = { integer = [3, 3] }", "got 3 and 3; for a constant, use a = 3$"),
    "a list": ("a = [1, 2]", "variable 'a' is a list: use { real"),
    "two kinds": ("a = { real = [1, 2], integer = [1, 2] }", "must have one of real, integer"),
    "upside down": ("a = { real = [2, 1] }", "variable 'a': low must be less than high, got 2 and 1$"),
    "one limit": ("a = { real = [2] }", r"real must be \[low, high\]"),
    "unit": ("a = { real = [1, 2], unit = 3 }", "unit must be a string"),
    "no toml": ("a = {", "is not valid TOML"),
    "twice": ("a = 1\na = 2", "is not valid TOML"),
    "unknown table": ("a = { real = [0, 1] }\n[runs]\nx = 1", "unknown table 'runs' \\(did you mean 'run'"),
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


# Choices of many values, and values that fun changes


class Counted:
    """A value that counts comparisons."""

    comparisons = 0

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        Counted.comparisons += 1
        return isinstance(other, Counted) and self.number == other.number


def test_a_choice_of_many_values_compares_each_of_them_a_few_times():
    values = [Counted(number) for number in range(5000)]
    choice = Choice(values)
    assert [float(choice.encoded(value)[0]) for value in values[::500]] == [*range(0, 5000, 500)]
    assert choice.encoded(Counted(4321)) == 4321
    assert Counted.comparisons < 20_000


@pytest.mark.parametrize("values", [
    [[1, 2], [1, [2]], (1, 2), {"a": [1]}, {"a": [2]}],
    [1, True, 0.5, "1", None, frozenset([1]), b"1"],
    [{1}, {2}, [{1}], np.arange(2), Counted],
    [float("nan"), -1, 2**60],
])  # fmt: skip
def test_values_of_any_kind_are_found_again(values):
    choice = Choice(values)
    assert [float(choice.encoded(value)[0]) for value in values] == [*range(len(values))]


@pytest.mark.parametrize("values", [[1, 1.0], ["a", "b", "a"], [[1], [1]], [{"a": 1}, {"a": 1}], [{1}, {1}]])
def test_equal_values_are_rejected(values):
    with pytest.raises(ValueError, match="must differ"):
        Choice(values)


def test_fun_cannot_change_the_values_of_a_space():
    space = Space(
        layers=Choice([[8, 8], [16]]), options=Fixed({"sizes": [1, 2], "weights": np.zeros(2)}),
        pairs=Choice([[1], [2]], shape=2), data=Fixed(np.zeros(200_000)), x=Real(0, 1),
    )  # fmt: skip

    def fun(layers, options, pairs, data, x):
        assert layers in ([8, 8], [16])
        assert options["sizes"] == [1, 2]
        assert options["weights"].sum() == 0
        assert all(pair in ([1], [2]) for pair in pairs)
        for changed in (layers, options["sizes"], *pairs):
            changed.append(99)
        options["weights"] += 1
        with pytest.raises(ValueError, match="read-only"):
            data[0] = 1.0
        return x

    result = lmma.minimize(fun, space, rng=1, maxfevals=60)
    assert result.failures == 0
    assert result.x["layers"] in ([8, 8], [16])


def test_other_objects_are_passed_as_they_are():
    thing, inside = object(), []
    inside.append(inside)
    space = Space(thing=Fixed(thing), inside=Fixed(inside), x=Real(0, 1))
    values = space.decode(np.zeros(1))
    assert values["thing"] is thing
    assert values["inside"] is inside
