"""The claims ledger: what the paper says, the rule that decides it, and what the records say.

A claim is decided by a pure function of :class:`Evidence`; where records are missing it says so, and what
would be needed. Thresholds stand beside the rules. The claims of section 4.2 are decided from records of
``lmma attack``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from lmma.experiments.analysis.samples import Evidence
from lmma.experiments.tasks import KINDS, Task, task_from, unique
from lmma.output.tables import markdown_table
from lmma.store import Record

Verdict = Literal["holds", "fails", "not enough data"]
PAPER_RANGE = 128  # the smallest n the paper speaks of


@dataclass(frozen=True)
class Finding:
    """What the records say about a claim."""

    verdict: Verdict
    measured: str


Decide = Callable[[Evidence], Finding]
About = Callable[[Task], bool]  # whether the record of a task may bear on a claim


@dataclass(frozen=True)
class Claim:
    """A checkable sentence of the paper, in our words, with the rule that decides it."""

    id: str
    where: str
    wording: str
    rule: str
    decide: Decide
    about: About


@dataclass(frozen=True)
class Row:
    """One line of the ledger."""

    claim: Claim
    finding: Finding
    runs: int = 0  # records that bear on it: runs, times, memory

    @property
    def decided(self) -> bool:
        """Whether there is a verdict."""
        return self.finding.verdict != "not enough data"

    def columns(self) -> dict[str, str]:
        """Return the line as text by column."""
        return {
            "id": self.claim.id,
            "claim": self.claim.wording,
            "where": self.claim.where,
            "rule": self.claim.rule,
            "measured": self.finding.measured,
            "runs": f"{self.runs:,}" if self.runs else "",
            "verdict": self.finding.verdict,
        }


CLAIMS: list[Claim] = []


def nothing(task: Task) -> bool:
    """Return that no task of ours bears on a claim: attacks have records of their own."""
    return False


def claim(id: str, where: str, wording: str, rule: str, about: About = nothing) -> Callable[[Decide], Decide]:
    """Return a decorator that enters the function below it into the ledger."""

    def enter(decide: Decide) -> Decide:
        CLAIMS.append(Claim(id, where, wording, rule, decide, about))
        return decide

    return enter


def judge(records: Iterable[Record], where: str = "") -> list[Row]:
    """Return the ledger: every claim, or those that stand ``where``, with what ``records`` say about it."""
    records = list(records)
    evidence = Evidence(records, smallest=PAPER_RANGE)
    tasks = unique(task_from(record["kind"], record["spec"]) for record in records if record["kind"] in KINDS)
    return [
        Row(claim, claim.decide(evidence), sum(map(claim.about, tasks)))
        for claim in CLAIMS
        if claim.where.startswith(where)
    ]


def holds(measured: str) -> Finding:
    """Return that the claim holds."""
    return Finding("holds", measured)


def fails(measured: str) -> Finding:
    """Return that the claim fails."""
    return Finding("fails", measured)


def undecided(needed: str) -> Finding:
    """Return that records are missing, and which."""
    return Finding("not enough data", f"needs {needed}")


def decided(yes: bool, measured: str) -> Finding:
    """Return that the claim holds or fails."""
    return holds(measured) if yes else fails(measured)


def ledger_page(rows: Iterable[Row], title: str = "The claims ledger", lead: str = "") -> str:
    """Return the ledger as a Markdown page that begins with ``lead``, by default with the summary."""
    rows = list(rows)
    table = [["", "claim", "where", "measured", "runs", "verdict"]]
    for row in rows:
        c = row.columns()
        table.append([c["id"], c["claim"], c["where"], c["measured"], c["runs"], f"**{c['verdict']}**"])
    rules = "\n".join(f"- **{row.claim.id}** {row.claim.rule}" for row in rows)
    return (
        "\n\n".join([f"# {title}", lead or summary(rows), markdown_table(table), "## The rules", rules])
        + "\n"
    )


def summary(rows: Iterable[Row]) -> str:
    """Return how many claims hold, fail and are open."""
    verdicts = [row.finding.verdict for row in rows]
    return (
        f"{len(verdicts)} claims: {verdicts.count('holds')} hold, {verdicts.count('fails')} fail, "
        f"{verdicts.count('not enough data')} lack data."
    )
