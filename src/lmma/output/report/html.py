"""A report as one HTML page that needs nothing beside it, no network either."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from html import escape

from lmma.output.report.charts import chart, plotly_script
from lmma.output.report.parts import Chart, Commands, Part, Picture, Prose, Table, no_picture

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
.chart { width: 100%; } .chart svg { max-width: 100%; height: auto; } summary { cursor: pointer; }
"""
MARKS = {
    "holds": ("holds", "✓ holds"),
    "fails": ("fails", "✗ fails"),
    "not enough data": ("open", "not enough data"),
}


def as_html(title: str, lead: str, parts: Iterable[Part]) -> str:
    """Return the whole page; charts are interactive where plotly is installed, drawn where it is not."""
    parts = list(parts)
    script = plotly_script() if any(isinstance(part, Chart) for part in parts) else None
    body = "\n".join(_part(part, script is not None) for part in parts)
    links = "".join(f'<a href="#{_anchor(part)}">{escape(_heading(part))}</a>' for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # or the browser asks for one beside the page
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        + (f"<script>{script}</script>" if script else "")
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
        drawn = part.svg[part.svg.find("<svg") :] if "<svg" in part.svg else f"<p>{escape(no_picture())}</p>"
        return f'<div class="chart">{drawn}</div>'
    name = f"chart-{part.data.name}"
    # "</" would end the script element wherever it stood in a label
    content = json.dumps(chart(part.data), allow_nan=False).replace("</", "<\\/")
    return (
        f'<div class="chart" id="{name}"></div><script>(function () {{ const c = {content}; '
        f'Plotly.newPlot("{name}", c.data, c.layout, {{responsive: true, displaylogo: false}}); }})();'
        "</script>"
    )


def _table(table: Table) -> str:
    if not table.rows:
        return "<p>(nothing yet)</p>"
    columns = [column for column in table.rows[0] if column not in table.folded]
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    rows = "".join(_row(table, columns, row) for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(table: Table, columns: list[str], row: Mapping[str, str]) -> str:
    cells = []
    for i, column in enumerate(columns):
        text = escape(row[column])
        if column == table.verdict:
            kind, words = MARKS.get(row[column], ("open", row[column]))
            cells.append(f'<td class="verdict {kind}">{escape(words)}</td>')
            continue
        more = "".join(
            f"<details><summary>{escape(f)}</summary>{escape(row[f])}</details>" for f in table.folded
        )
        cells.append(f"<td>{text}{more if i == 0 else ''}</td>")
    return f"<tr>{''.join(cells)}</tr>"
