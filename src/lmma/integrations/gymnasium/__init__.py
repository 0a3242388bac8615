"""Reinforcement learning: search for the weights of policies for Gymnasium environments."""

from lmma._text import how_to_install

try:
    import gymnasium as _gymnasium
except ImportError as error:
    raise ImportError(f"lmma.integrations.gymnasium needs gymnasium: {how_to_install('rl')}") from error

from lmma.integrations.gymnasium.policies import Policy, evaluate_policy, load_policy
from lmma.integrations.gymnasium.train import TrainingResult, train

del _gymnasium
__all__ = ["Policy", "TrainingResult", "evaluate_policy", "load_policy", "train"]
