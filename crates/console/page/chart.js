// The chart: rate by path over ten minutes, download above the line and upload below it, with
// events, and a cursor that keys and the pointer move.

import { isolated, rate, span } from './text.js';

const HISTORY_S = 600;
const EDGE = { left: 44, right: 10, top: 30, bottom: 22 };
const COLOURS = 8;
/** The upload has at least this part of the height. */
const LEAST_UP = 0.14;
const MARKS = { good: 'M-4 6L0 0L4 6Z', bad: 'M-4 0L0 6L4 0Z', doubtful: 'M0 0L4 4L0 8L-4 4Z' };

/** Slot of the paths that have none of their own. */
const OTHERS = 24;

/** The class of a path's colour: grey for the others, and for a path that is not known. */
export const colour = (slot) => (slot < OTHERS ? `c${slot % COLOURS}` : 'others');

/** What an event means: good, bad or doubtful. */
export function tone(kind) {
  if (/(up|joined|back|outage-end)$/.test(kind)) return 'good';
  return /(down|lost|helper-left|outage-begin|limit-reached)$/.test(kind) ? 'bad' : 'doubtful';
}

function element(name, attributes, parent) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

/**
 * Samples for a chart of so many pixels: where there are more than one for each pixel and a half, the
 * means of groups. A group has the same samples each second, so that the chart moves without a flicker.
 */
function thinned(samples, pixels) {
  const seconds = Math.ceil((HISTORY_S / pixels) * 1.5);
  if (seconds < 2) return samples;
  const groups = [];
  for (const sample of samples) {
    const key = Math.floor(sample.t / seconds);
    const last = groups.at(-1);
    const isNext = last && last.key === key && sample.t - sample.span - last.t < 1.5;
    if (isNext) last.members.push(sample);
    else groups.push({ key, members: [sample] });
    groups.at(-1).t = sample.t;
  }
  return groups.map(({ t, members }) => {
    const span = members.reduce((sum, s) => sum + s.span, 0);
    const rates = new Map();
    for (const s of members) {
      for (const [slot, down, up] of s.rates) {
        const sum = rates.get(slot) ?? [slot, 0, 0];
        rates.set(slot, [slot, sum[1] + (down * s.span) / span, sum[2] + (up * s.span) / span]);
      }
    }
    return { t, span, rates: [...rates.values()] };
  });
}

/** The smallest of 1, 2, 2.5, 5 times a power of ten that is not below a number. */
function nice(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 2.5, 5, 10].map((f) => f * power).find((f) => f >= number * 0.999);
}

