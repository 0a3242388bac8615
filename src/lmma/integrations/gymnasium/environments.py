"""Environments by name or from a function, and what policies need to know of their spaces."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from lmma.kernels.words import one_line, shown

Array = npt.NDArray[np.float64]

LONGEST = 100_000  # steps of an episode in an environment that has no limit of its own


@dataclass(frozen=True)
class Actions:
    """How a policy's outputs become actions: the largest of them, or as many numbers inside a box."""

    outputs: int
    first: int | None = None  # the number of the first of discrete actions; None for a box
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    shape: tuple[int, ...] = ()
    dtype: str = "float32"

    def step(self, linear: bool) -> float:
        """Return by how much outputs of first candidates differ, for inputs of size 1, unless one is given.

        Which of several outputs is the largest does not depend on their scale; a linear policy's numbers are
        to stay inside their box, of half width 1, at first. A network's may leave it: with steps of 1 it
        learned to swing up Pendulum in 3,500 to 5,700 episodes, with steps of 0.3 not in 6,000.
        """
        return 0.3 if linear and self.first is None else 1.0

    def of(self, outputs: Array) -> Any:
        """Return the actions that rows of outputs mean, one a row."""
        if self.first is not None:
            return np.argmax(outputs, axis=1) + self.first
        middle, half = self._scale
        inside = np.clip(middle + half * outputs, self.low, self.high)
        return inside.astype(self.dtype).reshape(len(outputs), *self.shape)

    @functools.cached_property
    def _scale(self) -> tuple[Array, Array]:
        """Middle and half width of the box; outputs of an unbounded one are actions as they are."""
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        with np.errstate(invalid="ignore"):  # infinite sides
            middle, half = 0.5 * (self.high + self.low), 0.5 * (self.high - self.low)
        return np.where(bounded, middle, 0.0), np.where(bounded, half, 1.0)


@dataclass(frozen=True)
class Environment:
    """What makes environments, in whichever process, all alike.

    Parameters
    ----------
    env : str or callable
        A name that Gymnasium knows, or a function without arguments that returns an environment.
    options : mapping
        Keyword arguments of ``gymnasium.make``: the environment's own, and ``max_episode_steps``.
    spec : gymnasium.envs.registration.EnvSpec, optional
        What is registered under the name: another process need not have registered it.
    """

    env: str | Callable[[], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    spec: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What the environment is called."""
        return self.env if isinstance(self.env, str) else getattr(self.env, "__qualname__", "environment")

    @property
    def label(self) -> str:
        """Its name, with what was said besides."""
        words = [f"{name}={self.options[name]!r}" for name in sorted(self.options)]
        return " ".join([self.name, *words])

    def make(self, **more: Any) -> Any:
        """Return a new environment; ``more`` are keyword arguments such as ``render_mode``."""
        if callable(self.env):
            made = self.env(**more)
            if not hasattr(made, "step") or not hasattr(made, "observation_space"):
                raise TypeError(f"env must return an environment of gymnasium, got {shown(made)}")
            return made
        try:
            named = self.env if self.spec is None else self.spec
            return gymnasium.make(named, disable_env_checker=True, **{**self.options, **more})
        except gymnasium.error.Error as error:
            if hint := near(self.env):
                raise ValueError(f"env={self.env!r} is none that Gymnasium knows{hint}") from None
            raise ValueError(f"env={self.env!r} cannot be made: {one_line(error)}") from None
        except Exception as error:  # of whoever wrote the environment
            words = f"{type(error).__name__}: {one_line(error)}"
            raise ValueError(f"env={self.env!r} cannot be made: {words}") from error


def checked_environment(env: Any, options: Mapping[str, Any] | None = None) -> Environment:
    """Return what makes the environment a user asked for, or raise and name what is wrong."""
    if not isinstance(env, str) and not callable(env):
        raise TypeError(
            f"env must be a name, such as 'CartPole-v1', or a function that returns an environment; "
            f"got {shown(env)}"
        )
    if callable(env) and options:
        raise ValueError("env_options are for an environment given by name: your function can pass its own")
    return Environment(env, dict(options or {}), _registered(env))


def _registered(env: Any) -> Any:
    """Return what is registered under a name; None for a function, and for a name that nobody knows."""
    if not isinstance(env, str):
        return None
    try:
        return gymnasium.spec(env)
    except (gymnasium.error.Error, ImportError, ValueError):
        return None


def spaces_of(environment: Environment) -> tuple[int, Actions]:
    """Return the numbers of an observation, and how outputs become actions; ValueError if none can serve."""
    made = environment.make()
    try:
        return observation_size(made.observation_space), actions_of(made.action_space)
    finally:
        made.close()


def near(name: str) -> str:
    """Return a suggestion for a name that Gymnasium does not know; empty where nothing is near."""
    known = list(gymnasium.registry)
    if name in known:
        return ""
    by_letters = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_letters, 3, 0.6)
    return f"; did you mean {' or '.join(by_letters[other] for other in found)}?" if found else ""


def observation_size(space: Any) -> int:
    """Return how many numbers an observation has, or raise ValueError for a space that is no box."""
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    raise ValueError(
        f"the environment's observations are a {type(space).__name__}, policies take arrays of numbers "
        "(Box): wrap it, env=lambda: gymnasium.wrappers.FlattenObservation(gymnasium.make(...))"
    )


def actions_of(space: Any) -> Actions:
    """Return how outputs become actions, or raise ValueError for a space that no policy here can serve."""
    if isinstance(space, spaces.Discrete):
        return Actions(int(space.n), first=int(space.start))
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f":
        low, high = (np.asarray(side, float).ravel() for side in (space.low, space.high))
        return Actions(low.size, None, low, high, tuple(space.shape), np.dtype(space.dtype).name)
    raise ValueError(
        f"the environment's actions are {space}: policies choose one of several (Discrete) or give numbers "
        "(Box); gymnasium.wrappers.TransformAction turns others into one of these"
    )
