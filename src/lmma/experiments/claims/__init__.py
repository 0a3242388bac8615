"""The claims ledger: every checkable sentence of the paper, the rule that decides it, the verdict."""

from lmma.experiments.claims import algorithms, attacks, benchmarks, invariance
from lmma.experiments.claims.ledger import CLAIMS, Claim, Finding, Row, judge, ledger_page, summary

__all__ = [
    "CLAIMS", "Claim", "Finding", "Row", "algorithms", "attacks", "benchmarks", "invariance",
    "judge", "ledger_page", "summary",
]  # fmt: skip
