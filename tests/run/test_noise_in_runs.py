"""Runs on noisy functions: results, costs, and independence of the evaluator."""

import json

import numpy as np
import pytest

import lmma
from lmma import problems
from lmma._archive import read
from lmma._text import in_python
from lmma.cli.options import as_flag
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver
from lmma.run.setup import seed_keywords
from lmma.run.state import Counters
from lmma.run.stopping import ENDINGS, Situation, Stagnation, Stop
from local_transport import LocalTransport, OnTransport


def sphere(x):
    return float(np.sum(np.square(x)))


def disturbed(x, seed):
    """A sphere with noise that a seed and the candidate determine, in whatever process."""
    own = np.frombuffer(np.ascontiguousarray(x[:2], dtype=np.float64).tobytes(), dtype=np.uint32)
    return sphere(x) + float(np.random.default_rng([seed, *own.tolist()]).standard_normal())


def noisy(seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    return lambda x: sphere(x) + scale * rng.standard_normal()


def run(fun=disturbed, **options):
    settings = {"method": "lm-ma-es", "rng": 1, "maxfevals": 2500, "noise": "auto", **options}
    return lmma.minimize(fun, np.full(6, 3.0), 1.0, **settings)


def same(one, other):
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.mean, other.mean)
    assert (one.fun, one.sigma, one.nfev, one.noise) == (other.fun, other.sigma, other.nfev, other.noise)


@pytest.mark.parametrize("name", problems.names())
def test_without_noise_looking_costs_little_and_finds_nothing(name):
    problem = problems.get(name)

    def solved(noise):
        return lmma.minimize(
            problem, np.full(16, 3.0), 1.0, rng=1, maxiter=300, noise=noise, method="lm-ma-es"
        )

    plain, looked = solved(None), solved("auto")
    assert looked.nfev <= 1.06 * plain.nfev
    assert not looked.noise["found"]
    assert np.array_equal(plain.x, looked.x)
    assert (plain.fun, plain.nit, plain.reason) == (looked.fun, looked.nit, looked.reason)
    assert "noise" not in plain


def test_x_is_the_mean_and_fun_an_average_with_its_error():
    found = run(noisy())
    assert found.noise["found"]
    assert found.noise["spread"] == pytest.approx(1.0, rel=0.6)  # |N - N'| has the median 0.95
    assert abs(found.fun - sphere(found.x)) < 5 * found.fun_error
    assert found.fun_seen < found.fun - 1  # the luckiest of thousands
    assert sphere(found.x) < sphere(found.x_seen)
    assert "Values of fun differ between calls by about" in found.message
    assert found.nfev <= 2500


@pytest.mark.parametrize("method", ["lm-ma-es", "pulse-full"])
def test_steps_stay_long_enough_to_see_the_optimum_through_the_noise(method):
    # medians of other seeds are 0.04 to 0.08; where the step-size rule keeps its pace lm-ma-es has 0.16,
    # and without handling both have 0.7 to 0.9
    ends = []
    for seed in range(1, 6):
        found = lmma.minimize(
            noisy(seed), np.full(20, 3.0), 1.0, method=method, rng=seed, noise="auto", maxfevals=6000
        )
        ends.append(sphere(found.x))
    assert np.median(ends) < 0.12


def test_the_message_says_that_the_best_observed_value_is_biased(tmp_path):
    rng = np.random.default_rng(1)
    hidden = run(noisy(), constraints=lambda x: 1 - x[0] + 9 * rng.random())  # no mean of that is feasible
    assert (
        "no feasible mean was confirmed: x is the best observed point, so fun is probably too low"
        in hidden.message
    )
    common = run(lambda x, seed: sphere(x) + np.random.default_rng(seed).standard_normal(), maxfevals=900)
    assert not common.noise["found"]
    assert (
        "but this hardly affects ranks: x is the best observed point, so fun is probably too low"
        in common.message
    )
    assert "differ" not in run(sphere).message


@pytest.mark.parametrize("seed", range(1, 5))
def test_with_constraints_the_result_is_feasible_and_its_value_a_fresh_average(seed):
    found = run(noisy(seed), constraints=lambda x: 1 - x[0], rng=seed)
    assert found.noise["found"]
    assert found.x[0] >= 1 - 1e-8
    assert found.maxcv == max(0.0, 1 - found.x[0])
    np.testing.assert_allclose(found.constr[0], 1 - found.x[0])
    assert abs(found.fun - sphere(found.x)) < 5 * found.fun_error
    assert found.fun_seen < found.fun
    assert "probably too low" not in found.message
    which = "best observed point" if np.array_equal(found.x, found.x_seen) else "mean of the search"
    assert f"x is the {which}, fun the average of 9 new evaluations" in found.message
    assert found.nfev <= 2500


