"""Write the tables on networks and policies into their pages, from the records of benchmarks.

python docs/tools/networks.py

lab/results/optimisers, lab/results/mnist and lab/results/reinforcement hold what
benchmarks/torch_optimisers.py, mnist_network.py and reinforcement.py have found.
"""

import itertools
import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

from lmma_lab.report.tables import markdown_table

DOCS = Path(__file__).resolve().parents[1]
RESULTS = DOCS.parent / "lab" / "results"
OURS = ("LMMA", "LMMA+CSA")
THEIRS = ("SGD", "SGD+decay")  # with momentum, at a constant rate and at one that falls to 0

# environment -> policy and the reward that solves it, as benchmarks/reinforcement.py has them
TASKS = {
    "CartPole-v1": ("linear", 475),
    "LunarLander-v3": ("linear", 200),
    "Pendulum-v1": ("mlp:16", -200),
    "Swimmer-v5": ("linear", 325),
    "HalfCheetah-v5": ("linear", 3430),
}
SETTINGS = ("lmma", "open-es", "ars")

Record = dict[str, Any]
Medians = dict[tuple[str, str], dict[float, float]]  # (problem, optimiser) -> rate -> loss


def records(name: str) -> list[Record]:
    """Return what a benchmark has left."""
    text = (RESULTS / name / "runs.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def medians() -> Medians:
    """Return the median loss of every learning rate; infinity where most runs diverged."""
    found: Medians = {}
    for run in records("optimisers"):
        losses = (math.inf if loss is None else loss for loss in run["losses"])
        by_rate = found.setdefault((run["problem"], run["optimiser"]), {})
        by_rate[run["rate"]] = statistics.median(losses)
    return found


def optimisers(found: Medians) -> str:
    """Return for every problem and optimiser its best rate, and what other rates do."""
    head = ["problem", "optimiser", "best rate", "loss there", "rates within 10 times", "at the worst rate"]
    rows = []
    problems = dict.fromkeys(problem for problem, _ in found)
    optimisers = dict.fromkeys(name for _, name in sorted(found, key=lambda pair: pair[1]))
    for problem in sorted(problems):
        for name in optimisers:
            if (problem, name) not in found:
                continue
            by_rate = found[problem, name]
            best = min(by_rate, key=lambda rate: by_rate[rate])
            near = sum(loss <= 10 * by_rate[best] < math.inf for loss in by_rate.values())
            rate = f"{best:g}" if by_rate[best] < math.inf else "none"
            told = [_loss(by_rate[best]), f"{near} of {len(by_rate)}", _loss(max(by_rate.values()))]
            rows.append([problem, name, rate, *told])
    return markdown_table([head, *rows], right=range(2, 6))


def outlook(found: Medians) -> str:
    """Return the verdict on the paper's last question, a row of a table."""
    head = ["question", "rule", "measured", "verdict"]
    problems = sorted({problem for problem, _ in found})

    def best(problem: str, names: tuple[str, ...]) -> float:
        return min(min(found[problem, name].values()) for name in names)

    def halved(against: tuple[str, ...]) -> int:
        return sum(best(problem, OURS) < 0.5 * best(problem, against) for problem in problems)

    wins, all_of_them = halved(THEIRS), len(problems)
    measured = f"{wins} of {all_of_them} problems; {halved(THEIRS[:1])} if SGD's rate has to stay constant"
    question = "Do direction vectors that are fed with noisy gradients accelerate SGD? (conclusion)"
    rule = (
        "After 1,000 gradients, each at its best rate, the median loss of LMMA, with CSA or without, is less "
        "than half of that of SGD with momentum, its rate constant or falling, on at least half of the "
        "problems."
    )
    verdict = "holds" if 2 * wins >= all_of_them else "fails"
    return markdown_table([head, [question, rule, measured, f"**{verdict}**"]])


def _loss(loss: float) -> str:
    return f"{loss:.3g}" if loss < math.inf else "diverged"


def digits(runs: list[Record]) -> str:
    """Return the accuracies on MNIST, medians over seeds with the lowest and the highest."""
    head = ["method", "sigma0", "seeds", "at 6,400 evaluations", "at 25,600", "lowest, highest", "seconds"]
    rows = []
    for method in dict.fromkeys(run["method"] for run in runs):
        mine = [run for run in runs if run["method"] == method]
        early = [next(share for at, share in run["points"] if at >= 6400) for run in mine]
        final = [run["points"][-1][1] for run in mine]
        rate = mine[0]["options"].get("learning_rate")
        rows.append([
            f"`{method}`" if method.islower() else f"{method} of evosax",
            f"{mine[0]['sigma0']:g}" + (f", learning rate {rate:g} sigma" if rate else ""), str(len(mine)),
            f"{statistics.median(early):.1%}", f"{statistics.median(final):.1%}",
            f"{min(final):.1%}, {max(final):.1%}", f"{statistics.median(run['cpu'] for run in mine):.0f}",
        ])  # fmt: skip
    return markdown_table([head, *rows], right=range(2, 7))


def policies(runs: list[Record]) -> str:
    """Return what it took to the thresholds, medians of the runs that came there."""
    head = ["environment", "policy", "threshold", "setting", "reached", "evaluations", "episodes", "steps",
            "seconds", "reward at the end"]  # fmt: skip
    rows = []
    for env, setting in itertools.product(TASKS, SETTINGS):
        mine = [run for run in runs if (run["env"], run["setting"]) == (env, setting)]
        if not mine:
            continue
        there = [run for run in mine if run["solved"]]
        what = [
            f"{statistics.median(run[name] for run in there):,.0f}" if there else ""
            for name in ("evaluations", "episodes", "steps", "cpu")
        ]
        policy, threshold = TASKS[env]
        final = f"{statistics.median(run['reward'] for run in mine):,.4g}"
        rows.append([env, policy, f"{threshold:,}", setting, f"{len(there)} of {len(mine)}", *what, final])
    return markdown_table([head, *rows], right=range(5, 10))


def with_table(text: str, name: str, made: str) -> str:
    """Return a page whose part between the marks of a table is what was made."""
    begin, end = f"<!-- {name}: made by docs/tools/networks.py -->\n", f"<!-- end of {name} -->"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{made.strip()}\n\n{end}", text, count=1, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """Return what the pages should say."""
    found = medians()
    parts = {
        "networks_research.md": {"optimisers": optimisers(found), "digits": digits(records("mnist"))},
        "reproduction.md": {"outlook": outlook(found)},
        "howto/reinforcement_learning.md": {"policies": policies(records("reinforcement"))},
    }
    made = {}
    for file, tables in parts.items():
        text = (DOCS / file).read_text(encoding="utf-8")
        for name, rows in tables.items():
            text = with_table(text, name, rows)
        made[DOCS / file] = text
    return made


def main() -> None:
    """Write them."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
