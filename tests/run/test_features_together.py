"""Constraints, spaces, integers, noise, restarts and checkpoints in one run."""

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint

import lmma
from lmma.constraints import Returned


def knobs():
    return lmma.Space(speed=lmma.Real(0.0, 10.0), gear=lmma.Integer(1, 9), oil=lmma.Choice(["thin", "thick"]))


def cost(speed, gear, oil):
    return (speed - 8.0) ** 2 + (gear - 6) ** 2 + (oil == "thin")


def load(speed, gear, oil):
    return speed + gear - 10.0


def costs_and_load(speed, gear, oil):
    return cost(speed, gear, oil), load(speed, gear, oil)


def test_a_constraint_of_values_by_name():
    # Least cost on speed + gear = 10: speed 6 and gear 4, or any neighbour of these at a cost of 8.5 or more
    result = lmma.minimize(cost, knobs(), constraints=load, rng=3, maxfevals=6000)
    assert result.x["gear"] == 4
    assert result.x["oil"] == "thick"
    assert result.x["speed"] == pytest.approx(6.0, abs=1e-3)
    assert result.maxcv <= 1e-8
    assert result.fun == pytest.approx(8.0, abs=1e-2)
    assert np.shape(result.vector) == (3,)


def test_a_function_of_names_may_return_its_constraints():
    told = {"method": "pulse-full", "rng": 1, "maxfevals": 600}  # "auto" goes by what it knows beforehand
    asked = lmma.minimize(cost, knobs(), constraints=load, **told)
    unasked = lmma.minimize(costs_and_load, knobs(), **told)
    assert asked.x == unasked.x
    assert asked.maxcv == unasked.maxcv
    assert np.array_equal(asked.multipliers[0], unasked.multipliers[0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (LinearConstraint(np.eye(3), 0, 1), "pass a function g <= 0 of them"),
        ([Bounds([0] * 3, [1] * 3)], "the space defines the bounds"),
    ],
    ids=["matrix", "bounds"],
)
def test_constraints_on_vectors_are_rejected_with_a_space(given, words):
    with pytest.raises(ValueError, match=words):
        lmma.minimize(cost, knobs(), constraints=given)


def test_linear_equalities_of_integers_are_learned_not_kept():
    seen = []

    def fun(x):
        seen.append(x.copy())
        return ((x - 3.3) ** 2).sum()

    result = lmma.minimize(
        fun, np.zeros(4), 2.0, rng=11, integrality=[1, 1, 0, 0], maxfevals=6000,
        constraints=LinearConstraint(np.ones((1, 4)), 8, 8), feasibility_tol=1e-2,
    )  # fmt: skip
    assert all(np.array_equal(x[:2], np.rint(x[:2])) for x in seen)
    assert result.maxcv <= 1e-2
    assert result.x[:2].tolist() == [2, 2]
    with pytest.raises(ValueError, match="linear= cannot be combined with integers"):
        lmma.MAES(np.zeros(4), 1.0, integrality=1).constrain(linear=(np.ones((1, 4)), [8]))


def bent(x):
    return x @ x, 2.0 - x[0] - x[1]


def run_bent(maxfevals, **more):
    return lmma.minimize(
        bent, np.zeros(5), 1.0, method="pulse-full", rng=3, restarts=2, maxfevals=maxfevals,
        constraints=Returned(), **more,
    )  # fmt: skip


@pytest.mark.parametrize("first", [500, 2600], ids=["in the first run", "after a restart"])
def test_restarts_with_constraints_continue_from_a_checkpoint(first, tmp_path):
    whole = run_bent(5000)
    part = run_bent(first, checkpoint=tmp_path / "run.npz")
    assert (len(part.runs) > 1) == (first > 2000)
    resumed = run_bent(5000, checkpoint=tmp_path / "run.npz")
    assert whole.nfev == resumed.nfev
    assert np.array_equal(whole.x, resumed.x)
    assert [whole.maxcv, *whole.multipliers[0]] == [resumed.maxcv, *resumed.multipliers[0]]
    assert whole.runs == resumed.runs


