'use strict';
// Contents of the page, and keyboard and pointer input.
const hidden = new Set(), shows = [];
const view = {x: 'evaluations', scale: 'auto', paused: false, detail: null, where: null};
let now = {logs: [], left_out: 0}, live = true;
const at = id => document.getElementById(id);

const duration = s => s === null || s === undefined ? '–' : s < 60 ? `${Number(s.toPrecision(3))} s`
  : s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60 % 60)} min`;
const last = column => { for (let i = column.length - 1; i >= 0; i--) if (column[i] !== null) return column[i]; return null; };
const some = (column, test) => column.some(v => v !== null && test(v));

function speeds(c, counts = c.evaluations) {
  const rows = counts.length, apart = Math.max(1, Math.round(rows / 60));
  return counts.map((e, i) => {
    let j = i - apart;  // records of the first generations are too close to one another
    while (j >= 0 && c.seconds[i] - c.seconds[j] < .2) j--;
    const time = c.seconds[i] - (j < 0 ? 0 : c.seconds[j]);
    return e === null || c.seconds[i] === null || !(time > 0) ? null : (e - (j < 0 ? 0 : counts[j])) / time;
  });
}
// Seconds until a budget ends the run; null if it has ended or has none.
function left(log) {
  const c = log.columns, run = log.run, found = [];
  if (log.reason || !log.records) return null;
  if (run.maxtime !== undefined) found.push(run.maxtime - last(c.seconds));
  for (const [limit, counts] of [[run.maxfevals, c.evaluations], [run.maxiter, c.generation]]) {
    const speed = last(speeds(c, counts));
    if (limit !== undefined && speed > 0) found.push((limit - last(counts)) / speed);
  }
  return found.length ? Math.max(0, Math.min(...found)) : null;
}
function facts(run) {
  const count = (value, unit) => value === undefined ? '' : `${value.toLocaleString('en')} ${unit}`;
  return [run.method, run.n === undefined ? '' : `n = ${run.n.toLocaleString('en')}`, run.seed === undefined ? '' : `seed ${run.seed}`,
    run.popsize === undefined ? '' : `popsize ${run.popsize}`, count(run.maxfevals, 'evaluations'), count(run.maxiter, 'generations'),
    run.maxtime === undefined ? '' : duration(run.maxtime), run.ftarget === undefined ? '' : `target ${format(run.ftarget)}`].filter(Boolean).join(' · ');
}
function curve(log, index, column, name, more = {}) {
  const xs = log.columns[view.x], points = [];
  column.forEach((v, i) => { if (v !== null && xs[i] !== null) points.push([xs[i], v]); });
  return {name, colour: index, points, ...more};
}
function status(log) {
  if (log.problem) return [log.problem, 'bad'];
  if (!log.records) return ['no records yet', ''];
  if (log.reason) return [`ended: ${log.reason}`, 'good'];
  const quiet = Math.max(0, (live ? Date.now() / 1000 : now.written || 0) - log.changed);
  return quiet < 10 ? ['running', 'good'] : [`last record ${duration(Math.round(quiet))} ago`, ''];
}
const COLUMNS = [['best value', c => format(last(c.best_fun))], ['median', c => format(last(c.median_fun))], ['average', c => format(last(c.average_fun))],
  ['evaluations', c => (last(c.evaluations) || 0).toLocaleString('en')], ['sigma', c => format(last(c.sigma))],
  ['axis ratio', c => format(last(c.axis_ratio))], ['time', c => duration(last(c.seconds))],
  ['evals/s', c => { const v = last(speeds(c)); return v === null ? '–' : Number(v.toPrecision(3)).toLocaleString('en'); }],
  ['time left', (c, log) => duration(left(log))],
  ['failed', c => (last(c.failures) || 0).toLocaleString('en')], ['restarts', c => format(last(c.restarts))]];

function table() {
  const grid = make('table'), head = make('tr', make('thead', grid)), body = make('tbody', grid);
  make('th', head, 'run', {scope: 'col'});
  for (const [title] of COLUMNS) make('th', head, title, {scope: 'col'});
  make('th', head, 'state', {scope: 'col', class: 'text'});
  now.logs.forEach((log, i) => {
    const row = make('tr', body), first = make('td', row), button = make('button', first, undefined,
      {type: 'button', 'data-log': i, 'aria-pressed': !hidden.has(log.name), title: `show or hide (${i + 1})`});
    make('span', button, undefined, {class: `swatch c${i}`});
    button.append(log.name);
    if (log.run.method) make('small', first, facts(log.run), {class: 'facts'});
    for (const [title, text] of COLUMNS) make('td', row, text(log.columns, log), {'data-title': title});
    const [text, kind] = status(log), cell = make('td', row, undefined, {class: 'text'});
    make('span', cell, text, {class: kind});
    if (log.odd) make('span', cell, ` · ${log.odd} invalid lines`, {class: 'bad'});
  });
  const focused = document.activeElement && document.activeElement.dataset.log;
  at('table').replaceChildren(grid);
  if (focused !== undefined) { const target = grid.querySelector(`[data-log="${focused}"]`); if (target) target.focus(); }
}
function panels() {
  const logs = now.logs.map((log, i) => [log, i]).filter(([log]) => !hidden.has(log.name) && log.records);
  const one = logs.length === 1, called = (log, what) => one ? what : log.name.replace(/\.(jsonl|db)$/, '');
  const each = (pick, what, more) => logs.map(([log, i]) => curve(log, i, pick(log.columns), called(log, what), more));
  const detail = chosen(), specs = [], missing = [], marks = detail ? restarts(detail) : [];
  const add = (title, unit, curves, more = {}) => {
    const positive = more.scale ? curves : positives(curves), drawn = positive.filter(c => c.points.length);
    const left = positive !== curves ? ', values > 0 only' : '';
    if (drawn.length) specs.push({title, unit: unit + left, curves: drawn, scale: view.scale === 'auto' ? undefined : view.scale, marks, ...more});
  };
  const secondary = {thin: true, silent: !one};
  const rows = logs.some(([log]) => log.columns.value);  // of an archive
  add('Value', rows ? 'best, and evaluations as dots' : 'best, median dashed', [...each(c => c.value || [], 'value', {dots: true, silent: !one}),
    ...each(c => c.best_fun, 'best'), ...each(c => c.median_fun, 'median', secondary)]);
  const mixed = logs.some(([log]) => log.run.relative);  // then the mean step would add different units
  add('Step size', mixed ? 'sigma' : 'sigma, mean step dashed', [...each(c => c.sigma, 'sigma'), ...(mixed ? [] : each(c => c.step, 'step', secondary))]);
  add('Axis ratio', 'longest / shortest axis', each(c => c.axis_ratio, 'axis ratio'));
  if (detail) scales(detail, add, one ? '' : detail.name);
  const mixed_search = logs.filter(([log]) => some(log.columns.slopes || [], v => v > 0));
  const ranks = c => c.evaluations.map((e, i) => e === null || c.slopes[i] === null ? null : e - c.slopes[i]);
  const parts_of = (pick, what, more) => mixed_search.map(([log, i]) => curve(log, i, pick(log.columns), called(log, what), more));
  add('Slopes and ranks', 'evaluations of each, ranks dashed', [...parts_of(c => c.slopes, 'slopes'), ...parts_of(ranks, 'ranks', secondary)],
    {scale: 'linear'});
  add('Speed', 'evaluations/s', each(speeds, 'speed'));
  const kinds = [['failures', 'Failed evaluations', c => c.failures, v => v > 0], ['restarts', 'Restarts', c => c.restarts, v => v > 0],
    ['noise', 'Noise', c => c.quality, v => v < 1], ['constraints', 'Constraint violation', c => c.violation, () => true]];
  for (const [word, title, pick, test] of kinds) {
    const with_it = logs.filter(([log]) => some(pick(log.columns), test));
    const of = (choose, what, more) => with_it.map(([log, i]) => curve(log, i, choose(log.columns), called(log, what), more));
    if (!with_it.length) missing.push(word);
    else if (word === 'noise') {
      add('Average value', 'of recent candidates', of(c => c.average_fun, 'average'));
      add(title, 'agreement of repeated rankings', of(pick, 'quality'), {scale: 'linear'});
      add('Noise treatment', 'evaluations per candidate, learning rate dashed', [...of(c => c.repeats, 'repeats'), ...of(c => c.rate, 'rate', secondary)],
        {scale: 'linear'});
    } else if (word === 'constraints') add(title, 'at the best point', of(pick, 'violation'), {scale: 'linear'});
    else add(title, 'total', of(pick, word), {scale: 'counts'});
  }
  const axis = {last: 1, where: view.where, point: where => { view.where = where; for (const show of shows) show(where); },
    label: view.x === 'seconds' ? v => duration(v).replace(/ (\d+ s|0 min)$/, m => v >= 60 ? '' : m) : short};
  for (const [log] of logs) axis.last = Math.max(axis.last === 1 ? 0 : axis.last, last(log.columns[view.x]) || 0);
  const focused = [...document.querySelectorAll('#panels svg')].indexOf(document.activeElement);
  const fresh = document.createDocumentFragment();
  shows.length = 0;
  for (const spec of specs) shows.push(chart(fresh, spec, axis));
  if (detail && detail.axes && detail.axes.length) parallel(fresh, `Best points${one ? '' : ` · ${detail.name}`}`, detail.axes);
  at('panels').replaceChildren(fresh);
  if (focused >= 0) { const target = document.querySelectorAll('#panels svg')[focused]; if (target) target.focus(); }
  const parts = [];
  if (!specs.length) parts.push(now.logs.length ? 'No data yet.' : 'No logs yet.');
  else if (missing.length) parts.push(`No data for: ${missing.join(', ')}.`);
  if (now.left_out) parts.push(`${now.left_out} older logs are not shown.`);
  at('note').textContent = parts.join(' ');
}
// Drop values <= 0 for a logarithmic scale: if it is selected, or if most runs end above 0 and the range is wide.
function positives(curves) {
  if (view.scale === 'linear' || !curves.some(c => c.points.some(p => p[1] <= 0))) return curves;
  const ends = curves.filter(c => c.points.length).map(c => c.points[c.points.length - 1][1]);
  const above = curves.map(c => ({...c, read: c.points, points: c.points.filter(p => p[1] > 0)}));
  const [low, high] = extent(above.map(c => c.points), p => p[1]);
  if (!(high > 0)) return curves;
  return view.scale === 'log' || (ends.filter(v => v > 0).length > ends.length / 2 && high > 1000 * low) ? above : curves;
}
function chosen() {
  const seen = now.logs.filter(log => !hidden.has(log.name) && log.records);
  return seen.find(log => log.name === view.detail) || seen[0];
}
function restarts(log) {
  const c = log.columns, marks = [];
  c.restarts.forEach((v, i) => { if (i && v > c.restarts[i - 1]) marks.push(c[view.x][i]); });
  return marks.filter(v => v !== null).slice(-50);
}
function scales(log, add, whose) {
  const [least, lower, median, upper, most] = log.steps.map(column => curve(log, 0, column, ''));
  const few = log.names.length && log.names.length < 8, title = text => whose ? `${text} · ${whose}` : text;
  const named = columns => columns.map((column, i) => curve(log, i, column, log.names[i]));
  const width = log.run.relative ? ', relative to the bounds' : '';
  if (few) add(title('Steps of coordinates'), `standard deviations${width}`, named(log.deviations));
  else if (median.points.length) {
    const lines = [{...most, name: `longest${label(log.longest)}`, colour: 1, thin: true}, {...median, name: 'median'},
      {...least, name: `shortest${label(log.shortest)}`, colour: 2, thin: true}];
    add(title('Steps of coordinates'), `range and quartiles${width}`, lines,
      {bands: [{colour: 0, low: least.points, high: most.points}, {colour: 0, low: lower.points, high: upper.points}]});
  }
  const unit = log.run.relative ? 'between bounds, 0 to 1' : few ? 'by coordinate' : 'selected coordinates';
  add(title('Mean'), unit, named(log.means), {scale: 'linear'});
}
const label = pairs => pairs.length ? ` (${pairs[0][0]})` : '';
function details() {
  const log = chosen(), box = at('details'), seen = now.logs.filter(l => !hidden.has(l.name) && l.records);
  const old = box.querySelector('select');
  if (old && document.activeElement === old) return;  // the list is open
  box.replaceChildren();
  if (!log || !(log.shortest.length || log.best.length)) { if (seen.length < 2) return; }
  const head = make('h2', box, seen.length > 1 ? 'Variables of ' : 'Variables');
  if (seen.length > 1) {
    const select = make('select', head, undefined, {'aria-label': 'run'});
    for (const one of seen) make('option', select, one.name, {value: one.name});
    select.value = log.name;
    select.addEventListener('change', () => { view.detail = select.value; select.blur(); redraw(); });
  }
  const width = log.run.relative ? ', relative to the bounds' : '';
  list(box, `Shortest steps${width}`, log.shortest.map(([n, v]) => [n, format(v)]));
  list(box, `Longest steps${width}`, log.longest.map(([n, v]) => [n, format(v)]));
  if (log.names.length && !log.best.length) {
    list(box, `Mean and step${width}`, log.names.map((n, i) => [n, `${format(last(log.means[i]))} ± ${format(last(log.deviations[i]))}`]));
  }
  list(box, 'Best so far', log.best);
}
function list(box, title, pairs) {
  if (!pairs.length) return;
  const part = make('div', box), rows = make('tbody', make('table', (make('h3', part, title), part)));
  for (const [name, value] of pairs) { const row = make('tr', rows); make('td', row, name, {class: 'text'}); make('td', row, value); }
}
function redraw() { table(); panels(); details(); document.body.dataset.drawn = now.logs.reduce((sum, log) => sum + log.records, 0); }

const TOOLS = [['x', () => view.x === 'seconds' ? 'over time' : 'over evaluations', () => { view.x = view.x === 'seconds' ? 'evaluations' : 'seconds'; view.where = null; }],
  ['s', () => `scale: ${view.scale}`, () => { view.scale = {auto: 'log', log: 'linear', linear: 'auto'}[view.scale]; }],
  ['p', () => view.paused ? 'resume' : 'pause', () => { view.paused = !view.paused; }]];
function tools() {
  for (const [key, text, act] of TOOLS) {
    if (key === 'p' && !live) continue;
    const button = make('button', at('tools'), text(), {type: 'button', 'aria-keyshortcuts': key});
    button.addEventListener('click', () => { act(); button.textContent = text(); redraw(); });
    button.dataset.key = key;
  }
  const keys = at('keys');
  for (const [key, text] of [['x', 'evaluations / time'], ['s', 'scale'], ...(live ? [['p', 'pause']] : []), ['1–7', 'show / hide run'],
    ['← →', 'move cursor'], ['Esc', 'hide cursor']]) { make('kbd', keys, key); keys.append(` ${text}   `); }
}
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === 'SELECT') return;
  const button = document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
  if (button) button.click();
  else if (/^[1-7]$/.test(event.key)) toggle(Number(event.key) - 1);
  else if (event.key === 'Escape') { view.where = null; for (const show of shows) show(null); }
  else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
    const end = Math.max(0, ...now.logs.map(log => last(log.columns[view.x]) || 0)), by = (event.key === 'ArrowLeft' ? -1 : 1) * end / (event.shiftKey ? 10 : 100);
    view.where = Math.min(end, Math.max(0, (view.where === null ? end : view.where) + by));
    for (const show of shows) show(view.where);
    event.preventDefault();
  }
});
at('table').addEventListener('click', event => { const b = event.target.closest('[data-log]'); if (b) toggle(Number(b.dataset.log)); });
function toggle(i) {
  const log = now.logs[i];
  if (!log) return;
  if (!hidden.delete(log.name)) hidden.add(log.name);
  redraw();
}
let shown = '';
async function update() {
  const state = at('state');
  try {
    if (!view.paused && !document.hidden) {
      const answer = await fetch(`data${location.search}`, {cache: 'no-store'});
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (text !== shown) { now = JSON.parse(text); shown = text; redraw(); } else table();
    }
    state.textContent = view.paused ? 'paused' : 'live';
  } catch (error) { state.textContent = 'lmma watch has stopped; showing the last data received'; }
  setTimeout(update, 1000);
}
const embedded = at('data');
live = !embedded;
tools();
if (embedded) {
  now = JSON.parse(embedded.textContent);
  at('state').textContent = now.written ? `as of ${new Date(now.written * 1000).toLocaleString()}` : '';
  redraw();
} else update();
