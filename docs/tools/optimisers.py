"""Write the tables on optimisers with gradients into docs/networks_research.md and docs/reproduction.md.

python docs/tools/optimisers.py

Of the records that benchmarks/torch_optimisers.py left in docs/results/optimisers.
"""

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

from lmma.output.tables import markdown_table

DOCS = Path(__file__).resolve().parents[1]
RUNS = DOCS / "results" / "optimisers" / "runs.jsonl"
OURS = ("LMMA", "LMMA+CSA")
THEIRS = ("SGD", "SGD+decay")  # with momentum, at a constant rate and at one that falls to 0

Medians = dict[tuple[str, str], dict[float, float]]  # (problem, optimiser) -> rate -> loss


def medians() -> Medians:
    """Return the median loss of every learning rate; infinity where most runs diverged."""
    found: Medians = {}
    for line in RUNS.read_text(encoding="utf-8").splitlines():
        run: dict[str, Any] = json.loads(line)
        losses = (math.inf if loss is None else loss for loss in run["losses"])
        by_rate = found.setdefault((run["problem"], run["optimiser"]), {})
        by_rate[run["rate"]] = statistics.median(losses)
    return found


def table(found: Medians) -> str:
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


def with_table(text: str, name: str, made: str) -> str:
    """Return a page whose part between the marks of a table is what was made."""
    begin, end = f"<!-- {name}: made by docs/tools/optimisers.py -->\n", f"<!-- end of {name} -->"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{made.strip()}\n\n{end}", text, count=1, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """Return what the pages should say."""
    found = medians()
    parts = {
        "networks_research.md": ("optimisers", table(found)),
        "reproduction.md": ("outlook", outlook(found)),
    }
    return {
        DOCS / file: with_table((DOCS / file).read_text(encoding="utf-8"), name, made)
        for file, (name, made) in parts.items()
    }


def main() -> None:
    """Write them."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
