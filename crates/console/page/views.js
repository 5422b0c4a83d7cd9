// The views: each shows a part of the last answer. Names come from other devices: they are only ever
// set as text.

import { colour, tone } from './chart.js';
import { at, each, make, put } from './elements.js';
import { device, maySee, mode, modeHasEffect, remove, setMode } from './controls.js';
import { usage } from './usage.js';
import { why } from './why.js';
import { bytes, count, isolated, joules, milliseconds, percent, rate, shortId, span } from './text.js';

const EVENTS_SHOWN = 30;

const STATES = {
  up: ['up', 'good'],
  backup: ['backup', 'good'],
  express: ['express', 'good'],
  joining: ['joining', 'doubtful'],
  connecting: ['connecting', 'doubtful'],
  waiting: ['waiting', 'quiet'],
  retiring: ['retiring', 'quiet'],
  away: ['away', 'quiet'],
  'potentially-failed': ['no answer', 'doubtful'],
  down: ['down', 'bad'],
  lost: ['lost', 'bad'],
};

function pill(element, state) {
  const [text, mood] = STATES[state] ?? [state, 'quiet'];
  put(element, text);
  element.dataset.tone = mood;
}

export function live(text, mood) {
  put(at('live'), text);
  at('live').dataset.tone = mood;
}

export function banner(sentence) {
  put(at('banner'), sentence ?? '');
  at('banner').hidden = !sentence;
}

let shown;

export function show(state) {
  const { frame } = state;
  shown = state;
  put(at('role'), frame.daemon.role);
  document.title = `${frame.daemon.role} – mpbond`;
  totals(frame);
  paths(frame);
  events(state);
  streams(state);
  devices(frame);
  usage(frame);
  rules(frame);
  notes(frame);
}

function totals({ daemon, total, streams: { open } }) {
  put(at('total-down'), rate(total?.down));
  put(at('total-up'), rate(total?.up));
  // A helper knows none.
  at('open').parentElement.hidden = daemon.role === 'helper';
  put(at('open'), open.toLocaleString('en'));
}

const NO_PATHS = {
  primary: 'No path is configured.',
  helper: 'No primary has used this helper since it was started.',
  proxy: 'No primary is connected.',
};

function paths(frame) {
  put(at('paths-title'), frame.daemon.role === 'helper' ? 'Primaries' : 'Paths');
  at('mode').hidden = !modeHasEffect();
  at('paths-none').hidden = frame.paths.length > 0;
  put(at('paths-none'), NO_PATHS[frame.daemon.role] ?? '');
  const severalPeers = new Set(frame.paths.map((p) => p.peer)).size > 1;
  each(at('paths'), frame.paths, (p) => `${p.peer}/${p.name}`, makePath, (element, path) => {
    const fields = element.fields;
    fields.swatch.className = `swatch ${colour(path.slot)}`;
    put(fields.name, path.name);
    const peer = severalPeers && path.kind !== 'primary' ? `of ${shortId(path.peer)}` : '';
    put(fields.kind, peer || (path.kind === 'helper' ? 'helper' : ''));
    pill(fields.state, path.state);
    put(fields.down, rate(path.rate?.down));
    put(fields.up, rate(path.rate?.up));
    // A helper knows none.
    fields.rtt.parentElement.hidden = path.kind === 'primary';
    put(fields.rtt, path.rtt_ms == null ? '–' : milliseconds(path.rtt_ms));
    const sum = path.down_bytes == null ? null : path.down_bytes + path.up_bytes;
    put(fields.bytes, sum == null ? '–' : bytes(sum));
    const share = path.share ?? 0;
    fields.fill.style.width = `${share * 100}%`;
    fields.fill.className = `fill ${colour(path.slot)}`;
    put(fields.share, path.share == null ? '–' : percent(path.share));
    put(fields.error, path.error ?? '');
    fields.error.hidden = !path.error;
    useOf(fields, path.name);
  });
}

const USES = [['bonded', 'used'], ['standby', 'standby'], ['off', 'off']];

