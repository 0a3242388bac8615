"""LmmaSampler compared with Optuna's samplers: values after 20 n trials, and relative cost per trial.

    python benchmarks/optuna_samplers.py values records.jsonl --seeds 501 502 503 504 505
    python benchmarks/optuna_samplers.py cost
    python benchmarks/optuna_samplers.py table records.jsonl

Two studies: ten parameters of mixed kinds (a curved valley of four floats, two rates on a logarithmic scale,
two integers, two choices), and 1,000 floats (an ellipsoid of condition 10^4, its optimum off the middle).
``values`` makes the calls that a study makes of a sampler, but notes all parameters of a trial at once:
Optuna copies what a trial has for every parameter, which at 1,000 takes longer than most samplers. Each run
ends after 20 n trials or the given seconds of processor time. What is there is not run again. ``cost``
times real studies, samplers in turn, in one process.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import argparse
import itertools
import json
import math
import statistics
import time
import warnings
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from lmma.integrations.optuna import LmmaSampler

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)

MIXED = {
    **{f"x{i}": FloatDistribution(-3, 3) for i in range(4)},
    "rate": FloatDistribution(1e-6, 1, log=True),
    "decay": FloatDistribution(1e-6, 1, log=True),
    "layers": IntDistribution(1, 12),
    "width": IntDistribution(8, 512, log=True),
    "kind": CategoricalDistribution(["a", "b", "c"]),
    "mode": CategoricalDistribution(["on", "off"]),
}
FLOATS = {f"x{i}": FloatDistribution(-5, 5) for i in range(1000)}
SAMPLERS = {
    "LmmaSampler": lambda space, seed: LmmaSampler(space, seed=seed),
    "CmaEsSampler": lambda space, seed: optuna.samplers.CmaEsSampler(
        seed=seed, warn_independent_sampling=False
    ),
    "CmaEsSampler, separable": lambda space, seed: optuna.samplers.CmaEsSampler(
        seed=seed, use_separable_cma=True, warn_independent_sampling=False
    ),
    "TPESampler": lambda space, seed: optuna.samplers.TPESampler(seed=seed),
    "RandomSampler": lambda space, seed: optuna.samplers.RandomSampler(seed=seed),
}
STUDIES = {"mixed": (MIXED, 200), "floats": (FLOATS, 20_000)}


def mixed(p):
    x = [p[f"x{i}"] for i in range(4)]
    valley = sum(10 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in itertools.pairwise(x))
    rates = (math.log10(p["rate"]) + 3.5) ** 2 + 0.5 * (math.log10(p["decay"]) + 2) ** 2
    whole = 0.1 * (p["layers"] - 4) ** 2 + math.log2(p["width"] / 90) ** 2
    return valley + rates + whole + {"a": 2.0, "b": 0.0, "c": 1.0}[p["kind"]] + (p["mode"] == "on")


def floats(p):
    last = len(p) - 1
    return sum(10 ** (4 * i / last) * (p[f"x{i}"] - 3 * math.sin(i)) ** 2 for i in range(last + 1))


OBJECTIVES = {"mixed": mixed, "floats": floats}


def run(name, sampler_name, seed, seconds):
    """Return the best values at the counts that were reached, and the processor time."""
    space, budget = STUDIES[name]
    sampler = SAMPLERS[sampler_name](space, seed)
    study = optuna.create_study(sampler=sampler, study_name=f"{name}-{seed}")
    storage, objective = study._storage, OBJECTIVES[name]
    marks = {max(1, budget * k // 200) for k in (1, 2, 5, 10, 20, 50, 100, 200)}
    best, reached, start, count = math.inf, {}, time.process_time(), 0
    while count < budget and time.process_time() - start < seconds:
        study._thread_local.cached_all_trials = None  # as study.ask() does
        trial_id = storage.create_new_trial(study._study_id)
        trial = storage.get_trial(trial_id)
        sampler.before_trial(study, trial)
        relative = sampler.infer_relative_search_space(study, trial)
        params = sampler.sample_relative(study, trial, relative)
        for key, distribution in space.items():
            if key not in params:
                params[key] = sampler.sample_independent(study, trial, key, distribution)
        held = storage._get_trial(trial_id)
        held.params, held.distributions = params, dict(space)
        value = objective(params)
        sampler.after_trial(study, trial, TrialState.COMPLETE, [value])
        storage.set_trial_state_values(trial_id, TrialState.COMPLETE, [value])
        best, count = min(best, value), count + 1
        if count in marks:
            reached[count] = best
    reached[count] = best
    return {"trials": count, "best": best, "reached": reached, "seconds": time.process_time() - start}


def values(file, studies, samplers, seeds, seconds):
    done = {(r["study"], r["sampler"], r["seed"]) for r in records(file)}
    for name in studies:
        for seed in seeds:
            for sampler in samplers:
                if (name, sampler, seed) in done or (
                    sampler == "CmaEsSampler, separable" and name == "mixed"
                ):
                    continue
                record = {"study": name, "sampler": sampler, "seed": seed} | run(name, sampler, seed, seconds)
                with open(file, "a", encoding="utf-8") as out:
                    out.write(json.dumps(record) + "\n")
                print(name, sampler, seed, record["trials"], f"{record['best']:.4g}", flush=True)


def records(file):
    if not Path(file).exists():
        return []
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def table(file):
    found = records(file)
    for name, (_, budget) in STUDIES.items():
        print(f"\n{name}: median best value (seeds), of {budget:,} trials\n")
        marks = sorted({int(k) for r in found if r["study"] == name for k in r["reached"]})
        shown = [m for m in marks if sum(str(m) in r["reached"] for r in found if r["study"] == name) > 1]
        print(
            "| sampler | " + " | ".join(f"{m:,}" for m in shown) + " |\n|---" * 1 + "|---" * len(shown) + "|"
        )
        for sampler in SAMPLERS:
            mine = [r for r in found if (r["study"], r["sampler"]) == (name, sampler)]
            cells = [[r["reached"][str(m)] for r in mine if str(m) in r["reached"]] for m in shown]
            words = [f"{statistics.median(c):.3g} ({len(c)})" if c else "" for c in cells]
            trials = [r["trials"] for r in mine]
            print(f"| {sampler} | " + " | ".join(words) + f" | trials {trials}")


def cost(turns):
    """Time real studies, samplers in turn; what counts is a trial late in a study, the least of the turns."""
    for name, before, timed in (("mixed", 180, 20), ("floats", 48, 4)):
        space, _ = STUDIES[name]
        least = dict.fromkeys(SAMPLERS, math.inf)
        studies = {}
        for sampler, make in SAMPLERS.items():
            if sampler == "CmaEsSampler, separable" and name == "mixed":
                continue
            studies[sampler] = optuna.create_study(sampler=make(space, 501))
            studies[sampler].optimize(_suggested(name), n_trials=before)
        for _ in range(turns):
            for sampler, study in studies.items():
                start = time.process_time()
                study.optimize(_suggested(name), n_trials=timed)
                least[sampler] = min(least[sampler], (time.process_time() - start) / timed)
        for sampler in studies:
            ratio = least[sampler] / least["RandomSampler"]
            print(
                f"{name:7} {sampler:24} {1e3 * least[sampler]:9.2f} ms a trial, {ratio:7.2f} of random",
                flush=True,
            )


def _suggested(name):
    space, objective = STUDIES[name][0], OBJECTIVES[name]
    return lambda trial: objective({key: trial._suggest(key, space[key]) for key in space})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["values", "cost", "table"])
    parser.add_argument("file", nargs="?", default="optuna_samplers.jsonl")
    parser.add_argument("--seeds", type=int, nargs="+", default=[501, 502, 503, 504, 505])
    parser.add_argument("--studies", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--seconds", type=float, default=240.0, help="of processor time a run")
    args = parser.parse_args()
    if args.what == "values":
        values(args.file, args.studies, args.samplers, args.seeds, args.seconds)
    elif args.what == "table":
        table(args.file)
    else:
        cost(3)
