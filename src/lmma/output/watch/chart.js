'use strict';
// Charts as SVG: scales, ticks, a cursor. Text is inserted as text, never as markup.
const SVG = 'http://www.w3.org/2000/svg';
const WIDE = 440, HIGH = 230, LEFT = 58, RIGHT = 428, TOP = 8, BOTTOM = 204;

function make(tag, parent, text, attributes = {}, space) {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}
const draw = (tag, parent, attributes, text) => make(tag, parent, text, attributes, SVG);

function format(value) {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (size >= 1e6 || (size !== 0 && size < 1e-3)) return value.toExponential(3).replace(/\.?0+e/, 'e');
  return String(Number(value.toPrecision(6)));
}
function short(value) {
  const size = Math.abs(value);
  if (size >= 1e5 || (size !== 0 && size < 1e-3)) {
    if (size >= 1e5 && size < 1e12) {
      const [unit, letter] = size >= 1e9 ? [1e9, 'G'] : size >= 1e6 ? [1e6, 'M'] : [1e3, 'k'];
      return Number((value / unit).toPrecision(3)) + letter;
    }
    return value.toExponential(1).replace('.0e', 'e');
  }
  return String(Number(value.toPrecision(4)));
}
function linearTicks(low, high, count, least = 0) {
  const raw = Math.max(least, (high - low) / count || Math.abs(high) || 1), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw) || raw;
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9 && ticks.length < 20; at += step) {
    ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  }
  return ticks;
}
function logTicks(low, high) {
  const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9), every = Math.max(1, Math.ceil((last - first) / 4));
  const ticks = [];
  for (let power = first; power <= last; power += every) ticks.push(10 ** power);
  if (ticks.length >= 2) return ticks;
  return linearTicks(10 ** low, 10 ** high, 4).filter(tick => tick > 0);
}
// Scale from values to pixels; logarithmic if requested, or by default for positive values with a wide range.
function scaleOf(low, high, from, to, kind) {
  const log = kind !== 'linear' && kind !== 'counts' && low > 0 && (kind === 'log' || high > 20 * low);
  let bottom = log ? Math.log10(low) : low, top = log ? Math.log10(high) : high;
  if (top - bottom < 1e-12 * Math.max(1, Math.abs(top))) {
    const pad = log ? .5 : Math.abs(top) * .1 || 1;
    if (top !== 0 || log) bottom -= pad;
    top += pad;
  }
  const at = value => from + (to - from) * ((log ? Math.log10(value) : value) - bottom) / (top - bottom);
  return {at, log, ticks: log ? logTicks(bottom, top) : linearTicks(bottom, top, 4, kind === 'counts' ? 1 : 0)};
}
function extent(curves, pick) {
  let low = Infinity, high = -Infinity;
  for (const curve of curves) {
    for (const point of curve) { const v = pick(point); if (v < low) low = v; if (v > high) high = v; }
  }
  return [low, high];
}
// spec: {title, unit, curves: [{name, colour, thin, dots, points: [[x, y]]}], bands: [{colour, low: points, high: points}], marks: [x]}
function chart(parent, spec, axis) {
  const figure = make('figure', parent);
  const caption = make('figcaption', figure, spec.title);
  const svg = draw('svg', figure, {viewBox: `0 0 ${WIDE} ${HIGH}`, tabindex: 0, role: 'img'});
  const reading = make('div', figure, undefined, {class: 'reading', 'aria-live': 'off'});
  const series = [...spec.curves.map(c => c.points), ...(spec.bands || []).flatMap(b => [b.low, b.high])];
  const [least, most] = extent(series, p => p[1]);
  const y = scaleOf(least, most, BOTTOM, TOP, spec.scale), x = scaleOf(0, axis.last || 1, LEFT, RIGHT, 'linear');
  make('small', caption, [spec.unit, y.log ? 'log' : ''].filter(Boolean).join(', '));
  for (const tick of y.ticks) {
    const at = y.at(tick);
    draw('line', svg, {x1: LEFT, x2: RIGHT, y1: at, y2: at, class: 'grid'});
    draw('text', svg, {x: LEFT - 6, y: at + 4, 'text-anchor': 'end'}, short(tick));
  }
  for (const tick of x.ticks) {
    const at = x.at(tick);
    draw('text', svg, {x: at, y: BOTTOM + 16, 'text-anchor': at > RIGHT - 20 ? 'end' : 'middle'}, axis.label(tick));
  }
  for (const mark of spec.marks || []) {
    draw('line', svg, {x1: x.at(mark), x2: x.at(mark), y1: TOP, y2: BOTTOM, class: 'mark'});
  }
  const path = points => points.map(p => `${x.at(p[0]).toFixed(1)},${y.at(p[1]).toFixed(1)}`).join(' ');
  for (const band of spec.bands || []) {
    draw('polygon', svg, {class: `band c${band.colour}`, points: `${path(band.high)} ${path([...band.low].reverse())}`});
  }
  for (const curve of spec.curves) {
    const classes = `curve c${curve.colour}${curve.thin ? ' thin' : ''}`;
    if (curve.points.length === 1) {
      const [[px, py]] = curve.points;
      draw('circle', svg, {cx: x.at(px), cy: y.at(py), r: 2.5, class: `c${curve.colour}`, fill: 'currentColor'});
    } else if (curve.dots) {
      draw('path', svg, {class: `dots c${curve.colour}`, d: curve.points.map(p => `M${x.at(p[0]).toFixed(1)} ${y.at(p[1]).toFixed(1)}h0`).join('')});
    } else draw('polyline', svg, {class: classes, points: path(curve.points)});
  }
  const cursor = draw('line', svg, {y1: TOP, y2: BOTTOM, class: 'cursor', visibility: 'hidden'});
  const show = where => {
    cursor.setAttribute('visibility', where === null ? 'hidden' : 'visible');
    if (where !== null) { cursor.setAttribute('x1', x.at(where)); cursor.setAttribute('x2', x.at(where)); }
    reading.replaceChildren();
    const texts = [];
    for (const curve of spec.curves) {
      if (curve.silent) continue;
      const point = nearest(curve.read || curve.points, where === null ? Infinity : where);
      if (!point) continue;
      make('span', reading, `${curve.name} ${format(point[1])}`, {class: `c${curve.colour}`});
      texts.push(`${curve.name} ${format(point[1])}`);
    }
    svg.setAttribute('aria-label', `${spec.title}: ${texts.join(', ')}`);
  };
  const place = event => {
    const box = svg.getBoundingClientRect(), part = ((event.clientX - box.left) / box.width * WIDE - LEFT) / (RIGHT - LEFT);
    return part < -.05 || part > 1.05 ? null : Math.min(1, Math.max(0, part)) * (axis.last || 1);
  };
  svg.addEventListener('pointermove', event => axis.point(place(event)));
  svg.addEventListener('pointerdown', event => axis.point(place(event)));
  svg.addEventListener('pointerleave', event => { if (event.pointerType === 'mouse') axis.point(null); });
  show(axis.where);
  return show;
}
// axes: [{name, ends: [low, high], at: positions in [0, 1] of the points, the best first}]
function parallel(parent, title, axes) {
  const figure = make('figure', parent);
  make('small', make('figcaption', figure, title), 'best point thick');
  const svg = draw('svg', figure, {viewBox: `0 0 ${WIDE} ${HIGH}`, role: 'img', 'aria-label': title});
  const top = TOP + 14, bottom = BOTTOM - 14, every = Math.ceil(axes.length / 8);
  const x = i => axes.length > 1 ? 36 + (WIDE - 72) * i / (axes.length - 1) : WIDE / 2, y = part => bottom + (top - bottom) * part;
  axes.forEach((axis, i) => {
    draw('line', svg, {x1: x(i), x2: x(i), y1: top, y2: bottom, class: 'grid'});
    if (i % every) return;
    draw('text', svg, {x: x(i), y: top - 6, 'text-anchor': 'middle'}, axis.ends[1]);
    draw('text', svg, {x: x(i), y: bottom + 13, 'text-anchor': 'middle'}, axis.ends[0]);
    draw('text', svg, {x: x(i), y: BOTTOM + 18, 'text-anchor': 'middle'}, axis.name.length > 12 ? `${axis.name.slice(0, 11)}…` : axis.name);
  });
  for (let k = axes[0].at.length - 1; k >= 0; k--) {
    const points = axes.map((axis, i) => `${x(i).toFixed(1)},${y(axis.at[k]).toFixed(1)}`).join(' ');
    draw('polyline', svg, {class: k ? 'curve other' : 'curve c0', points});
  }
}
function nearest(points, where) {
  let low = 0, high = points.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (points[middle][0] <= where) low = middle; else high = middle - 1;
  }
  return points[low];
}
