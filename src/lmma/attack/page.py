"""An outcome as a table in Markdown and as one self-contained page."""

from __future__ import annotations

import base64
import html as markup
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Outcome

__all__ = ["html", "markdown"]

CAPTIONS = {
    "gallery": "Original, difference (boosted; mid grey is zero) and adversarial, from the first to the last"
    " image to fall.",
    "progress": "Lowest objective so far: positive while the image is still classified correctly, negative"
    " once an adversarial is known. Problems are sorted by their initial objective.",
    "success": "Share of the attacked images with an adversarial no further away than the distance allowed.",
}

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; background: white; }
figcaption { color: #555; font-size: 0.9rem; }
"""


def rows(outcome: Outcome) -> list[list[str]]:
    """Return the table of the methods, heading first."""
    head = ["method", "images", "success", "95% interval", "L2", "Linf", "queries", "confirmed"]
    body = []
    for method, s in outcome.summaries.items():
        interval = f"{s.rate_low:.1%} to {s.rate_high:.1%}"
        share = f"{outcome.confirmed[method]} of {s.successes}"
        medians = [f"{s.l2:.3g}", f"{s.linf:.3g}", f"{s.queries:.0f}"]
        if not s.successes:
            medians = ["-", "-", "-"]
        body.append([method, str(s.images), f"{s.rate:.1%}", interval, *medians, share])
    return [head, *body]


def sentences(outcome: Outcome) -> list[str]:
    """Return what else there is to say."""
    said = [
        f"{outcome.data}: a forest of {outcome.trees} trees, accuracy {outcome.accuracy:.2%} on the test"
        f" images; {outcome.attacked} correctly classified ones attacked. L2 and Linf are medians over"
        f" the successes, queries the median until the first adversarial. Confirmed by {outcome.by}."
    ]
    reference = next(iter(outcome.summaries), "")
    for method, p in outcome.pairings.items():
        said.append(
            f"On {p.images} common images {reference} reached the lower objective in {p.first_lower} cases,"
            f" {method} in {p.second_lower}; {p.ties} ties."
        )
    return said


def markdown(outcome: Outcome) -> str:
    """Return table and sentences as Markdown."""
    head, *body = rows(outcome)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n\n".join(["\n".join(lines), *sentences(outcome)]) + "\n"


def html(outcome: Outcome, pictures: Sequence[Path]) -> str:
    """Return a page that needs no other file."""
    head, *body = rows(outcome)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>lmma attack: {markup.escape(outcome.data)}</title><style>{STYLE}</style>",
        "<h1>Adversarial inputs without gradients</h1>",
        "<table><tr>" + "".join(f"<th>{markup.escape(cell)}</th>" for cell in head) + "</tr>",
    ]
    parts += ["<tr>" + "".join(f"<td>{markup.escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
    parts.append("</table>")
    parts += [f"<p>{markup.escape(text)}</p>" for text in sentences(outcome)]
    for picture in pictures:
        code = base64.b64encode(picture.read_bytes()).decode()
        caption = CAPTIONS.get(picture.stem, "")
        parts.append(
            f"<figure><img alt='{markup.escape(caption, quote=True)}' src='data:image/png;base64,{code}'>"
            f"<figcaption>{markup.escape(caption)}</figcaption></figure>"
        )
    return "\n".join([*parts, "</html>"])
