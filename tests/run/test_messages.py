"""Messages of a run name the argument, the value and the cause, and give advice that can help."""

import re
import threading
import time

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import lmma
from lmma import _archive
from lmma.run.checkpoint import Checkpoint, differences


def sphere(x):
    return float(x @ x)


def slow(x):
    time.sleep(10)


class Unpicklable:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, x):
        return sphere(x)


def alternating():
    calls = []

    def constraints(x):
        calls.append(x)
        return np.zeros(1 + len(calls) % 2)

    return constraints


@pytest.mark.parametrize(("arguments", "words"), [
    ({"ftarget": np.inf}, "ftarget must be finite, or None for no target; got inf"),
    ({"bounds": "0,1"}, "length 4; got '0,1'"),
    ({"bounds": {"a": (0, 1)}}, "a dict, which needs a structure as x0"),
    ({"inject": [1, np.nan, 1, 1]}, "inject must be finite, got NaN in row 0"),
    ({"inject": [1, 2, 3]}, "inject must have shape (4,) or (rows, 4), got shape (3,)"),
    ({"on_error": "worts"}, "one of 'worst', 'raise', 'resample', got 'worts' (did you mean 'worst'?)"),
    ({"boundary": "refelct"}, "got 'refelct' (did you mean 'reflect'?)"),
    ({"noise": "none"}, "got 'none' (use None)"),
    ({"constraints": alternating()}, "constraints returned 2 values for candidate 0 but 1 for candidate 1"),
    ({"constraints": NonlinearConstraint(sphere, [2.0], [1.0])}, "constraint 0: lb[0] = 2 exceeds ub[0] = 1"),
    ({"workers": "dask://localhost"}, "workers='dask://localhost' has no port: use dask://host:port"),
    ({"log": "no/run.jsonl"}, "log: no/run.jsonl cannot be written: no such file or directory"),
])  # fmt: skip
def test_an_invalid_argument_is_named_with_its_value(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, OSError), match=re.escape(words)):
        lmma.minimize(sphere, np.ones(4), rng=0, maxfevals=50, **arguments)


def test_no_target_may_be_minus_infinity():
    assert lmma.minimize(sphere, np.ones(4), rng=0, maxfevals=50, ftarget=-np.inf).reason == "maxfevals"


def test_an_unpicklable_objective_is_named_as_such():
    with pytest.raises(TypeError, match="fun or args cannot be sent to worker processes: cannot pickle"):
        lmma.minimize(Unpicklable(), np.ones(4), workers=2, maxfevals=50)


def test_a_vectorized_objective_without_a_result_is_said_to_return_none():
    with pytest.raises(TypeError, match="for 8 rows; got None"):
        lmma.minimize(lambda X: None, np.ones(4), values="ranks", vectorized=True, maxfevals=50)


def test_a_checkpoint_needs_a_file_name():
    with pytest.raises(TypeError, match="path must be the name of a file, got 3"):
        Checkpoint(3)


@pytest.mark.parametrize(("value", "words"), [
    (np.nan, "First failure: fun returned NaN."),
    (-np.inf, "First failure: fun returned -inf."),
    ((1.0, [0.0, np.nan]), "First failure: the constraint returned by fun, number 1, is NaN."),
])  # fmt: skip
def test_a_run_without_any_value_names_the_first_failure(value, words):
    result = lmma.minimize(lambda x: value, np.ones(4), rng=0, maxfevals=8)
    assert result.reason == "maxfevals"
    assert result.message.endswith(f"No evaluation returned a finite value. {words}")


def test_a_constraint_that_is_nan_is_named():
    functions = [lambda x: [0.0, 0.0], lambda x: [np.nan]]
    result = lmma.minimize(sphere, np.ones(4), rng=0, maxfevals=8, constraints=functions)
    assert "First failure: constraint 1 is NaN." in result.message