def test_a_callback_is_shown_what_noise_leaves_standing():
    shown = []
    found = run(noisy(), callback=lambda intermediate_result: shown.append(intermediate_result))
    last = shown[-1]
    assert last.fun_seen < last.fun - 1
    assert sphere(last.x) < sphere(last.x_seen)
    assert (last.fun_seen, last.nit) == (found.fun_seen, found.nit)
    assert np.array_equal(last.x_seen, found.x_seen)
    assert "x_seen" not in shown[0]  # nobody had seen any noise


def test_stagnation_is_tested_on_averages(monkeypatch):
    watched = []
    monkeypatch.setattr(Stagnation, "watch", lambda rule, ranked: watched.append(ranked))
    found = run(noisy(), history=True, maxfevals=900)
    assert len(watched[0]) == 9
    assert watched[-1].tolist() == [found.history["average_fun"][-1]]


def test_a_checkpoint_does_not_speak_of_a_result_that_is_yet_to_be_evaluated(tmp_path):
    run(noisy(), checkpoint=tmp_path / "run.npz")
    assert "luck" not in read(tmp_path / "run.npz")[0]["ended"]


def test_without_handling_the_result_is_as_it_was():
    found = run(noisy(), noise=None)
    assert {"noise", "x_seen", "fun_error"}.isdisjoint(found)


def test_one_low_noisy_value_does_not_reach_a_target():
    found = run(noisy(), ftarget=-1.0)
    assert found.fun_seen < -1.0
    assert found.reason == "maxfevals"
    assert run(noisy(), ftarget=3.0).reason == "ftarget"


def test_pure_noise_ends_honestly():
    rng = np.random.default_rng(1)
    found = run(lambda x: rng.standard_normal(), maxfevals=200_000)
    assert found.reason == "noise"
    assert not found.success
    assert "Stagnated in noise" in found.message


def test_a_pool_gives_what_one_process_gives():
    same(run(maxfevals=900), run(maxfevals=900, workers=2))


@pytest.mark.parametrize("noise", ["auto", "average", "population"])
def test_replicas_give_what_one_process_gives(noise):
    workers = OnTransport(LocalTransport("a", "b"), ReplicatedDriver, check=1)
    same(run(noise=noise), run(noise=noise, workers=workers))
    assert workers.evaluate.resent == 0


def test_a_cluster_gives_what_one_process_gives():
    same(run(maxfevals=900), run(maxfevals=900, workers=OnTransport(LocalTransport("a", "b"), VectorDriver)))


def test_a_quorum_that_drops_repeats_leaves_enough_to_measure_noise():
    found = run(maxfevals=1200, workers=2, quorum=0.8)
    assert found.late > 0
    assert found.noise["found"]
    assert np.isfinite(found.fun)


@pytest.mark.parametrize("noise", ["auto", "average", "population"])
def test_an_interrupted_run_resumes_to_the_same_end(noise, tmp_path):
    saved = tmp_path / "run.npz"
    run(noise=noise, maxfevals=1400, checkpoint=saved)
    same(run(noise=noise), run(noise=noise, checkpoint=saved))


def test_restarts_under_noise_keep_the_best_mean(tmp_path):
    options = {"restarts": 2, "maxfevals": 6000, "maxiter": None, "tolfun": 0.0}
    saved = tmp_path / "run.npz"
    run(**{**options, "maxfevals": 3000}, checkpoint=saved)
    same(run(**options), run(**options, checkpoint=saved))


def two_valleys(rng):
    """Return Rosenbrock's function, with noise proportional to its value: none at the optimum."""

    def fun(X):
        values = problems.get("rosenbrock").function(X)
        return values * (1 + 1e-6 * rng.standard_normal(len(values)))

    return fun


def test_a_search_at_the_floor_of_the_noise_gives_way_to_restarts_and_the_best_of_them_is_returned():
    """The first run ends in the local minimum, of value 3.99, where noise hides all further progress.

    Without restarts, it would use the whole budget there. A later run finds the optimum, at which there is no
    noise, and the last one ends in the local minimum again.
    """
    start = np.concatenate(([-0.99], np.full(15, 1.01)))
    result = lmma.minimize(
        two_valleys(np.random.default_rng(5)), start, 0.1, vectorized=True, rng=1, values="ranks", restarts=3,
        maxfevals=100_000,
    )  # fmt: skip
    assert [run.best_fun > 3.9 for run in result.runs] == [True, True, False, True]
    assert result.fun < 1e-9
    assert "best point of a restart without noise" in result.message


