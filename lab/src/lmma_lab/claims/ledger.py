"""The claims ledger: claims of the paper, the rules that decide them, and the verdicts from the records.

A claim is decided by a pure function of :class:`Evidence`. If records are missing, the function returns the
verdict "not enough data" and the records needed. Thresholds are defined next to the rules. The claims of
section 4.2 are decided from records of ``lmma attack``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from lmma_lab.analysis.samples import Evidence
from lmma_lab.report.tables import markdown_table
from lmma_lab.store import Record
from lmma_lab.tasks import KINDS, Task, task_from, unique

Verdict = Literal["holds", "fails", "not enough data"]
PAPER_RANGE = 128  # smallest n in the paper


@dataclass(frozen=True)
class Finding:
    """Verdict on a claim, and the measured values as text."""

    verdict: Verdict
    measured: str


Decide = Callable[[Evidence], Finding]
About = Callable[[Task], bool]  # True if the record of a task is relevant to a claim


@dataclass(frozen=True)
class Claim:
    """A checkable claim of the paper, paraphrased, with the rule that decides it."""

    id: str
    where: str
    wording: str
    rule: str
    decide: Decide
    about: About


@dataclass(frozen=True)
class Row:
    """One line of the ledger: a claim, its verdict, and the number of records behind it."""

    claim: Claim
    finding: Finding
    runs: int = 0  # number of relevant records: runs, times, memory

    @property
    def decided(self) -> bool:
        """True if the claim holds or fails."""
        return self.finding.verdict != "not enough data"

    def columns(self) -> dict[str, str]:
        """Return the texts of the line by column."""
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


def no_task(task: Task) -> bool:
    """Return False: claims about attacks depend on records of attacks, not on tasks."""
    return False


def claim(id: str, where: str, wording: str, rule: str, about: About = no_task) -> Callable[[Decide], Decide]:
    """Return a decorator that adds a claim with the decorated rule to the ledger."""

    def enter(decide: Decide) -> Decide:
        CLAIMS.append(Claim(id, where, wording, rule, decide, about))
        return decide

    return enter


def judge(records: Iterable[Record], where: str = "") -> list[Row]:
    """Return the verdicts of ``records`` on all claims, or on those whose place starts with ``where``."""
    records = list(records)
    evidence = Evidence(records, smallest=PAPER_RANGE)
    tasks = unique(task_from(record["kind"], record["spec"]) for record in records if record["kind"] in KINDS)
    return [
        Row(claim, claim.decide(evidence), sum(map(claim.about, tasks)))
        for claim in CLAIMS
        if claim.where.startswith(where)
    ]


def holds(measured: str) -> Finding:
    """Return the verdict that the claim holds."""
    return Finding("holds", measured)


def fails(measured: str) -> Finding:
    """Return the verdict that the claim fails."""
    return Finding("fails", measured)


def undecided(needed: str) -> Finding:
    """Return the verdict that records are missing."""
    return Finding("not enough data", f"needs {needed}")


def decided(yes: bool, measured: str) -> Finding:
    """Return the verdict that the claim holds if ``yes``, and fails otherwise."""
    return holds(measured) if yes else fails(measured)


def ledger_page(rows: Iterable[Row], title: str = "The claims ledger", lead: str = "") -> str:
    """Return the ledger as a Markdown page that starts with ``lead``, by default the summary."""
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
    """Return a sentence with the numbers of claims that hold, fail and lack data."""
    verdicts = [row.finding.verdict for row in rows]
    return (
        f"{len(verdicts)} claims: {verdicts.count('holds')} hold, {verdicts.count('fails')} fail, "
        f"{verdicts.count('not enough data')} lack data."
    )
