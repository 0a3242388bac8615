"""Episodes to a published threshold: lmma, OpenAI-ES and ARS in the same environments.

    python benchmarks/reinforcement.py --out lab/results/reinforcement/runs.jsonl

Each finished run is a line of the file; what is there is not run again, so that the benchmark may be killed
and started as often as one likes. Seeds 101 to 105 are nobody's: settings are chosen with seeds 1 to 3. The
policies judged are means over fresh episodes, which count neither as episodes nor as steps.
docs/tools/networks.py makes the table, docs/tools/reinforcement.py the picture.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np

from lmma.integrations.gymnasium import train
from lmma.integrations.gymnasium.environments import Environment, spaces_of
from lmma.integrations.gymnasium.episodes import Episodes
from lmma.integrations.gymnasium.evaluator import EpisodesEvaluator
from lmma.integrations.gymnasium.policies import Network

# environment: policy, threshold, episodes of a candidate, episodes at most, episodes that judge a policy, and
# whether observations are normalised. Swimmer and HalfCheetah: thresholds of Mania, Guy and Recht (arXiv
# 1803.07055), on version 1 of the environments, normalised as where they needed the fewest episodes;
# CartPole and LunarLander their own. Pendulum has none: -200 is customary.
TASKS = {
    "CartPole-v1": ("linear", 475.0, 1, 2_000, 100, True),
    "LunarLander-v3": ("linear", 200.0, 4, 5_000, 100, True),
    "Pendulum-v1": ("mlp:16", -200.0, 4, 8_000, 100, True),
    "Swimmer-v5": ("linear", 325.0, 1, 600, 20, False),
    "HalfCheetah-v5": ("linear", 3430.0, 1, 3_000, 20, True),
}
# How each searches: arguments of train. "ars" is below.
SETTINGS = {
    "lmma": {},
    "lm-ma-es": {"method": "lm-ma-es"},
    "d-lm-ma-es": {"method": "d-lm-ma-es"},
    "pulse": {"method": "pulse"},
    "lmma, noise auto": {"noise": "auto"},
    "open-es": {"method": "open-es", "popsize": 40, "sigma0": 0.1},
    "ars": None,
}
# ARS: directions, those used, step and noise: of the authors' program for HalfCheetah (N = 8, README), of
# published repetitions for Swimmer (N = 1); elsewhere HalfCheetah's. V2 where observations are normalised
ARS = {"Swimmer-v5": (1, 1, 0.02, 0.02), "HalfCheetah-v5": (8, 8, 0.02, 0.03)}
USUAL_ARS = (8, 8, 0.02, 0.03)
LOOKS = 5  # episodes of candidates for one that judges, as in train


def curve(episodes, rewards):
    """Return the points of a learning curve, a hundred at most."""
    every = -(-len(episodes) // 100)
    return [[int(e), round(r, 1)] for e, r in list(zip(episodes, rewards, strict=True))[::every]]


def by_search(env, options, seed):
    policy, threshold, episodes, most, test, normalise = TASKS[env]
    began, spent = time.perf_counter(), time.process_time()
    result = train(
        env, policy, rng=seed, episodes=episodes, solved=threshold, test_episodes=test, normalise=normalise,
        maxfevals=most // episodes, stagnation=False, tolfun=0.0, **options,
    )  # fmt: skip
    return {
        "solved": result.solved, "reward": result.reward, "episodes": result.episodes, "steps": result.steps,
        "evaluations": result.result.nfev, "wall": round(time.perf_counter() - began, 1),
        "cpu": round(time.process_time() - spent, 1), "method": result.result.method,
        "popsize": int(result.result.runs[0].popsize),
        "reason": result.result.reason,
        "curve": curve(result.curve["episodes"], result.curve["reward"]),
    }  # fmt: skip


def by_ars(env, seed):
    """Augmented random search: pairs of steps, the best of them, their rewards' deviation as the unit."""
    policy, threshold, episodes, most, test, normalise = TASKS[env]
    directions, used, alpha, nu = ARS.get(env, USUAL_ARS)
    environment = Environment(env)
    inputs, actions = spaces_of(environment)
    network = Network(inputs, () if policy == "linear" else (16,), actions.outputs)
    evaluate = EpisodesEvaluator(Episodes(environment, network, actions, episodes), normalise)
    rng = np.random.default_rng(seed)
    weights, looked, solved, reward, count = network.start(seed), 0, False, math.nan, 0
    began, spent, points = time.perf_counter(), time.process_time(), []
    while evaluate.count < most and not solved:
        delta = rng.standard_normal((directions, network.n))
        both = np.concatenate((weights + nu * delta, weights - nu * delta))
        rewards = -evaluate(both, (int(rng.integers(2**32)), 0)).reshape(2, directions)
        count += 2 * directions
        best = np.argsort(-rewards.max(axis=0))[:used]
        spread = rewards[:, best].std()
        if spread > 0:
            weights = weights + alpha / (used * spread) * (rewards[0] - rewards[1])[best] @ delta[best]
        evaluate.learn()
        if evaluate.count - looked >= LOOKS * max(1, test // 10):
            looked = evaluate.count
            for fresh in (max(1, test // 10), test):
                seeds = [int(word) for word in rng.integers(2**32, size=-(-fresh // episodes))]
                reward = float(evaluate.rewards(weights, evaluate.normalisation, seeds).mean())
                solved = reward >= threshold
                if not solved:
                    break
            points.append((evaluate.count, reward))
    evaluate.close()
    return {
        "solved": solved, "reward": reward, "episodes": evaluate.count, "steps": evaluate.steps,
        "evaluations": count, "wall": round(time.perf_counter() - began, 1),
        "cpu": round(time.process_time() - spent, 1), "method": "ars", "popsize": 2 * directions,
        "reason": "solved" if solved else "maxfevals", "curve": curve(*zip(*points, strict=True)),
    }  # fmt: skip


def finished(file):
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--envs", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--settings", nargs="+", default=["lmma", "open-es", "ars"], choices=SETTINGS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[101, 102, 103, 104, 105])
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(run["env"], run["setting"], run["seed"]) for run in finished(args.out)}
    for env, seed, setting in itertools.product(args.envs, args.seeds, args.settings):
        if (env, setting, seed) in done:
            continue
        options = SETTINGS[setting]
        run = by_ars(env, seed) if options is None else by_search(env, options, seed)
        record = {"env": env, "setting": setting, "seed": seed, **run}
        print(json.dumps(record), flush=True)
        with args.out.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
