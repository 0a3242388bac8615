"""Draw docs/images/learning_curve.svg: linear policies that learn to balance a pole.

python docs/tools/learning_curve.py

Needs the extra rl.
"""

from pathlib import Path

from lmma.integrations.gymnasium import train
from lmma.output.plotting.learning import learning_curve
from lmma.output.plotting.style import save

PICTURE = Path(__file__).resolve().parents[1] / "images" / "learning_curve.svg"
ENV = "CartPole-v1"
SEEDS = (1, 2, 3)


def main() -> None:
    """Train and draw."""
    curves, threshold = {}, None
    for seed in SEEDS:
        result = train(ENV, rng=seed, sigma0=0.1, test_episodes=20, maxfevals=1000)
        curves[f"seed {seed}"], threshold = result.curve, result.threshold
    save(learning_curve(curves, solved=threshold, title=f"linear on {ENV}"), PICTURE)


if __name__ == "__main__":
    main()
