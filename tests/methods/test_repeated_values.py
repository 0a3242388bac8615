"""Ask and tell under noise: rows to repeat, their seeds, and unchanged behaviour without noise."""

import numpy as np
import pytest

import lmma
from adapting import BY_RANKS


def noisy(rng, scale=1.0):
    return lambda X: np.sum(np.square(X), axis=1) + scale * rng.standard_normal(len(X))


def search(es, fun, generations):
    for _ in range(generations):
        X = es.ask()
        rows = es.rows_to_repeat
        es.tell(fun(X), repeats=fun(X[rows]) if len(rows) else None)
    return es


def same_state(one, other, *apart):
    mine, yours = one.get_state(), other.get_state()
    return all(
        np.array_equal(mine[name], yours[name])
        for name in mine
        if name in yours and name.removeprefix("record.") not in apart
    )


@pytest.mark.parametrize("method", BY_RANKS)
def test_without_noise_the_path_is_the_same_with_and_without_looking(method):
    def exact(X):
        return np.array([float(np.sum(np.square(x))) for x in X])

    one, other = (lmma.strategy(method, np.ones(6), 1.0, rng=1, noise=noise) for noise in (None, "auto"))
    search(one, exact, 60)
    search(other, exact, 60)
    assert same_state(one, other, "evaluations")
    assert other.evaluations == one.evaluations + 4  # two candidates in two probes
    assert not other.noise.found
    assert len(one.rows_to_repeat) == 0


def test_repeats_count_as_evaluations_and_their_failures_as_failures():
    es = lmma.strategy("lm-ma-es", np.ones(6), 1.0, rng=1, noise="average")
    fun, calls, failed = noisy(np.random.default_rng(1), 30.0), 0, 0
    for generation in range(120):
        X, rows = es.ask(), es.rows_to_repeat
        repeats = fun(X[rows])
        repeats[: generation % 2] = np.nan
        es.tell(fun(X), repeats=repeats if len(rows) else None)
        calls, failed = calls + len(X) + len(rows), failed + int(np.isnan(repeats).sum())
    assert failed > 0
    assert (es.evaluations, es.failures) == (calls, failed)
    assert es.result.nfev == calls


def test_under_noise_a_result_has_the_mean_and_stores_the_best_observed_point_separately():
    loud, calm = (
        search(
            lmma.strategy("lm-ma-es", np.ones(6), 1.0, rng=1, noise="auto"),
            noisy(np.random.default_rng(1), scale),
            200,
        )
        for scale in (1.0, 0.0)
    )
    assert loud.noise.found
    assert np.array_equal(loud.result.x, loud.averaged_mean())
    assert loud.result.fun == loud.average_fun > loud.result.fun_seen + 1
    assert np.array_equal(loud.result.x_seen, loud.best_x)
    assert "x_seen" not in calm.result
    assert calm.result.fun == calm.best_fun


def test_tolfun_looks_at_averages_under_noise():
    # candidates of a generation differ by 1.2 and more by chance, averages of recent ones by less in the end
    ended = {}
    for tolfun in (0.8, 0.0):
        rng = np.random.default_rng(1)
        es = lmma.strategy("lm-ma-es", np.full(6, 3.0), 1.0, rng=1, noise="auto", tolfun=tolfun, tolx=0)
        while es.generation < 600 and "tolfun" not in es.stop():
            search(es, noisy(rng), 1)
        ended[tolfun] = (es.generation, es.result)
    when, result = ended[0.8]
    assert 50 < when < 500
    assert result.success
    assert float(np.sum(np.square(result.x))) < 1.0
    assert ended[0.0][0] == 600


@pytest.mark.parametrize("treatment", ["auto", "average", "population"])
@pytest.mark.parametrize("method", BY_RANKS)
def test_a_noisy_search_resumes_to_the_same_end(method, treatment):
    es = lmma.strategy(method, np.ones(6), 0.3, rng=1, noise=treatment)
    search(es, noisy(np.random.default_rng(1), 30.0), 150)
    assert es.noise.found
    twin = lmma.strategy(method, np.zeros(6), 1.0, rng=2, noise=treatment)
    twin.set_state(es.get_state())
    assert twin.popsize == es.popsize
    for one in (es, twin):
        search(one, noisy(np.random.default_rng(2), 30.0), 30)
    assert same_state(es, twin)


