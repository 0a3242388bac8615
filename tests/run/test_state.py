"""Saved state lies in its declared ranges; values outside are rejected by name."""

import math

import numpy as np
import pytest

import lmma
from lmma.layers.layer import ORDER
from lmma.methods import strategy_class
from lmma.numerics.state import (
    ANY,
    COUNT,
    DISTANCE,
    FINITE,
    FLAG,
    NOT_NAN,
    NOT_NEGATIVE,
    POSITIVE,
    UNIT,
    VALUE,
    collect,
    labels,
    restore,
    state_names,
    state_ranges,
)
from lmma.run.state import Counters, RunState, Saved, SavedRun


@pytest.mark.parametrize(("limits", "possible", "impossible"), [
    (FINITE, [0, -3.5, [1, 2]], [math.inf, -math.inf, math.nan, [1, math.nan], 1j, "x"]),
    (POSITIVE, [1e-300, [1.0, 2.0]], [0, -1, math.inf, math.nan]),
    (NOT_NEGATIVE, [0, 1e300], [-1e-300, math.inf, math.nan]),
    (COUNT, [0, 7, 3.0, [1, 2]], [-1, 2**60, 0.5, math.nan, math.inf]),
    (ANY, [0, math.inf, -math.inf, math.nan], ["x", 1j]),
    (NOT_NAN, [0, math.inf, -math.inf], [math.nan]),
    (VALUE, [0, -1e300, math.inf], [-math.inf, math.nan]),
    (DISTANCE, [0, math.inf], [-1, -math.inf, math.nan]),
    (UNIT, [0, 1, [0.5, 0.2]], [-0.1, 1.1, math.nan]),
    (FLAG, [True, False, 0, 1, [True, False]], [2, -1, 0.5]),
])  # fmt: skip
def test_a_range_admits_what_is_possible(limits, possible, impossible):
    for value in possible:
        assert limits.admits(value), value
    for value in impossible:
        assert not limits.admits(value), value
        with pytest.raises(ValueError, match=rf"size must be {limits.description}, got "):
            limits.check("size", value)
    assert limits.admits(np.empty(0))


class Base:
    STATE = ("a", "b")

    def __init__(self):
        self.a, self.b, self.c, self.d = 1.0, np.zeros(3), [1.0, 2.0], 4


class Part(Base):
    STATE = {"c": NOT_NAN, "d": COUNT, "b": VALUE}  # noqa: RUF012


def test_names_and_ranges_may_be_declared_in_either_form():
    assert state_names(Part) == ("a", "b", "c", "d")
    assert state_ranges(Part()) == {"a": ANY, "b": VALUE, "c": NOT_NAN, "d": COUNT}
    one, other = Part(), Part()
    one.a, one.b[:], one.c, one.d = math.inf, [1, 2, math.inf], [1.0, math.inf, 3.0], 9
    restore({"part": other}, collect({"part": one}))
    assert (other.a, other.b.tolist(), other.c, other.d) == (math.inf, [1, 2, math.inf], [1, math.inf, 3], 9)
    assert labels({"part": one}) == {"part.a", "part.b", "part.c", "part.d"}


@pytest.mark.parametrize(("name", "value", "words"), [
    ("b", np.full(3, np.nan), "must be finite, or infinity"),
    ("b", np.zeros(4), "has shape"),
    ("b", np.zeros(3, dtype=int), "has dtype int64"),
    ("c", [math.nan], "must be a number, not NaN"),
    ("d", -1, "must be a non-negative integer"),
    ("d", 1.5, "must be a non-negative integer"),
])  # fmt: skip
def test_an_invalid_state_changes_nothing(name, value, words):
    part = Part()
    state = collect({"": part}) | {"a": 5.0, name: value}
    with pytest.raises(ValueError, match=rf"state\['{name}'\] {words}"):
        restore({"": part}, state)
    assert part.a == 1.0