/** Shows the use that is chosen, but for one that is being chosen. */
function useOf({ use }, name) {
  const chosen = mode(name);
  use.hidden = !chosen;
  if (!chosen) return;
  use.dataset.link = name;
  use.setAttribute('aria-label', `Use of ${name}`);
  if (document.activeElement !== use && !use.disabled) use.value = chosen;
}

function makeUse() {
  const use = make('select', 'use');
  use.append(...USES.map(([value, text]) => new Option(text, value)));
  use.addEventListener('change', async () => {
    use.disabled = true;
    const now = await setMode(use.dataset.link, use.value);
    use.disabled = false;
    if (now) use.value = now;
  });
  return use;
}

function makePath() {
  const element = make('li', 'path');
  const fields = {};
  const field = (name, tag, kind) => (fields[name] = make(tag, kind));
  const pair = (label, name, long) => {
    const term = make('dt', '', label);
    if (long) term.setAttribute('aria-label', long);
    return make('div', '', term, field(name, 'dd'));
  };
  const fill = field('fill', 'span', 'fill');
  const meter = make('span', 'meter', fill);
  meter.setAttribute('aria-hidden', 'true');
  element.append(
    make('div', 'head', field('swatch', 'span'), field('name', 'span', 'name'),
      field('kind', 'span', 'kind'), field('state', 'span', 'pill'), (fields.use = makeUse())),
    make('dl', 'facts', pair('↓', 'down', 'download'), pair('↑', 'up', 'upload'),
      pair('RTT', 'rtt', 'round-trip time'), pair('Total', 'bytes')),
    make('div', 'share', meter, make('span', 'share-text', field('share', 'span'),
      make('span', 'away', ' of the bytes of the last five minutes'))),
    field('error', 'p', 'error'),
  );
  element.fields = fields;
  return element;
}

function events(state) {
  const last = state.events.slice(-EVENTS_SHOWN).reverse();
  at('events-none').hidden = last.length > 0;
  const create = (event) => {
    const [time, text] = [make('time'), make('span')];
    text.textContent = event.text;
    const element = make('li', tone(event.kind), time, text);
    element.time = time;
    return element;
  };
  each(at('events'), last, (e) => String(e.id), create, (element, event) => {
    // Only rising minutes: a text that changes each second draws the eye.
    const ago = state.t - event.t;
    put(element.time, ago < 60 ? 'now' : `${span(Math.floor(ago / 60) * 60).replace(' 0 s', '')} ago`);
  });
}

const WAITS_FOR = {
  session: 'a session with the proxy',
  path: 'a path that it may use',
  radio: 'a radio that is awake',
  room: 'another stream to end',
};

function waiting({ waiting: listed, waiting_count: all }) {
  const lines = listed.map((w) => {
    const rule = w.rule == null ? '' : `, by rule ${isolated(w.rule)}`;
    const left = w.left_s == null ? '' : `, for ${span(w.left_s)} more at most`;
    return `${isolated(w.destination)} waits for ${WAITS_FOR[w.waits_for] ?? w.waits_for}${rule}${left}.`;
  });
  if (lines.length > 0 && all > lines.length) {
    lines.push(`and ${count(all - lines.length, 'more', 'more')}`);
  }
  at('waiting').hidden = lines.length === 0;
  each(at('waiting'), lines, (_, i) => String(i), () => make('li'), put);
}

