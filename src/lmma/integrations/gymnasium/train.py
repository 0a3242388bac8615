"""``train``: search for a policy for an environment by a run of :func:`lmma.minimize`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TextIO, final

import numpy as np
import numpy.typing as npt

from lmma._text import Spell, in_python, shown
from lmma.integrations.gymnasium.environments import Actions, Environment, checked_environment, spaces_of
from lmma.integrations.gymnasium.episodes import Episodes
from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator
from lmma.integrations.gymnasium.policies import Network, Policy, hidden_layers
from lmma.kernels import Key
from lmma.output.progress import StatusLine
from lmma.run.interrupts import Interrupts
from lmma.run.observers import Observer, Progress
from lmma.run.options import RunOptions
from lmma.run.run import Run
from lmma.run.state import Counters
from lmma.run.stopping import ENDINGS, Rule, Situation, Stop

Array = npt.NDArray[np.float64]

# arguments of minimize() that train() does not support, and the remedy
UNSUPPORTED = {
    "ftarget": "use solved=, the mean reward over fresh episodes",
    "vectorized": "remove it, because environments of one process always advance together",
    "common_random_numbers": "remove it, because all candidates of a generation always get the same episodes",
    "args": "use env_options=, or a function that creates the environment",
    **dict.fromkeys(
        ("bounds", "boundary", "integrality", "space", "inject"),
        "weights are unbounded reals; use lmma.minimize() instead",
    ),
    **dict.fromkeys(("constraints", "constraint_handling", "feasibility_tol"), "use lmma.minimize() instead"),
    "quorum": "use timeout=, because every candidate needs its episodes",
}
# published constants of methods for the weights of policies: Salimans et al. 2017 and their program
PUBLISHED = {"open-es": {"weight_decay": 0.005}}


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Result of :func:`train`.

    Attributes
    ----------
    policy : Policy
        The mean of the search distribution with the best reward in a check; if the environment was solved,
        the one that solved it.
    reward, reward_error : float
        Its mean reward over fresh episodes that were not used for selection, and the standard error; NaN if
        the run was interrupted.
    rewards : array
        The rewards of these episodes.
    solved : bool
        True if the threshold was reached.
    message : str
        Reason why the training ended.
    episodes, steps : int
        Numbers of episodes of candidates and of steps in them. The ``tested`` episodes of mean policies are
        not included.
    seconds : float
        Duration, including earlier processes.
    curve : dict
        Learning curve as lists by name: generation, evaluations, episodes, steps, seconds, reward, error.
    result : OptimizeResult
        Result of :func:`lmma.minimize`; its values are negative rewards.
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
    """Search for a policy with a high reward in a Gymnasium environment.

    Parameters
    ----------
    env : str or callable
        A name, such as ``"CartPole-v1"``, or a function without arguments that returns an environment.
        Observations must be arrays (``Box``), actions numbers (``Box``) or discrete (``Discrete``).
    policy : str or Policy
        ``"linear"``, ``"mlp:64,64"`` (tanh units), or a policy from which to continue.
    episodes : int
        Episodes per candidate, equal for all candidates within one generation.
    solved : float or bool, optional
        Mean reward over ``test_episodes`` fresh episodes at which to stop. By default the threshold of the
        environment, if it has one; False for no threshold.
    normalise : bool
        Normalise observations to mean 0 and variance 1, based on the observations of earlier generations.
    test_episodes : int
        Fresh episodes that evaluate the final policy; a point of the learning curve uses a tenth of them.
    env_options : mapping, optional
        Keyword arguments of ``gymnasium.make``, such as ``max_episode_steps``.
    **options
        Arguments of :func:`lmma.minimize`: ``method, popsize, rng, noise, maxfevals, maxtime, workers,
        checkpoint, log, progress, ...``. ``sigma0`` is the initial step of the outputs of a layer, by default
        1, or 0.3 for linear policies with continuous actions. The step of a weight is ``sigma0`` divided by
        the square root of the layer's inputs.

    Returns
    -------
    TrainingResult

    Notes
    -----
    With ``checkpoint=``, a repeated call resumes the training and ends with a bitwise identical policy.
    ``workers=`` only affects the duration.
    """
    prepared = Prepared(
        env, policy, episodes=episodes, solved=solved, normalise=normalise, test_episodes=test_episodes,
        env_options=env_options, options=options,
    )  # fmt: skip
    return prepared.execute()


class Prepared:
    """A training that is ready to run; see :func:`train` for the arguments."""

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
                raise ValueError(f"{name} must be an integer of at least 1, got {shown(count)}")
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
                    f"policy has {policy.network.inputs} inputs and {policy.network.outputs} outputs, but "
                    f"{environment.name} needs {inputs} and {actions.outputs}"
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
                watch.start_from(policy.mean, policy.scale, policy.seen)
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
                rules=[self.training], parts={"training": self.training},
            )  # fmt: skip
        except BaseException:
            watch.close()
            raise

    def execute(self, interrupts: Interrupts | None = None, spell: Spell = in_python) -> TrainingResult:
        """Run until a rule, a callback or Ctrl-C ends the training; return the result."""
        run, training = self.run, self.training
        training.interrupts = interrupts = interrupts or Interrupts()
        try:
            result = run.execute(interrupts=interrupts)
            rewards = np.full(0, math.nan)
            if result.reason != "interrupted":
                with contextlib.suppress(KeyboardInterrupt), interrupts:
                    rewards = self._final(run)
        finally:
            if self.line is not None:
                self.line.close()
            self.evaluate.close()
        known = rewards[np.isfinite(rewards)]
        return TrainingResult(
            policy=training.best(),
            reward=float(known.mean()) if len(known) else math.nan,
            reward_error=standard_error(rewards),
            rewards=rewards,
            solved=result.reason == "solved",
            threshold=training.threshold,
            message=run.message(spell),
            episodes=self.evaluate.count,
            steps=self.evaluate.steps,
            tested=training.tested,
            seconds=run.state.counters.seconds,
            curve=training.curve,
            result=result,
        )

    def _final(self, run: Run) -> Array:
        """Return the rewards of the final policy over episodes that were not used for selection."""
        training, state = self.training, run.state
        if training.curve["generation"][-1] != state.counters.generation:
            training.check_mean(state.strategy.mean, state.key, state.counters)
        policy = training.best()
        words = (*state.key, state.counters.generation)
        return training.rewards(
            words, policy.weights, (policy.mean, policy.scale), training.test_episodes, FINAL
        )


def threshold_of(environment: Environment, solved: Any) -> float | None:
    """Return the reward at which an environment is solved, given or registered; None if there is none."""
    if solved is False:
        return None
    registered = None if environment.spec is None else environment.spec.reward_threshold
    if solved is None or solved is True:
        if solved is True and registered is None:
            raise ValueError(f"{environment.name} has no reward threshold; pass a number as solved=")
        return None if registered is None else float(registered)
    if (
        isinstance(solved, str)
        or not isinstance(solved, int | float | np.number)
        or not math.isfinite(solved)
    ):
        raise ValueError(f"solved must be a mean reward, True, False or None; got {shown(solved)}")
    return float(solved)


def _run_options(options: Mapping[str, Any]) -> tuple[RunOptions, Any, Any]:
    """Split the user's options into run options, x0 and sigma0."""
    given = dict(options)
    x0, sigma0 = given.pop("x0", None), given.pop("sigma0", None)
    if "seed" in given:
        given["rng"] = given.pop("seed")
    known = {declared.name for declared in fields(RunOptions)}
    for name in given:
        if name in UNSUPPORTED:
            raise TypeError(f"train() does not support {name}=: {UNSUPPORTED[name]}")
    if hasattr(given.get("workers"), "evaluator"):
        raise TypeError(
            "workers that generate candidates themselves cannot be used, because they do not get the "
            "normalisation; pass the cluster itself"
        )
    constants = {name: given.pop(name) for name in list(given) if name not in known}
    usual = PUBLISHED.get(str(given.get("method")), {})
    if constants or usual:
        given["constants"] = {**usual, **given.get("constants", {}), **constants}
    return RunOptions(**given), x0, sigma0


