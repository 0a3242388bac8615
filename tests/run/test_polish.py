"""Polishing: a quasi-Newton method started at the end of a search; the better result is kept."""

import json
import math

import numpy as np
import pytest

import lmma
from lmma import problems

ROTATED = problems.get("rotated-ellipsoid")
START = np.random.default_rng(3).uniform(-5, 5, 12)


def sphere(x):
    return float(x @ x)


def solved(fun=ROTATED, x0=START, sigma0=3.0, **options):
    given = {"rng": 1, "vectorized": fun is ROTATED, "maxfevals": 6000, "values": "ranks"} | options
    return lmma.minimize(fun, x0, sigma0, **given)


def test_a_smooth_function_ends_many_digits_lower_for_the_same_budget():
    plain, polished = solved(), solved(polish=True)
    assert polished.fun < 1e-3 * plain.fun
    assert polished.fun == pytest.approx(ROTATED(polished.x[np.newaxis])[0], rel=1e-12)
    assert polished.polish["before"] > polished.fun
    assert polished.polish["gained"] == polished.polish["before"] - polished.fun
    assert "Polished by quasi-newton in" in polished.message
    assert f"to {polished.fun:.6g}." in polished.message


@pytest.mark.parametrize("budget", [40, 100, 777, 3000])
def test_every_evaluation_is_counted_and_the_budget_kept(budget):
    calls = []

    def fun(x):
        calls.append(x)
        return sphere(x)

    result = solved(fun, np.ones(6), 0.5, maxfevals=budget, polish=True)
    assert len(calls) == result.nfev <= budget
    assert sum(run.evaluations for run in result.runs) + result.polish["nfev"] == result.nfev


def test_a_fifth_of_the_budget_is_left_for_it():
    result = solved(polish=True, maxfevals=2000)
    assert result.reason == "maxfevals"
    popsize = result.runs[0].popsize
    assert 1600 - popsize < result.runs[0].evaluations <= 1600


def test_without_a_limit_it_takes_a_quarter_of_what_the_search_took_at_most():
    result = solved(polish=True, maxfevals=None)
    searched = result.nfev - result.polish["nfev"]
    assert result.polish["nfev"] <= max(searched // 4, 20 * (2 * len(START) + 1))


@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_are_kept_and_found(sign):
    seen = []

    def fun(x):
        seen.append(x.copy())
        return float(((x - sign * np.array([3.0, 0.5, -3.0])) ** 2).sum() + 0.3 * x[0] * x[1])

    result = lmma.minimize(fun, [0.0] * 3, bounds=[(-1, 2)] * 3, maxfevals=400, polish=True, rng=2)
    assert np.min(seen) >= -1
    assert np.max(seen) <= 2
    assert result.polish["method"] == "quasi-newton"
    # at a corner in two variables, in the middle of the third where the slope is 0
    x = result.x
    corner = 2.0 if sign > 0 else -1.0
    assert x[0] == corner
    assert x[1] == pytest.approx(sign * 0.5 - 0.15 * corner, abs=1e-6)


def test_a_fixed_variable_stays_fixed():
    result = lmma.minimize(
        sphere,
        [1.0, 1.0, 2.0],
        0.5,
        bounds=[(None, None), (-3, 3), (2, 2)],
        maxfevals=600,
        polish=True,
        rng=1,
    )
    assert result.x[2] == 2
    assert result.fun == pytest.approx(4, abs=1e-12)


def test_a_worse_result_of_polishing_is_discarded():
    def kinked(x):
        return float(np.abs(x).sum())

    plain = lmma.minimize(kinked, np.ones(5), 0.5, rng=1)
    polished = lmma.minimize(kinked, np.ones(5), 0.5, rng=1, polish=True)
    assert polished.fun <= plain.fun
    assert kinked(polished.x) == polished.fun


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"integrality": [1, 0]}, "integer variables"),
        ({"constraints": lambda x: x[0] - 1}, "constraints"),
        ({"noise": "mix"}, "noise='mix'"),
        ({"space": lmma.Space(a=lmma.Integer(1, 9), b=lmma.Real(0, 1))}, "integer variables or choices"),
        ({"space": lmma.Space(a=lmma.Choice(["p", "q"]), b=lmma.Real(0, 1))}, "choices"),
    ],
    ids=["integers", "constraints", "noise", "integer of a space", "choice"],
)
def test_unsupported_combinations_are_rejected_with_a_message(options, words):
    x0 = None if "space" in options else [0.5, 0.5]
    with pytest.raises(
        ValueError, match=r"polish=True cannot be combined with .*: remove one of them"
    ) as caught:
        lmma.minimize(lambda x: 0.0, x0, polish=True, **options)
    assert words in str(caught.value)


def test_common_random_numbers_are_rejected():
    with pytest.raises(ValueError, match="common_random_numbers"):
        lmma.minimize(lambda x, seed=0: 0.0, [1.0, 2.0], polish=True, common_random_numbers=True)


def test_only_true_and_false_are_answers():
    with pytest.raises(TypeError, match="polish must be True or False"):
        lmma.minimize(sphere, [1.0], polish="yes")


def test_undeclared_noise_is_detected_with_one_evaluation():
    rng = np.random.default_rng(0)
    result = solved(lambda x: sphere(x) + 0.1 * rng.standard_normal(), np.ones(4), 0.5, polish=True)
    assert "Not polished: values differ between calls" in result.message
    assert result.polish["nfev"] == 1