function streams({ frame, owner }) {
  const { applications, more, withheld, open, waiting_count: wait } = frame.streams;
  // It forwards encrypted bytes, and knows none.
  const isHelper = frame.daemon.role === 'helper';
  at('streams').hidden = isHelper;
  at('streams-link').hidden = isHelper;
  const table = at('streams-table');
  table.parentElement.hidden = applications.length === 0;
  put(at('streams-count'), `${open.toLocaleString('en')} open${wait ? `, ${wait.toLocaleString('en')} waiting` : ''}`);
  waiting(frame.streams);
  let none = '';
  if (withheld) {
    none = `Destinations are shown to root${owner && owner !== 'root' ? `, ${owner} and the daemon's group` : ''}: run mpbond console as one of them.`;
  } else if (applications.length === 0) {
    none = 'No application has opened a connection.';
  } else if (more > 0) {
    none = `and ${count(more, 'more group', 'more groups')}`;
  }
  const known = applications.some((of) => of.application);
  put(at('streams-name'), known ? 'Application, destination' : 'Destination');
  put(at('streams-none'), none);
  at('streams-none').hidden = !none;
  const slots = new Map();
  // At a proxy, paths of several primaries may have one name: these have no colour.
  frame.paths.forEach((p) => slots.set(p.name, slots.has(p.name) ? undefined : p.slot));
  each(at('streams-rows'), streamRows(applications), (r) => r.key, makeStream, (row, { of, group, key }) => {
    const cells = row.fields;
    const sum = group ?? of;
    row.classList.toggle('over', sum.open === 0);
    row.classList.toggle('application', !group);
    row.classList.toggle('member', !!group && !!of.application);
    if (group) {
      put(cells.name, group.destination);
      cells.why.hidden = !maySee() || group.open === 0;
      cells.why.setAttribute('aria-label', `Why is ${group.destination} treated like this?`);
      cells.why.about = { ...group, application: of.application };
    } else {
      const { application } = of;
      cells.fold.setAttribute('aria-expanded', String(unfolded.has(key)));
      cells.fold.dataset.key = key;
      put(cells.name, applicationName(application));
      put(cells.certainty, application.certainty);
      cells.certainty.dataset.tone = CERTAINTY_TONES[application.certainty] ?? 'quiet';
    }
    put(cells.kind, group?.class ?? '');
    put(cells.rule, group?.rule ?? '');
    cells.rule.title = group?.rule ?? '';
    put(cells.open, String(sum.open));
    put(cells.down, sum.open ? rate(sum.rate.down) : '');
    put(cells.up, sum.open ? rate(sum.rate.up) : '');
    put(cells.bytes, bytes(sum.down_bytes + sum.up_bytes));
    const carried = sum.paths.reduce((total, p) => total + p[1], 0);
    const parts = carried ? sum.paths.filter((p) => p[1] > 0) : [];
    each(cells.meter, parts, (p) => p[0], () => make('span'), (part, [name, own]) => {
      part.className = `fill ${colour(slots.get(name))}`;
      part.style.width = `${(own / carried) * 100}%`;
    });
    put(cells.shares, parts.map(([name, own]) => `${isolated(name)} ${percent(own / carried)}`).join(', '));
  });
}

const CERTAINTY_TONES = { known: 'good', guessed: 'doubtful' };

// Keys of the applications whose streams are listed below them.
const unfolded = new Set();

/** A row for each application, and one for each group of streams of those that are unfolded. Where
 *  the daemon knows no applications, only groups have rows. */
function streamRows(applications) {
  return applications.flatMap((of) => {
    const { application, groups } = of;
    const own = JSON.stringify(application);
    const isOpen = !application || unfolded.has(own);
    const rows = isOpen ? groups.map((group) => {
      const { destination, class: kind, rule } = group;
      return { of, group, key: JSON.stringify([application, destination, kind, rule]) };
    }) : [];
    return application ? [{ of, key: own }, ...rows] : rows;
  });
}

function applicationName({ name, uid }) {
  if (name != null) return name;
  return uid == null ? 'Unknown application' : `Application of user ${uid}`;
}

/** Lists the streams of an application, or no longer. */
function fold({ dataset: { key } }) {
  if (!unfolded.delete(key)) unfolded.add(key);
  streams(shown);
}

