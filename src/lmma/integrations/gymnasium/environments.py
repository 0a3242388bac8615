"""Environments by name or from a function, and the properties of their spaces that policies need."""

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

from lmma._text import one_line, shown

Array = npt.NDArray[np.float64]

LONGEST = 100_000  # steps of an episode in an environment without a limit


@dataclass(frozen=True)
class Actions:
    """Mapping of a policy's outputs to actions: the index of the largest output, or numbers inside a box."""

    outputs: int
    first: int | None = None  # number of the first discrete action; None for a box
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    shape: tuple[int, ...] = ()
    dtype: str = "float32"

    def step(self, linear: bool) -> float:
        """Return the default initial step of outputs, for inputs of size 1.

        The largest of several outputs does not depend on their scale. The outputs of a linear policy should
        at first stay inside their box of half width 1. Those of a network may leave it: with steps of 1 it
        learned to swing up Pendulum in 3,500 to 5,700 episodes, with steps of 0.3 not in 6,000.
        """
        return 0.3 if linear and self.first is None else 1.0

    def from_outputs(self, outputs: Array) -> Any:
        """Return the actions for rows of outputs, one per row."""
        if self.first is not None:
            return np.argmax(outputs, axis=1) + self.first
        middle, half = self._scale
        inside = np.clip(middle + half * outputs, self.low, self.high)
        return inside.astype(self.dtype).reshape(len(outputs), *self.shape)

    @functools.cached_property
    def _scale(self) -> tuple[Array, Array]:
        """Middle and half width of the box; 0 and 1 for unbounded coordinates, which are not scaled."""
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        with np.errstate(invalid="ignore"):  # infinite bounds
            middle, half = 0.5 * (self.high + self.low), 0.5 * (self.high - self.low)
        return np.where(bounded, middle, 0.0), np.where(bounded, half, 1.0)


@dataclass(frozen=True)
class Environment:
    """Factory of identical environments, in any process.

    Parameters
    ----------
    env : str or callable
        A name registered with Gymnasium, or a function without arguments that returns an environment.
    options : mapping
        Keyword arguments of ``gymnasium.make``: those of the environment, and ``max_episode_steps``.
    spec : gymnasium.envs.registration.EnvSpec, optional
        Specification registered under the name, so that another process need not register it.
    """

    env: str | Callable[[], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    spec: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name of the environment."""
        return self.env if isinstance(self.env, str) else getattr(self.env, "__qualname__", "environment")

    @property
    def label(self) -> str:
        """Name of the environment with its options."""
        options = [f"{name}={self.options[name]!r}" for name in sorted(self.options)]
        return " ".join([self.name, *options])

    def make(self, **more: Any) -> Any:
        """Return a new environment; ``more`` are keyword arguments such as ``render_mode``."""
        if callable(self.env):
            made = self.env(**more)
            if not hasattr(made, "step") or not hasattr(made, "observation_space"):
                raise TypeError(f"env must return a Gymnasium environment, got {shown(made)}")
            return made
        try:
            named = self.env if self.spec is None else self.spec
            return gymnasium.make(named, disable_env_checker=True, **{**self.options, **more})
        except gymnasium.error.Error as error:
            if hint := suggestion(self.env):
                raise ValueError(f"env={self.env!r} is not registered with Gymnasium{hint}") from None
            raise ValueError(f"env={self.env!r} cannot be created: {one_line(error)}") from None
        except Exception as error:  # raised by the environment's own code
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise ValueError(f"env={self.env!r} cannot be created: {reason}") from error


def checked_environment(env: Any, options: Mapping[str, Any] | None = None) -> Environment:
    """Return the validated factory of an environment; raise TypeError or ValueError if it is invalid."""
    if not isinstance(env, str) and not callable(env):
        raise TypeError(
            f"env must be a name, such as 'CartPole-v1', or a function that returns an environment; "
            f"got {shown(env)}"
        )
    if callable(env) and options:
        raise ValueError("env_options need an environment given by name; pass the options in your function")
    return Environment(env, dict(options or {}), _registered(env))


def _registered(env: Any) -> Any:
    """Return the specification registered under a name; None for a function or an unknown name."""
    if not isinstance(env, str):
        return None
    try:
        return gymnasium.spec(env)
    except (gymnasium.error.Error, ImportError, ValueError):
        return None


def spaces_of(environment: Environment) -> tuple[int, Actions]:
    """Return the size of observations and the mapping to actions; raise ValueError for unsupported spaces."""
    made = environment.make()
    try:
        return observation_size(made.observation_space), actions_of(made.action_space)
    finally:
        made.close()


def suggestion(name: str) -> str:
    """Return a suggestion for an unknown environment name; empty if no name is similar."""
    known = list(gymnasium.registry)
    if name in known:
        return ""
    by_letters = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_letters, 3, 0.6)
    return f"; did you mean {' or '.join(by_letters[other] for other in found)}?" if found else ""


def observation_size(space: Any) -> int:
    """Return the number of values in an observation; raise ValueError if the space is not a box."""
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    raise ValueError(
        f"the environment's observations are a {type(space).__name__}, but policies need arrays of numbers "
        "(Box); wrap it, env=lambda: gymnasium.wrappers.FlattenObservation(gymnasium.make(...))"
    )


def actions_of(space: Any) -> Actions:
    """Return the mapping of outputs to actions; raise ValueError for an unsupported space."""
    if isinstance(space, spaces.Discrete):
        return Actions(int(space.n), first=int(space.start))
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f":
        low, high = (np.asarray(side, float).ravel() for side in (space.low, space.high))
        return Actions(low.size, None, low, high, tuple(space.shape), np.dtype(space.dtype).name)
    raise ValueError(
        f"the environment's actions are {space}, but policies support Discrete and Box with real numbers; "
        "convert them with gymnasium.wrappers.TransformAction"
    )
