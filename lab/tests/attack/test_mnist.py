"""The paper's data, if $LMMA_DATA names a folder that has it."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lmma_lab.attack import campaign, compile_forest, load_mnist, train_forest
from lmma_lab.attack.summary import confirmed


@pytest.fixture(scope="module")
def mnist():
    folder = Path(os.environ.get("LMMA_DATA", "")) / "mnist"
    if "LMMA_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("MNIST is not here: put its files into a folder mnist in $LMMA_DATA")
    return load_mnist(folder)


def test_mnist_is_what_the_paper_used(mnist):
    assert mnist.X_train.shape == (60_000, 784)
    assert mnist.X_test.shape == (10_000, 784)
    assert np.bincount(mnist.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.slow
def test_the_attack_works_on_mnist(mnist):
    # a sixth of the images and a tenth of the trees: half a minute instead of several
    small = replace(mnist, X_train=mnist.X_train[:10_000], y_train=mnist.y_train[:10_000])
    model = train_forest(small, trees=100, jobs=1)
    forest = compile_forest(model)
    rng = np.random.default_rng(0)
    near = mnist.X_test[rng.integers(10_000, size=3000)] + 2 * rng.standard_normal((3000, 784))
    assert np.array_equal(forest.predict_proba(near), model.predict_proba(near))
    assert np.mean(forest.predict(mnist.X_test) == mnist.y_test) > 0.94
    chosen = rng.permutation(10_000)[:100]
    result = campaign(
        forest.predict_proba, mnist.X_test[chosen], mnist.y_test[chosen], images=chosen, clip=True, round=True
    )
    assert result.success_rate > 0.5  # 0.67 for the full forest; a small one is no harder to fool
    assert confirmed(result.records, model.predict_proba) == result.column("success").sum()
