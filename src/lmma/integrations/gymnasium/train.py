"""``train``: from an environment's name to a policy, by a run of :func:`lmma.minimize`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.integrations.gymnasium.environments import Environment, checked_environment, spaces_of
from lmma.integrations.gymnasium.episodes import Episodes
from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator
from lmma.integrations.gymnasium.line import TrainingLine
from lmma.integrations.gymnasium.networks import Network, hidden_layers
from lmma.integrations.gymnasium.policies import Policy
from lmma.integrations.gymnasium.training import FINAL, Training, standard_error
from lmma.kernels.words import shown
from lmma.run.endings import Spell, in_python
from lmma.run.interrupts import Interrupts
from lmma.run.observers import Observer
from lmma.run.options import RunOptions
from lmma.run.result import message
from lmma.run.run import Run

Array = npt.NDArray[np.float64]

# arguments of a run that mean nothing here, and what to use instead
ELSEWHERE = {
    "ftarget": "solved=, a mean reward over fresh episodes: a single low value is luck",
    "vectorized": "nothing: environments of one process advance together anyhow",
    "common_random_numbers": "nothing: all candidates of a generation meet the same episodes",
    "args": "env_options=, or a function that makes the environment",
    **dict.fromkeys(
        ("bounds", "boundary", "integrality", "space", "inject"), "lmma.minimize: weights are free"
    ),
    **dict.fromkeys(("constraints", "constraint_handling", "feasibility_tol"), "lmma.minimize"),
    "quorum": "timeout=: every candidate is to have its episodes",
}
# constants of methods that are published for weights of policies: Salimans et al. 2017 and their program
PUBLISHED = {"open-es": {"weight_decay": 0.005}}


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What :func:`train` returns.

    Attributes
    ----------
    policy : Policy
        The mean of the search that did best when it was looked at; of a solved environment, the one that
        solved it.
    reward, reward_error : float
        Its mean reward over fresh episodes that nothing was chosen by, and the standard error of that; NaN
        if the run was interrupted.
    rewards : array
        The rewards of those episodes.
    solved : bool
        Whether the threshold was reached.
    message : str
        Why the training ended, in plain words.
    episodes, steps : int
        Episodes of candidates, and steps in them. ``tested`` episodes of mean policies come on top.
    seconds : float
        How long it took, earlier processes included.
    curve : dict
        The learning curve, name -> list: generation, evaluations, episodes, steps, seconds, reward, error.
    result : OptimizeResult
        What :func:`lmma.minimize` returns; its values are rewards with the sign changed.
    """

    policy: Policy
    reward: float
    reward_error: float
    rewards: Array = field(repr=False)
    solved: bool
    threshold: float | None
    message: str
    episodes: int
    steps: int
    tested: int
    seconds: float
    curve: dict[str, list[float]] = field(repr=False)
    result: Any = field(repr=False)


