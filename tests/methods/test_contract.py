"""The contract of a strategy: built-in ones satisfy it, and every violation is identified."""

import random

import numpy as np
import pytest

import lmma
from lmma.testing import CHECKS, check_strategy


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", lmma.methods())
def test_every_strategy_keeps_the_contract(name, check):
    check(lambda x0, sigma0, **options: lmma.strategy(name, x0, sigma0, **options))


def test_multiplicative_ma_es_keeps_the_contract():
    check_strategy(lambda x0, sigma0, **options: lmma.MAES(x0, sigma0, update="multiplicative", **options))


class Minimal(lmma.Strategy):
    """The documented strategy of three methods."""

    def _sample(self, out):
        self.z = self.generator().standard_normal(out.shape, dtype=self.dtype)
        out[...] = self.mean + self.steps * self.z

    def _update(self, order, values):
        best = self.z[order[: max(1, self.popsize // 4)]]
        step = best.mean(axis=0)
        self.mean += self.steps * step
        self.sigma *= np.exp(0.3 * (len(best) * np.mean(step**2) - 1))

    @classmethod
    def memory(cls, n, popsize, itemsize=8):
        return 4 * popsize * n * itemsize


def factory(*args, **options):
    return Minimal(*args, **options)


@pytest.mark.parametrize("given", [Minimal, f"{__name__}:Minimal", factory])
def test_three_methods_keep_the_contract(given):
    check_strategy(given)


class LearnsNothing(Minimal):
    def _update(self, order, values):
        pass


class IgnoresRanks(Minimal):
    def _update(self, order, values):
        super()._update(np.sort(order), values)


class UsesValues(Minimal):
    def _update(self, order, values):
        weights = values[-1] - values + 1e-300
        self.mean += self.steps * (weights / weights.sum()) @ self.z[order]
        self.sigma *= 0.97


class Forgetful(Minimal):
    velocity = 0.0

    def _update(self, order, values):
        before = self.mean.copy()
        super()._update(order, values)
        self.velocity = 0.5 * self.velocity + (self.mean - before)
        self.mean += 0.1 * self.velocity


class AlwaysTheSame(Minimal):
    def _sample(self, out):
        self.z = np.random.default_rng(self.key).standard_normal(out.shape).astype(self.dtype)
        out[...] = self.mean + self.steps * self.z


class Global(Minimal):
    def _sample(self, out):
        self.z = np.random.standard_normal(out.shape).astype(self.dtype)  # noqa: NPY002
        out[...] = self.mean + self.steps * self.z


class PythonsGlobal(Minimal):
    def _sample(self, out):
        self.z = np.array([random.gauss(0, 1) for _ in range(out.size)], self.dtype).reshape(out.shape)
        out[...] = self.mean + self.steps * self.z


class OneStepForAll(Minimal):
    def _sample(self, out):
        super()._sample(out)
        out[...] = self.mean + self.sigma * self.z

    def _update(self, order, values):
        scale, self.scale = self.scale, None
        super()._update(order, values)
        self.scale = scale


class Private(Minimal):
    """Has a generator that goes on from generation to generation."""

    def _initialise(self):
        self.numbers = np.random.default_rng(self.key)

    def _sample(self, out):
        self.z = self.numbers.standard_normal(out.shape).astype(self.dtype)
        out[...] = self.mean + self.steps * self.z


class NeedsAll(Minimal):
    def _update(self, order, values):
        self.mean += self.steps * self.z[order[[0, 3]]].mean(axis=0)
        self.sigma *= 0.95


class Boasts(Minimal):
    can_stream = True

    def _blocks(self, rows):
        yield np.zeros((rows, self.n))


class CountsTwice(Minimal):
    def tell(self, values):
        super().tell(values)
        self.record.evaluations += self.popsize


SABOTAGED = {
    LearnsNothing: r"_update\(\) must move the mean",
    IgnoresRanks: "f and -f give the same run",
    UsesValues: "only ranks may matter",
    Forgetful: "a resumed run must equal the uninterrupted one, .* changed and not in STATE: .*velocity",
    AlwaysTheSame: r"two drew the same: use self.generator\(\)",
    Global: r"global random generators must not be used: use self.generator\(\)",
    PythonsGlobal: r"global random generators must not be used",
    OneStepForAll: "sigma0 per coordinate must scale the run: use self.steps",
    Private: "a resumed run must equal the uninterrupted one",
    Boasts: r"ask_blocks\(\) must yield all candidates",
    CountsTwice: "5 batches with 45 rows in total were told",
}


@pytest.mark.parametrize("cls", SABOTAGED, ids=lambda cls: cls.__name__)
def test_a_broken_clause_is_named_in_one_sentence(cls):
    with pytest.raises(AssertionError, match=SABOTAGED[cls]) as caught:
        check_strategy(cls)
    words = str(caught.value).partition("\nassert")[0]
    assert "\n" not in words
    assert len(words) < 250


def test_a_strategy_that_needs_all_values_is_detected():
    with pytest.raises(IndexError):
        check_strategy(NeedsAll)
