"""The claims ledger: each checkable claim of the paper, the rule that decides it, and the verdict."""

from lmma_lab.claims import algorithms, attacks, benchmarks, invariance
from lmma_lab.claims.ledger import CLAIMS, Claim, Finding, Row, judge, ledger_page, summary

__all__ = [
    "CLAIMS", "Claim", "Finding", "Row", "algorithms", "attacks", "benchmarks", "invariance",
    "judge", "ledger_page", "summary",
]  # fmt: skip
