import numpy as np
import pytest

pytest.importorskip("sklearn", reason="attacks on forests are tested against scikit-learn itself")

from lmma_lab.attack import forest as forest_module, load_digits

ENGINES = ["numpy"] if forest_module._compiled is None else ["compiled", "portable", "numpy"]


@pytest.fixture(scope="session")
def digits():
    return load_digits()


@pytest.fixture(scope="session")
def forest(digits):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=60, random_state=0).fit(digits.X_train, digits.y_train)


@pytest.fixture(params=ENGINES)
def engine(request):
    """Each evaluator in turn; "portable" is the compiled one without AVX2."""
    if request.param != "portable":
        yield request.param
        return
    was_on = forest_module._compiled.simd()
    forest_module._compiled.simd(0)
    yield "compiled"
    forest_module._compiled.simd(int(was_on))


@pytest.fixture
def near(digits):
    """Return a maker of rows around test images, some of them far outside the range of the data."""

    def rows(count, scale=2.0):
        rng = np.random.default_rng(0)
        X = digits.X_test[rng.integers(len(digits.X_test), size=count)].astype(float)
        X += scale * rng.standard_normal(X.shape) * rng.choice([0.1, 1.0, 30.0], size=(count, 1))
        whole = rng.random(X.shape) < 0.3  # whole and half numbers sit exactly on thresholds
        return np.where(whole, np.rint(2 * X) / 2, X)

    return rows
