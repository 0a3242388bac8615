"""Arguments, errors and results of lmma.check."""

import copy
import json
import pickle
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import lmma
from lmma.checking.measure import count_turns, digits, levels, noise_level


def sphere(x):
    return float(x @ x)


def rows(X):
    return (X**2).sum(axis=1)


def sleeping(x):
    time.sleep(60)


# What it takes


def test_the_same_seed_asks_the_same_points():
    asked = ([], [])
    for points in asked:
        lmma.check(lambda x, p=points: (p.append(x.copy()), sphere(x))[1], np.ones(4), rng=3)
    np.testing.assert_array_equal(*asked)


def test_every_call_is_counted():
    calls = []
    found = lmma.check(lambda x: (calls.append(1), sphere(x))[1], np.ones(4), rng=3, calls=60)
    assert len(calls) == found.calls <= 60


@pytest.mark.parametrize(
    "x0", [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.5, 0.2, 0.9]], ids=["edge", "corner", "inside"]
)
def test_no_call_leaves_the_box(x0):
    seen = []
    found = lmma.check(lambda x: (seen.append(x.copy()), sphere(x - 0.3))[1], x0, bounds=[(0, 1)] * 3, rng=1)
    assert np.min(seen) >= 0
    assert np.max(seen) <= 1
    assert found.use == "lmma"
    assert found.suggest["bounds"] == [(0, 1)] * 3
    assert lmma.minimize(lambda x: sphere(x - 0.3), x0, **found.suggest, maxfevals=900, rng=1).fun < 1e-9


def test_a_function_of_rows_is_called_with_rows():
    found = lmma.check(rows, np.ones(4), vectorized=True, rng=1)
    assert (found.kind, found.suggest["vectorized"]) == ("smooth", True)
    assert "vectorized=True" in str(found)


def test_further_arguments_are_passed_and_suggested():
    found = lmma.check(lambda x, a: a * sphere(x), np.ones(3), args=(2.0,), rng=1)
    assert found.suggest["args"] == (2.0,)


@pytest.mark.parametrize("first", [3.0, 3.4])
def test_integers_are_given_whole_numbers(first):
    seen = []
    found = lmma.check(
        lambda x: (seen.append(x[0]), sphere(x))[1],
        [first, 0.5],
        bounds=[(0, 9), (-1, 1)],
        integrality=[1, 0],
        rng=1,
    )
    assert all(value == int(value) for value in seen)
    assert found.use == "lmma"
    assert lmma.minimize(sphere, [3.0, 0.5], **found.suggest, maxfevals=300, rng=1).x[0] == 0


def test_a_space_is_looked_at_by_name():
    space = lmma.Space(speed=lmma.Real(0, 9), gear=lmma.Integer(1, 6), oil=lmma.Choice(["A", "C"]))

    def cost(speed, gear, oil):
        assert isinstance(gear, int)
        assert oil in ("A", "C")
        return (speed - 2) ** 2 + gear + (oil == "A")

    for given in ({"x0": space}, {"x0": None, "space": space}, {"x0": {"speed": 1.0}, "space": space}):
        found = lmma.check(cost, **given, rng=1)
        assert found.failures == 0
        assert found.use == "lmma"
        assert found.n == 3
        assert set(found.effects) <= {"speed"}
    assert "space" in found.suggest


def test_a_space_of_choices_alone_can_be_looked_at():
    space = lmma.Space(a=lmma.Choice(["p", "q", "r"]), b=lmma.Integer(1, 6))
    found = lmma.check(lambda a, b: "pqr".index(a) + b, space, rng=1)
    assert (found.kind, found.use) == ("discrete", "lmma")


def test_a_smooth_function_of_names_begins_with_slopes():
    space = lmma.Space(a=lmma.Real(-1, 2), b=lmma.Real(0.1, 10, log=True))
    found = lmma.check(lambda a, b: (a - 1) ** 2 + np.log(b) ** 2, space, rng=1)
    assert (found.kind, found.use, found.begins_with) == ("smooth", "lmma", "slopes")


