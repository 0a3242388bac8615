"""Sampler for Optuna: ``optuna.create_study(sampler=LmmaSampler())``.

Requires Optuna, the extra ``optuna``.

Candidates are functions of (seed, generation, number), so a trial only stores two integers. Any process
rebuilds the search from the stored values. Processes share a study through its storage, and a study continues
after any of them is killed.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.integrations.hosts import (
    Candidate,
    Choice,
    Integer,
    OneByOne,
    Outcome,
    Parameter,
    Real,
    UnitSpace,
    step_sizes,
)
from lmma.methods.registry import choose_method, strategy_class

try:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import StudyDirection
    from optuna.trial import TrialState
except ImportError as error:
    from lmma._text import how_to_install

    raise ImportError(f"LmmaSampler needs Optuna: {how_to_install('optuna')}") from error

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from lmma.methods import Strategy

__all__ = ["LmmaSampler"]

MAX_CLAIMS = 20  # candidates that a trial gives up because another process has issued them at the same time
SETTLING_TIME = 0.1  # seconds in which a result that was completed becomes visible to all processes
DEFAULT_STEP = 1 / 6  # of a parameter's range, as in Optuna's own CMA-ES sampler; studies have few trials


class LmmaSampler(BaseSampler):  # type: ignore[misc]  # Optuna may be absent
    """Sampler that uses a strategy of lmma, for studies of ten to many thousands of parameters.

    Parameters
    ----------
    search_space : dict, optional
        Distributions of the parameters to search, by name. By default those that all finished trials have in
        common, so the first trial is sampled at random.
    method : str
        One of :func:`lmma.methods`, or ``"auto"``.
    x0 : dict, optional
        Initial values by name; other parameters start in the middle of their range.
    sigma0 : float or dict, optional
        Initial step size as a fraction of each parameter's range, by default a sixth; or fractions by name.
    popsize : int, optional
        Trials per generation; ``4 + floor(3 ln n)`` by default.
    restarts : int
        Number of restarts after convergence, each with twice the population.
    seed : int, optional
        Seed; by default derived from the name of the study, so that all processes of a study agree.
    independent_sampler : optuna.samplers.BaseSampler, optional
        Sampler of parameters outside the search space; by default random.

    Notes
    -----
    Categorical parameters have one coordinate per choice, and the largest coordinate selects the choice.
    Failed and pruned trials rank last, after those that violate constraints. While results of a generation
    are pending, further trials are drawn in their place, and the first result in each place is used. Enqueued
    trials are not used for learning. If Optuna retries a trial because its process died, it gets the same
    candidate.

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
        sigma0: float | Mapping[str, float] = DEFAULT_STEP,
        popsize: int | None = None,
        restarts: int = 0,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        if method != "auto" and not strategy_class(method).can_resample:
            raise ValueError(f"method={method!r} cannot resample single candidates; use 'auto' or 'lm-ma-es'")
        if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
            raise ValueError(f"restarts must be an integer of at least 0, got {restarts!r}")
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
        """Reseed the independent sampler; the search does not change, because the study fixes its seed."""
        self.independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that the strategy searches."""
        if self.search_space is not None:
            return dict(self.search_space)
        return _searchable(self._common.calculate(study))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of the next candidate, and store its numbers with the trial."""
        if len(study.directions) > 1:
            raise ValueError("LmmaSampler supports a single objective, but this study has several directions")
        if not search_space or not search_space.keys().isdisjoint(trial.system_attrs.get("fixed_params", {})):
            return {}
        with self._lock:  # n_jobs= uses threads
            if self._labelled[0] != search_space:
                self._labelled = (dict(search_space), _label(search_space))
            label = self._labelled[1]
            known = self._search(study, label, search_space)
            space, search = known.space, known.search
            if label in trial.system_attrs:  # Optuna retries a trial whose process died
                x = search.repeat(known.outcomes(study, label), *trial.system_attrs[label])
                return {} if x is None else space.values(x)
            made = len(search.restart_reasons)
            candidate = search.next(
                known.outcomes(study, label), lambda: known.outcomes_after_pause(study, label)
            )
            known.claim(study, label, trial, candidate)
            for _ in range(MAX_CLAIMS):
                rivals = known.rivals(study, label, trial.number, candidate)
                if not rivals:
                    break
                # All rivals move, because any of them may have read before the others wrote
                earlier = sum(number < trial.number for number in rivals)
                candidate = search.instead(known.outcomes(study, label), earlier)
                known.claim(study, label, trial, candidate)
        if len(search.restart_reasons) > made:
            study.set_user_attr("lmma:restarts", search.restart_reasons)
        return space.values(candidate.x)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value of a parameter that the strategy does not search."""
        return self.independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Call the hook of the independent sampler."""
        self.independent_sampler.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Call the hook of the independent sampler."""
        self.independent_sampler.after_trial(study, trial, state, values)

    def _search(self, study: Study, label: str, search_space: dict[str, BaseDistribution]) -> _Search:
        """Return this process's copy of the search of a study and space."""
        key = (study.study_name, label)
        if key not in self._searches:
            space = UnitSpace({name: _parameter(search_space[name]) for name in sorted(search_space)})
            make_strategy = partial(self._new_strategy, space, _seed(self.seed, study.study_name))
            self._searches[key] = _Search(space, OneByOne(make_strategy, self.restarts))
        return self._searches[key]

    def _new_strategy(self, space: UnitSpace, seed: int, restart: int, popsize: int | None) -> Strategy:
        popsize = self.popsize if popsize is None else popsize
        method = choose_method(space.n, popsize=popsize) if self.method == "auto" else self.method
        start = space.start(self.x0)
        if restart:
            start = np.random.default_rng([seed, restart]).random(space.n)
        steps = step_sizes(self.sigma0, space, DEFAULT_STEP)
        rng = np.random.SeedSequence([seed, restart])
        return strategy_class(method)(start, steps, popsize=popsize, bounds=[(0.0, 1.0)] * space.n, rng=rng)


