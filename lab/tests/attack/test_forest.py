import pickle

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier

from lmma_lab.attack import CompiledForest, compile_forest
from lmma_lab.attack.forest import FlatForest, _not_above

MODELS = {
    "default": RandomForestClassifier(n_estimators=40, random_state=1),
    "extra trees": ExtraTreesClassifier(n_estimators=40, random_state=1),
    "no bootstrap": RandomForestClassifier(n_estimators=10, bootstrap=False, random_state=1),
    "shallow, impure leaves": RandomForestClassifier(n_estimators=40, max_depth=4, random_state=1),
    "large leaves": ExtraTreesClassifier(n_estimators=40, min_samples_leaf=7, random_state=1),
    "best first": RandomForestClassifier(n_estimators=20, max_leaf_nodes=40, random_state=1),
    "weighted": RandomForestClassifier(n_estimators=20, class_weight="balanced", max_depth=6, random_state=1),
    "one tree": RandomForestClassifier(n_estimators=1, random_state=1),
    "stumps and roots": RandomForestClassifier(n_estimators=30, max_depth=1, random_state=1),
    "more than 255 trees": ExtraTreesClassifier(n_estimators=300, random_state=1),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, digits):
    return MODELS[request.param].fit(digits.X_train, digits.y_train)


def test_every_probability_equals_scikit_learns_bit_for_bit(model, near, engine):
    compiled = compile_forest(model, engine=engine)
    X = near(700)
    assert np.array_equal(compiled.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(compiled.predict(X), model.predict(X))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 23, 31, 32, 33, 100])
def test_number_of_rows_and_grouping_do_not_matter(forest, near, engine, count):
    compiled = compile_forest(forest, engine=engine)
    X = near(count)
    truth = forest.predict_proba(X) if count else np.empty((0, 10))
    for group in (None, 1, 5, 23, 40, 1000):
        for threads in (1, 3):
            assert np.array_equal(compiled.predict_proba(X, group=group, threads=threads), truth)


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8", "int64"])
def test_types_of_input_do_not_matter(forest, digits, engine, dtype):
    X = digits.X_test[:50].astype(dtype)
    assert np.array_equal(compile_forest(forest, engine=engine).predict_proba(X), forest.predict_proba(X))


def test_thresholds_between_float32_numbers_decide_as_scikit_learn_does(engine):
    # two neighbours in float32: the threshold lies between them and is no float32 number
    low = np.float32(0.1)
    high = np.nextafter(low, np.float32(1))
    X = np.array([[low], [high]], dtype=np.float32)
    model = ExtraTreesClassifier(n_estimators=50, random_state=0).fit(X, [0, 1])
    compiled = compile_forest(model, engine=engine)
    rows = np.linspace(float(low) - 1e-8, float(high) + 1e-8, 101)[:, None]
    assert np.array_equal(compiled.predict_proba(rows), model.predict_proba(rows))


def test_rounded_thresholds_are_the_largest_not_above():
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.standard_normal(1000) * 10.0 ** rng.integers(-40, 40, 1000), [0.0, 0.5, 1e300]])
    down = _not_above(t)
    assert (down.astype(float) <= t).all()
    with np.errstate(over="ignore", under="ignore"):
        assert (np.nextafter(down, np.float32(np.inf)).astype(float) > t).all()


@pytest.mark.parametrize("labels", [["nought", "one"], [-3, 1000], [2.0, 7.0], [False, True]])
def test_labels_of_any_kind_come_back(labels, engine):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.array(labels)[(X[:, 0] + X[:, 1] > 0).astype(int)]
    model = RandomForestClassifier(n_estimators=15, random_state=0).fit(X, y)
    compiled = compile_forest(model, engine=engine)
    rows = rng.standard_normal((100, 3))
    assert np.array_equal(compiled.predict(rows), model.predict(rows))
    assert compiled.predict(rows).dtype == model.predict(rows).dtype


def test_a_forest_that_never_asks_answers_its_one_leaf(engine):
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    model = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
    compiled = compile_forest(model, engine=engine)
    assert np.array_equal(compiled.predict_proba(X), model.predict_proba(X))


def test_nodes_too_wide_for_two_words_are_kept_in_three(forest, near, engine):
    flat = compile_forest(forest).flat
    low = (1 << flat.bits) - 1
    wide = np.stack([flat.words[:, 0], flat.words[:, 1] >> flat.bits, flat.words[:, 1] & low], axis=1)
    three = FlatForest(wide, flat.bits, flat.roots, flat.used, flat.values, flat.classes, flat.n_features)
    X = near(100)
    wide_forest = CompiledForest(three, engine=engine)
    assert np.array_equal(wide_forest.predict_proba(X), forest.predict_proba(X))
    low, high = X.min(axis=0), X.max(axis=0)
    assert np.array_equal(wide_forest.prune(low, high).predict_proba(X), forest.predict_proba(X))


