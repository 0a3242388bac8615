"""Runs do not depend on threads, on reading their state, or on blocks of candidates."""

import numpy as np
import pytest

import lmma
from lmma.numerics.linalg import padded_rows

WIDE = 6000  # variables: enough for several threads to share out


def cigar(X):
    return X[:, 0] ** 2 + 1e6 * np.sum(X[:, 1:] ** 2, axis=1)


def run(method, n, generations, look=False, blocks=None, **options):
    es = lmma.strategy(method, np.full(n, 2.0), 1.0, rng=5, **options)
    for _ in range(generations):
        if blocks is None:
            values = cigar(es.ask())
        else:
            values = np.concatenate([cigar(rows) for rows in es.ask_blocks(*blocks)])
        es.tell(values)
        if look:
            es.get_state()
    return es


def assert_same_state(a, b):
    a, b = a.get_state(), b.get_state()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)


@pytest.mark.parametrize("method", ["lm-ma-es", "d-lm-ma-es", "ma-es"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_two_and_four_threads_give_the_same_run(method, dtype):
    n = 300 if method == "ma-es" else WIDE
    alone = run(method, n, 8, dtype=dtype, threads=1)
    for threads in (2, 4):
        assert_same_state(alone, run(method, n, 8, dtype=dtype, threads=threads))


@pytest.mark.parametrize("method", ["lm-ma-es", "d-lm-ma-es"])
def test_looking_at_the_state_changes_nothing(method):
    assert_same_state(run(method, 501, 70), run(method, 501, 70, look=True))


def test_a_state_taken_while_an_update_waits_is_complete():
    es = run("lm-ma-es", 200, 5)
    assert es.method.transform._waiting is not None
    other = lmma.strategy("lm-ma-es", np.zeros(200), 1.0, rng=9)
    other.tell(cigar(other.ask()))  # has one waiting as well
    other.set_state(es.get_state())
    for strategy in (es, other):
        for _ in range(3):
            strategy.tell(cigar(strategy.ask()))
    assert_same_state(es, other)


def test_threads_must_be_a_positive_number():
    for threads, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="threads"):
            lmma.LMMAES(np.zeros(3), 1.0, threads=threads)


def test_minimize_takes_threads():
    results = [
        lmma.minimize(lambda x: x @ x, np.ones(20), 0.5, method="lm-ma-es", rng=1, maxfevals=500, threads=t)
        for t in (1, 2)
    ]
    np.testing.assert_array_equal(results[0].x, results[1].x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_blocks_hold_the_candidates_of_ask(dtype, rows):
    a, b = (run("lm-ma-es", 130, 30, dtype=dtype) for _ in range(2))
    X = a.ask()
    blocks = [block.copy() for block in b.ask_blocks(rows)]
    assert all(len(block) <= rows for block in blocks)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(np.concatenate(blocks), X, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("scale", [1.0, None])
def test_a_run_in_blocks_is_the_same_run(scale):
    n = 300
    sigma = np.linspace(0.5, 1.5, n) if scale is None else scale
    a, b = (lmma.LMMAES(np.full(n, 2.0), sigma, rng=5) for _ in range(2))
    for _ in range(25):
        a.tell(cigar(a.ask()))
        b.tell(np.concatenate([cigar(rows) for rows in b.ask_blocks(3)]))
    assert b.best_fun == pytest.approx(a.best_fun, rel=1e-9)
    assert cigar(b.best_x[None])[0] == pytest.approx(b.best_fun, rel=1e-12)
    np.testing.assert_allclose(b.mean, a.mean, rtol=1e-9)
    np.testing.assert_allclose(b.method.transform.vectors, a.method.transform.vectors, rtol=1e-8, atol=1e-9)


def test_blocks_reuse_one_array_and_leave_z_alone():
    es = run("lm-ma-es", 50, 3, blocks=(4,))
    places = {block.__array_interface__["data"][0] for block in es.ask_blocks(4)}
    assert len(places) == 1
    assert not es.method.z.any()


def test_failures_in_a_streamed_generation_rank_last():
    es = lmma.LMMAES(np.ones(30), 1.0, rng=1)
    values = np.concatenate([cigar(rows) for rows in es.ask_blocks(4)])
    values[::2] = np.nan
    es.tell(values)
    assert es.failures == np.isnan(values).sum()
    assert es.best_fun == np.nanmin(values)


def test_blocks_reject_what_they_cannot_do():
    es = lmma.LMMAES(np.zeros(20), 1.0, rng=1)
    for rows, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="rows"):
            es.ask_blocks(rows)
    blocks = es.ask_blocks(2)
    next(blocks)
    with pytest.raises(ValueError, match="ask"):
        es.tell(np.zeros(es.popsize))  # the generation is not complete
    for _ in es.ask_blocks():
        pass
    with pytest.raises(ValueError, match="blocks"):
        es.resample([0])
    with pytest.raises(ValueError, match="tell"):
        es.ask_blocks()
    with pytest.raises(TypeError, match="ma-es"):
        lmma.MAES(np.zeros(20), 1.0).ask_blocks()


def test_long_rows_do_not_start_a_power_of_two_apart():
    for dtype in ("float64", "float32"):
        rows = padded_rows(5, 16384, dtype)
        assert rows.shape == (5, 16384)
        assert rows.strides[0] % 4096 != 0
        assert rows.strides[0] % 64 == 0
        assert rows.ctypes.data % 64 == 0
    assert padded_rows(5, 1000, "float64").flags.c_contiguous