@pytest.mark.parametrize(("restarts", "ended_at"), [(3, 600), (0, None)])
def test_a_gain_far_below_the_noise_is_progress_only_without_restarts(restarts, ended_at):
    """The average falls like 10/t at noise 1; half of the run gains 10/t - 10/(2 t), or 0.02 at t = 500.

    The rule compares medians of the first and the last 30% of the second half, between 0.575 t and 0.925 t:
    that gain falls to 0.02 at t = 329. Until generation 573 = n (5 + 100 / popsize) the metric may still be
    learned, so the rule does not apply.
    """
    es = lmma.LMMAES(np.ones(32), 1.0, rng=1, popsize=8, noise="auto")
    es.noise.found, es.noise.spread, es.noise.quality = True, 1.0, 0.5
    rule = Stagnation(32, 8, restarts=bool(restarts))
    found = next(
        (
            t
            for t in range(1, 3000)
            if rule.watch(np.array([10 / t])) is None and rule.check(Situation(es, Counters()))
        ),
        None,
    )
    assert (found is None) == (ended_at is None)
    assert ended_at is None or 0.9 * ended_at < found < 1.1 * ended_at


def test_a_checkpoint_with_other_noise_handling_is_rejected(tmp_path):
    run(maxfevals=300, checkpoint=tmp_path / "run.npz")
    with pytest.raises(
        lmma.run.checkpoint.CheckpointError, match="noise is 'auto' in the file and 'average' here"
    ):
        run(maxfevals=300, noise="average", checkpoint=tmp_path / "run.npz")


def test_nan_and_exceptions_in_repeats_are_failures_like_others():
    rng = np.random.default_rng(1)

    def fails(x):
        if rng.random() < 0.1:
            raise ArithmeticError("now and then")
        return sphere(x) + rng.standard_normal()

    found = run(fails)
    assert found.noise["found"]
    assert found.failures == found.failed["ArithmeticError"] > 100
    assert np.isfinite(found.fun)


def test_a_tiny_budget_is_not_exceeded_by_repeats():
    for budget in (9, 20, 200, 333):
        assert run(noisy(), maxfevals=budget).nfev <= budget


# Common random numbers


def test_all_candidates_of_a_generation_have_one_seed():
    seen = []

    def fun(x, seed, generation):
        seen.append((generation, seed))
        return sphere(x)

    found = run(fun, maxfevals=600)
    assert len({generation for generation, _ in seen}) == len(set(seen)) == 1 + max(g for g, _ in seen)
    assert len(seen) == found.nfev


def test_rows_share_a_seed_and_have_the_shape_they_had():
    shapes = set()

    def fun(X, seed):
        shapes.add(X.shape[1])
        assert not X.flags.writeable
        return np.sum(np.square(X), axis=1) + np.random.default_rng(seed).standard_normal()

    assert run(fun, vectorized=True).nfev <= 2500
    assert shapes == {6}


@pytest.mark.parametrize(
    ("fun", "args", "wished", "names"),
    [
        (lambda x, seed: 0, (), None, ("seed",)),
        (lambda x, *, seed, generation: 0, (), None, ("seed", "generation")),
        (lambda x, seed=0: 0, (), None, ()),  # a default says that fun does without
        (lambda x, seed=0: 0, (), True, ("seed",)),
        (lambda x, seed: 0, (1,), None, ()),  # args give it
        (lambda x, seed: 0, (), False, ()),
        (lambda x, **more: 0, (), True, ("seed", "generation")),
        (max, (), None, ()),
    ],
)
def test_seeds_are_passed_where_the_signature_demands_them(fun, args, wished, names):
    assert seed_keywords(fun, args, wished) == names


def test_a_function_without_a_seed_parameter_is_reported():
    with pytest.raises(ValueError, match="needs a fun that takes seed= or generation="):
        run(sphere, common_random_numbers=True)
    with pytest.raises(TypeError, match="common_random_numbers must be True, False or None"):
        run(sphere, common_random_numbers="yes")


def test_a_misspelt_treatment_is_rejected_by_name():
    with pytest.raises(ValueError, match=r"noise must be one of 'auto', .*got 'atuo'"):
        run(sphere, noise="atuo")


# What is shown


def test_log_and_history_show_quality_and_rate(tmp_path):
    found = run(noisy(), history=True, log=tmp_path / "run.jsonl")
    last = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1])
    assert last["quality"] == pytest.approx(found.noise["quality"])
    assert last["rate"] == found.noise["rate"] < 1
    assert found.history["rate"][0] == 1
    assert last["average_fun"] == found.history["average_fun"][-1] > last["best_fun"]
    assert np.isnan(found.history["average_fun"][0])  # nobody had seen any noise


def test_log_and_history_without_noise_have_no_averages(tmp_path):
    found = run(sphere, history=True, log=tmp_path / "run.jsonl")
    assert "average_fun" not in found.history
    assert "average_fun" not in (tmp_path / "run.jsonl").read_text()


