// Bytes of links with a cap, by day of the cap's period.

import { colour } from './chart.js';
import { at, each, make, put } from './elements.js';
import { bytes } from './text.js';

const DAY_MS = 86_400_000;
const MAX_DAYS = 31;

/** A share with as many digits as are of use. */
const share = (part, whole) => {
  const percent = (100 * part) / whole;
  return `${percent.toFixed(percent < 9.95 ? 1 : 0)} %`;
};

/** A day such as 2026-11-27 as people write it, "27 Nov". */
const short = (day) => new Date(`${day}T00:00Z`)
  .toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** All days from the first with bytes to the last one, which is the present day. */
function whole(days) {
  const used = new Map(days.map(({ day, bytes: sum }) => [day, sum]));
  const [first, last] = [days[0], days[days.length - 1]].map(({ day }) => Date.parse(`${day}T00:00Z`));
  const all = [];
  for (let at = last; at >= first && all.length < MAX_DAYS; at -= DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    all.unshift({ day, sum: used.get(day) ?? 0 });
  }
  return all;
}

export function usage(frame) {
  const capped = frame.paths.filter(({ cap }) => cap?.days?.length && cap.max_bytes);
  at('usage').hidden = capped.length === 0;
  at('usage-link').hidden = capped.length === 0;
  each(at('usage-cards'), capped, (p) => p.name, makeCard, (element, { name, slot, cap }) => {
    const { swatch, title, sum, columns } = element.fields;
    swatch.className = `swatch ${colour(slot)}`;
    put(title, name);
    const of = share(cap.used_bytes, cap.max_bytes);
    put(sum, `${bytes(cap.used_bytes)} of ${bytes(cap.max_bytes)} (${of}), until ${short(cap.resets)}`);
    const days = whole(cap.days);
    const most = Math.max(1, ...days.map((d) => d.sum));
    each(columns, days, (d) => d.day, makeDay, (column, { day, sum: used }, i) => {
      const text = `${short(day)}: ${bytes(used)}, ${share(used, cap.max_bytes)} of the cap`;
      const { fill, label, says } = column.fields;
      fill.className = `fill ${colour(slot)}`;
      fill.style.height = `${(used / most) * 100}%`;
      put(says, text);
      column.title = text;
      // The last one, every fifth before it, and the first: as they do not touch.
      const back = days.length - 1 - i;
      const isShown = back === 0 || (i === 0 && back > 2) || (i > 8 && back % 5 === 0);
      put(label, isShown ? short(day) : '');
    });
  });
}

function makeCard() {
  const fields = { swatch: make('span'), title: make('h3'), sum: make('p', 'none'), columns: make('ol', 'days') };
  const element = make('li', 'card', make('div', 'head', fields.swatch, fields.title), fields.sum, fields.columns);
  element.fields = fields;
  return element;
}

function makeDay() {
  const fields = { fill: make('span', 'fill'), label: make('span', 'label'), says: make('span', 'away') };
  const bar = make('span', 'bar-of-day', fields.fill);
  for (const shown of [bar, fields.label]) shown.setAttribute('aria-hidden', 'true');
  const element = make('li', '', bar, fields.label, fields.says);
  element.fields = fields;
  return element;
}
