"""Importance of variables: shares follow the contributions of a quadratic function, in any units."""

import pickle

import numpy as np
import pytest

import lmma

WEIGHTS = np.array([100.0, 10.0, 1.0, 0.1, 0.0])
OPTIMUM = np.array([0.5, -0.3, 0.8, 0.2, 0.9])
STEP = 0.5


def quadratic(x):
    return float(WEIGHTS @ (x - OPTIMUM) ** 2)


def contributions():
    found = WEIGHTS * (OPTIMUM**2 + STEP**2)
    return found / found.sum()


ERRORS = {
    "auto": 0.08,
    "pulse": 0.08,
    "sep-cma-es": 0.08,
    "cma-es": 0.08,
    "acma-es": 0.08,
    "d-lm-ma-es": 0.25,
}


@pytest.mark.parametrize("method", ERRORS)
def test_shares_are_the_contributions_to_the_first_values(method):
    # squares of scales are learned within a factor of about 2; the weights differ by 10 and more
    shares = []
    for seed in range(5):
        result = lmma.minimize(
            quadratic, np.zeros(5), STEP, rng=seed, method=method, maxfevals=1500, tolfun=1e-9
        )
        importance = result.importance
        assert sum(importance.values()) == pytest.approx(1)
        shares.append([importance[f"x[{k}]"] for k in range(5)])
    found, truth = np.mean(shares, axis=0), contributions()
    assert np.allclose(found, truth, atol=ERRORS[method])
    assert list(np.argsort(-found)[:3]) == [0, 1, 2]


def test_units_do_not_matter():
    units = np.array([1e-6, 1.0, 1e3, 1.0, 1.0])
    result = lmma.minimize(
        lambda x: quadratic(x / units), np.zeros(5), STEP * units, rng=1, maxfevals=1500, tolfun=1e-9
    )
    assert next(iter(result.importance)) == "x[0]"
    assert result.importance["x[0]"] == pytest.approx(contributions()[0], abs=0.15)


def test_after_a_resume_the_importance_is_that_of_the_unbroken_run(tmp_path):
    options = {"rng": 1, "restarts": 2, "tolfun": 1e-3}
    whole = lmma.minimize(quadratic, np.zeros(5), STEP, maxfevals=900, **options)
    for budget in (100, 500, 900):
        broken = lmma.minimize(
            quadratic, np.zeros(5), STEP, maxfevals=budget, checkpoint=tmp_path / "a.npz", **options
        )
    assert len(whole.runs) > 1
    assert np.any(whole.learned.start[0] != 0)  # of the last restart
    assert dict(broken.importance) == dict(whole.importance)
    assert dict(pickle.loads(pickle.dumps(broken)).importance) == dict(whole.importance)


def test_integers_and_choices_are_not_rated():
    space = lmma.Space(
        oil=lmma.Choice(["A", "B", "C"]), a=lmma.Real(0, 1), gear=lmma.Integer(0, 9),
        b=lmma.Real(0, 10, shape=2), on=lmma.Integer(0, 1),
    )  # fmt: skip
    result = lmma.minimize(
        lambda oil, a, gear, b, on: 100 * (a - 0.2) ** 2 + (gear - 3) ** 2 + float(b @ b) / 100 + on,
        space, rng=1, maxfevals=800,
    )  # fmt: skip
    assert set(result.importance) == {"a", "b[0]", "b[1]"}
    assert next(iter(result.importance)) == "a"
    alone = lmma.minimize(lambda g: g, lmma.Space(g=lmma.Integer(0, 9)), rng=1, maxfevals=60)
    with pytest.raises(ValueError, match="only real variables"):
        alone.importance  # noqa: B018
    with pytest.raises(ValueError, match=r"result\.learned"):
        lmma.RunResult(x=np.ones(2)).importance  # noqa: B018


def test_leaves_of_a_tree_are_summed_and_many_variables_are_abbreviated():
    start = {"w": np.zeros((10, 10)), "b": np.zeros(3)}
    result = lmma.minimize(
        lambda t: float(((t["w"] - 1) ** 2).sum()) + 1e-6 * float((t["b"] ** 2).sum()), start, 0.3, rng=1,
        maxfevals=3000,
    )  # fmt: skip
    assert list(result.importance) == ["w", "b"]
    assert result.importance["w"] > 0.9
    result = lmma.minimize(lambda x: float(x @ x), np.ones(100), 0.3, rng=1, maxfevals=500)
    lines = str(result.importance).splitlines()
    assert len(lines) == 21
    assert lines[-1].startswith("80 others")
    assert len(result.importance) == 100
    assert len(repr(result.importance)) < 160
    assert result.importance._repr_html_().count("<tr>") == 20


def test_a_bar_chart():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    result = lmma.minimize(quadratic, np.zeros(5), STEP, rng=1, maxfevals=800)
    (axes,) = result.importance.plot(most=3).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == list(result.importance)[:3]
    assert [bar.get_width() for bar in axes.patches] == list(result.importance.values())[:3]
    assert "2 more variables" in axes.get_xlabel()
