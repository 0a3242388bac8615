"""The page: one HTML file without anything from elsewhere; texts from logs enter it as data only."""

from __future__ import annotations

import json
from typing import Any

STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
body { margin: 1rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; } #panels { display: grid; gap: 1rem;
grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); }
figure { margin: 0; } figcaption { font-size: .9rem; } svg { width: 100%; height: auto; }
svg text { font-size: 11px; fill: currentColor; } polyline { fill: none; stroke-width: 1.6; }
.grid { stroke: currentColor; opacity: .15; } table { border-collapse: collapse; font-size: .9rem; }
td, th { padding: .15rem .7rem .15rem 0; text-align: right; }
th:first-child, td:first-child { text-align: left; }
"""

SCRIPT = """
'use strict';
const COLOURS = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#888888'];
const PANELS = [['best_fun', 'best value'], ['sigma', 'step size'], ['step', 'step length a coordinate'],
  ['speed', 'evaluations a second'], ['failures', 'failed evaluations'], ['restarts', 'restarts']];
const SVG = 'http://www.w3.org/2000/svg';
const make = (tag, parent, text, attributes = {}, space) => {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
};
const words = value => value === null || value === undefined ? 'none yet'
  : Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(3)
  : String(Number(value.toPrecision(6)));
const speeds = c => c.evaluations.map((e, i) => {
  const before = i ? [c.evaluations[i - 1], c.seconds[i - 1]] : [0, 0];
  const time = c.seconds[i] - before[1];
  return time > 0 ? (e - before[0]) / time : null;
});
const points = (log, name) => {
  const values = name === 'speed' ? speeds(log.columns) : log.columns[name];
  return values.map((v, i) => [log.columns.evaluations[i], v]).filter(p => p[1] !== null);
};
function panel(parent, name, title, logs) {
  const curves = logs.map(log => points(log, name));
  const all = curves.flat();
  const figure = make('figure', parent);
  make('figcaption', figure, title);
  const svg = make('svg', figure, undefined, {viewBox: '0 0 440 220', role: 'img', 'aria-label': title}, SVG);
  if (!all.length) { make('text', svg, 'nothing yet', {x: 200, y: 110}, SVG); return; }
  let low = Infinity, high = -Infinity, last = 1;
  for (const [x, y] of all) { low = Math.min(low, y); high = Math.max(high, y); last = Math.max(last, x); }
  const log = low > 0 && high > 20 * low;
  const scale = log ? Math.log10 : v => v;
  const bottom = scale(low), height = (scale(high) - bottom) || 1;
  const px = x => 70 + 360 * x / last, py = y => 190 - 175 * (scale(y) - bottom) / height;
  for (const part of [0, .5, 1]) {
    const at = bottom + part * height, y = 190 - 175 * part;
    make('line', svg, undefined, {x1: 70, x2: 430, y1: y, y2: y, class: 'grid'}, SVG);
    make('text', svg, words(log ? 10 ** at : at), {x: 64, y: y + 4, 'text-anchor': 'end'}, SVG);
    make('text', svg, Math.round(part * last).toLocaleString('en'),
      {x: px(part * last), y: 208, 'text-anchor': part === 1 ? 'end' : 'middle'}, SVG);
  }
  curves.forEach((curve, i) => make('polyline', svg, undefined, {stroke: COLOURS[i % COLOURS.length],
    points: curve.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(' ')}, SVG));
}
function draw(logs) {
  const table = document.createElement('table');
  const head = make('tr', table);
  const titles = ['log', 'best value', 'evaluations', 'step size', 'seconds', 'restarts', 'failed', ''];
  for (const title of titles) make('th', head, title, {scope: 'col'});
  logs.forEach((log, i) => {
    const c = log.columns, end = c.evaluations.length - 1, row = make('tr', table);
    make('td', row, log.name, {style: `color: ${COLOURS[i % COLOURS.length]}`});
    for (const name of ['best_fun', 'evaluations', 'sigma', 'seconds', 'restarts', 'failures']) {
      make('td', row, end < 0 ? 'none yet' : words(c[name][end]));
    }
    const odd = log.odd ? `${log.odd} lines are no records` : '';
    make('td', row, [log.problem, odd].filter(Boolean).join('; '));
  });
  document.getElementById('table').replaceChildren(table);
  const panels = document.createElement('div');
  for (const [name, title] of PANELS) panel(panels, name, title, logs);
  document.getElementById('panels').replaceChildren(...panels.childNodes);
  document.body.dataset.drawn = logs.reduce((sum, log) => sum + log.records, 0);
}
const held = document.getElementById('data');
let shown = '';
async function update() {
  const state = document.getElementById('state');
  try {
    const text = await (await fetch('data', {cache: 'no-store'})).text();
    if (text !== shown) { draw(JSON.parse(text)); shown = text; }
    state.textContent = 'live';
  } catch (error) { state.textContent = 'lmma watch has ended; this is the last it showed'; }
  setTimeout(update, 1000);
}
if (held) draw(JSON.parse(held.textContent)); else update();
"""


def page(title: str, nonce: str, logs: list[dict[str, Any]] | None = None) -> str:
    """Return the page, with ``logs`` inside, to be mailed, or without, to ask for them again and again."""
    data = ""
    if logs is not None:
        data = f'<script type="application/json" id="data">{as_json(logs)}</script>'
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{_escaped(title)}</title>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>{STYLE}</style></head>
<body><h1>{_escaped(title)} <small id="state"></small></h1><div id="table"></div><main id="panels"></main>
{data}<script nonce="{nonce}">{SCRIPT}</script></body></html>
"""


def as_json(value: Any) -> str:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escaped(text: str) -> str:
    import html

    return html.escape("".join(sign if sign.isprintable() else "?" for sign in text))
