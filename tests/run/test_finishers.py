"""Exceptions in a finisher do not lose the result of the search."""

import numpy as np
import pytest

import lmma
from lmma.run.finishers import polish, verdict


def sphere(x):
    return float(x @ x)


def noisy(x, rng=np.random.default_rng(1)):  # noqa: B008 (one for all calls)
    return sphere(x) + rng.standard_normal()


def end_of(result):
    return result.x.tobytes(), result.fun, result.nit, result.reason, result.success


def test_an_objective_that_raises_while_it_is_polished_does_not_cost_the_result():
    plain = lmma.minimize(sphere, np.ones(8), 0.5, rng=1, maxfevals=800)
    state = {"left": plain.nfev + 1}

    def fun(x):
        state["left"] -= 1
        if state["left"] < 0:
            raise OverflowError("no {more}")
        return sphere(x)

    result = lmma.minimize(fun, np.ones(8), 0.5, rng=1, maxfevals=1000, polish=True, on_error="raise")
    assert end_of(result) == end_of(plain)
    assert "polish" not in result
    assert result.warnings == [
        "polishing failed, so the result is that of the search: OverflowError: no {more}"
    ]
    assert result.nfev == plain.nfev + 1  # what was evaluated is counted


@pytest.mark.parametrize(("module", "options"), [(polish, {"polish": True}), (verdict, {"noise": "auto"})])
def test_a_finisher_that_fails_is_a_warning(module, options, monkeypatch):
    name = module.__name__.rpartition(".")[2]
    fun = sphere if name == "polish" else noisy
    settings = {"rng": 1, "maxiter": 60} | options

    def fails(*given):
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(module, name, fails)
    result = lmma.minimize(fun, np.ones(5), 0.5, values="ranks", **settings)
    assert result.nit == 60
    assert result.x.shape == (5,)
    assert len(result.warnings) == 1
    assert result.warnings[0].endswith("ZeroDivisionError: by accident")


def test_a_second_ctrl_c_is_raised_by_finishers_too(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(polish, "polish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lmma.minimize(sphere, np.ones(5), 0.5, rng=1, maxiter=5, polish=True, on_interrupt="raise")


def test_ctrl_c_before_a_verdict_leaves_it_to_what_is_known(monkeypatch):
    usual, endings = verdict.verdict, []

    def interrupted(state, evaluation, ending, *more):
        endings.append(ending)
        if len(endings) == 1:
            raise KeyboardInterrupt
        return usual(state, evaluation, ending, *more)

    monkeypatch.setattr(verdict, "verdict", interrupted)
    result = lmma.minimize(noisy, np.ones(5), 0.5, rng=1, maxfevals=3000, noise="auto", stagnation=False)
    assert [ending.reason for ending in endings] == ["maxfevals", "interrupted"]
    assert result.reason == "maxfevals"
    assert "the average of recent candidates" in result.message


def test_points_found_before_polishing_fails_are_kept():
    state = {"limit": np.inf, "least": np.inf}

    def fun(x):
        if sphere(x) < state["limit"]:
            raise OverflowError("no more")
        state["least"] = min(state["least"], sphere(x))
        return sphere(x)

    given = {"values": "ranks", "noise": None, "rng": 1}
    plain = lmma.minimize(sphere, np.ones(8), 0.5, maxfevals=800, **given)
    state["limit"] = 1e-6 * plain.fun
    result = lmma.minimize(fun, np.ones(8), 0.5, maxfevals=1000, polish=True, on_error="raise", **given)
    assert state["least"] <= result.fun == sphere(result.x) < plain.fun
    assert result.polish["before"] == plain.fun
    assert result.message.count("Then polishing failed: OverflowError: no more.") == 1