def test_constraints_that_fun_returns_are_no_obstacle():
    found = lmma.check(lambda x: (sphere(x), [1 - x[0]]), np.ones(3), rng=1)
    assert (found.kind, found.use) == ("smooth", "lmma")


@pytest.mark.parametrize(
    "given",
    [
        {"bounds": np.array([[0.0, 1.0]] * 3)},
        {"bounds": (np.zeros(3), np.ones(3))},
        {"sigma0": np.full(3, 0.2)},
        {"sigma0": np.float64(0.2)},
        {"integrality": np.array([1, 0, 0])},
        {"args": (np.float64(2.0),)},
    ],
    ids=["box", "limits", "steps", "step", "integers", "args"],
)
def test_arguments_from_numpy_are_copied_as_plain_python(given):
    found = lmma.check(lambda x, *args: sphere(x), np.full(3, 0.5), rng=1, **given)
    calls = found.calls_in_python()
    assert "array(" not in str(calls)
    assert "float64" not in str(calls)
    names = {"fun": lambda x, *args: sphere(x), "x0": np.full(3, 0.5), "report": found, "lmma": lmma}
    assert eval(f"{calls['lmma'][:-1]}, maxfevals=60)", names).nfev <= 60


def test_calls_to_copy_are_valid_for_long_arguments():
    bounds = [(0.0, np.inf)] * 40
    found = lmma.check(sphere, np.ones(40), bounds=bounds, rng=1)
    names = {"fun": sphere, "x0": np.ones(40), "report": found, "lmma": lmma, "bounds": bounds}
    result = eval(f"{found.calls_in_python()['lmma'][:-1]}, maxfevals=60)", names)
    assert result.nfev <= 60


def test_no_more_calls_are_made_than_the_run_may_make():
    found = lmma.check(lambda x: (time.sleep(0.006), sphere(x))[1], np.ones(4), rng=1, maxfevals=40)
    assert found.calls <= 40
    assert "40 sequential calls" in found.findings["time"]
    assert found.suggest["maxfevals"] == 40


# Bad functions


def test_a_function_that_always_fails_is_reported_after_a_few_calls():
    def broken(x):
        raise RuntimeError("no licence")

    found = lmma.check(broken, np.ones(3), rng=1)
    assert (found.kind, found.use) == ("failing", "neither")
    assert found.calls < 20
    assert "no licence" in found.findings["failures"]
    assert found.errors[0].kind == "RuntimeError"


def test_the_last_line_of_a_traceback_is_shown():
    def program(x):
        lines = [f'  File "solver.py", line {k}, in step' for k in range(40)]
        lines = ["./solve failed: Traceback", *lines, "NameError: name 'a' is not defined"]
        raise RuntimeError("\n".join(lines))

    text = lmma.check(program, np.ones(3), rng=1).findings["failures"]
    assert "./solve failed: Traceback" in text
    assert text.endswith("NameError: name 'a' is not defined")
    assert len(text) < 400


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_a_function_without_finite_values_is_reported(value):
    assert lmma.check(lambda x: value, np.ones(3), rng=1).kind == "failing"


def test_a_function_that_hangs_is_given_up():
    found = lmma.check(sleeping, np.ones(2), timeout=0.1, rng=1)
    assert found.kind == "failing"
    assert found.calls <= 4
    assert "timeout" in found.findings["failures"]


def test_a_start_that_fails_is_left():
    found = lmma.check(lambda x: 1 / 0 if x[0] == 1 else sphere(x), np.ones(3), rng=1)
    assert found.kind in ("smooth", "jumping", "kinked")
    assert any("start itself failed" in sentence for sentence in found.advice)


@pytest.mark.parametrize("answer", ["text", None, [1.0, 2.0]], ids=["text", "none", "list"])
def test_a_value_that_is_not_a_number_is_a_mistake(answer):
    with pytest.raises(TypeError, match="must return one real number"):
        lmma.check(lambda x: answer, np.ones(3), rng=1)


def test_time_ends_it_and_the_report_says_what_was_not_seen():
    found = lmma.check(lambda x: (time.sleep(0.02), sphere(x))[1], np.ones(3), maxtime=0.3, rng=1)
    assert found.calls < 50
    assert "not seen" in found.findings
    assert found.use == "lmma"  # what was not looked at is not sent away