def train(
    env: Any,
    policy: str | Policy = "linear",
    *,
    episodes: int = 1,
    solved: float | bool | None = None,
    normalise: bool = True,
    test_episodes: int = 100,
    env_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> TrainingResult:
    """Search for a policy that earns a high reward in an environment of Gymnasium.

    Parameters
    ----------
    env : str or callable
        A name, such as ``"CartPole-v1"``, or a function without arguments that returns an environment.
        Observations are arrays (``Box``), actions are numbers (``Box``) or one of several (``Discrete``).
    policy : str or Policy
        ``"linear"``, ``"mlp:64,64"`` (tanh units), or a policy to go on from.
    episodes : int
        Episodes of each candidate, the same for all candidates of a generation.
    solved : float or bool, optional
        The mean reward over ``test_episodes`` fresh episodes at which to stop. By default that of the
        environment, if it has one; False for none.
    normalise : bool
        Whether observations are brought to mean 0 and variance 1, by what earlier generations have seen.
    test_episodes : int
        Fresh episodes that judge the final policy; a tenth of them make a point of the learning curve.
    env_options : mapping, optional
        Keyword arguments of ``gymnasium.make``, such as ``max_episode_steps``.
    **options
        Arguments of :func:`lmma.minimize`: ``method, popsize, rng, noise, maxfevals, maxtime, workers,
        checkpoint, log, progress, ...``. ``sigma0`` is the first step of the outputs of a layer, by
        default 1, and 0.3 for linear policies whose actions are numbers; each weight's is that over the
        square root of the layer's inputs.

    Returns
    -------
    TrainingResult

    Notes
    -----
    With ``checkpoint=`` the same call goes on where it was, to the same policy bit for bit. ``workers=``
    changes nothing but the time.
    """
    prepared = Prepared(
        env, policy, episodes=episodes, solved=solved, normalise=normalise, test_episodes=test_episodes,
        env_options=env_options, options=options,
    )  # fmt: skip
    return prepared.execute()


class Prepared:
    """A training with all its parts; see :func:`train` for the arguments."""

    def __init__(
        self,
        env: Any,
        policy: str | Policy,
        *,
        episodes: int,
        solved: float | bool | None,
        normalise: bool,
        test_episodes: int,
        env_options: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        for name, count in (("episodes", episodes), ("test_episodes", test_episodes)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise ValueError(f"{name} must be a whole number of 1 or more, got {shown(count)}")
        if not isinstance(normalise, bool):
            raise TypeError(f"normalise must be True or False, got {shown(normalise)}")
        hidden = policy.network.hidden if isinstance(policy, Policy) else hidden_layers(policy)
        given, x0, sigma0 = _run_options(options)
        environment = checked_environment(env, env_options)
        threshold = threshold_of(environment, solved)
        inputs, actions = spaces_of(environment)
        network = Network(inputs, hidden, actions.outputs)
        if isinstance(policy, Policy):
            if policy.network != network:
                raise ValueError(
                    f"policy takes {policy.network.inputs} numbers and gives {policy.network.outputs}, "
                    f"{environment.name} has {inputs} and takes {actions.outputs}"
                )
            x0 = policy.weights
        self.options = given
        watch = EpisodesEvaluator(
            Episodes(environment, network, actions, int(episodes)), normalise, given.on_error,
            workers=given.workers, timeout=given.timeout,
        )  # fmt: skip
        self.evaluate = watch
        try:
            if isinstance(policy, Policy):
                watch.take_over(policy.mean, policy.scale, policy.seen)
            self.training = Training(watch, actions, threshold, int(test_episodes))
            sigma0 = actions.step(linear=not hidden) if sigma0 is None else sigma0
            start = network.start(_seed(given.rng)) if x0 is None else _weights(x0, network)
            observers: Iterable[Observer] = [lambda _: watch.learn()]
            self.line = TrainingLine(self.training, given.maxfevals) if given.progress else None
            if self.line is not None:
                observers = [*observers, self.line]
            self.run = Run(
                watch.episodes, start, network.steps(sigma0) if np.ndim(sigma0) == 0 else sigma0,
                given.replaced(progress=False), evaluate=watch, observers=observers,
                companion=self.training,
            )  # fmt: skip
        except BaseException:
            watch.close()
            raise

    def execute(self, interrupts: Interrupts | None = None, spell: Spell = in_python) -> TrainingResult:
        """Search until a rule, a callback or Ctrl-C ends it; return what came out."""
        run, training = self.run, self.training
        try:
            result = run.execute(interrupts=interrupts)
            rewards = np.full(0, math.nan)
            if result.reason != "interrupted":
                with contextlib.suppress(KeyboardInterrupt), run.interrupts:
                    rewards = self._final(run)
        finally:
            if self.line is not None:
                self.line.close()
            self.evaluate.close()
        known = rewards[np.isfinite(rewards)]
        assert run.stop is not None
        return TrainingResult(
            policy=training.best(),
            reward=float(known.mean()) if len(known) else math.nan,
            reward_error=standard_error(rewards),
            rewards=rewards,
            solved=result.reason == "solved",
            threshold=training.threshold,
            message=message(run, run.stop, spell),
            episodes=self.evaluate.count,
            steps=self.evaluate.steps,
            tested=training.tested,
            seconds=run.counters.seconds,
            curve=training.curve,
            result=result,
        )

    def _final(self, run: Run) -> Array:
        """Return the rewards of the policy that is returned, over episodes that nothing was chosen by."""
        training = self.training
        if training.curve["generation"][-1] != run.counters.generation:
            training.look(run)
        policy = training.best()
        return training.rewards(
            run, policy.weights, (policy.mean, policy.scale), training.test_episodes, FINAL
        )


def threshold_of(environment: Environment, solved: Any) -> float | None:
    """Return the reward at which an environment is solved: as told, or its own; None for none."""
    if solved is False:
        return None
    own = None if environment.spec is None else environment.spec.reward_threshold
    if solved is None or solved is True:
        if solved is True and own is None:
            raise ValueError(f"{environment.name} says of no reward that solves it: give solved= a number")
        return None if own is None else float(own)
    if (
        isinstance(solved, str)
        or not isinstance(solved, int | float | np.number)
        or not math.isfinite(solved)
    ):
        raise ValueError(f"solved must be a mean reward, True, False or None; got {shown(solved)}")
    return float(solved)


def _run_options(options: Mapping[str, Any]) -> tuple[RunOptions, Any, Any]:
    """Return the options of the run, where it starts and its first step, from what a user gave."""
    given = dict(options)
    x0, sigma0 = given.pop("x0", None), given.pop("sigma0", None)
    if "seed" in given:
        given["rng"] = given.pop("seed")
    known = {declared.name for declared in fields(RunOptions)}
    for name in given:
        if name in ELSEWHERE:
            raise TypeError(f"{name} is no argument of train: use {ELSEWHERE[name]}")
    if hasattr(given.get("workers"), "evaluator"):
        raise TypeError(
            "workers that make their candidates themselves cannot be told of the normalisation: "
            "give the cluster itself"
        )
    constants = {name: given.pop(name) for name in list(given) if name not in known}
    usual = PUBLISHED.get(str(given.get("method")), {})
    if constants or usual:
        given["constants"] = {**usual, **given.get("constants", {}), **constants}
    return RunOptions(**given), x0, sigma0


def _weights(x0: Any, network: Network) -> Array:
    """Return weights to start from, as many as the network has."""
    weights = np.asarray(x0, dtype=np.float64)
    if weights.shape != (network.n,):
        raise ValueError(f"x0 must be the {network.n} weights of the policy, got shape {weights.shape}")
    return weights


def _seed(rng: Any) -> int:
    """Return a number for the random hidden layers: of the seed, the same whenever that is the same."""
    return int(rng) if isinstance(rng, int | np.integer) and not isinstance(rng, bool) else 0