class Endless(lmma.Strategy):
    """A user's own strategy with a number that may be infinite, named in a tuple."""

    STATE = ("best_seen",)

    def _initialise(self):
        self.best_seen = math.inf

    def _sample(self, out):
        out[...] = self.mean + self.sigma * self.generator().standard_normal(out.shape)

    def _update(self, order, values):
        self.sigma *= 0.99

    @classmethod
    def memory(cls, n, popsize, itemsize=8):
        return n * popsize * itemsize


def test_a_checkpoint_with_a_number_that_may_be_infinite_is_accepted(tmp_path):
    options = {"method": Endless, "rng": 1, "checkpoint": tmp_path / "run.npz"}
    for iterations in (3, 6):
        assert (
            lmma.minimize(lambda x: float(x @ x), np.ones(3), 1.0, maxiter=iterations, **options).nit
            == iterations
        )


FEATURES = {
    "plain": {},
    "noise": {"noise": "auto"},
    "constant": {"noise": "mix"},
    "constraints": {"constraints": lambda x: 1 - x[0]},
    "ranks": {"constraints": lambda x: 1 - x[0], "constraint_handling": "rank"},
    "bounds": {"bounds": [-1, 2], "boundary": "project"},
    "integers": {"integrality": [1, 0, 0, 1]},
    "restarts": {"restarts": 2, "tolx": 0.2},
    "history": {"history": 5},
    "failures": {"on_error": "worst"},
}


LAYERS = {"noise": "noise", "constant": "noise", "ranks": "constraints"}  # others have the feature's name


def supported(method):
    known = strategy_class(method).supports
    missing = set(ORDER) - known
    return [feature for feature in FEATURES if LAYERS.get(feature, feature) not in missing]


@pytest.mark.parametrize(
    ("method", "feature"), [(method, feature) for method in lmma.methods() for feature in supported(method)]
)
def test_no_run_rejects_its_own_checkpoint(method, feature, tmp_path):
    rng = np.random.default_rng(1)

    def fun(x):
        if feature == "failures" and rng.random() < 0.8:
            return math.nan
        if feature == "constant":  # the logarithm of a range of values that is 0
            return 1.0
        return float(x @ x) + (feature == "noise") * rng.standard_normal()

    options = {"method": method, "rng": 1, "stagnation": False} | FEATURES[feature]
    for iterations in (1, 2, 25, 60):
        result = lmma.minimize(
            fun, np.ones(4), 0.5, maxiter=iterations, checkpoint=tmp_path / "run.npz", **options
        )
        assert result.nit == iterations or result.reason != "maxiter"


def test_a_run_without_any_value_is_continued(tmp_path):
    options = {"rng": 1, "checkpoint": tmp_path / "run.npz"}
    for iterations in (1, 2):
        result = lmma.minimize(lambda x: math.nan, np.ones(3), 1.0, maxiter=iterations, **options)
        assert (result.nit, result.fun) == (iterations, math.inf)


def test_counters_that_contradict_one_another_are_rejected():
    counters = Counters(best_fun=1.0, best_x=np.ones(2))
    header, arrays = counters.get_state()
    assert Counters.from_state(Saved(header, arrays)).best_fun == 1.0
    for wrong in ({"best_fun": math.inf}, {"evaluations": -1}, {"seconds": math.nan}, {"failing": True}):
        with pytest.raises(ValueError, match="counters"):
            Counters.from_state(Saved(header | wrong, arrays))
    with pytest.raises(ValueError, match=r"counters\.best_x"):
        Counters.from_state(Saved(header, {}))


def test_a_saved_run_is_understood_without_a_strategy(tmp_path):
    from lmma._archive import read

    file = tmp_path / "run.npz"
    lmma.minimize(
        lambda x: float(x @ x), np.ones(3), 1.0, values="ranks", rng=1, restarts=2, tolx=0.1, checkpoint=file
    )
    saved = SavedRun.of(Saved(*read(file)))
    assert len(saved.finished) == 2
    assert saved.plan.number == 2
    assert saved.counters.best_x.shape == (3,)
    assert RunState.__dataclass_fields__.keys() >= {"strategy", "counters", "finished", "rules"}