const UNITS = [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s'], [1, 'bit/s']];

export class Chart {
  constructor(place, readout, spoken) {
    this.place = place;
    this.readout = readout;
    this.spoken = spoken;
    this.state = null;
    this.cursor = null;
    this.svg = element('svg', { role: 'presentation', focusable: 'false' }, place);
    this.layers = {};
    for (const name of ['grid', 'areas', 'marks', 'cursor']) {
      this.layers[name] = element('g', { class: name }, this.svg);
    }
    new ResizeObserver(() => this.draw()).observe(place);
    place.addEventListener('keydown', (event) => this.key(event));
    place.addEventListener('pointermove', (event) => this.point(event));
    place.addEventListener('pointerleave', () => this.choose(null));
    place.addEventListener('blur', () => this.choose(null));
  }

  show(state) {
    this.state = state;
    this.draw();
  }

  key(event) {
    const samples = this.state?.samples ?? [];
    if (!samples.length) return;
    const last = samples.length - 1;
    const found = samples.findIndex((s) => s.t === this.cursor);
    const at = found < 0 ? last : found;
    const step = event.shiftKey ? 30 : 1;
    const to = {
      ArrowLeft: Math.max(0, at - step),
      ArrowRight: Math.min(last, at + step),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === 'Escape') this.choose(null);
    else if (to === undefined) return;
    else this.choose(samples[to].t, true);
    event.preventDefault();
  }

  point(event) {
    const samples = this.state?.samples ?? [];
    if (!samples.length || !this.x) return;
    const x = event.clientX - this.place.getBoundingClientRect().left;
    const distance = (s) => Math.abs(this.x(s.t - s.span / 2) - x);
    const nearest = samples.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    this.choose(distance(nearest) < 8 ? nearest.t : null);
  }

  /** Moves the cursor; what it says is read aloud only where keys have moved it. */
  choose(t, aloud = false) {
    this.cursor = t;
    this.drawCursor();
    this.spoken.textContent = aloud ? this.readout.textContent : '';
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.place;
    if (!this.state || !width) return;
    const { samples, t } = this.state;
    this.svg.setAttribute('width', width);
    this.svg.setAttribute('height', height);
    const box = { x0: EDGE.left, x1: width - EDGE.right, y0: EDGE.top, y1: height - EDGE.bottom };
    this.box = box;
    this.x = (at) => box.x1 - ((t - at) / HISTORY_S) * (box.x1 - box.x0);
    const most = (direction) =>
      Math.max(0, ...samples.map((s) => s.rates.reduce((sum, r) => sum + r[direction], 0)));
    const [down, up] = [most(1), most(2)];
    // In bits per second, so that the steps are round numbers of them.
    const step = nice(Math.max((down + up) * 8, 1000) / 4) / 8;
    const tops = Math.max(1, Math.ceil(down / step));
    const least = ((tops * step) * LEAST_UP) / (1 - LEAST_UP);
    const bottoms = up > least ? Math.ceil(up / step) * step : least;
    const scale = (box.y1 - box.y0) / (tops * step + bottoms);
    const zero = box.y0 + tops * step * scale;
    this.y = (value) => zero - value * scale;
    this.drawGrid(step, tops, bottoms);
    this.drawAreas();
    this.drawMarks();
    this.drawCursor();
  }

  drawGrid(step, tops, bottoms) {
    const { x0, x1, y1 } = this.box;
    const grid = this.layers.grid;
    grid.replaceChildren();
    const [unit, name] = UNITS.find(([unit]) => tops * step * 8 >= unit) ?? UNITS.at(-1);
    const line = (y, kind) => element('line', { x1: x0, x2: x1, y1: y, y2: y, class: kind }, grid);
    const label = (x, y, text, anchor) => {
      element('text', { x, y, 'text-anchor': anchor }, grid).textContent = text;
    };
    for (let value = -Math.floor(bottoms / step); value <= tops; value += 1) {
      const y = this.y(value * step);
      line(y, value === 0 ? 'zero' : 'step');
      label(x0 - 8, y + 4, String(+((Math.abs(value) * step * 8) / unit).toPrecision(3)), 'end');
    }
    label(0, 10, name, 'start');
    const each = x1 - x0 < 420 ? 5 : 2;
    for (let minute = 0; minute <= 10; minute += each) {
      const x = this.x(this.state.t - minute * 60);
      const anchor = minute === 0 ? 'end' : minute === 10 ? 'start' : 'middle';
      label(x, y1 + 16, minute === 0 ? 'now' : `−${minute} min`, anchor);
    }
  }

  /** Stacks of areas by path, and their totals. Where there is a gap in time, areas end and begin again. */
  drawAreas() {
    const samples = thinned(this.state.samples, this.box.x1 - this.box.x0);
    const parts = [];
    samples.forEach((sample, i) => {
      const before = samples[i - 1];
      if (!before || sample.t - sample.span - before.t > 1.5) parts.push([]);
      parts.at(-1).push(sample);
    });
    const slots = [...new Set(samples.flatMap((s) => s.rates.map((r) => r[0])))];
    slots.sort((a, b) => a - b);
    const drawn = [];
    for (const direction of [1, 2]) {
      const sign = direction === 1 ? 1 : -1;
      const base = new Map(samples.map((s) => [s, 0]));
      for (const slot of slots) {
        let d = '';
        for (const part of parts) {
          const lower = [];
          const upper = [];
          for (const sample of part) {
            const own = sample.rates.find((r) => r[0] === slot)?.[direction] ?? 0;
            const from = base.get(sample);
            base.set(sample, from + own);
            // The mean of a span is drawn at its middle.
            const x = this.x(sample.t - sample.span / 2).toFixed(1);
            lower.unshift(`${x} ${this.y(sign * from).toFixed(1)}`);
            upper.push(`${x} ${this.y(sign * (from + own)).toFixed(1)}`);
          }
          d += `M${upper.join('L')}L${lower.join('L')}Z`;
        }
        drawn.push([`${colour(slot)} ${direction === 1 ? 'down' : 'up'}`, d]);
      }
      const top = parts.map((part) => part.map((s) =>
        `${this.x(s.t - s.span / 2).toFixed(1)} ${this.y(sign * base.get(s)).toFixed(1)}`));
      drawn.push(['total', top.map((points) => `M${points.join('L')}`).join('')]);
    }
    const areas = this.layers.areas;
    while (areas.childElementCount < drawn.length) element('path', {}, areas);
    while (areas.childElementCount > drawn.length) areas.lastChild.remove();
    drawn.forEach(([kind, d], i) => {
      areas.children[i].setAttribute('d', d);
      areas.children[i].setAttribute('class', kind);
    });
  }

  drawMarks() {
    const { y0, y1, x0 } = this.box;
    this.layers.marks.replaceChildren();
    for (const event of this.state.events) {
      const x = this.x(event.t);
      if (x < x0) continue;
      const mark = element('g', { class: tone(event.kind), transform: `translate(${x} 0)` });
      element('line', { y1: y0, y2: y1 }, mark);
      element('path', { d: MARKS[tone(event.kind)], transform: `translate(0 ${y0 - 9})` }, mark);
      element('title', {}, mark).textContent = event.text;
      this.layers.marks.append(mark);
    }
  }

  drawCursor() {
    const place = this.layers.cursor;
    place.replaceChildren();
    const samples = this.state?.samples ?? [];
    const sample = samples.find((s) => s.t === this.cursor);
    if (!sample) {
      this.readout.textContent = samples.length
        ? 'The pointer or the arrow keys choose a moment.'
        : 'The first rate is there after two answers.';
      return;
    }
    const x = this.x(sample.t - sample.span / 2);
    element('line', { x1: x, x2: x, y1: this.box.y0, y2: this.box.y1 }, place);
    const sum = (i) => sample.rates.reduce((total, r) => total + r[i], 0);
    const names = new Map(this.state.frame.paths.map((p) => [p.slot, p.shares_slot ? 'others' : p.name]));
    const parts = sample.rates.map(([slot, down, up]) => {
      const name = names.get(slot) ?? 'a former path';
      return `${isolated(name)} ↓ ${rate(down)} ↑ ${rate(up)}`;
    });
    const ago = span(this.state.t - sample.t);
    this.readout.textContent =
      `${ago} ago: ↓ ${rate(sum(1))}, ↑ ${rate(sum(2))}` + (parts.length > 1 ? ` · ${parts.join(' · ')}` : '');
  }
}
