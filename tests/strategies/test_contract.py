import numpy as np
import pytest

import lmma
from lmma.strategies.es import ES
from lmma.testing import CHECKS, check_strategy


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", lmma.methods())
def test_every_strategy_keeps_the_contract(name, check):
    check(lambda x0, sigma0, **options: lmma.strategy(name, x0, sigma0, **options))


def test_multiplicative_ma_es_keeps_the_contract():
    check_strategy(lambda x0, sigma0, **options: lmma.MAES(x0, sigma0, update="multiplicative", **options))


class Forgetful(ES):
    """Breaks the contract: ranks candidates by their order of sampling."""

    define = lmma.LMMAES.define
    name = "forgetful"
    memory = classmethod(lambda cls, n, popsize, itemsize=8: 0)

    def _make_transform(self):
        return lmma.LMMAES._make_transform(self)

    def _update(self, order, values):
        super()._update(np.sort(order), values)


def test_the_contract_notices_a_strategy_that_ignores_ranks():
    with pytest.raises(AssertionError, match=r"the worst value|float32 run|n = \d+:"):
        check_strategy(Forgetful)
