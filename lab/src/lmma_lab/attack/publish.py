"""Publication of an attack report: records as CSV, pictures, the table and the page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lmma._files import write, write_text
from lmma_lab.report import Commands, Part, Picture, Prose, Table, as_html
from lmma_lab.report.tables import as_csv, markdown_table

if TYPE_CHECKING:
    from lmma_lab.attack.pipeline import AttackReport

__all__ = ["markdown", "publish"]

SHOWN = 8  # adversarials in the gallery
CAPTIONS = {
    "gallery": (
        "Adversarial images",
        "Original, amplified difference (mid grey is zero) and adversarial image, sorted by the number of"
        " queries needed.",
    ),
    "progress": (
        "Progress of the search",
        "Median of the lowest objective so far: positive while the image is classified correctly, negative"
        " after an adversarial is found. Problems are sorted by their initial objective.",
    ),
    "success": (
        "Success within a distance",
        "Share of the attacked images with an adversarial within the allowed distance.",
    ),
}


def publish(
    report: AttackReport,
    out: Path,
    command: str = "lmma attack",
    *,
    figures: bool = True,
    ledger: Table | None = None,
) -> list[Path]:
    """Write records, pictures, table and page to the folder `out`; return the paths.

    Parameters
    ----------
    report : AttackReport
    out : path
    command : str
        Command line that repeats the attack.
    figures : bool
        Draw figures, which needs matplotlib.
    ledger : Table, optional
        Claims ledger for the page.
    """
    files = [out / f"{method}.csv" for method in report.campaigns]
    for path, records in zip(files, report.campaigns.values(), strict=True):
        write_text(path, as_csv(record.numbers() for record in records))
    pictures = _draw(report, out) if figures and any(report.campaigns.values()) else []
    head, *body = _rows(report)
    parts: list[Part] = [
        Table("Methods", tuple(dict(zip(head, row, strict=True)) for row in body)),
        Prose("Summary", tuple(_sentences(report))),
    ]
    parts += [] if ledger is None else [ledger]
    for path in pictures:
        heading, caption = CAPTIONS[path.stem]
        parts.append(Picture(heading, path.read_bytes(), path.name, caption))
    parts.append(
        Commands("Command", (command,), "Finished images are kept in the store and not attacked again.")
    )
    write_text(out / "table.md", markdown(report))
    who = "random forest" if report.trees else "classifier"
    lead = (
        f"Inputs that a {who} misclassifies although they are close to correctly classified ones, found only"
        " from its probabilities: section 4.2 of Loshchilov, Glasmachers and Beyer (2017)."
    )
    write_text(out / "index.html", as_html("Adversarial inputs without gradients", lead, parts))
    return [*files, *pictures, out / "table.md", out / "index.html"]


def _draw(report: AttackReport, out: Path) -> list[Path]:
    from lmma.plotting import save
    from lmma_lab.plotting import attack_gallery, attack_progress, attack_success

    campaigns, data = report.campaigns, report.dataset
    figures = {"progress": attack_progress(campaigns)}
    reference = next(iter(campaigns.values()))
    hits = sorted((r for r in reference if r.success), key=lambda r: (r.first_success, r.image))
    if hits:  # evenly spaced from easy to hard
        picked = [hits[k] for k in np.linspace(0, len(hits) - 1, min(SHOWN, len(hits))).astype(int)]
        originals = {r.image: data.X_test[r.image] for r in picked}
        gallery = attack_gallery(picked, originals, data.shape, high=data.high)
        figures = {"gallery": gallery, **figures, "success": attack_success(campaigns)}
    for name, figure in figures.items():
        write(out / f"{name}.png", partial(save, figure))
    return [out / f"{name}.png" for name in figures]


def _rows(report: AttackReport) -> list[list[str]]:
    """Return the table of the methods, with the heading as first row."""
    head = ["method", "images", "success", "95% interval", "L2", "Linf", "queries", "confirmed"]
    body = []
    for method, s in report.summaries.items():
        interval = f"{s.rate_low:.1%} to {s.rate_high:.1%}"
        share = f"{report.confirmed[method]} of {s.successes}"
        medians = [f"{s.l2:.3g}", f"{s.linf:.3g}", f"{s.queries:.0f}"] if s.successes else ["-", "-", "-"]
        body.append([method, str(s.images), f"{s.rate:.1%}", interval, *medians, share])
    return [head, *body]


def _sentences(report: AttackReport) -> list[str]:
    """Return sentences about the data, the classifier and the comparison of methods."""
    sentences = [
        f"{report.dataset.name}: {_model(report)}, accuracy {report.accuracy:.2%} on the"
        f" test images; {report.attacked} correctly classified images attacked. L2 and Linf are medians over"
        f" the successes, queries the median until the first adversarial. Confirmed by {report.by}."
    ]
    reference = next(iter(report.summaries), "")
    for method, p in report.pairings.items():
        sentences.append(
            f"On {p.images} common images {reference} reached the lower objective in {p.first_lower} cases,"
            f" {method} in {p.second_lower}; {p.ties} ties."
        )
    return sentences


def _model(report: AttackReport) -> str:
    return f"a forest of {report.trees} trees" if report.trees else "a user classifier"


def markdown(report: AttackReport) -> str:
    """Return the table and the summary as Markdown."""
    return "\n\n".join([markdown_table(_rows(report)), *_sentences(report)]) + "\n"