def test_timeouts_are_named_as_the_cause_if_nothing_was_evaluated():
    result = lmma.minimize(slow, np.ones(4), rng=0, popsize=2, maxfevals=2, timeout=0.1)
    assert "First failure: no value within timeout = 0.1 s." in result.message


def test_a_missed_target_is_to_be_sought_elsewhere_unless_the_tolerance_is_large():
    def valleys(x):
        return float(np.sum(x * x - 10 * np.cos(2 * np.pi * x) + 10))

    start = np.full(4, 3.1)
    missed = lmma.minimize(valleys, start, 0.1, values="ranks", ftarget=1e-9, rng=0, maxfevals=20_000)
    assert "smaller tol" not in missed.message
    assert "ftarget = 1e-09 was not reached; set restarts= to search elsewhere." in missed.message
    loose = lmma.minimize(
        valleys, start, 0.1, values="ranks", ftarget=1e-9, rng=0, maxfevals=20_000, tolfun=1e-2
    )
    assert loose.reason == "tolfun"
    assert "set a smaller tolfun. The target ftarget = 1e-09 was not reached." in loose.message


def test_ties_are_not_explained_by_rounding_if_constraints_cannot_be_met():
    infeasible = lmma.minimize(
        sphere, np.ones(4), constraints=lambda x: [x[0] + 1, 3 - x[0]], rng=0, maxfevals=20_000
    )
    assert "No feasible point was found" in infeasible.message
    assert "too few digits" not in infeasible.message


def test_a_whole_limit_is_shown_without_a_fraction():
    assert lmma.minimize(sphere, np.ones(4), values="ranks", rng=0, maxfevals=100.0).message.endswith(
        "maxfevals = 100."
    )


@pytest.mark.parametrize(("content", "words"), [
    (b"hello", "it is not an lmma checkpoint"),
    (b"hello" * 100, "it is not an lmma checkpoint"),
    (b"", "it is empty"),
    (b"PK\3\4", r"it is truncated (4 bytes)"),
])  # fmt: skip
def test_a_foreign_file_is_not_called_a_damaged_checkpoint(content, words, tmp_path):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(_archive.CheckpointError, match=re.escape(words)):
        _archive.read(tmp_path / "a.npz")


def test_an_archive_of_numpy_is_not_called_damaged_but_half_a_checkpoint_is(tmp_path):
    np.savez(tmp_path / "numpy.npz", a=np.ones(40))
    with pytest.raises(_archive.CheckpointError, match=r"it is not an lmma checkpoint; use another file$"):
        _archive.read(tmp_path / "numpy.npz")
    _archive.write(tmp_path / "run.npz", {}, {"a": np.ones(40)})
    whole = (tmp_path / "run.npz").read_bytes()
    (tmp_path / "run.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(_archive.CheckpointError, match="do not match its checksum"):
        _archive.read(tmp_path / "run.npz")


def test_bounds_differ_and_a_seed_differs():
    assert differences({"bounds (digest)": 1}, {"bounds (digest)": 2}) == ["bounds differ"]
    assert differences({"integrality (digest)": 1}, {"integrality (digest)": 2}) == ["integrality differs"]


def test_options_without_effect_are_reported():
    def warnings(**options):
        return lmma.minimize(sphere, np.ones(4), rng=0, maxfevals=20, **options).warnings

    assert warnings(boundary="wrap") == ["boundary 'wrap' has no effect: there are no bounds"]
    (one_sided,) = warnings(boundary="wrap", bounds=[(0, None), (0, 2), (0, 2), (0, 2)])
    assert one_sided == "boundary 'wrap' reflects 1 coordinate with only one finite bound"
    (unused,) = warnings(constraint_handling="rank")
    assert unused == "constraint_handling 'rank' had no effect: there were no constraints"
    assert warnings(constraint_handling="rank", constraints=lambda x: -1.0) == []
    assert warnings(boundary="wrap", bounds=[(0, 2)] * 4) == []