function makeStream({ group }) {
  const row = make('tr');
  row.setAttribute('role', 'row');
  row.fields = {};
  for (const name of ['destination', 'class', 'open', 'down', 'up', 'bytes', 'path']) {
    const cell = make('td', `cell-${name}`);
    cell.setAttribute('role', 'cell');
    row.append(cell);
    row.fields[name] = cell;
  }
  const { fields } = row;
  fields.name = make('span', 'to');
  if (group) {
    fields.why = make('button', 'ask', 'why?');
    fields.why.type = 'button';
    fields.why.addEventListener('click', () => why(fields.why));
    fields.destination.append(fields.name, ' ', fields.why);
  } else {
    fields.certainty = make('span', 'pill');
    fields.fold = make('button', 'fold', fields.name);
    fields.fold.type = 'button';
    fields.fold.addEventListener('click', () => fold(fields.fold));
    fields.destination.append(fields.fold, ' ', fields.certainty);
  }
  fields.class.append((fields.kind = make('span')), (fields.rule = make('span', 'rule')));
  const meter = make('span', 'meter');
  meter.setAttribute('aria-hidden', 'true');
  row.fields.meter = meter;
  row.fields.shares = make('span', 'shares');
  row.fields.path.append(meter, row.fields.shares);
  return row;
}

/** Cards: this device, its peers, helpers, and what is used up. */
function devices(frame) {
  const { daemon } = frame;
  const cards = [];
  const add = (key, title, state, facts, ring, id) =>
    cards.push({ key, title, state, facts, ring, id });
  add('this', 'This device', '', [
    ['Role', daemon.role],
    ['Id', daemon.device],
    ['Up', span(daemon.uptime_s)],
  ]);
  for (const path of frame.paths.filter((p) => p.kind === 'helper' && daemon.role === 'primary')) {
    const facts = [['Role', 'helper']];
    if (path.pad_ms != null) facts.push(['Pipe-aware delay', milliseconds(path.pad_ms)]);
    facts.push(['Waits there', bytes(path.waiting_bytes)]);
    const charging = path.charging ? ', on mains' : '';
    if (path.battery_percent != null) facts.push(['Battery', `${path.battery_percent} %${charging}`]);
    if (path.metered != null) facts.push(['Metered', path.metered ? 'yes' : 'no']);
    if (path.error) facts.push(['Problem', path.error]);
    add(`helper ${path.name}`, path.name, path.state, facts, null, device(path.name));
  }
  for (const path of frame.paths.filter((p) => p.kind === 'primary')) {
    add(`primary ${path.peer}`, `Primary ${shortId(path.peer)}`, path.state, [
      ['Id', path.peer],
      ['Waits here', bytes(path.waiting_bytes)],
    ]);
  }
  frame.sessions.forEach((session, i) => {
    const title = daemon.role === 'primary' ? 'Proxy' : `Primary ${shortId(session.peer)}`;
    add(`session ${i} ${session.peer}`, title, session.state, [
      ['Id', session.peer],
      ['Open streams', session.streams_open.toLocaleString('en')],
      ['Scheduler', session.scheduler],
    ]);
  });
  const gauge = (key, title, value) => {
    if (!value) return;
    const facts = [['Used', bytes(value.used_bytes)]];
    if (value.month) facts.unshift(['Month', `${value.month} (UTC)`]);
    if (value.resets) facts.unshift(['Begins anew', value.resets]);
    facts.push(['Limit', value.max_bytes == null ? 'none' : bytes(value.max_bytes)]);
    const ring = value.max_bytes ? value.used_bytes / value.max_bytes : null;
    add(key, title, '', facts, ring);
  };
  gauge('budget', 'Monthly budget', frame.budget);
  gauge('memory', 'Memory of sessions', frame.memory);
  for (const path of frame.paths) gauge(`cap ${path.name}`, `Cap of ${path.name}`, path.cap);
  for (const { name, energy } of frame.paths) {
    if (!energy) continue;
    const days = energy.days.map(({ day, joules: sum }) => [day, joules(sum)]).reverse();
    const facts = [['Radio', energy.radio], ['Since the start', joules(energy.joules)], ...days];
    add(`energy ${name}`, `Energy of ${name}`, '', facts);
  }
  each(at('device-cards'), cards, (c) => c.key, makeDevice, (element, card) => {
    const { title, state, facts, ring, arc, ringText } = element.fields;
    element.fields.remove.hidden = !card.id;
    element.fields.remove.dataset.device = card.id ?? '';
    put(title, card.title);
    state.hidden = !card.state;
    pill(state, card.state);
    each(facts, card.facts, (f) => f[0], ([label]) => make('div', '', make('dt', '', label), make('dd', label === 'Id' ? 'id' : '')),
      (pair, [, text]) => put(pair.lastChild, text));
    ring.toggleAttribute('hidden', card.ring == null);
    if (card.ring != null) {
      const share = Math.min(1, card.ring);
      arc.setAttribute('stroke-dasharray', `${share * 100} 100`);
      ring.dataset.tone = share < 0.75 ? 'good' : share < 1 ? 'doubtful' : 'bad';
      put(ringText, percent(card.ring));
      ring.setAttribute('aria-label', `${percent(card.ring)} used`);
    }
  });
}

