"""Constraints of ``minimize``: SciPy's forms, values returned by fun, and the best feasible point."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize as scipy_minimize

import lmma
from constrained_problems import PROBLEMS, large
from lmma.constraints import Returned


def sphere(x):
    return float(x @ x)


def both(x):
    return float(x @ x), np.array([x[0] + 1, -x[1] - 3])


def both_at_once(X):
    return (X**2).sum(1), np.stack([X[:, 0] + 1, -X[:, 1] - 3], 1)


def first(x):
    return x[0] + 1


# Results


@pytest.mark.parametrize("name", PROBLEMS)
def test_solves_problems_with_known_optima(name):
    problem = PROBLEMS[name]
    # Of seeds 1 to 9, one run of klee-minty 5 ends early, as stagnated: that of seed 1
    result = lmma.minimize(problem.one, problem.x0, problem.sigma0, bounds=problem.bounds, rng=2,
                           maxfevals=20_000, constraints=Returned())  # fmt: skip
    assert result.success, result.message
    assert result.maxcv <= 1e-8
    # 1e-8 in g moves f by its multiplier times that; half the digits of h are all that ranks can tell apart
    assert abs(result.fun - problem.optimum) <= 1e-6 * max(1, abs(problem.optimum))


@pytest.mark.parametrize("seed", range(1, 6))
def test_sphere_with_one_constraint_needs_few_evaluations(seed):
    problem = PROBLEMS["sphere"]
    result = lmma.minimize(problem.one, problem.x0, problem.sigma0, rng=seed, ftarget=1 + 1e-6)
    assert result.reason == "ftarget"
    assert result.nfev < 2200
    assert result.maxcv <= 1e-8


def test_multipliers_are_those_of_the_problem():
    result = lmma.minimize(
        sphere, np.ones(3), 1.0, rng=1, constraints=NonlinearConstraint(lambda x: x[0], 2, 5)
    )
    assert result.multipliers[0] == pytest.approx([-4.0], rel=1e-3)  # 2 x = 4 at the lower limit
    assert result.constr[0] == pytest.approx([2.0])


def test_many_constraints_in_many_dimensions():
    problem, multipliers = large(40, 4, 4)
    result = lmma.minimize(problem.function, problem.x0, problem.sigma0, vectorized=True, rng=1)
    assert result.success
    assert abs(result.fun - problem.optimum) < 1e-6
    # Multipliers of constraints that are not active fade slowly: 0.06 is left of one here
    active = multipliers > 0
    assert result.multipliers[0][active] == pytest.approx(multipliers[active], abs=1e-2)
    assert np.all(result.multipliers[0][~active] < 0.1)


@pytest.mark.slow
def test_a_thousand_variables_with_ten_linear_and_ten_quadratic_constraints():
    problem, _ = large(1000)
    result = lmma.minimize(problem.function, problem.x0, problem.sigma0, vectorized=True, rng=1,
                           maxfevals=300_000)  # fmt: skip
    assert result.maxcv <= 1e-8
    assert abs(result.fun - problem.optimum) < 1e-6


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("of", ["fun", "constraints"])
def test_the_scale_of_values_and_constraints_does_not_matter(of, factor):
    scales = (factor, 1.0) if of == "fun" else (1.0, factor)

    def scaled(x):
        f, g = both(x)
        return scales[0] * f, scales[1] * g

    seen = []
    lmma.minimize(both, np.ones(3), 1.0, rng=1, maxiter=30, callback=lambda x: seen.append(x), tolfun=0,
                  feasibility_tol=0, constraints=Returned())  # fmt: skip
    again = []
    lmma.minimize(scaled, np.ones(3), 1.0, rng=1, maxiter=30, callback=lambda x: again.append(x), tolfun=0,
                  feasibility_tol=0, constraints=Returned())  # fmt: skip
    assert np.allclose(seen, again, rtol=1e-6)


def test_nonlinear_equalities_are_met():
    result = lmma.minimize(lambda x: x.sum(), np.ones(5), 0.5, rng=1,
                           constraints={"type": "eq", "fun": lambda x: x @ x - 5})  # fmt: skip
    assert result.success
    assert result.maxcv <= 1e-8
    assert result.fun == pytest.approx(-5, abs=1e-6)


def test_ranks_alone_solve_with_a_constraint_that_says_yes_or_no():
    result = lmma.minimize(lambda x: (sphere(x), float(x[0] > -1)), np.full(3, -3.0), 1.0, rng=1,
                           maxfevals=6000, constraint_handling="rank")  # fmt: skip
    assert result.maxcv == 0
    assert result.fun == pytest.approx(1, abs=1e-4)
    assert result.multipliers is None


def test_a_monotone_transform_changes_nothing_for_ranks():
    def run(transform):
        return lmma.minimize(lambda x: (transform(sphere(x)), transform(first(x))), np.ones(3), 1.0, rng=1,
                             maxiter=40, constraint_handling="rank", tolfun=0, feasibility_tol=0)  # fmt: skip

    assert np.array_equal(run(lambda v: v).x, run(lambda v: v**3).x)


# Forms


FORMS = {
    "function": first,
    "dict": {"type": "ineq", "fun": lambda x: -first(x)},
    "dict with args": {"type": "ineq", "fun": lambda x, shift: -x[0] - shift, "args": (1.0,)},
    "nonlinear": NonlinearConstraint(first, -np.inf, 0),
    "linear": LinearConstraint([[1.0, 0, 0]], -np.inf, -1),
    "sparse linear": LinearConstraint(sparse.csr_array([[1.0, 0, 0]]), -np.inf, -1),
    "list": [first],
    "tuple": (NonlinearConstraint(first, -np.inf, 0),),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_mean_the_same(form):
    result = lmma.minimize(sphere, np.ones(3), 1.0, constraints=FORMS[form], rng=1)
    alike = lmma.minimize(lambda x: (sphere(x), first(x)), np.ones(3), 1.0, rng=1)
    assert result.fun == pytest.approx(alike.fun, abs=1e-7)
    assert result.nfev == pytest.approx(alike.nfev, rel=0.3)


def test_bounds_among_constraints_are_bounds():
    seen = []
    lmma.minimize(lambda x: seen.append(x.copy()) or sphere(x), np.ones(3), 1.0, maxiter=10, rng=1,
                  constraints=[Bounds(0.5, 2), first])  # fmt: skip
    assert np.min(seen) >= 0.5
    with pytest.raises(ValueError, match="bounds are given twice"):
        lmma.minimize(sphere, np.ones(3), bounds=(0, 2), constraints=Bounds(0, 1))


def test_scipy_passes_its_constraints_on():
    result = scipy_minimize(sphere, np.ones(3), method=lmma.scipy_method("pulse-full"), options={"rng": 2},
                            constraints=[NonlinearConstraint(first, -np.inf, 0)])  # fmt: skip
    assert result.success
    assert result.fun == pytest.approx(1, abs=1e-6)


def test_scipy_is_not_imported_for_a_function():
    code = (
        "import sys, lmma\n"
        "from lmma.run.user_constraints import read_parts\n"
        "read_parts([lambda x: x[0], {'type': 'eq', 'fun': len}], 3)\n"
        "print('scipy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


# Linear equalities


def test_every_candidate_keeps_linear_equalities():
    A, b = np.array([[1.0, 1, 1, 1, 1], [1, -1, 0, 0, 2]]), np.array([3.0, 0.5])
    seen = []
    result = lmma.minimize(lambda x: seen.append(x.copy()) or sphere(x), np.ones(5), rng=1,
                           constraints=LinearConstraint(A, b, b))  # fmt: skip
    assert np.abs(np.array(seen) @ A.T - b).max() < 1e-13
    assert result.success
    assert result.x == pytest.approx(np.linalg.pinv(A) @ b, abs=1e-5)
    assert np.isnan(result.multipliers[0]).all()


def test_equalities_are_kept_inside_bounds():
    seen = []
    result = lmma.minimize(lambda x: seen.append(x.copy()) or float(((x - np.arange(4)) ** 2).sum()),
                           np.full(4, 0.25), bounds=(0, 1), rng=1,
                           constraints=LinearConstraint(np.ones((1, 4)), 1, 1))  # fmt: skip
    assert np.min(seen) >= 0
    assert np.max(seen) <= 1
    assert np.abs(np.sum(seen, axis=1) - 1).max() < 1e-12
    assert result.x == pytest.approx([0, 0, 0, 1], abs=1e-4)


def test_equalities_that_contradict_or_leave_nothing_are_rejected():
    with pytest.raises(ValueError, match="contradict"):
        lmma.minimize(sphere, np.ones(3), constraints=LinearConstraint(np.ones((2, 3)), [1, 2], [1, 2]))
    with pytest.raises(ValueError, match="determine all"):
        lmma.minimize(sphere, np.ones(3), constraints=LinearConstraint(np.eye(3), 1, 1))


# How it is evaluated


@pytest.mark.parametrize("way", ["vectorized", "pool", "map", "function in the pool", "function at once"])
def test_the_way_of_evaluation_does_not_matter(way):
    alone = lmma.minimize(both, np.ones(3), 1.0, rng=1, maxiter=40, constraints=Returned())
    given = {
        "vectorized": (both_at_once, {"vectorized": True, "constraints": Returned()}),
        "pool": (both, {"workers": 2, "constraints": Returned()}),
        "map": (both, {"workers": map, "constraints": Returned()}),
        "function in the pool": (sphere, {"workers": 2, "constraints": lambda x: both(x)[1]}),
        "function at once": (
            lambda X: (X**2).sum(1),
            {"vectorized": True, "constraints": lambda X: both_at_once(X)[1]},
        ),
    }[way]
    result = lmma.minimize(given[0], np.ones(3), 1.0, rng=1, maxiter=40, **given[1])
    assert result.x == pytest.approx(alone.x, abs=1e-12)
    assert result.constr[0] == pytest.approx(alone.constr[0], abs=1e-12)


def test_failed_evaluations_with_constraints_are_counted():
    def fragile(x):
        if x[2] > 1.5:
            raise RuntimeError("too far")
        return sphere(x), math.nan if x[2] < -1 else first(x)

    result = lmma.minimize(fragile, np.ones(3), 1.0, rng=2)
    assert result.success
    assert result.failed["RuntimeError"] > 0
    assert result.failed["constraint"] > 0


def test_failed_candidates_are_resampled():
    def fragile(x):
        return (math.nan, 0.0) if x[1] > 1.0 else (sphere(x), first(x))

    result = lmma.minimize(fragile, np.full(3, 0.5), 1.0, rng=1, on_error="resample")
    assert result.success
    assert result.fun == pytest.approx(1, abs=1e-6)


# What a run does


def test_a_target_is_reached_by_feasible_points_alone():
    result = lmma.minimize(lambda x: (sphere(x), first(x)), np.zeros(3) + 0.1, 0.1, rng=1, ftarget=1.5)
    assert result.reason == "ftarget"
    assert result.nfev > 50  # the start has a value below the target
    assert result.maxcv <= 1e-8
    assert 1 - 1e-7 <= result.fun <= 1.5


@pytest.mark.parametrize("handling", ["lagrange", "rank"])
def test_a_resumed_run_equals_the_unbroken_one(handling, tmp_path):
    def go(maxiter, **more):
        return lmma.minimize(both, np.ones(3), 1.0, rng=1, maxiter=maxiter, constraints=Returned(),
                             history=True, constraint_handling=handling, **more)  # fmt: skip

    whole = go(60)
    go(25, checkpoint=tmp_path / "run.npz")
    resumed = go(60, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(whole.x, resumed.x)
    assert (whole.fun, whole.maxcv, whole.sigma) == (resumed.fun, resumed.maxcv, resumed.sigma)
    assert np.array_equal(whole.constr[0], resumed.constr[0])
    if handling == "lagrange":
        assert np.array_equal(whole.multipliers[0], resumed.multipliers[0])


def test_a_checkpoint_keeps_a_point_that_is_not_feasible_yet(tmp_path):
    def go(maxiter):
        return lmma.minimize(lambda x: (sphere(x), 30 - x[0]), np.ones(3), 0.1, rng=1, maxiter=maxiter,
                             checkpoint=tmp_path / "run.npz")  # fmt: skip

    early = go(2)
    assert early.maxcv > 20
    assert go(2).maxcv == early.maxcv


def test_a_checkpoint_of_other_constraints_is_rejected(tmp_path):
    file = tmp_path / "run.npz"
    limit = NonlinearConstraint(first, -np.inf, 0)
    lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxiter=5, constraints=limit, checkpoint=file)
    with pytest.raises(lmma.CheckpointError, match="constraints"):
        lmma.minimize(sphere, np.ones(3), 1.0, rng=1, constraints=NonlinearConstraint(first, -np.inf, 1),
                      checkpoint=file)  # fmt: skip


def test_restarts_keep_the_best_feasible_point():
    result = lmma.minimize(lambda x: (sphere(x), first(x)), np.ones(3), 1.0, rng=1, restarts=2)
    assert len(result.runs) == 3
    assert result.fun <= min(run.best_fun for run in result.runs) + 1e-12
    assert result.maxcv <= 1e-8


def test_a_warm_start_hands_multipliers_over():
    first_run = lmma.minimize(lambda x: (sphere(x), first(x)), np.ones(3), 1.0, rng=1)
    second = lmma.minimize(lambda x: (sphere(x), first(x)), first_run, rng=2)
    assert second.success
    assert second.nfev < first_run.nfev


def test_injected_points_may_be_the_best_feasible_ones():
    good = np.array([-1.0, 0, 0])
    result = lmma.minimize(
        lambda x: (sphere(x), first(x)), np.full(3, 5.0), 1.0, rng=1, inject=good, maxiter=1
    )
    assert np.array_equal(result.x, good)


def test_observers_receive_the_violation(tmp_path, capsys):
    seen = []

    def watch(intermediate_result):
        seen.append(intermediate_result.maxcv)

    result = lmma.minimize(lambda x: (sphere(x), 9e9 - x[0]), np.ones(3), 0.5, rng=1, maxiter=8, history=True,
                           log=tmp_path / "run.jsonl", progress=True, callback=watch)  # fmt: skip
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == result.maxcv == result.history["violation"][-1]
    last = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1])
    assert last["violation"] == result.maxcv
    assert f"violation {result.maxcv:.2e}" in capsys.readouterr().err


def test_a_run_without_constraints_logs_nothing_of_them(tmp_path):
    result = lmma.minimize(sphere, np.ones(3), rng=1, maxiter=3, log=tmp_path / "run.jsonl")
    assert "maxcv" not in result
    assert "violation" not in (tmp_path / "run.jsonl").read_text()


def test_pictures_show_the_violation():
    from lmma.output.plotting.convergence import convergence

    result = lmma.minimize(lambda x: (sphere(x), 9 - x[0]), np.ones(3), 0.5, rng=1, maxiter=8, history=True)
    drawn = convergence(result.history).axes[1].get_legend_handles_labels()[1]
    assert drawn == ["violation of the best point"]


def test_pictures_leave_a_gap_where_the_best_is_feasible():
    from matplotlib.figure import Figure

    from lmma.output.plotting.style import draw_violation

    axes = Figure().subplots()
    draw_violation(axes, [10, 20, 30, 40, 50, 60], [2.0, 1.0, 0.0, None, 0.5, 0.0])
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), [False, False, True, True, False, True])
    assert line.get_markevery() == [4]  # a point alone has no line to be seen by
    draw_violation(empty := Figure().subplots(), [10, 20], [0.0, 0.0])
    assert not empty.get_lines()


# Bad input


def test_constraints_that_cannot_be_met_are_reported_by_name():
    result = lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxfevals=20_000,
                           constraints=[lambda x: x[1] - 5, lambda x: [x[0] + 1, 1 - x[0]]])  # fmt: skip
    assert not result.success
    assert result.maxcv == pytest.approx(1, abs=0.3)
    assert "No feasible point was found; x has the smallest violation," in result.message
    assert "constraint 1, number" in result.message


def test_a_gradient_is_not_taken_for_constraints():
    with pytest.raises(ValueError, match=r"constraints or a gradient.*Returned"):
        lmma.minimize(lambda x: (sphere(x), 2 * x), np.ones(3))


def varying(x):
    return sphere(x), np.zeros(1 + (x[0] > 1))


@pytest.mark.parametrize(
    ("fun", "given", "error", "words"),
    [
        (
            varying,
            None,
            ValueError,
            "1 constraint value for candidate 0 but 2 for candidate 1: return the same",
        ),
        (lambda x: (1.0, "no"), None, TypeError, "constraints g"),
        (lambda x: (1.0, np.zeros((2, 2))), None, TypeError, "constraints g"),
        (sphere, lambda x: "no", TypeError, "constraints must return"),
        (
            sphere,
            NonlinearConstraint(lambda x: x, [0, 0], [1, 1]),
            ValueError,
            "has 3 values, but its lb has 2",
        ),
        (sphere, NonlinearConstraint(lambda x: x, 2, 1), ValueError, "lb = 2 exceeds ub = 1"),
        (sphere, NonlinearConstraint(lambda x: x, math.nan, 1), ValueError, "lb <= ub"),
        (sphere, NonlinearConstraint(lambda x: x, -np.inf, np.inf), ValueError, "no finite limit"),
        (sphere, LinearConstraint(np.ones((1, 4)), 0, 1), ValueError, "3 columns"),
        (sphere, {"type": "le", "fun": first}, ValueError, "'ineq'"),
        (sphere, {"type": "ineq"}, TypeError, "function fun"),
        (sphere, {"type": "ineq", "fun": first, "arg": ()}, ValueError, "did you mean 'args'"),
        (sphere, "x[0] <= 1", TypeError, "constraints must be"),
        (sphere, [3], TypeError, "constraint 0 is 3"),
        (sphere, Returned(), ValueError, r"return \(f, g\)"),
        (both, [Returned(), Returned()], ValueError, "Returned twice"),
    ],
    ids=range(16),
)
def test_constraints_that_cannot_be_meant_are_rejected(fun, given, error, words):
    with pytest.raises(error, match=words):
        lmma.minimize(fun, np.ones(3), 1.0, constraints=given, values="ranks", rng=1, maxiter=3)


@pytest.mark.parametrize("options", [{"constraint_handling": "penalty"}, {"feasibility_tol": -1}])
def test_options_of_constraints_are_checked(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        lmma.minimize(sphere, np.ones(3), **options)


def test_a_late_change_of_length_is_a_failed_evaluation():
    calls = []

    def changing(x):
        calls.append(1)
        return sphere(x), np.zeros(1 + (len(calls) == 100)) + first(x)

    result = lmma.minimize(changing, np.ones(3), 1.0, rng=1)
    assert result.failed == {"WrongLength": 1}
    assert result.success
