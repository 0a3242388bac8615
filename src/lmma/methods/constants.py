"""Types of the keyword arguments of methods, for editors and type checkers.

The constants themselves are declared in the ``Parameters`` of each method, where their defaults and meaning
are; tests/methods/test_constants.py compares the names. A user-defined method has names that this list lacks:
pass them as ``**{"name": value}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy.typing as npt

if TYPE_CHECKING:
    from lmma.layers.bounds import Boundary, Bounds
    from lmma.layers.choices import Categories
    from lmma.layers.noise import Treatment
    from lmma.methods.lmcma import Sampling
    from lmma.methods.ma import Update
    from lmma.numerics.checks import Precision, Seed


class Constants(TypedDict, total=False):
    """The constants of all methods; each method takes some of them."""

    mu: int
    weights: npt.ArrayLike
    c_sigma: float
    d_sigma: float
    c_1: float
    c_mu: float
    c_c: npt.ArrayLike
    c_d: npt.ArrayLike
    c_m: float
    against: float
    c_scale: float
    m: int
    period: int
    distance: float
    mirrored: bool
    update: Update  # of ma-es
    z_star: float  # of lm-cma-es
    begin: Literal["look", "slopes", "ranks"]
    rivals: bool
    cover: bool  # of portfolio
    base: float
    sampling: Sampling
    learning_rate: float  # of open-es
    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay: float
    decay: float
    path_share: float  # of pulse
    pull: float
    k_long: int
    tau_long: float
    c_c_long: float
    c_1_long: float
    c_mu_long: float
    k_short: int
    tau_short: float
    c_short: float


class StrategyOptions(Constants, total=False):
    """The keyword arguments of every strategy, see :class:`lmma.Strategy`, and constants of methods."""

    popsize: int | None
    bounds: Bounds | None
    boundary: Boundary
    integrality: npt.ArrayLike | None
    rng: Seed
    dtype: Precision
    tolx: float
    tolfun: float
    threads: int | None
    noise: Treatment | None
    categories: Categories | None
    start: Any  # with a space