const CONFIRM_MS = 5000;

/** A button that removes a helper at the second click. */
function makeRemove() {
  const button = make('button', 'remove', 'Remove');
  button.type = 'button';
  let until = 0;
  let timer = 0;
  button.addEventListener('click', () => {
    clearTimeout(timer);
    const isConfirmed = Date.now() < until;
    until = isConfirmed ? 0 : Date.now() + CONFIRM_MS;
    put(button, isConfirmed ? 'Remove' : 'Confirm removal');
    if (isConfirmed) remove(button.dataset.device);
    else timer = setTimeout(() => put(button, 'Remove'), CONFIRM_MS);
  });
  return button;
}

function makeDevice() {
  const fields = { title: make('h3'), state: make('span', 'pill'), facts: make('dl', 'pairs') };
  const svg = (name, attributes, parent) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  };
  fields.ring = svg('svg', { viewBox: '0 0 40 40', class: 'ring', role: 'img' });
  // A circumference of 100.
  const circle = { cx: 20, cy: 20, r: 15.9155, fill: 'none', 'stroke-width': 5 };
  svg('circle', { ...circle, class: 'track' }, fields.ring);
  fields.arc = svg('circle', { ...circle, class: 'arc', transform: 'rotate(-90 20 20)' }, fields.ring);
  fields.ringText = svg('text', { x: 20, y: 22.5, 'text-anchor': 'middle' }, fields.ring);
  fields.remove = makeRemove();
  const element = make('li', 'card', make('div', 'head', fields.title, fields.state),
    make('div', 'body', fields.facts, fields.ring), fields.remove);
  element.fields = fields;
  return element;
}

function rules(frame) {
  const list = [...frame.rules];
  if (frame.default_flows_total != null) {
    list.push({ name: 'no rule', line: 0, flows_total: frame.default_flows_total });
  }
  at('rules').hidden = list.length === 0;
  at('rules-link').hidden = list.length === 0;
  const most = Math.max(1, ...list.map((r) => r.flows_total));
  const create = () => {
    const fields = { name: make('span', 'name'), line: make('span', 'kind'),
      hits: make('span', 'hits'), fill: make('span', 'fill c0') };
    const meter = make('span', 'meter', fields.fill);
    meter.setAttribute('aria-hidden', 'true');
    const element = make('li', '', fields.name, fields.line, meter, fields.hits);
    element.fields = fields;
    return element;
  };
  each(at('rules-list'), list, (r, i) => `${i} ${r.name}`, create, (element, rule) => {
    const { name, line, hits, fill } = element.fields;
    element.classList.toggle('rest', rule.line === 0);
    put(name, rule.name);
    put(line, rule.line ? `line ${rule.line}` : '');
    put(hits, count(rule.flows_total, 'connection', 'connections'));
    fill.style.width = `${(rule.flows_total / most) * 100}%`;
  });
}

function notes(frame) {
  const list = frame.notes.map((text) => ({ text }));
  if (frame.needs_restart.length) {
    list.unshift({ text: `These settings have changed, and apply at the next start: ${frame.needs_restart.join(', ')}` });
  }
  at('notes-none').hidden = list.length > 0;
  each(at('notes-list'), list, (n, i) => `${i} ${n.text}`, (n) => {
    const element = make('li');
    element.textContent = n.text;
    return element;
  }, () => {});
  put(at('about'), `mpbond ${frame.daemon.version}, process ${frame.daemon.process}`);
}
