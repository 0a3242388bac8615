"""Layers around a method: only requested ones exist, and they are called in the documented order."""

import numpy as np
import pytest

import lmma
from lmma.layers.layer import ORDER, Layer
from lmma.testing import check_strategy


class Recording(Layer):
    """Stands for a layer and writes down what is called."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def on_ask(self, method, X, first, rows):
        self.log.append((self.name, "on_ask"))

    def on_tell(self, method, told):
        self.log.append((self.name, "on_tell"))
        return told

    def after_update(self, method, told):
        self.log.append((self.name, "after_update"))


def test_layers_are_called_outwards_by_ask_inwards_by_tell_and_outwards_after_the_update():
    es, log = lmma.LMMAES(np.ones(4), 1.0, rng=1), []
    update = es.method.update
    es.method.update = lambda told: (log.append(("method", "update")), update(told))
    names = [name for name in ORDER if name != "choices"]  # which would take columns away
    for name in reversed(names):
        es._add(Recording(name, log))
    # what is read of the noise layer
    vars(es.layers[-1]).update(wanted_popsize=es.popsize, quality=1, rate=1, repeats=1, average=np.nan)
    values = np.sum(es.ask() ** 2, axis=1)
    assert log == [(name, "on_ask") for name in names]
    log.clear()
    es.tell(values)
    assert log == [
        *((name, "on_tell") for name in reversed(names)),
        ("method", "update"),
        *((name, "after_update") for name in names),
    ]


def test_the_docstring_of_tell_names_the_layers_in_that_order():
    text = lmma.Strategy.tell.__doc__
    inwards, outwards = text.split("the method learns")
    for part, order, named in (
        (inwards, ORDER[::-1], {"noise", "constraints", "integers", "bounds", "injection"}),
        (outwards, ORDER, {"integers", "choices", "noise"}),
    ):
        found = [name for name in order if f"*{name}*" in part]
        assert set(found) == named
        assert [part.index(f"*{name}*") for name in found] == sorted(
            part.index(f"*{name}*") for name in found
        )


@pytest.mark.parametrize("method", lmma.methods())
def test_a_plain_strategy_has_no_layers(method):
    assert lmma.strategy(method, np.ones(5), 1.0).layers == ()


def test_only_layers_that_were_asked_for_exist():
    es = lmma.strategy(
        "pulse",
        np.ones(5),
        1.0,
        bounds=[-2, 20],
        integrality=[1, 0, 0, 0, 0],
        noise="auto",
        categories={4: 3},
    )
    assert [layer.name for layer in es.layers] == ["bounds", "integers", "choices", "noise"]
    es.inject([1, 1, 1, 1, 2])
    assert [layer.name for layer in es.layers] == ["injection", "bounds", "integers", "choices", "noise"]
    X = es.ask()
    es.tell(np.sum(X**2, axis=1), constraints=1 - X[:, :1])
    assert [layer.name for layer in es.layers][-2:] == ["constraints", "noise"]
    es.handle_noise(None)
    assert es.layers[-1].name == "constraints"


class Uneven(lmma.Strategy):
    """Asks for 1, 7, 2n and popsize rows in turn; moves to better points and halves its steps elsewhere."""

    STATE = ("value",)

    def __init__(self, x0, sigma0, **common):
        super().__init__(x0, sigma0, **common)
        self.value = np.inf

    @property
    def batch_size(self):
        return (1, 7, 2 * self.n, self.popsize)[self.generation % 4]

    def _sample(self, out):
        self.z = self.generator().standard_normal(out.shape, dtype=self.dtype)
        out[...] = self.mean + self.steps * self.z

    def _update(self, order, values):
        if values[0] < self.value:
            self.value = float(values[0])
            self.mean += self.steps * self.z[order[0]]
            self.sigma *= 1.5
        else:
            self.sigma *= 0.85

    @classmethod
    def memory(cls, n, popsize, itemsize=8):
        return 4 * popsize * n * itemsize


def test_batches_may_have_any_size():
    es = Uneven(np.ones(6), 0.5, rng=1, popsize=9)
    rows = []
    for _ in range(8):
        assert es.batch_size == (1, 7, 12, 9)[es.generation % 4]
        X = es.ask()
        rows.append(len(X))
        with pytest.raises(ValueError, match=rf"shape \({len(X)},\)"):
            es.tell(np.zeros(len(X) + 1))
        es.tell(np.sum(X**2, axis=1))
    assert rows == [1, 7, 12, 9] * 2
    assert es.evaluations == sum(rows)


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": [-3, 3]},
        {"bounds": [-3, 3], "boundary": "project"},
        {"integrality": 1},
        {"noise": "average"},
    ],
    ids=["bounds", "project", "integers", "noise"],
)
def test_layers_take_batches_of_any_size(options):
    es = Uneven(np.ones(6), 0.5, rng=1, popsize=9, **options)
    for _ in range(60):
        X = es.ask()
        again = es.rows_to_repeat
        values = np.sum(X**2, axis=1)
        es.tell(values, repeats=values[again] + 1e-3 * np.arange(len(again)))
    assert es.best_fun < 6


def test_constraints_take_batches_of_any_size():
    es = Uneven(np.ones(6), 0.5, rng=1, popsize=9)
    for _ in range(200):
        X = es.ask()
        es.tell(np.sum(X**2, axis=1), constraints=0.5 - X[:, :1])
    assert es.best_x[0] >= 0.5 - 1e-6


def test_a_strategy_of_uneven_batches_keeps_the_contract():
    check_strategy(Uneven)
