"""Reports as one self-contained HTML page, which needs no other files and no network."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from html import escape

from lmma_lab.report.charts import NARROW, chart, plotly_script
from lmma_lab.report.parts import Chart, Commands, Part, Picture, Prose, Table, no_picture_note

STYLE = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #5a6470; --line: #e2e6ea; --accent: #0072B2; }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); margin: 0; background: white; }
header { background: #f5f7f9; border-bottom: 1px solid var(--line); padding: 2rem 0 1.25rem; }
header > *, main { padding-left: 1.25rem; padding-right: 1.25rem; }
header > *, main { max-width: 68rem; margin-left: auto; margin-right: auto; }
main { padding-top: 0.5rem; padding-bottom: 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; } h2 { font-size: 1.3rem; margin: 2.5rem 0 0.6rem; }
nav { font-size: 0.9rem; padding-top: 0.8rem; } nav a { margin-right: 1.1rem; }
a { color: var(--accent); } main p { max-width: 48rem; } .caption { color: var(--soft); font-size: 0.92rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: 0.45rem 0.7rem 0.45rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.verdict { white-space: nowrap; font-weight: 600; } td details { color: var(--soft); font-size: 0.85rem; }
.holds { color: #00664a; } .fails { color: #a34700; } .open { color: var(--soft); font-weight: 400; }
pre { background: #f5f7f9; border: 1px solid var(--line); border-radius: 4px; padding: 0.8rem 1rem; }
pre { overflow-x: auto; } img { max-width: 100%; }
.chart { width: 100%; overflow-x: auto; } summary { cursor: pointer; }
.chart > svg { width: 100%; min-width: 40rem; height: auto; }
@media (max-width: 40rem) {
  body { font-size: 15px; } header { padding-top: 1.2rem; } h1 { font-size: 1.4rem; }
  table.ledger thead { display: none; } table.ledger tr { display: block; padding: 0.6rem 0; }
  table.ledger tr { border-bottom: 1px solid var(--line); }
  table.ledger td { display: block; border: 0; padding: 0.1rem 0; overflow-wrap: anywhere; }
  table.ledger td[data-name]::before { content: attr(data-name) ": "; color: var(--soft); }
}
"""
# The page chooses the layout by its width, and again after a resize or rotation.
DRAW = """
function drawChart(name, chart) {
  const place = document.getElementById(name);
  const narrow = () => place.clientWidth < NARROW;
  let drawn = narrow();
  const layout = () => structuredClone(drawn ? chart.narrow : chart.layout);
  const settings = () => ({responsive: true, displaylogo: false, displayModeBar: !drawn});
  Plotly.newPlot(name, chart.data, layout(), settings());
  window.addEventListener("resize", () => {
    if (narrow() !== drawn) { drawn = narrow(); Plotly.react(name, chart.data, layout(), settings()); }
  });
}
""".replace("NARROW", str(NARROW))
MARKS = {
    "holds": ("holds", "✓ holds"),
    "fails": ("fails", "✗ fails"),
    "not enough data": ("open", "not enough data"),
}


def as_html(title: str, lead: str, parts: Iterable[Part]) -> str:
    """Return the whole page; charts are interactive if plotly is installed, otherwise pictures."""
    parts = list(parts)
    script = plotly_script() if any(isinstance(part, Chart) for part in parts) else None
    body = "\n".join(_part(part, script is not None) for part in parts)
    links = "".join(f'<a href="#{_anchor(part)}">{escape(_heading(part))}</a>' for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # keeps the browser from requesting favicon.ico
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        + (f"<script>{script}</script><script>{DRAW}</script>" if script else "")
        + f"</head>\n<body><header><h1>{escape(title)}</h1><p>{escape(lead)}</p><nav>{links}</nav></header>\n"
        f"<main>\n{body}\n</main></body></html>\n"
    )


def _heading(part: Part) -> str:
    return part.data.title if isinstance(part, Chart) else part.heading


def _anchor(part: Part) -> str:
    if isinstance(part, Chart):
        return part.data.name
    return "".join(c if c.isalnum() else "-" for c in part.heading.lower()).strip("-")


def _part(part: Part, interactive: bool) -> str:
    head = f'<section id="{_anchor(part)}"><h2>{escape(_heading(part))}</h2>'
    if isinstance(part, Prose):
        inner = "".join(f"<p>{escape(text)}</p>" for text in part.paragraphs)
    elif isinstance(part, Commands):
        inner = (
            f"<p>{escape(part.lead)}</p>" if part.lead else ""
        ) + f"<pre>{escape(chr(10).join(part.lines))}</pre>"
    elif isinstance(part, Chart):
        inner = _chart(part, interactive) + _caption(part.data.caption)
    elif isinstance(part, Picture):
        code = base64.b64encode(part.png).decode()
        inner = f'<img alt="{escape(part.heading)}" src="data:image/png;base64,{code}">'
        inner += _caption(part.caption)
    else:
        inner = (f"<p>{escape(part.lead)}</p>" if part.lead else "") + _table(part)
    return f"{head}{inner}</section>"


def _caption(text: str) -> str:
    return f'<p class="caption">{escape(text)}</p>'


def _chart(part: Chart, interactive: bool) -> str:
    if not interactive:
        start = part.svg.find("<svg")
        drawn = part.svg[start:] if start >= 0 else f"<p>{escape(no_picture_note())}</p>"
        return f'<div class="chart">{drawn}</div>'
    name = f"chart-{part.data.name}"
    # "</" in a label would end the script element
    content = json.dumps(chart(part.data), allow_nan=False).replace("</", "<\\/")
    return f'<div class="chart" id="{name}"></div><script>drawChart("{name}", {content});</script>'


def _table(table: Table) -> str:
    if not table.rows:
        return "<p>(nothing yet)</p>"
    # The verdict comes first, because on a narrow screen each row is a card.
    columns = sorted(
        (column for column in table.rows[0] if column not in table.folded), key=lambda c: c != table.verdict
    )
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    rows = "".join(_row(table, columns, row) for row in table.rows)
    kind = ' class="ledger"' if table.verdict else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _row(table: Table, columns: list[str], row: Mapping[str, str]) -> str:
    cells = []
    first = next(column for column in columns if column != table.verdict)
    for column in columns:
        text = escape(row[column])
        if column == table.verdict:
            kind, label = MARKS.get(row[column], ("open", row[column]))
            cells.append(f'<td class="verdict {kind}">{escape(label)}</td>')
            continue
        more = "".join(
            f"<details><summary>{escape(f)}</summary>{escape(row[f])}</details>" for f in table.folded
        )
        name = f' data-name="{escape(column)}"' if column in table.named else ""
        cells.append(f"<td{name}>{text}{more if column == first else ''}</td>")
    return f"<tr>{''.join(cells)}</tr>"