def trembling(seed):
    rng = np.random.default_rng(seed)
    return lambda x: float((x - 4.0) @ (x - 4.0) + 3.0 * rng.standard_normal())


@pytest.mark.parametrize("noise", ["auto", "average", "population"])
def test_noise_with_integers_ends_at_integers(noise):
    result = lmma.minimize(
        trembling(1), np.zeros(6), 2.0, rng=2, integrality=[1, 1, 1, 0, 0, 0], noise=noise, maxfevals=6000
    )
    assert result.noise["found"]
    # One off costs 1, a third of what single values differ by
    assert np.array_equal(result.x[:3], np.rint(result.x[:3]))
    assert np.all(np.abs(result.x[:3] - 4) <= 1)
    assert result.fun_error < 3.0


@pytest.mark.parametrize("wanted", ["mix", "average"])
def test_noise_with_choices_ends_at_one_of_them(wanted):
    rng = np.random.default_rng(3)

    def noisy(speed, gear, oil):
        return cost(speed, gear, oil) + 2.0 * rng.standard_normal()

    result = lmma.minimize(noisy, knobs(), rng=1, noise=wanted, maxfevals=4000)
    assert result.noise["found"]
    assert result.x["oil"] in ("thin", "thick")
    assert abs(result.x["gear"] - 6) <= 1
    assert result.x_seen.keys() == result.x.keys()
    assert np.shape(result.vector) == (3,)


def test_a_population_with_choices_does_not_grow():
    with pytest.raises(ValueError, match="use noise='average'"):
        lmma.minimize(cost, knobs(), noise="population")


def test_common_random_numbers_by_name():
    seen = []

    def noisy(speed, gear, oil, seed):
        seen.append(seed)
        return cost(speed, gear, oil) + np.random.default_rng(seed).standard_normal()

    lmma.minimize(noisy, knobs(), rng=1, popsize=8, maxiter=5, constraints=load)
    assert [len(set(seen[at : at + 8])) for at in range(0, 40, 8)] == [1] * 5
    assert len(set(seen)) == 5


def test_noise_and_constraints_end_at_a_feasible_point():
    rng = np.random.default_rng(1)
    result = lmma.minimize(
        lambda x: (x @ x + rng.standard_normal(), 1.0 - x[0]), np.full(4, 3.0), 1.0, rng=1, noise="auto",
        constraints=Returned(), maxfevals=3000,
    )  # fmt: skip
    assert result.noise["probes"] > 0
    assert result.maxcv <= 1e-8
    assert result.x[0] >= 1 - 1e-8
    assert abs(result.fun - result.x @ result.x) < 5 * result.fun_error
    assert result.fun_seen < result.fun  # the luckiest of thousands


def test_noise_and_constraints_are_reported_together():
    es = lmma.MAES(np.full(4, 3.0), 1.0, rng=1, noise="average")
    rng = np.random.default_rng(1)
    for _ in range(60):
        X, rows = es.ask(), es.rows_to_repeat
        repeats = (X[rows] ** 2).sum(axis=1) + rng.standard_normal(len(rows)) if len(rows) else None
        es.tell((X**2).sum(axis=1) + rng.standard_normal(len(X)), constraints=1.0 - X[:, :1], repeats=repeats)
    assert es.noise.probes > 0
    twin = lmma.MAES(np.full(4, 3.0), 1.0, rng=1, noise="average")
    twin.set_state(es.get_state())
    assert np.array_equal(twin.ask(), es.ask())


@pytest.mark.parametrize("returned", [True, False], ids=["Returned", "unasked"])
def test_a_resumed_run_bears_a_generation_that_fails(returned, tmp_path):
    def fun(x, fails=()):
        if fails:
            raise RuntimeError("no value")
        return bent(x)

    given = {"constraints": Returned()} if returned else {}
    path = tmp_path / "run.npz"
    lmma.minimize(fun, np.zeros(5), 1.0, rng=1, popsize=8, maxiter=3, checkpoint=path, **given)
    result = lmma.minimize(
        fun, np.zeros(5), 1.0, args=((1,),), rng=1, popsize=8, maxiter=4, checkpoint=path, **given
    )
    assert result.failures == 8
    assert result.nit == 4