@pytest.mark.parametrize("method", ["pulse", "pulse-full"])
def test_a_population_that_grows_while_rows_wait_forgets_them(method):
    es = lmma.strategy(method, np.ones(40), 1.0, rng=1, noise="population")
    rng = np.random.default_rng(1)
    while int(es.get_state()["collected.waiting"]) == 0:
        es.ask()
        es.tell(rng.standard_normal(es.popsize))
    es._resize(3 * es.popsize)
    assert int(es.get_state()["collected.waiting"]) == 0
    for _ in range(10):  # a warning is an error here: shares of no rows would be NaN
        es.ask()
        es.tell(rng.standard_normal(es.popsize))
    assert np.isfinite(es.mean).all()


def test_a_population_grows_under_noise_and_keeps_what_was_learned():
    es = lmma.strategy("lm-ma-es", np.ones(20), 0.1, rng=1, noise="population")
    first = es.popsize
    search(es, noisy(np.random.default_rng(1), 30.0), 300)
    assert es.popsize > 2 * first
    assert es.ask().shape == (es.popsize, 20)
    assert es.method.transform.age == 300


def test_under_noise_the_mean_comes_closer_than_without_treatment():
    # with seeds 1 to 6 the treated search ended 7 to 13 times lower; the factor asked for is 3
    ends = {}
    for noise in (None, "auto"):
        es = lmma.strategy("lm-ma-es", np.full(20, 3.0), 1.0, rng=1, noise=noise)
        search(es, noisy(np.random.default_rng(1)), 1500)
        ends[noise] = float(np.sum(np.square(es.mean)))
    assert ends["auto"] < ends[None] / 3


def test_rows_not_evaluated_again_are_requested_later():
    es = lmma.strategy("ma-es", np.ones(5), 1.0, rng=1, noise="auto")
    fun = noisy(np.random.default_rng(1))
    for _ in range(25):
        es.tell(fun(es.ask()))
    assert len(es.rows_to_repeat) == 2


def test_seeds_differ_between_generations_and_repeats_and_are_the_same_in_both_runs():
    def seeds():
        es = lmma.strategy("ma-es", np.ones(5), 1.0, rng=1, noise="auto")
        seen = []
        for _ in range(30):
            seen += [es.generation_seed, *sorted(set(es.repeat_seeds.tolist()))]
            X, rows = es.ask(), es.rows_to_repeat
            es.tell(np.sum(X, axis=1), repeats=np.sum(X[rows], axis=1) if len(rows) else None)
        return seen

    assert len(seeds()) == 31
    assert len(set(seeds())) == 31
    assert seeds() == seeds()


def test_nan_in_a_repeat_leaves_the_other_value():
    es = lmma.strategy("ma-es", np.ones(5), 1.0, rng=1, noise="auto")
    fun, failed = noisy(np.random.default_rng(1)), 0
    for _ in range(100):
        X, rows = es.ask(), es.rows_to_repeat
        repeats = fun(X[rows]) if len(rows) else None
        if repeats is not None:
            repeats[::2] = np.nan
            failed += int(np.isnan(repeats).sum())
        es.tell(fun(X), repeats=repeats)
    assert es.failures == failed
    assert es.noise.differs


@pytest.mark.parametrize(
    ("repeats", "words"),
    [([1.0], r"repeats must have shape \(0,\)"), (["a"], "repeats must be 0 real numbers")],
)
def test_unrequested_repeats_are_rejected(repeats, words):
    es = lmma.strategy("ma-es", np.ones(5), 1.0, rng=1)
    es.ask()
    with pytest.raises((ValueError, TypeError), match=words):
        es.tell(np.ones(es.popsize), repeats=repeats)


def test_a_misspelt_treatment_is_answered_with_the_right_one():
    with pytest.raises(ValueError, match=r"noise must be one of .*'averge' \(did you mean 'average'\?\)"):
        lmma.strategy("ma-es", np.ones(5), 1.0, noise="averge")


def test_a_strategy_that_cannot_damp_its_mean_averages():
    class Jumps(lmma.Strategy):
        def _sample(self, out):
            out[...] = self.mean + self.sigma * self.generator().standard_normal(out.shape)

        def _update(self, order, values):
            self.mean[...] = self.candidates[order[0]]

        @classmethod
        def memory(cls, n, popsize, itemsize=8):
            return 0

    es = Jumps(np.ones(4), 0.1, popsize=12, rng=1, noise="auto")
    search(es, noisy(np.random.default_rng(1), 10.0), 300)
    assert es.noise.found
    assert es.noise.rate == 1.0
    assert es.noise.repeats > 1.5
