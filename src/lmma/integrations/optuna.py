"""A sampler for Optuna: ``optuna.create_study(sampler=LmmaSampler())``.

Needs Optuna, the extra ``optuna``.

Candidates are functions of (seed, generation, number), so a trial remembers two integers and nothing else:
any process rebuilds the search by telling the stored values again. Processes share a study through its
storage, and a study goes on after any of them is killed.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.integrations.one_by_one import OneByOne, Outcome
from lmma.integrations.unit_space import Choice, Parameter, Real, UnitSpace, Whole, steps_of
from lmma.run.options import choose_method
from lmma.strategies.registry import strategy_class

try:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import StudyDirection
    from optuna.trial import TrialState
except ImportError as error:
    from lmma.kernels.install import how_to_install

    raise ImportError(f"LmmaSampler needs Optuna: {how_to_install('optuna')}") from error

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from lmma.strategies import Strategy

__all__ = ["LmmaSampler"]

USUAL_STEP = (
    1 / 6
)  # of the width of a parameter: trials are few, and the sampler that Optuna has takes the same


class LmmaSampler(BaseSampler):  # type: ignore[misc]  # Optuna may be absent
    """Samples trials by a strategy of lmma, for studies of ten to many thousands of parameters.

    Parameters
    ----------
    search_space : dict, optional
        Name -> distribution of the parameters to search; by default what all finished trials have in common,
        so that the first trial is sampled at random.
    method : str
        One of :func:`lmma.methods`, or ``"auto"``.
    x0 : dict, optional
        Name -> value to start from; the middle of the range where it is silent.
    sigma0 : float or dict, optional
        Initial step size as a share of a parameter's range, a sixth by default; or name -> share.
    popsize : int, optional
        Trials per generation; ``4 + floor(3 ln n)`` by default.
    restarts : int
        How often to start again after convergence, each time with twice the population.
    seed : int, optional
        By default the name of the study, so that all processes of a study agree.
    independent_sampler : optuna.samplers.BaseSampler, optional
        Samples what is not in the search space; at random by default.

    Notes
    -----
    Categorical parameters have a coordinate for each choice, and the largest wins. Failed and pruned trials
    rank last, those that violate constraints before them. While results of a generation are out, further
    trials are drawn in place of those that are missing; the first to return in each place is learned from.
    Trials whose parameters were enqueued are not. A trial that Optuna tries again, as its process has died,
    is the same candidate again.

    Examples
    --------
    ::

        study = optuna.create_study(sampler=LmmaSampler(seed=1))
        study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=100)
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution] | None = None,
        *,
        method: str = "auto",
        x0: Mapping[str, Any] | None = None,
        sigma0: float | Mapping[str, float] = USUAL_STEP,
        popsize: int | None = None,
        restarts: int = 0,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        if method != "auto" and not strategy_class(method).can_resample:
            raise ValueError(
                f"method={method!r} cannot draw single candidates anew: take 'auto' or 'lm-ma-es'"
            )
        if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
            raise ValueError(f"restarts must be a whole number of at least 0, got {restarts!r}")
        self.search_space = None if search_space is None else _searchable(search_space)
        self.method, self.popsize, self.restarts, self.seed = method, popsize, restarts, seed
        self.x0, self.sigma0 = dict(x0 or {}), sigma0
        self.independent_sampler = independent_sampler or RandomSampler(seed=seed)
        self._common = IntersectionSearchSpace()
        self._searches: dict[tuple[str, str], _Search] = {}  # by study and space
        self._labelled: tuple[Mapping[str, BaseDistribution], str] = ({}, "")  # the last space and its label
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<LmmaSampler: method={self.method!r}, restarts={self.restarts}, seed={self.seed}>"

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = vars(self) | {"_searches": {}}  # rebuilt from the trials
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"_lock": threading.Lock()}

    def reseed_rng(self) -> None:
        """Do nothing to the search, whose numbers belong to the trials; other parameters get new ones."""
        self.independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that the strategy searches."""
        if self.search_space is not None:
            return dict(self.search_space)
        return _searchable(self._common.calculate(study))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of the next candidate, and note on the trial which one it is."""
        if len(study.directions) > 1:
            raise ValueError("LmmaSampler minimises or maximises one value: this study has several")
        if not search_space or not search_space.keys().isdisjoint(trial.system_attrs.get("fixed_params", {})):
            return {}
        with self._lock:  # n_jobs= are threads
            if self._labelled[0] != search_space:
                self._labelled = (dict(search_space), _label(search_space))
            label = self._labelled[1]
            known = self._search(study, label, search_space)
            space, search = known.space, known.search
            if label in trial.system_attrs:  # Optuna tries a trial again whose process has died
                x = search.again(known.outcomes(study, label), *trial.system_attrs[label])
                return {} if x is None else space.values(x)
            made = len(search.endings)
            candidate = search.next(known.outcomes(study, label))
            # the storage's own call: a sampler's trial is a copy, and only this reaches other processes
            study._storage.set_trial_system_attr(
                trial._trial_id, label, [candidate.generation, candidate.number]
            )
        if len(search.endings) > made:
            study.set_user_attr("lmma:restarts", search.endings)
        return space.values(candidate.x)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a parameter that the strategy does not search."""
        return self.independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Let the independent sampler prepare."""
        self.independent_sampler.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Let the independent sampler tidy up."""
        self.independent_sampler.after_trial(study, trial, state, values)

    def _search(self, study: Study, label: str, search_space: dict[str, BaseDistribution]) -> _Search:
        """Return the search of a study and space as this process knows it."""
        key = (study.study_name, label)
        if key not in self._searches:
            space = UnitSpace({name: _parameter(search_space[name]) for name in sorted(search_space)})
            begin = partial(self._begin, space, _seed(self.seed, study.study_name))
            self._searches[key] = _Search(space, OneByOne(begin, self.restarts))
        return self._searches[key]

    def _begin(self, space: UnitSpace, seed: int, restart: int, popsize: int | None) -> Strategy:
        popsize = self.popsize if popsize is None else popsize
        method = choose_method(space.n, popsize=popsize) if self.method == "auto" else self.method
        start = space.start(self.x0)
        if restart:
            start = np.random.default_rng([seed, restart]).random(space.n)
        steps = steps_of(self.sigma0, space, USUAL_STEP)
        rng = np.random.SeedSequence([seed, restart])
        return strategy_class(method)(start, steps, popsize=popsize, bounds=[(0.0, 1.0)] * space.n, rng=rng)


@dataclass
class _Search:
    """The search of one study in one space, as this process knows it."""

    space: UnitSpace
    search: OneByOne
    behind: int = 0  # so many trials, from the first on, have nothing more to say

    def outcomes(self, study: Study, label: str) -> list[Outcome]:
        """Return what is known of candidates not yet learned from, in the order in which their trials ended.

        Trials of generations that were told are passed over once and for all: a trial of a long study costs
        no more than one of a short study.
        """
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        trials = study.get_trials(deepcopy=False)
        while self.behind < len(trials) and self._is_past(trials[self.behind], label):
            self.behind += 1
        recent = trials[self.behind :]
        retried = {number for trial in recent for number in trial.system_attrs.get("retry_history", ())}
        found = []
        for trial in recent:
            noted = trial.system_attrs.get(label)
            if noted is not None and noted[0] >= self.search.generation and trial.number not in retried:
                found.append((trial, noted))
        found.sort(key=lambda f: (f[0].datetime_complete is None, f[0].datetime_complete or 0, f[0].number))
        return [Outcome(noted[0], noted[1], _value(trial, sign), _violation(trial)) for trial, noted in found]

    def _is_past(self, trial: FrozenTrial, label: str) -> bool:
        noted = trial.system_attrs.get(label)
        if noted is None:  # one that has only begun may still be given a candidate
            return bool(trial.state.is_finished())
        return bool(noted[0] < self.search.generation)


def _searchable(space: Mapping[str, BaseDistribution]) -> dict[str, BaseDistribution]:
    """Return the parameters that can take more than one value."""
    return {name: distribution for name, distribution in space.items() if not distribution.single()}


def _parameter(distribution: BaseDistribution) -> Parameter:
    if isinstance(distribution, FloatDistribution):
        return Real(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, IntDistribution):
        return Whole(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, CategoricalDistribution):
        return Choice(tuple(distribution.choices))
    raise ValueError(f"LmmaSampler knows floats, ints and categories, not {distribution!r}")


def _label(search_space: Mapping[str, BaseDistribution]) -> str:
    """Return the attribute under which trials of this space note their candidate."""
    text = repr(sorted((name, repr(distribution)) for name, distribution in search_space.items()))
    return f"lmma:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _seed(seed: int | None, study_name: str) -> int:
    return int(hashlib.sha256(study_name.encode()).hexdigest()[:16], 16) if seed is None else seed


def _value(trial: FrozenTrial, sign: float) -> float | None:
    if not trial.state.is_finished():
        return None
    complete = trial.state == TrialState.COMPLETE and trial.value is not None
    return sign * trial.value if complete else math.nan


def _violation(trial: FrozenTrial) -> float:
    """Return by how much a trial violates its constraints; those that hold are at most 0."""
    given = getattr(trial, "constraints", None) or trial.system_attrs.get("constraints") or ()
    amounts = given.values() if isinstance(given, Mapping) else given
    return float(sum(max(0.0, amount) for amount in amounts))
