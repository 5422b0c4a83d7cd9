// Why a stream is treated as it is: its rule, and the links that it may use. Names come from other
// devices and from files: they are only ever set as text.

import { ask } from './controls.js';
import { at, each, make, put } from './elements.js';
import { bytes, isolated } from './text.js';

const REASONS = {
  'not-working': 'it does not work now',
  'not-allowed': 'its rule does not allow it',
  metered: 'it is metered',
  'perhaps-metered': 'it is not known not to be metered',
  roaming: 'it roams',
  'perhaps-roaming': 'it is not known not to roam',
  'cap-reached': 'its cap is used up',
  'battery-low': 'the battery of its device is low',
};

const MULTIPATH = {
  aggregate: 'all links together',
  handover: 'one link at a time, another when it fails',
  interactive: 'one link at a time, the one with the least delay',
};

let asked = 0;
let from = null;

function lines(answer) {
  const { rule, line, links, now } = answer;
  const all = [rule == null
    ? 'No rule selects it: the default of the policy applies.'
    : `Rule ${isolated(rule)}${line ? ` in line ${line} of the policy` : ''} selects it.`];
  if (answer.policy_has_changed) {
    const other = now.rule ? `rule ${isolated(now.rule.name)} in line ${now.rule.line}` : 'the default';
    all.push(`The policy has changed since it was opened. To a new one like it, ${other} would apply.`);
  }
  const how = MULTIPATH[answer.multipath] ?? answer.multipath;
  all.push(`Class ${answer.class}; ${how}.`);
  for (const link of links) {
    const moved = link.bytes_in + link.bytes_out;
    const has = moved ? `; has carried ${bytes(moved)}` : '';
    const use = link.unusable
      ? `not used: ${REASONS[link.unusable] ?? link.unusable}`
      : link.used ? 'may carry its bytes' : 'may be used, another one is';
    all.push(`${isolated(link.name)}: ${use}${has}.`);
  }
  if (!answer.policy_has_changed) {
    for (const passed of now.passed) {
      const why = passed.certainty === 'unknown' ? 'is not known' : 'does not hold';
      all.push(`Not rule ${isolated(passed.name)} in line ${passed.line}: its condition ${passed.condition} ${why}.`);
    }
  }
  return all;
}

function showLines(all) {
  each(at('why-lines'), all, (_, i) => String(i), () => make('li'), put);
}

function close() {
  asked += 1;
  at('why').hidden = true;
  from?.focus();
}

/** Whether the console shows a text as it is. It cuts a long one, with "…" for the rest, and shows
 *  U+FFFD in place of characters that are not seen. */
const isWhole = (shown) => !/…$|\ufffd/u.test(shown);

/** Whether the console shows this text so. */
function isShownAs(text, shown) {
  const [all, seen] = [Array.from(text), Array.from(shown)];
  const isCut = seen.at(-1) === '…' && all.length > seen.length;
  if (isCut) seen.pop();
  return (isCut || all.length === seen.length)
    && seen.every((c, i) => c === '\ufffd' || c === all[i]);
}

/** The same of texts that may be missing. */
const fits = (text, shown) =>
  (shown == null ? text == null : text != null && isShownAs(text, shown));

/** Whether a stream is of an application, with its user: several may have one name. One of which
 *  nothing is known may be any: it was not looked for. */
function isOf({ application: [app, uid] }, wanted) {
  const name = wanted?.name ?? null;
  const user = wanted?.uid == null ? null : String(wanted.uid);
  return (name ?? user) === null || (fits(app.value, name) && uid.value === user);
}

/** The part of a query that asks for one value, if it is known as a whole. */
const only = (key, value) =>
  (value != null && isWhole(value) ? `${key}=${encodeURIComponent(value)}&` : '');

/** Shows why the first open stream of a group is treated as it is. */
export async function why(button) {
  const { application, destination, class: wanted, rule } = button.about;
  const own = (asked += 1);
  from = button;
  put(at('why-title'), `Why? ${isolated(destination)}`);
  showLines([]);
  at('why').hidden = false;
  at('why-close').onclick = close;
  at('why').onkeydown = (event) => event.key === 'Escape' && close();
  at('why-title').focus();
  let shown;
  try {
    const query = `${only('destination', destination)}${only('app', application?.name)}limit=256`;
    let stream;
    for (let after = 0; own === asked && !stream && after !== undefined;) {
      const page = await ask('GET', `/v1/streams?${query}&after=${after}`);
      stream = page.streams.find((s) =>
        s.class === wanted && fits(s.destination, destination) && fits(s.rule, rule)
          && isOf(s, application));
      after = page.next;
    }
    shown = stream
      ? lines(await ask('GET', `/v1/streams/${stream.id}/explain`))
      : ['No such stream is carried now.'];
  } catch (error) {
    shown = [error.message];
  }
  if (own === asked) showLines(shown);
}