def _weights(x0: Any, network: Network) -> Array:
    """Return the validated initial weights."""
    weights = np.asarray(x0, dtype=np.float64)
    if weights.shape != (network.n,):
        raise ValueError(f"x0 must be the {network.n} weights of the policy, got shape {weights.shape}")
    return weights


def _seed(rng: Any) -> int:
    """Return the seed of the random hidden layers: ``rng`` if it is an integer, otherwise 0."""
    return int(rng) if isinstance(rng, int | np.integer) and not isinstance(rng, bool) else 0


SHARE = 5  # episodes of candidates per episode of a check of the mean policy
CHECK, CONFIRM, FINAL = 1, 2, 3  # purposes of test episodes, each with its own seeds
CURVE = ("generation", "evaluations", "episodes", "steps", "seconds", "reward", "error")


@final
class Training(Rule):
    """Stopping rule that regularly checks the mean policy, and keeps the best one.

    Parameters
    ----------
    evaluate : EpisodesEvaluator
        Evaluator of candidates and mean policies.
    actions : Actions
        Mapping of outputs to actions.
    threshold : float, optional
        Mean reward at which the environment counts as solved.
    test_episodes : int
        Fresh episodes that confirm it; a check uses a tenth of them.

    Attributes
    ----------
    curve : dict
        Lists by name: generation, evaluations, episodes, steps and seconds at each check, and the mean
        policy's reward over fresh episodes with its standard error.
    tested : int
        Number of fresh episodes of mean policies so far.
    interrupts : Interrupts
        Interrupts of the run; Ctrl-C aborts episodes.
    """

    def __init__(
        self, evaluate: EpisodesEvaluator, actions: Actions, threshold: float | None, test_episodes: int
    ) -> None:
        self.evaluate, self.actions = evaluate, actions
        self.threshold, self.test_episodes = threshold, test_episodes
        self.curve: dict[str, list[float]] = {name: [] for name in CURVE}
        self.tested = 0
        self.interrupts = Interrupts()
        self.confirmed = math.nan  # reward that reached the threshold
        network = evaluate.episodes.network
        self.best_reward = -math.inf
        self.best_weights: Array = np.zeros(network.n)
        self.best_normalisation: tuple[Array, Array] = (np.zeros(network.inputs), np.ones(network.inputs))
        self.best_seen = 0  # observations behind its normalisation

    def check(self, now: Situation) -> Stop | None:
        """Check the mean policy if a check is due; return a reason to stop if the environment is solved."""
        if math.isnan(self.confirmed) and self._due():
            self.check_mean(now.strategy.mean, now.key, now.counters)
        if self.threshold is not None and self.confirmed >= self.threshold:
            return Stop(ENDINGS["solved"], self.confirmed, self.threshold)
        return None

    def _due(self) -> bool:
        checked = self.curve["episodes"]
        return not checked or self.evaluate.count - checked[-1] >= SHARE * self.check_episodes

    @property
    def check_episodes(self) -> int:
        """Fresh episodes per check."""
        return max(1, self.test_episodes // 10)

    def check_mean(self, mean: npt.ArrayLike, key: Key, counters: Counters) -> None:
        """Evaluate the mean policy over fresh episodes, and over more if it reaches the threshold."""
        mean = np.asarray(mean, dtype=np.float64)
        words = (*key, counters.generation)
        centre, scale = self.evaluate.normalisation
        normalisation = (centre.copy(), scale.copy())
        rewards = self.rewards(words, mean, normalisation, self.check_episodes, CHECK)
        if self.threshold is not None and _mean(rewards) >= self.threshold:
            rewards = self.rewards(words, mean, normalisation, self.test_episodes, CONFIRM)
            if _mean(rewards) >= self.threshold:
                self.confirmed = _mean(rewards)
        reward = _mean(rewards)
        point = (
            counters.generation, counters.evaluations, self.evaluate.count, self.evaluate.steps,
            counters.seconds, reward, standard_error(rewards),
        )  # fmt: skip
        for name, value in zip(CURVE, point, strict=True):
            self.curve[name].append(float(value))
        if reward > self.best_reward or not math.isnan(self.confirmed):
            self.best_reward, self.best_weights, self.best_normalisation = reward, mean.copy(), normalisation
            self.best_seen = self.evaluate.moments.count

    def rewards(
        self, words: tuple[int, int, int], weights: Array, normalisation: Any, episodes: int, purpose: int
    ) -> Array:
        """Return the rewards of fresh episodes of one policy; Ctrl-C aborts them.

        Their seeds are derived from ``words``, the run's key and the generation, and from the purpose.
        """
        rows = -(-episodes // self.evaluate.episodes.count)
        sequence = np.random.SeedSequence([*words[:2], purpose, words[2]])
        seeds = [int(word) for word in sequence.generate_state(rows)]
        rewards = self.interrupts.call_interruptibly(self.evaluate.rewards, weights, normalisation, seeds)
        rewards = rewards[:episodes]
        self.tested += len(rewards)
        return rewards

    def best(self) -> Policy:
        """Return the mean policy with the best reward in a check."""
        episodes = self.evaluate.episodes
        mean, scale = self.best_normalisation
        label = episodes.environment.label
        return Policy(episodes.network, self.actions, self.best_weights, mean, scale, label, self.best_seen)

    def get_state(self) -> dict[str, Any]:
        """Return the state as named arrays and numbers."""
        return {
            **{f"evaluate.{name}": value for name, value in self.evaluate.get_state().items()},
            **{f"curve.{name}": np.array(column) for name, column in self.curve.items()},
            "tested": self.tested,
            "confirmed": self.confirmed,
            "best_reward": self.best_reward,
            "best_weights": self.best_weights,
            "best_mean": self.best_normalisation[0],
            "best_scale": self.best_normalisation[1],
            "best_seen": self.best_seen,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`."""
        prefix = "evaluate."
        self.evaluate.set_state(
            {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        )
        self.curve = {name: [float(v) for v in np.asarray(state[f"curve.{name}"])] for name in CURVE}
        if len({len(column) for column in self.curve.values()}) > 1:
            raise ValueError("the columns of the learning curve differ in length")
        inputs, n = self.evaluate.episodes.network.inputs, self.evaluate.episodes.network.n
        for name, length in (("best_weights", n), ("best_mean", inputs), ("best_scale", inputs)):
            if np.shape(state[name]) != (length,) or not np.all(np.isfinite(state[name])):
                raise ValueError(f"{name} must be {length} finite numbers")
        self.tested, self.best_seen = int(state["tested"]), int(state["best_seen"])
        self.confirmed, self.best_reward = float(state["confirmed"]), float(state["best_reward"])
        self.best_weights = np.array(state["best_weights"], float)
        self.best_normalisation = (np.array(state["best_mean"], float), np.array(state["best_scale"], float))


def _mean(rewards: Array) -> float:
    """Return the mean reward, or minus infinity if an episode failed."""
    return float(rewards.mean()) if np.all(np.isfinite(rewards)) else -math.inf


def standard_error(rewards: Array) -> float:
    """Return the standard error of the mean reward; NaN for fewer than two rewards."""
    known = rewards[np.isfinite(rewards)]
    return float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else math.nan


@final
class TrainingLine:
    """Progress of a training: one line updated in place on a terminal, occasional lines elsewhere."""

    def __init__(
        self, training: Training, maxfevals: int | None = None, stream: TextIO | None = None
    ) -> None:
        self.training, self.maxfevals = training, maxfevals
        self.status = StatusLine(stream)
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show the progress if an update is due."""
        self._last = progress
        if self.status.due():
            self.status.show(self.line(progress))

    def close(self) -> None:
        """Show the final state."""
        if self._last is not None:
            self.status.show(self.line(self._last))
            self.status.close()

    def line(self, progress: Progress) -> str:
        """Return the progress as one line: episodes, steps, rewards, step size, speed and failures."""
        training = self.training
        evaluate, curve = training.evaluate, training.curve
        share = ""
        if self.maxfevals is not None:
            share = f" ({min(1.0, progress.evaluations / self.maxfevals):.0%})"
        parts = [f"{evaluate.count:>7,} episodes{share}", f"{evaluate.steps:,} steps"]
        if curve["reward"]:
            goal = "" if training.threshold is None else f" of {training.threshold:g}"
            parts.append(f"mean policy {curve['reward'][-1]:.1f}{goal}")
        parts += [f"best candidate {-progress.best_fun:.1f}", f"sigma {progress.sigma:.2e}"]
        if progress.seconds > 0:
            parts.append(f"{evaluate.steps / progress.seconds:,.0f} steps/s")
        if progress.failures:
            parts.append(f"{progress.failures:,} failed")
        return "  ".join(parts)