@pytest.mark.parametrize("width", [0.0, 0.4, 3.0, 1e9])
def test_pruning_changes_nothing_inside_the_box(model, digits, engine, width):
    compiled = compile_forest(model, engine=engine)
    rng = np.random.default_rng(3)
    x0 = digits.X_test[4].astype(float)
    pruned = compiled.prune(x0 - width, x0 + width)
    X = x0 + width * rng.uniform(-1, 1, (64, 64))
    assert np.array_equal(pruned.predict_proba(X), model.predict_proba(X))
    assert pruned.n_nodes <= compiled.n_nodes


def test_pruning_removes_what_cannot_be_reached(forest, digits):
    compiled = compile_forest(forest)
    if "forest_numpy" in type(compiled._engine).__module__:
        pytest.skip("the evaluator in NumPy does not prune")
    x0 = digits.X_test[4].astype(float)
    narrow, wide = compiled.prune(x0 - 1, x0 + 1), compiled.prune(x0 - 4, x0 + 4)
    assert narrow.n_nodes < wide.n_nodes < compiled.n_nodes
    assert compiled.prune(x0, x0).n_nodes == 0  # all trees have become constant votes


def test_rows_outside_the_box_are_rejected(forest, digits, engine):
    x0 = digits.X_test[4].astype(float)
    pruned = compile_forest(forest, engine=engine).prune(x0 - 1, x0 + 1)
    with pytest.raises(ValueError, match="leaves the box"):
        pruned.predict_proba(x0[None] + 1.5)


def test_pruning_twice_stays_inside_the_first_box(forest, digits, engine):
    x0 = digits.X_test[4].astype(float)
    twice = compile_forest(forest, engine=engine).prune(x0 - 1, x0 + 1).prune(x0 - 9, x0 + 0.5)
    X = x0 + np.random.default_rng(0).uniform(-1, 0.5, (50, 64))
    assert np.array_equal(twice.predict_proba(X), forest.predict_proba(X))
    with pytest.raises(ValueError, match="leaves the box"):
        twice.predict_proba(x0[None] - 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_that_are_not_finite_are_named(forest, near, engine, bad, dtype):
    X = near(70)
    with np.errstate(over="ignore"):
        X[41, 17] = bad
        X = X.astype(dtype)
    with pytest.raises(ValueError, match=r"X\[41, 17\] = .*finite"):
        compile_forest(forest, engine=engine).predict_proba(X)


def test_missing_values_in_training_leave_finite_rows_exact(digits, near, engine):
    rng = np.random.default_rng(0)
    X = digits.X_train.astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = RandomForestClassifier(n_estimators=20, random_state=0).fit(X, digits.y_train)
    rows = near(200)
    assert np.array_equal(compile_forest(model, engine=engine).predict_proba(rows), model.predict_proba(rows))


def test_shapes_and_models_that_do_not_fit_are_named(forest, digits):
    compiled = compile_forest(forest)
    with pytest.raises(ValueError, match="64 features"):
        compiled.predict_proba(np.zeros((3, 63)))
    with pytest.raises(ValueError, match="64 features"):
        compiled.predict_proba(np.zeros(64))
    with pytest.raises(TypeError, match="GradientBoostingClassifier"):
        compile_forest(GradientBoostingClassifier())
    with pytest.raises(ValueError, match="not fitted"):
        compile_forest(RandomForestClassifier())
    two = np.stack([digits.y_train, digits.y_train], axis=1)
    with pytest.raises(ValueError, match="2 outputs"):
        compile_forest(RandomForestClassifier(n_estimators=2).fit(digits.X_train, two))
    with pytest.raises(ValueError, match="engine='fast'"):
        compile_forest(forest, engine="fast")
    with pytest.raises(ValueError, match="group=0"):
        compiled.predict_proba(digits.X_test, group=0)
    with pytest.raises(ValueError, match="low must not be above high"):
        compiled.prune(1.0, 0.0)


def test_the_input_is_left_alone_and_copies_travel(forest, near):
    compiled = compile_forest(forest)
    X = near(40)
    before = X.copy()
    truth = compiled.predict_proba(X)
    assert np.array_equal(X, before)
    assert np.array_equal(pickle.loads(pickle.dumps(compiled)).predict_proba(X), truth)
