import numpy as np
import pytest

from lmma_lab.attack import Objective, Projection
from lmma_lab.attack.objective import distances, margins, objective_values


def literal(p, label, x, x0):
    """Equation (fitness) of the paper, one row at a time."""
    if int(np.argmax(p)) == label:
        return p[label] - max(p[i] for i in range(len(p)) if i != label)
    return -1.0 / np.linalg.norm(x - x0)


def test_values_follow_the_paper_row_by_row():
    rng = np.random.default_rng(0)
    x0 = rng.standard_normal(5)
    X = rng.standard_normal((200, 5))
    P = rng.dirichlet(np.ones(4), 200)
    values = Objective(lambda rows: P, x0, 2)(X)
    assert np.allclose(values, [literal(p, 2, x, x0) for p, x in zip(P, X, strict=True)], atol=1e-12)
    assert (values < 0).any()
    assert (values > 0).any()


@pytest.mark.parametrize("trees", [3, 10, 49, 100, 997, 1000, 12345])
def test_equal_differences_of_votes_tie_exactly(trees):
    rng = np.random.default_rng(trees)
    b = rng.integers(0, trees // 2 + 1, 2000)
    a = rng.integers(0, trees // 2 + 1, 2000)
    by_division = margins(np.stack([a, b], axis=1) / trees, 0)[0]
    by_difference = np.rint((a - b) / trees * 2**40) / 2**40
    assert np.array_equal(by_division, by_difference)
    plain = a / trees - b / trees
    if trees >= 49:  # the danger is real: plain subtraction breaks such ties
        assert len(np.unique(plain)) > len(np.unique(a - b))


def test_at_a_tie_the_first_class_wins_as_in_scikit_learn():
    p = np.array([[0.4, 0.4, 0.2]])
    assert margins(p, 0) == (0.0, False)
    assert margins(p, 1) == (0.0, True)
    assert margins(p, 0, targeted=True) == (0.0, True)
    assert margins(p, 1, targeted=True) == (0.0, False)


def test_targeted_attacks_reward_the_wanted_class_only():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.1, 0.7, 0.2]])
    margin, success = margins(p, 2, targeted=True)
    assert np.allclose(margin, [0.3, -0.5, 0.5])
    assert success.tolist() == [False, True, False]


def test_a_closer_adversarial_is_better_and_any_is_better_than_none():
    values = objective_values(
        np.array([0.0, 0.2, -0.3]), np.array([False, True, True]), np.array([1, 5, 2.0])
    )
    assert values.tolist() == [0.0, -0.2, -0.5]


def test_projection_clips_and_rounds_what_the_classifier_sees():
    seen = []

    def predict_proba(rows):
        seen.append(rows.copy())
        return np.tile([0.2, 0.8], (len(rows), 1))

    X = np.array([[-3.2, 0.4, 254.6], [10.5, 300.0, 11.5]])
    before = X.copy()
    f = Objective(predict_proba, np.zeros(3), 0, projection=Projection(clip=True, round=True))
    values = f(X)
    assert seen[0].tolist() == [[0, 0, 255], [10, 255, 12]]
    assert np.array_equal(X, before)
    assert np.allclose(values, -1 / np.linalg.norm(seen[0], axis=1))  # of the projected point
    assert f(X[1]) == values[1]


def test_both_distances_are_of_each_row():
    l2, linf = distances([[3.0, 4.0], [0.0, -2.0]], [0.0, 0.0])
    assert l2.tolist() == [5.0, 2.0]
    assert linf.tolist() == [4.0, 2.0]


def test_unusable_answers_are_named():
    with pytest.raises(ValueError, match="at least two classes"):
        margins(np.ones((3, 1)), 0)
    with pytest.raises(ValueError, match="not finite"):
        margins(np.array([[np.nan, 1.0]]), 0)
    with pytest.raises(ValueError, match=r"low=1\.0 is not below high=1\.0"):
        Projection(low=1.0, high=1.0)