@dataclass
class _Search:
    """This process's copy of the search of one study in one space."""

    space: UnitSpace
    search: OneByOne
    processed: int = 0  # number of leading trials that can be skipped

    def outcomes(self, study: Study, label: str) -> list[Outcome]:
        """Return the outcomes of candidates not yet used, in the order in which their trials ended.

        Trials of complete generations are skipped permanently, so the cost per trial does not grow with the
        length of the study.
        """
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        found = self._recent(study, label)
        found.sort(key=lambda f: (f[0].datetime_complete is None, f[0].datetime_complete or 0, f[0].number))
        return [Outcome(noted[0], noted[1], _value(trial, sign), _violation(trial)) for trial, noted in found]

    def outcomes_after_pause(self, study: Study, label: str) -> list[Outcome]:
        """Return the outcomes after a pause: a storage shows a trial shortly after its time of completion."""
        time.sleep(SETTLING_TIME)
        return self.outcomes(study, label)

    def claim(self, study: Study, label: str, trial: FrozenTrial, candidate: Candidate) -> None:
        """Store the numbers of a trial's candidate, where other processes see them."""
        # trial is a copy; only a call of the storage is visible to other processes
        numbers = [candidate.generation, candidate.number]
        study._storage.set_trial_system_attr(trial._trial_id, label, numbers)

    def rivals(self, study: Study, label: str, number: int, candidate: Candidate) -> list[int]:
        """Return the numbers of other trials with the same candidate as trial ``number``."""
        numbers = [candidate.generation, candidate.number]
        return [
            trial.number
            for trial, noted in self._recent(study, label)
            if trial.number != number and list(noted) == numbers
        ]

    def _recent(self, study: Study, label: str) -> list[tuple[FrozenTrial, Sequence[int]]]:
        """Return the trials with candidates of incomplete generations, and the candidates' numbers."""
        trials = study.get_trials(deepcopy=False)
        while self.processed < len(trials) and self._is_past(trials[self.processed], label):
            self.processed += 1
        recent = trials[self.processed :]
        retried = {number for trial in recent for number in trial.system_attrs.get("retry_history", ())}
        found = []
        for trial in recent:
            noted = trial.system_attrs.get(label)
            if noted is not None and noted[0] >= self.search.generation and trial.number not in retried:
                found.append((trial, noted))
        return found

    def _is_past(self, trial: FrozenTrial, label: str) -> bool:
        noted = trial.system_attrs.get(label)
        if noted is None:  # a trial in progress may still get a candidate
            return bool(trial.state.is_finished())
        return bool(noted[0] < self.search.generation)


def _searchable(space: Mapping[str, BaseDistribution]) -> dict[str, BaseDistribution]:
    """Return the parameters that can take more than one value."""
    return {name: distribution for name, distribution in space.items() if not distribution.single()}


def _parameter(distribution: BaseDistribution) -> Parameter:
    if isinstance(distribution, FloatDistribution):
        return Real(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, IntDistribution):
        return Integer(distribution.low, distribution.high, distribution.log, distribution.step)
    if isinstance(distribution, CategoricalDistribution):
        return Choice(tuple(distribution.choices))
    raise ValueError(f"LmmaSampler supports float, int and categorical parameters, got {distribution!r}")


def _label(search_space: Mapping[str, BaseDistribution]) -> str:
    """Return the name of the trial attribute that stores the candidate's numbers for this space."""
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
    """Return the total constraint violation of a trial; satisfied constraints are at most 0."""

    given = getattr(trial, "constraints", None) or trial.system_attrs.get("constraints") or ()
    amounts = given.values() if isinstance(given, Mapping) else given
    return float(sum(max(0.0, amount) for amount in amounts))
