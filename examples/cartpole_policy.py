"""Train a linear policy that balances a pole, save it, load it and let it act; needs the extra rl."""

import gymnasium

from lmma.integrations.gymnasium import load_policy, train

result = train("CartPole-v1", "linear", rng=1, maxfevals=2000)
print(result.message)
print(f"reward {result.reward:.1f} +- {result.reward_error:.1f} over {len(result.rewards)} fresh episodes")
print(f"{result.episodes} episodes of candidates, {result.steps:,} steps, {result.seconds:.1f} s")

result.policy.save("cartpole.npz")  # arrays and a header, no pickle
policy = load_policy("cartpole.npz")

env = gymnasium.make("CartPole-v1")  # render_mode="human" shows it
observation, _ = env.reset(seed=7)
steps, done = 0, False
while not done:
    observation, reward, terminated, truncated, _ = env.step(policy(observation))
    steps, done = steps + 1, terminated or truncated
print(f"balanced for {steps} of 500 steps")
