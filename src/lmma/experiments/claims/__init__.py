"""The claims ledger: every checkable sentence of the paper, the rule that decides it, the verdict."""

from lmma.experiments.claims import algorithms, attacks, benchmarks, invariance
from lmma.experiments.claims.ledger import CLAIMS, Claim, Finding, Row, as_markdown, judge, summary

__all__ = [
    "CLAIMS", "Claim", "Finding", "Row", "algorithms", "as_markdown", "attacks", "benchmarks", "invariance",
    "judge", "summary",
]  # fmt: skip
