"""Random sequences of calls of strategies: clear errors, and states that are restored bit for bit."""

import numpy as np

import lmma
from fuzzing import one_of
from lmma.methods import strategy_class

METHODS = lmma.methods()
CALLS = ["ask", "ask", "ask", "tell", "tell", "tell", "tell", "resample", "inject", "ask_blocks",
         "round trip",
         "restore", "stop", "result", "odd tell", "odd resample", "odd inject", "odd state",
         "repr"]  # fmt: skip


def test_any_sequence_of_calls_succeeds_or_raises_a_message(fuzz):
    fuzz(calls, short=250, long=5_000, at_least=METHODS)


def same(a, b):
    """Return which parts of two states differ in any bit."""
    return [
        name
        for name in sorted({*a, *b})
        if name not in a or name not in b or np.asarray(a[name]).tobytes() != np.asarray(b[name]).tobytes()
    ]


def refused(call, *words):
    """Call, and take a refusal in words for an answer."""
    try:
        return call(*words)
    except (ValueError, TypeError) as error:
        assert str(error), f"{call.__name__} refuses without a word"
        return None


def values_for(rng, X):
    kind = one_of(rng, ["sphere"] * 6 + ["failures", "all failed", "ties", "huge", "plane", "noise"])
    with np.errstate(over="ignore"):
        values = np.minimum(np.sum(np.square(X.astype(float)), axis=1), 1e300)
    if kind == "failures":
        values[rng.random(len(X)) < 0.5] = np.nan
    elif kind == "all failed":
        values[:] = np.nan
    elif kind == "ties":
        values[:] = np.round(values)
    elif kind == "huge":
        values = values * 1e200 if values.max() < 1e100 else values
    elif kind == "plane":
        values = X[:, 0].astype(float)
    elif kind == "noise":
        values = rng.normal(size=len(X))
    return values


def odd_states(rng, state):
    """Return a state with something wrong."""
    state = dict(state)
    name = one_of(rng, sorted(state))
    kind = one_of(rng, ["missing", "extra", "shape", "text", "none"])
    if kind == "missing":
        del state[name]
    elif kind == "extra":
        state["odd"] = 1.0
    elif kind == "shape":
        state[name] = np.zeros((2, 3, 4))
    elif kind == "text":
        state[name] = "text"
    else:
        state[name] = None
    return state


def calls(rng):
    n = int(rng.integers(1, 8))
    method = one_of(rng, METHODS)
    cls = strategy_class(method)
    given = {
        "dtype": one_of(rng, ["float64", "float32"]),
        "bounds": one_of(rng, [None, None, [-2.0, 3.0], [(0.0, np.inf)] * n]),
        "boundary": one_of(rng, ["smooth", "reflect", "project"]),
        "popsize": one_of(rng, [None, None, 4, 5, 40]),
        "rng": int(rng.integers(1000)),
    }
    sigma0 = one_of(rng, [0.5, 1e-3, np.linspace(0.1, 1.0, n)])
    es = cls(np.full(n, 0.5), sigma0, **given)
    told = [f"{method} n={n} {given} sigma0={sigma0}"]
    saved = es.get_state()
    asked = None
    for _ in range(int(rng.integers(5, 60))):
        call = one_of(rng, CALLS)
        told.append(call)
        try:
            if call == "ask":
                X = refused(es.ask)
                assert (X is None) == (asked is not None), "ask before tell"
                asked = X if asked is None else asked
            elif call == "ask_blocks":
                blocks = refused(es.ask_blocks, one_of(rng, [None, 1, 3, 1000, 0, -1, 1.5]))
                if blocks is not None and asked is None:
                    parts = refused(lambda blocks=blocks: [block.copy() for block in blocks])
                    if parts:
                        asked = np.concatenate(parts)
                        assert asked.shape == (es.popsize, n), asked.shape
            elif call == "tell":
                if asked is None:
                    assert refused(es.tell, np.zeros(es.popsize)) is None
                else:
                    assert np.isfinite(asked).all(), "candidates are finite"
                    before = es.evaluations
                    es.tell(values_for(rng, asked))
                    assert es.evaluations == before + len(asked)
                    asked = None
            elif call == "resample":
                rows = rng.choice(es.popsize, size=int(rng.integers(1, es.popsize + 1)), replace=False)
                refused(es.resample, rows, int(rng.integers(1, 4)))
            elif call == "inject":
                refused(es.inject, rng.normal(size=(int(rng.integers(1, 3)), n)))
            elif call == "round trip":
                twin = cls(np.zeros(n) + 0.1, 1.0, **given | {"rng": 5})
                twin.set_state(es.get_state())
                assert not (unlike := same(es.get_state(), twin.get_state())), f"not restored: {unlike}"
                if asked is None:
                    es = twin  # the search goes on in its double
            elif call == "restore":
                es.set_state(saved)
                asked = None
                assert not (unlike := same(es.get_state(), saved)), f"not restored: {unlike}"
                saved = one_of(rng, [saved, es.get_state()])
            elif call == "stop":
                assert all(isinstance(reason, str) for reason in es.stop())
                saved = es.get_state()
            elif call == "result":
                assert np.isfinite(es.result.x).all(), es.result.x
                assert not np.isnan(es.result.fun)
            elif call == "repr":
                assert method in repr(es)
            elif call == "odd tell" and asked is not None:
                before = es.get_state()
                odd = one_of(rng, [[], [1.0], "abc", None, [None] * es.popsize, np.zeros((es.popsize, 1)),
                                   np.full(es.popsize, 1j), np.full(es.popsize, np.inf)])  # fmt: skip
                if refused(es.tell, odd) is None and es.evaluations == before["record.evaluations"]:
                    assert not (unlike := same(es.get_state(), before)), f"a refused tell alters {unlike}"
                else:
                    asked = None
            elif call == "odd resample":
                rows = one_of(rng, [[-1], [es.popsize], [0.5], "a", None, [[0]], [0, 0], []])
                refused(es.resample, rows, one_of(rng, [1, 0, -1, 10**9, 1.5, None]))
            elif call == "odd inject":
                before = es.get_state()
                points = one_of(
                    rng, [np.full(n, np.nan), np.ones(n + 1), "abc", None, [], np.full(n, np.inf), 1j]
                )
                refused(es.inject, points)
                assert not (unlike := same(es.get_state(), before)), f"a refused inject alters {unlike}"
            elif call == "odd state":
                before = es.get_state()
                refused(es.set_state, odd_states(rng, before))
                es.set_state(before)
                asked = None
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error} after {', '.join(told)}") from error
    return method
