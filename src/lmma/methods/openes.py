"""OpenAI-ES: Adam with an estimated gradient and a fixed sigma (Salimans et al. 2017).

==========  ==================  ========  ====================================================
paper       code                shape     meaning
==========  ==================  ========  ====================================================
theta       ``mean``            (n,)      centre of the search
sigma       ``sigma``           float     standard deviation of the noise, fixed
epsilon_i   ``z``               (lam, n)  standard normal vectors in mirrored pairs
F_i         -                   (lam,)    centred ranks, 1/2 for the best to -1/2 for the worst
alpha       ``learning_rate``   float     of Adam, in units of sigma
l2coeff     ``weight_decay``    float     pulls the mean to 0, in units of the gradient
==========  ==================  ========  ====================================================

The gradient is g = sum_i F_i epsilon_i / lam - l2coeff theta, in the units of z. The article and its code use
sigma = 0.02, alpha = 0.01 (which is 0.5 sigma, the default here), beta_1 = 0.9, beta_2 = 0.999 and
l2coeff = 0.005. Here l2coeff is 0 by default, because an optimum near 0 is only expected for network weights.
``lmma train`` uses the published 0.005.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.methods.ask_tell import Strategy
from lmma.methods.csa import Identity
from lmma.methods.es import ES
from lmma.numerics.parameters import Parameters
from lmma.numerics.recombination import Array, Indices, Selection, weighted_mean
from lmma.numerics.state import COUNT, FINITE, NOT_NEGATIVE, Declared
from lmma.numerics.stepsize import StepSizeRule

if TYPE_CHECKING:
    from lmma.layers.layer import Told


@dataclass(frozen=True, kw_only=True)
class OpenESParameters(Parameters):
    """The constants of OpenAI-ES; ``decay`` multiplies sigma and, with it, the learning rate."""

    learning_rate: float = 0.5
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    decay: float = 1.0

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the option names without those of :class:`Parameters`, which do not apply here."""
        shared = Parameters.options()
        return tuple(name for name in super().options() if name not in shared)

    def _check(self) -> None:
        for name in ("learning_rate", "epsilon"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("beta_1", "beta_2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)!r}")
        if self.weight_decay < 0 or not 0 < self.decay <= 1:
            raise ValueError(
                f"weight_decay must be at least 0 and decay must lie in (0, 1], got {self.weight_decay!r} "
                f"and {self.decay!r}"
            )


@final
class Adam(StepSizeRule):
    """Adam (Kingma and Ba 2015): steps from fading moments of the gradient."""

    STATE: ClassVar[Declared] = {"first": FINITE, "second": NOT_NEGATIVE, "age": COUNT}

    def __init__(self, n: int, parameters: OpenESParameters, dtype: npt.DTypeLike) -> None:
        self.parameters = parameters
        self.path = np.empty(0, dtype=dtype)
        self.first = np.zeros(n, dtype=dtype)
        self.second = np.zeros(n, dtype=dtype)
        self.age = 0

    def update(self, best: Selection) -> None:
        """Do nothing: :meth:`step` uses the gradient instead of the selection."""

    def factor(self) -> float:
        """Return the decay of sigma."""
        return self.parameters.decay

    def step(self, gradient: Array) -> Array:
        """Return the step against ``gradient``, in units of sigma."""
        p = self.parameters
        self.age += 1
        self.first *= p.beta_1
        self.first += (1 - p.beta_1) * gradient
        self.second *= p.beta_2
        self.second += (1 - p.beta_2) * np.square(gradient)
        rate = p.learning_rate * math.sqrt(1 - p.beta_2**self.age) / (1 - p.beta_1**self.age)
        step = np.sqrt(self.second)
        step += p.epsilon
        np.divide(self.first, step, out=step)
        step *= -rate
        return step


def centred_ranks(lam: int, valid: int) -> Array:
    """Return ``lam`` weights, evenly spaced from 1/2 (best) to -1/2 (worst).

    Only the first ``valid`` candidates have a value; the others share the mean of the remaining weights.
    """
    ranks = 0.5 - np.arange(lam) / max(1, lam - 1)
    if valid < lam:
        ranks[valid:] = ranks[valid:].mean()
    return ranks


@final
class OpenMethod(ES):
    """Sampling and update of OpenAI-ES: fixed step size, weights from centred ranks, Adam."""

    name = "open-es"
    fixed_step = True
    mirrored_by_default = True
    define = OpenESParameters
    parameters: OpenESParameters
    learns = Identity
    step: Adam
    rows = staticmethod(lambda n, popsize: 2 * popsize + 8)  # candidates and their z

    def _make_step(self) -> Adam:
        return Adam(self.n, self.parameters, self.dtype)

    def _learn(self, told: Told) -> None:
        step = self.step.step(self._gradient(told.order))
        if told.rate != 1.0:
            step *= told.rate
        step *= self.steps
        self.mean += step
        self._typical_step = self.sigma * self._typical_scale()
        self.sigma *= self.step.factor()

    def _gradient(self, order: Indices) -> Array:
        """Return the gradient estimate for minimisation, in the units of z; failed candidates rank last."""
        valid = len(order)
        if valid < self.popsize:
            order = np.concatenate((order, np.setdiff1d(np.arange(self.popsize), order)))
        ranks = centred_ranks(self.popsize, valid)
        gradient: Array = weighted_mean(-ranks / self.popsize, order, self.z, self.threads)
        if self.parameters.weight_decay:
            gradient += self.parameters.weight_decay * self.mean
        return gradient

    def _typical_scale(self) -> float:
        if self.scale is None:
            return 1.0
        integers = self.settings.integers
        scale: Any = self.scale if integers is None else self.scale[integers.continuous]
        return math.sqrt(float(np.mean(np.square(scale)))) if len(scale) else math.inf


class OpenES(Strategy):
    """OpenAI-ES: mirrored sampling, centred ranks, Adam and weight decay, O(n) per sample.

    The step size is fixed, which limits the accuracy; with ``decay`` below 1 it shrinks in each generation.
    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`OpenESParameters`;
    ``mirrored`` is True by default.

    Examples
    --------
    >>> es = lmma.OpenES(np.ones(50), 0.1, rng=1, popsize=40)
    >>> for _ in range(200):
    ...     es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> float(np.sum(es.mean**2)) < 0.2, es.sigma
    (True, 0.1)

    References
    ----------
    Salimans, Ho, Chen, Sidor and Sutskever, *Evolution strategies as a scalable alternative to reinforcement
    learning*, arXiv 1703.03864; code at github.com/openai/evolution-strategies-starter. Kingma and Ba,
    *Adam: a method for stochastic optimization*, arXiv 1412.6980.
    """

    METHOD = OpenMethod
    method: OpenMethod