def test_constraints_that_fun_returns_unasked_are_noticed():
    result = lmma.minimize(
        lambda x: (sphere(x), [1 - x[0]]), [2.0, 2.0], 0.5, rng=1, polish=True, maxfevals=2000
    )
    assert "Not polished: fun returns constraints" in result.message


@pytest.mark.parametrize("when", ["callback", "ftarget"])
def test_a_run_that_ended_by_callback_or_target_is_not_polished(when):
    options = {"callback": {"callback": lambda x: True}, "ftarget": {"ftarget": 1.0}}[when]
    result = solved(sphere, np.ones(4), 0.5, polish=True, **options)
    assert result.reason == when
    assert "polish" not in result


def test_a_target_met_by_polishing_is_a_success():
    result = solved(polish=True, ftarget=1e-20, maxfevals=20_000, tolfun=1e-3)
    assert result.fun <= 1e-20
    assert result.success
    assert "was not reached" not in result.message
    assert result.reason == "tolfun"


def test_a_resumed_run_is_polished_to_the_same_end(tmp_path):
    whole = solved(polish=True)
    file = tmp_path / "run.npz"
    solved(polish=True, maxiter=100, checkpoint=file)
    resumed = solved(polish=True, checkpoint=file)
    again = solved(polish=True, checkpoint=file)  # of a run that has ended
    for other in (resumed, again):
        np.testing.assert_array_equal(other.x, whole.x)
        assert (other.fun, other.nfev, other.polish) == (whole.fun, whole.nfev, whole.polish)


def test_a_longer_run_continues_from_the_state_before_polishing(tmp_path):
    file = tmp_path / "run.npz"
    solved(polish=True, maxfevals=2000, checkpoint=file)
    longer = solved(polish=True, checkpoint=file)
    assert longer.fun == solved(polish=True).fun


def test_workers_evaluate_its_differences():
    plain = solved(sphere, np.ones(4), 0.5, polish=True, maxfevals=400)
    pooled = solved(sphere, np.ones(4), 0.5, polish=True, maxfevals=400, workers=2)
    assert pooled.fun == plain.fun
    assert pooled.nfev == plain.nfev


def test_a_space_of_real_variables_can_be_polished():
    space = lmma.Space(a=lmma.Real(-4, 4), b=lmma.Real(0.01, 100, log=True))

    def fun(a, b):
        return (a - 1) ** 2 + 10 * math.log(b / 3) ** 2

    result = lmma.minimize(fun, space, maxfevals=400, polish=True, rng=1)
    assert result.x["a"] == pytest.approx(1, abs=1e-6)
    assert result.x["b"] == pytest.approx(3, abs=1e-5)
    assert fun(**result.x) == result.fun


def test_every_method_can_be_polished():
    for method in lmma.methods():
        result = solved(sphere, np.ones(5), 0.5, method=method, polish=True, maxfevals=600)
        assert result.fun <= result.polish["before"]
        assert not result.polish["refused"]
        assert result.fun < 1e-6, method


def test_ctrl_c_while_polishing_returns_the_best_so_far():
    state = {"polishing": 0}

    def fun(x):
        if state["run"].stop is not None:
            state["polishing"] += 1
            if state["polishing"] == 30:
                raise KeyboardInterrupt
        return sphere(x)

    from lmma.run.options import RunOptions
    from lmma.run.run import Run

    options = RunOptions(polish=True, maxfevals=1000, values="ranks", rng=1)
    run = state["run"] = Run(fun, np.ones(8), 0.5, options)
    result = run.execute()
    assert state["polishing"] == 30
    assert math.isfinite(result.fun)
    assert 0 < result.polish["nfev"] < 30  # what was cut short is not counted


def test_the_polishing_record_is_kept_in_a_file(tmp_path):
    result = solved(polish=True, maxfevals=1000)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert again.polish == result.polish
    assert again.fun == result.fun
    assert not again.warnings


def test_values_that_fail_do_not_end_it():
    failing = np.random.default_rng(1)

    def fun(x):
        return math.nan if failing.random() < 0.05 else sphere(x)

    result = solved(fun, np.ones(8), 0.5, polish=True, maxfevals=1500, tolfun=1e-2)
    assert result.fun < 1e-12
    assert not result.warnings


def test_the_command_line_says_what_was_gained(capsys):
    from lmma.cli import main

    words = [
        "minimize",
        "rotated-ellipsoid",
        "--dim=8",
        "--seed=1",
        "--maxfevals=3000",
        "--target=none",
        "--polish",
    ]
    main([*words, "--json", "--quiet"])
    fields = json.loads(capsys.readouterr().out)
    assert fields["polish"]["fun"] == fields["fun"] < fields["polish"]["before"]
    assert "Polished by quasi-newton" in fields["message"]
    main([*words[:4], "--integers=all", "--polish", "--quiet"])
    assert "--polish" in capsys.readouterr().err


@pytest.mark.parametrize("bounds", [None, (-5, 5)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_plateau_of_value_zero_is_left_as_it_is(n, bounds):
    def flat(x):
        return float(max(0.0, np.abs(x).max() - 0.5))

    result = lmma.minimize(flat, np.full(n, 3.0), 1.0, rng=1, maxfevals=3000, polish=True, bounds=bounds)
    assert result.fun == result.polish["fun"] == 0
    assert result.warnings == []
    assert "found no better point" in result.message
