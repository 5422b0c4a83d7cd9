// Numbers and spans of time as text.

function scaled(value, units) {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** A rate, of bytes per second, in bits per second. */
export const rate = (bytes) =>
  bytes == null ? '–' : scaled(bytes * 8, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']);

export const bytes = (count) => scaled(count, ['B', 'kB', 'MB', 'GB', 'TB']);

export const joules = (sum) => (sum == null ? '–' : scaled(sum, ['J', 'kJ', 'MJ']));

export const milliseconds = (ms) => `${ms.toFixed(ms < 0.995 ? 2 : ms < 9.95 ? 1 : 0)} ms`;

export const percent = (share) => `${(share * 100).toFixed(0)} %`;

/** A span of time in its two largest units. */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** A name within a line: right-to-left letters in it do not move what stands beside it. */
export const isolated = (name) => `\u2068${name}\u2069`;

export const shortId = (id) => id.slice(0, 7);

export const count = (number, one, many) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
