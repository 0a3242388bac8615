"""Structures in a run: fun receives one, and the result is one."""

import numpy as np
import pytest

import lmma


def start():
    return {"w": np.zeros((2, 3)), "b": 0.5, "name": "layer"}


def loss(parts):
    assert parts["name"] == "layer"
    return float(np.sum((parts["w"] - 1.0) ** 2) + (parts["b"] + 2.0) ** 2)


def losses(parts):
    return np.sum((parts["w"] - 1.0) ** 2, axis=(1, 2)) + (parts["b"] + 2.0) ** 2


def flat(x):
    return float(np.sum((x[:6] - 1.0) ** 2) + (x[6] + 2.0) ** 2)


STEPS = {"w": 0.1, "b": 0.01}


def test_fun_is_given_the_structure_and_the_result_is_one():
    result = lmma.minimize(loss, start(), STEPS, rng=1)
    assert result.success
    np.testing.assert_allclose(result.x["w"], 1.0, atol=1e-4)
    assert result.x["b"] == pytest.approx(-2.0, abs=1e-4)
    assert result.x["name"] == "layer"
    assert np.shares_memory(result.x["w"], result.vector)
    np.testing.assert_array_equal(result.tree.encode(result.x), result.vector)
    assert len(str(result).splitlines()) <= 25
    assert "n=7" in repr(result)


@pytest.mark.parametrize("how", ["vectorized", "pool", "tree", "space"])
def test_every_way_gives_the_run_of_the_vector(how):
    options = {"rng": 3, "maxfevals": 500}
    x0 = lmma.Tree(start()).encode(start())
    plain = lmma.minimize(flat, x0, [0.1] * 6 + [0.01], **options)
    given = {
        "vectorized": lambda: lmma.minimize(losses, start(), STEPS, vectorized=True, **options),
        "pool": lambda: lmma.minimize(loss, start(), STEPS, workers=2, **options),
        "tree": lambda: lmma.minimize(loss, lmma.Tree(start()), STEPS, **options),
        "space": lambda: lmma.minimize(loss, x0, STEPS, space=lmma.Tree(start()), **options),
    }[how]()
    np.testing.assert_allclose(given.vector, plain.x, rtol=1e-9)  # sums are taken in another order
    assert given.nfev == plain.nfev


def test_single_precision_is_kept_from_end_to_end():
    seen = set()

    def f(parts):
        seen.add(parts["w"].dtype.name)
        return float(np.sum(parts["w"] ** 2))

    result = lmma.minimize(f, {"w": np.ones((3, 2), np.float32)}, 0.5, rng=1, maxfevals=200)
    assert seen == {"float32"}
    assert result.vector.dtype == np.float32
    assert result.x["w"].dtype == np.float32


def test_candidates_of_a_vectorised_run_are_not_copied():
    owners = []

    def f(parts):
        owners.append((parts["w"].base, parts["b"].base))
        return np.sum(parts["w"] ** 2, axis=(1, 2)) + parts["b"] ** 2

    lmma.minimize(f, {"w": np.ones((3, 2)), "b": 1.0}, 0.5, rng=1, vectorized=True, maxiter=3)
    assert all(w is b and w.shape[1] == 7 for w, b in owners)  # the candidates themselves


def test_a_callback_is_shown_the_structure():
    seen = []

    def watch(parts):
        seen.append(parts["w"].shape)

    lmma.minimize(loss, start(), STEPS, rng=1, maxiter=2, callback=watch)
    assert seen == [(2, 3)] * 2


def test_bounds_by_path_hold_for_every_candidate():
    lowest = []

    def f(parts):
        lowest.append(parts["b"])
        return loss(parts)

    result = lmma.minimize(f, start(), STEPS, bounds={"b": (0.0, None)}, rng=1, maxfevals=2000)
    assert min(lowest) >= 0.0
    assert result.x["b"] == pytest.approx(0.0, abs=1e-3)
    np.testing.assert_allclose(result.x["w"], 1.0, atol=1e-2)


def test_a_result_is_gone_on_from_and_a_checkpoint_as_well(tmp_path):
    first = lmma.minimize(loss, start(), STEPS, rng=1, maxfevals=200)
    longer = lmma.minimize(loss, first, rng=1, maxfevals=200)
    assert longer.fun < first.fun
    assert longer.x["w"].shape == (2, 3)
    file = tmp_path / "run.npz"
    unbroken = lmma.minimize(loss, start(), STEPS, rng=1, maxiter=40)
    lmma.minimize(loss, start(), STEPS, rng=1, maxiter=20, checkpoint=file)
    resumed = lmma.minimize(loss, start(), STEPS, rng=1, maxiter=40, checkpoint=file)
    np.testing.assert_array_equal(resumed.vector, unbroken.vector)
    changed = start() | {"w": np.zeros((3, 2))}
    with pytest.raises(lmma.CheckpointError, match=r"'w' is 'float64 \(2, 3\)' in the file"):
        lmma.minimize(loss, changed, STEPS, rng=1, checkpoint=file)


def test_a_saved_result_has_the_vector(tmp_path):
    result = lmma.minimize(loss, start(), STEPS, rng=1, maxfevals=200, history=True)
    result.plot()
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.vector, result.vector)
    longer = lmma.minimize(loss, again, space=lmma.Tree(start()), maxfevals=200)
    assert longer.fun < result.fun


def test_structures_can_be_injected_one_or_many():
    good = {"w": np.ones((2, 3)), "b": -2.0, "name": ""}
    for inject in (good, [good, start()]):
        result = lmma.minimize(loss, start(), STEPS, inject=inject, rng=1, maxiter=1)
        assert result.fun == 0.0


def test_seeds_and_constraints_meet_the_structure():
    def f(parts, seed):
        assert isinstance(seed, int)
        return loss(parts)

    result = lmma.minimize(f, start(), STEPS, rng=1, maxfevals=300)
    assert result.nfev <= 300
    tight = lmma.minimize(loss, start(), STEPS, constraints=lambda parts: parts["b"] * -1.0, rng=1)
    assert tight.x["b"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x0": {}}, "x0: nothing to search"),
        ({"x0": {"w": np.array([1.0, np.nan])}}, "'w' contains NaN"),
        ({"sigma0": {"v": 0.1}}, "no 'v' in the tree"),
        ({"sigma0": {"w": 0.0}}, "positive"),
        ({"bounds": {"w": (2, 3)}}, "x0"),
        ({"bounds": {"q": (2, 3)}}, "no 'q' in the tree"),
    ],
    ids=["empty", "NaN", "unknown step", "zero step", "outside", "unknown bound"],
)
def test_an_invalid_argument_is_rejected(given, words):
    arguments = {"x0": start(), "sigma0": STEPS} | given
    with pytest.raises(ValueError, match=words):
        lmma.minimize(loss, arguments.pop("x0"), arguments.pop("sigma0"), **arguments)
