"""One candidate at a time gives the same search as whole generations, in any order and process."""

import math
from functools import partial

import numpy as np
import pytest

import lmma
from lmma.integrations.hosts import Choice, Integer, OneByOne, Outcome, Real, UnitSpace

N, POPSIZE = 5, 8


def begin(method, restart, popsize):
    return lmma.strategy(method, np.full(N, 0.8), 0.3, popsize=popsize or POPSIZE, rng=(restart, 7))


def sphere(x):
    return float(x @ x)


@pytest.mark.parametrize("method", ["pulse-full", "pulse", "lm-ma-es", "cma-es"])
def test_one_after_another_is_generation_after_generation(method):
    es = begin(method, 0, None)
    search, known = OneByOne(partial(begin, method)), []
    for generation in range(6):
        X = es.ask()
        for row in range(POPSIZE):
            candidate = search.next(known)
            assert (candidate.generation, candidate.number) == (generation, row)
            assert np.array_equal(candidate.x, X[row])
            known.append(Outcome(generation, row, sphere(candidate.x)))
        es.tell([sphere(x) for x in X])


def test_any_process_rebuilds_the_search_from_two_integers_a_value():
    whole = OneByOne(partial(begin, "pulse"))
    known = []
    for _ in range(60):
        candidate = whole.next(known)
        fresh = OneByOne(partial(begin, "pulse")).next(known)
        assert (fresh.generation, fresh.number) == (candidate.generation, candidate.number)
        assert np.array_equal(fresh.x, candidate.x)
        known.append(Outcome(candidate.generation, candidate.number, sphere(candidate.x)))


def test_missing_ones_are_drawn_again_and_the_first_back_counts():
    search, known, out = OneByOne(partial(begin, "lm-ma-es")), [], []
    for _ in range(2 * POPSIZE):  # nothing comes back: every row is begun twice
        candidate = search.next([*known, *(Outcome(c.generation, c.number, None) for c in out)])
        out.append(candidate)
    assert [c.number for c in out] == list(range(2 * POPSIZE))
    assert len({c.x.tobytes() for c in out}) == 2 * POPSIZE
    # rows 0 to 3 come back as first drawn, the others as drawn again; all others later
    first = out[:4] + out[POPSIZE + 4 :]
    later = out[POPSIZE : POPSIZE + 4] + out[4:POPSIZE]
    known = [Outcome(c.generation, c.number, sphere(c.x)) for c in first]
    after = search.next(known)
    assert (after.generation, after.number) == (1, 0)
    everything = known + [Outcome(c.generation, c.number, sphere(c.x)) for c in later]
    again = OneByOne(partial(begin, "lm-ma-es")).next(everything)
    assert np.array_equal(again.x, after.x)
    told = begin("lm-ma-es", 0, None)
    told.ask()
    told.resample(range(4, POPSIZE), 1)
    told.tell([sphere(x) for x in told.candidates])
    assert np.array_equal(told.ask()[0], after.x)


def test_a_candidate_that_another_process_issued_is_replaced_within_its_generation():
    search = OneByOne(partial(begin, "lm-ma-es"))
    first = search.next([])
    taken = [Outcome(0, number, None) for number in (0, 1)]
    others = [search.instead(taken, skip) for skip in range(POPSIZE)]
    assert [(c.generation, c.number) for c in others] == [(0, number) for number in range(2, POPSIZE + 2)]
    assert len({c.x.tobytes() for c in [first, *others]}) == POPSIZE + 1
    done = [Outcome(0, row, 1.0) for row in range(POPSIZE)]  # complete meanwhile: still the same generation
    late = search.instead(done)
    assert (late.generation, late.number) == (0, POPSIZE)
    assert search.next(done).generation == 1


