"""Rows per second of the compiled forest against scikit-learn's, in one run, one thread, and exactness.

    python benchmarks/forest.py --data DIR [--trees 1000] [--rows 100000]

DIR holds the MNIST idx files; without it scikit-learn's small digits stand in. Training takes some
minutes for 1000 trees on MNIST; ``--keep FILE`` saves the fitted scikit-learn model for the next run
(a pickle: load only your own).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from lmma_lab.attack import CompiledForest, compile_forest, forest as forest_module, load_digits, load_mnist


def best_of_both(first, second, repeats):
    """Return the best processor times of two calls, taken in turn so that a noisy machine hits both."""
    times = np.full((repeats, 2), np.inf)
    for k in range(repeats):
        for j, call in enumerate((first, second)):
            start = time.process_time()
            call()
            times[k, j] = time.process_time() - start
    return times.min(axis=0)


def near(X, images, each, rng, scale=1.0):
    """Return `each` rows around every one of `images`, in runs."""
    rows = np.repeat(X[images].astype(float), each, axis=0)
    return rows + scale * rng.standard_normal(rows.shape)


def fitted(data, trees, keep):
    import joblib
    from sklearn.ensemble import RandomForestClassifier

    if keep and Path(keep).exists():
        return joblib.load(keep).set_params(n_jobs=1)
    model = RandomForestClassifier(trees, random_state=0, n_jobs=-1).fit(data.X_train, data.y_train)
    if keep:
        joblib.dump(model, keep)
    return model.set_params(n_jobs=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", help="folder with the MNIST files")
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the exactness check")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", help="file for the fitted model")
    options = parser.parse_args()
    data = load_mnist(options.data) if options.data else load_digits()
    rng = np.random.default_rng(0)
    model = fitted(data, options.trees, options.keep)
    start = time.perf_counter()
    compiled = compile_forest(model)
    print(f"{data.name}: {compiled.n_trees} trees, {compiled.n_nodes} nodes,"
          f" accuracy {np.mean(compiled.predict(data.X_test) == data.y_test):.4f}")  # fmt: skip
    print(f"compiled in {time.perf_counter() - start:.1f} s into {compiled.flat.words.nbytes / 1e6:.0f} MB;"
          f" extension: {forest_module._compiled is not None}")  # fmt: skip

    count = len(data.X_test)
    cases = {
        "23 rows near one image": (near(data.X_test, [5], 23, rng), 23),
        "2300 rows, 23 near each of 100 images": (near(data.X_test, np.arange(100), 23, rng), 23),
        "2300 rows near as many images": (near(data.X_test, rng.integers(count, size=2300), 1, rng), None),
    }
    print(f"{'rows a call':40} {'scikit-learn':>14} {'compiled':>12} {'ratio':>8}")
    for name, (X, group) in cases.items():
        slow, fast = best_of_both(
            lambda X=X: model.predict_proba(X),
            lambda X=X, group=group: compiled.predict_proba(X, group=group),
            options.repeats,
        )
        print(f"{name:40} {slow * 1e3:11.2f} ms {fast * 1e3:9.3f} ms {slow / fast:7.1f}x")

    print("pruned to a box around one image (23 rows inside, same rows unpruned):")
    x0 = data.X_test[5].astype(float)
    for half in (2.0, 5.0, 10.0):
        X = np.clip(near(data.X_test, [5], 23, rng), x0 - half, x0 + half)
        pruned = compiled.prune(x0 - half, x0 + half)
        cost = best_of_both(lambda half=half: compiled.prune(x0 - half, x0 + half), lambda: None, 10)[0]
        assert np.array_equal(pruned.predict_proba(X), compiled.predict_proba(X))
        full, fast = best_of_both(
            lambda X=X: compiled.predict_proba(X), lambda X=X, p=pruned: p.predict_proba(X), 40
        )
        pays = cost / (full - fast) if full > fast else np.inf
        print(f"  +-{half:4.0f}: {pruned.n_nodes:8d} nodes, made in {cost * 1e3:6.1f} ms, {full * 1e3:.3f} ->"
              f" {fast * 1e3:.3f} ms a call; pays from {pays:.0f} calls on")  # fmt: skip

    different = 0
    twin = CompiledForest(compiled.flat, engine="numpy")
    for first in range(0, options.rows, 5000):
        size = min(5000, options.rows - first)
        X = near(data.X_test, rng.integers(count, size=size), 1, rng, scale=3.0)
        X[::2] = np.rint(X[::2])
        truth = model.predict_proba(X)
        different += int((compiled.predict_proba(X) != truth).sum())
        if first == 0:
            different += int((twin.predict_proba(X[:200]) != truth[:200]).sum())
    print(f"exactness: {different} of {options.rows * len(model.classes_)} probabilities differ")


if __name__ == "__main__":
    main()