def test_the_figure_of_a_result_marks_what_it_returned():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    found = run(noisy(), history=True)
    above, _, quality, rate = found.plot().axes
    assert above.get_legend().get_texts()[-1].get_text().startswith(f"result, {found.fun:.3g} ±")
    assert quality.lines[0].get_ydata()[-1] == pytest.approx(found.noise["quality"])
    assert rate.lines[0].get_ydata()[-1] == found.noise["rate"]


def test_a_population_that_grew_resumes_after_a_restart(tmp_path):
    options = {"noise": "population", "restarts": 2, "tolx": 0.05, "maxfevals": 20_000}
    whole = run(**options)
    saved = tmp_path / "run.npz"
    first, second = whole.runs[0], whole.runs[1]
    assert first.popsize > 9  # it has grown: the default for six variables is 9
    run(**{**options, "maxfevals": first.evaluations + second.evaluations // 2}, checkpoint=saved)
    same(run(**options, checkpoint=saved), whole)


def test_a_run_that_stagnates_says_how_noise_is_dealt_with_in_both_languages():
    stop = Stop(ENDINGS["stagnation"], 300)
    assert "noise='auto' if fun is noisy" in stop.message(in_python)
    assert "--noise auto if fun is noisy" in stop.message(as_flag)


def stagnant(**about_noise):
    """Return why a search ends that has stood still, with noise as described."""
    es = lmma.LMMAES(np.ones(4), 1.0, rng=1, noise=about_noise.pop("treatment"))
    for name, value in about_noise.items():
        setattr(es.noise, name, value)
    rule = Stagnation(4, 8)
    rule.stagnant_for = 300
    return rule.check(Situation(es, Counters()))


@pytest.mark.parametrize(
    ("about_noise", "reason", "words", "absent"),
    [
        ({"treatment": None}, "stagnation", "noise='auto' if fun is noisy", "found"),
        ({"treatment": "auto"}, "stagnation", "no noise was found", "noise="),
        (
            {"treatment": "auto", "found": True, "quality": 0.5, "rate": 1e-4},
            "stagnation",
            "although noise is being handled",
            "noise=",
        ),
        (
            {"treatment": "auto", "found": True, "quality": 0.1, "rate": 1e-4},
            "noise",
            "set noise='average'",
            "noise='auto'",
        ),
        (
            {"treatment": "average", "found": True, "quality": 0.1, "repeats": 12.0},
            "noise",
            "12 times as many evaluations",
            "noise=",
        ),
    ],
)
def test_a_run_that_stagnates_is_not_advised_what_it_does_already(about_noise, reason, words, absent):
    stop = stagnant(**about_noise)
    message = stop.message(in_python)
    assert stop.reason == reason
    assert words in message
    assert absent not in message


@pytest.mark.parametrize("treatment", ["auto", "mix", "average", "population"])
def test_x_is_the_best_observed_point_if_fun_fails_at_the_mean(treatment):
    def hollow(x, rng):
        """Return a noisy value, except around the optimum, where the mean of the search ends."""
        return float("nan") if np.abs(x).max() < 0.2 else float(x @ x) + 0.3 * rng.standard_normal()

    told = 0
    for seed in range(12, 22):
        rng = np.random.default_rng(seed)
        result = lmma.minimize(
            hollow,
            np.full(2, 2.0),
            1.0,
            args=(rng,),
            values="ranks",
            rng=seed,
            noise=treatment,
            maxfevals=1500,
        )
        assert np.isfinite(result.fun)
        if "fun fails at the mean of the search" in result.message:
            told += 1
            assert np.array_equal(result.x, result.x_seen)
            assert np.abs(result.x).max() >= 0.2
            assert result.fun > result.fun_seen  # an average of new evaluations
            assert result.fun_error > 0
    assert told or treatment in ("average", "population")


def test_a_point_that_fails_from_now_on_keeps_its_observed_value():
    generations = []

    def fun(x, rng):
        return float("nan") if len(generations) == 150 else float(x @ x) + rng.standard_normal()

    result = lmma.minimize(
        fun, np.ones(4), 0.5, args=(np.random.default_rng(1),), rng=1, noise="auto", maxiter=150,
        callback=lambda progress: generations.append(progress),
    )  # fmt: skip
    assert result.fun == result.fun_seen
    assert np.array_equal(result.x, result.x_seen)
    assert "new evaluations failed" in result.message


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_pulse_full_treats_noise_of_few_variables(n):
    rng = np.random.default_rng(n)
    result = lmma.minimize(
        lambda x: float(x @ x) + rng.standard_normal(), np.full(n, 3.0), 1.0, method="pulse-full", rng=n,
        noise="auto", maxfevals=3000,
    )  # fmt: skip
    assert result.reason == "maxfevals"
    assert result.noise["found"]
    assert result.x @ result.x < 1