def test_outcomes_are_read_again_if_a_row_of_a_complete_generation_has_another_candidate():
    read = []
    done = [Outcome(0, row, float(row)) for row in range(POPSIZE)]
    older = Outcome(0, POPSIZE + 7, -1.0)  # of row 7, and visible only at the second look
    pending = Outcome(0, POPSIZE + 7, None)

    def reread():
        read.append(1)
        return [older, *done]

    searches = [OneByOne(partial(begin, "lm-ma-es")) for _ in range(3)]
    x = [
        searches[0].next([older, *done], reread).x,
        searches[1].next([*done, pending], reread).x,
        searches[2].next(done, reread).x,
    ]
    assert len(read) == 1
    assert np.array_equal(x[0], x[1])
    assert not np.array_equal(x[0], x[2])


def test_failed_ones_rank_last_and_infeasible_ones_before_them():
    def after(outcomes):
        search = OneByOne(partial(begin, "lm-ma-es"))
        X = [search.next([Outcome(0, k, None) for k in range(row)]).x for row in range(POPSIZE)]
        return search.next([Outcome(0, k, *outcomes(k, sphere(x))) for k, x in enumerate(X)]).x

    plain = after(lambda k, value: (float(k),))
    assert np.array_equal(plain, after(lambda k, value: (float(k), 0.0)))
    # 6 and 7 violate constraints, 7 more: the same ranks, whatever their values
    assert np.array_equal(plain, after(lambda k, v: (float(k), 0.0) if k < 6 else (-100.0, k - 5.0)))
    failed = after(lambda k, value: (float(k) if k < 6 else math.nan,))
    assert np.array_equal(failed, after(lambda k, value: (float(k) if k < 6 else math.inf,)))


def test_restarts_double_the_population_and_keep_the_reasons():
    search, known = OneByOne(partial(begin, "pulse-full"), restarts=2), []
    for _ in range(3000):
        candidate = search.next(known)
        known = [k for k in known if k.generation >= candidate.generation]
        known.append(Outcome(candidate.generation, candidate.number, sphere(candidate.x)))
        if search.restart_reasons:
            break
    assert search.strategy.popsize == 2 * POPSIZE
    assert search.restart_reasons[0] in ("tolx", "tolfun", "tolx, tolfun")


SPACE = UnitSpace({
    "x": Real(-5.0, 5.0), "rate": Real(1e-5, 1.0, log=True), "grid": Real(0.0, 1.0, step=0.25),
    "k": Integer(1, 20), "even": Integer(2, 10, step=2), "units": Integer(1, 1000, log=True),
    "kind": Choice(("a", None, 3)),
})  # fmt: skip


def test_coordinates_mean_values_and_values_coordinates():
    rng = np.random.default_rng(1)
    for _ in range(300):
        values = SPACE.values(rng.random(SPACE.n))
        again = SPACE.values(SPACE.start(values))
        assert again.pop("kind") == values.pop("kind")
        assert again == pytest.approx(values, rel=1e-12)


def test_corners_are_in_range_and_every_value_can_be_had():
    assert SPACE.n == 9
    for corner in (0.0, 1.0):
        values = SPACE.values(np.full(9, corner))
        assert values["x"] == (-5.0 if corner == 0 else 5.0)
        assert values["units"] == (1 if corner == 0 else 1000)
        assert values["grid"] == corner
    rng = np.random.default_rng(1)
    seen = [SPACE.values(rng.random(9)) for _ in range(2000)]
    assert {v["k"] for v in seen} == set(range(1, 21))
    assert {v["even"] for v in seen} == {2, 4, 6, 8, 10}
    assert {v["grid"] for v in seen} == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert {v["kind"] for v in seen} == {"a", None, 3}


@pytest.mark.parametrize("wrong", [{"x": 9.0}, {"k": 0}, {"kind": "z"}, {"x": "far"}], ids=str)
def test_a_start_outside_is_named(wrong):
    with pytest.raises(ValueError, match=f"x0\\['{next(iter(wrong))}'\\]"):
        SPACE.start(wrong)
