"""Environments of a few steps for tests of training, registered on import as users register theirs."""

import gymnasium
import numpy as np
from gymnasium import spaces

RESETS = []  # the seeds that environments of this process were reset with


class Reach(gymnasium.Env):
    """Ten steps on a line of ``size`` numbers: the reward is less the further the numbers are from 0."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, trouble=""):
        self.trouble = trouble
        self.broken = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        assert not self.broken, "an environment that has raised must not be used again"
        RESETS.append(seed)
        self.x = self.np_random.uniform(-2, 2, 3) + 5.0
        self.left = 10
        return self.x.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.x = self.x + action
        self.left -= 1
        reward = -float(np.sum(np.square(self.x)))
        if self.trouble == "raises" or (self.trouble == "sometimes" and action[0] > 0):
            self.broken = True
            raise RuntimeError("the gear box is stuck")
        if self.trouble == "nan":
            reward = float("nan")
        seen = self.x * np.nan if self.trouble == "blind" else self.x.copy()
        return seen, reward, False, self.left == 0, {}


class Named(Reach):
    observation_space = spaces.Dict({"x": spaces.Box(-1.0, 1.0, (3,))})


class Buttons(Reach):
    action_space = spaces.MultiDiscrete([2, 3])


class Choose(Reach):
    """Three actions counted from 5."""

    action_space = spaces.Discrete(3, start=5)

    def step(self, action):
        assert self.action_space.contains(action), action
        self.left -= 1
        return self.x.copy(), float(action), False, self.left == 0, {}


for name, cls in (("Reach-v0", Reach), ("Named-v0", Named), ("Buttons-v0", Buttons), ("Choose-v0", Choose)):
    if f"lmma-test/{name}" not in gymnasium.registry:
        gymnasium.register(f"lmma-test/{name}", cls)
REACH = "small_environments:lmma-test/Reach-v0"