# Bad arguments


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x0": None}, "x0"),
        ({"x0": [np.nan, 1.0]}, "x0"),
        ({"calls": 5}, "calls must be a whole number of at least 20"),
        ({"calls": 50.5}, "calls must be"),
        ({"maxtime": 0}, "maxtime must be positive"),
        ({"timeout": -1}, "timeout"),
        ({"sigma0": -1}, "sigma0"),
        ({"bounds": [(1, 0)] * 2}, "bound"),
    ],
    ids=["no start", "nan", "few calls", "half a call", "no time", "timeout", "step", "bounds"],
)
def test_an_invalid_argument_is_rejected(given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        lmma.check(sphere, **({"x0": [1.0, 2.0]} | given))


def test_the_start_cannot_be_left_out():
    with pytest.raises(TypeError, match="x0"):
        lmma.check(sphere)


def test_an_objective_that_is_not_callable_is_rejected():
    with pytest.raises(TypeError, match="fun must be callable"):
        lmma.check(3.0, [1.0])


# The report


@pytest.fixture(scope="module")
def found():
    return lmma.check(sphere, np.ones(4), rng=1)


def test_one_line_says_the_most(found):
    assert repr(found) == f"<check of sphere: smooth, n=4, {found.calls} calls, use lmma>"


def test_print_fits_on_a_screen(found):
    text = str(found)
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 110
    for word in (
        "time",
        "failures",
        "noise",
        "digits",
        "smoothness",
        "variables",
        "default",
        "advice",
        "lmma",
    ):
        assert f"  {word}" in text


def test_json_holds_everything(found):
    fields = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert fields["kind"] == "smooth"
    assert fields["suggest"] == {"method": "auto"}
    assert fields["begins_with"] == "slopes"
    assert set(fields["effects"]) == {"0", "1", "2", "3"}


def test_it_can_be_copied_and_sent(found):
    with ProcessPoolExecutor(1) as pool:
        for other in (
            copy.deepcopy(found),
            pickle.loads(pickle.dumps(found)),
            pool.submit(copy.copy, found).result(),
        ):
            assert other == found


# Difference tables and digits


@pytest.mark.parametrize("level", [1e-8, 1e-3])
def test_the_level_of_noise_on_a_slope_is_found(level):
    rng = np.random.default_rng(1)
    for _ in range(20):
        t = 1e-6 * np.arange(9)
        values = 3 + 5 * t + level * rng.standard_normal(9)
        assert level / 3 < noise_level(values) < 3 * level  # nine values: some 25% of standard error


def test_columns_of_pure_noise_agree():
    values = np.random.default_rng(2).standard_normal(4000)
    assert np.allclose(levels(values)[:6], 1, rtol=0.1)  # 4000 values: 2%, more in later columns


def test_a_polynomial_leaves_nothing():
    assert noise_level(np.arange(9.0) ** 2) < 1e-12


def test_turns_are_counted_beyond_what_is_negligible():
    assert count_turns(np.array([3.0, 1, 2, 0, 5]), 0.1) == 3
    assert count_turns(np.array([3.0, 1, 1.05, 0, 5]), 0.1) == 1
    assert count_turns(np.array([1.0, 1.0, 1.0]), 0.1) == 0


@pytest.mark.parametrize(
    ("written", "significant", "rounded", "single", "whole"),
    [
        ("{:.5e}", 6, True, False, False),
        ("{:.3e}", 4, True, False, True),
        ("{:.0f}", 4, True, False, True),
        ("{!r}", 17, False, False, False),
    ],
    ids=["six", "four", "whole", "all"],
)
def test_digits_of_printed_values(written, significant, rounded, single, whole):
    values = [
        float(written.format(value)) for value in np.random.default_rng(1).uniform(1000, 9000, 60).tolist()
    ]
    found = digits(values)
    assert (found.significant, found.rounded, found.single, found.integral) == (
        significant,
        rounded,
        single,
        whole,
    )


def test_values_of_single_precision_are_recognised():
    values = np.random.default_rng(1).standard_normal(60).astype(np.float32)
    assert digits(values).single
