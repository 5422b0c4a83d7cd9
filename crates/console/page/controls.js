// What a person changes: the use of links, and pairing. The console passes it on to the API of the
// primary. Names come from other devices: they are only ever set as text.

import { isolated } from './text.js';

const MODES_MS = 5000;
const PAIRING_MS = 1000;
const at = (id) => document.getElementById(id);

const modes = new Map();
const devices = new Map();
let secret = '';
let may = false;
let hasEffect = false;
// Number of the changes so far: an answer to a question before the last one is too old to be shown.
let changes = 0;
let changed = () => {};

/** The use of a link as its person has chosen it, if this user may change it. */
export const mode = (name) => (may ? modes.get(name) : undefined);

/** Whether the mode of the policy can be chosen. */
export const modeHasEffect = () => hasEffect;

/** Whether this user may see why a stream is treated as it is. */
export const maySee = () => may;

/** The id of the helper to which a link leads, if this user may remove it. */
export const device = (name) => (may ? devices.get(name) : undefined);

/** Begins to show controls, where this user may change anything at a primary. `show` has the modes
 *  shown. */
export function start(token, mayChange, show) {
  if (may || !mayChange) return;
  [secret, may, changed] = [token, true, show];
  at('pairing').hidden = false;
  at('mode').onchange = setPolicyMode;
  at('pairing-begin').onclick = () => pair('POST', {});
  at('pairing-cancel').onclick = () => pair('DELETE');
  at('pairing-trust').onclick = () => pair('PATCH', { device: asking, trust: true });
  at('pairing-refuse').onclick = () => pair('PATCH', { device: asking, trust: false });
  readModes();
  pair('GET');
}

/** An answer of the API. Fails with the reason of a refusal. */
export async function ask(method, resource, value) {
  if (method !== 'GET') changes += 1;
  const answer = await fetch(resource, {
    method,
    headers: { Authorization: `Bearer ${secret}` },
    body: value === undefined ? undefined : JSON.stringify(value),
    cache: 'no-store',
    credentials: 'omit',
  });
  // An answer that was under way meanwhile may be older than the change.
  if (method !== 'GET') changes += 1;
  const body = await answer.json().catch(() => ({ error: `the console answers ${answer.status}` }));
  if (!answer.ok) throw new Error(body.error);
  return body;
}

/** Shows why something was refused, until something else has succeeded. */
function refused(why) {
  at('refusal').textContent = why;
  at('refusal').hidden = !why;
}

async function readModes() {
  if (!document.hidden) {
    const before = changes;
    try {
      const { links } = await ask('GET', '/v1/links');
      const known = await ask('GET', '/v1/devices');
      const policy = await ask('GET', '/v1/mode');
      if (changes === before) {
        modes.clear();
        links.forEach((link) => modes.set(link.name, link.mode));
        showDevices(known);
        hasEffect = policy.has_effect;
        if (document.activeElement !== at('mode')) at('mode').value = policy.mode;
      }
    } catch {
      // The daemon does not answer, which the page says already.
      modes.clear();
      devices.clear();
      hasEffect = false;
    }
    changed();
  }
  setTimeout(readModes, MODES_MS);
}

/** Sets the use of a link: "bonded", "standby" or "off". Returns the one that is in force. */
export async function setMode(name, wanted) {
  try {
    const link = await ask('PATCH', `/v1/links/${encodeURIComponent(name)}`, { mode: wanted });
    modes.set(name, link.mode);
    refused('');
  } catch (error) {
    refused(`${name}: ${error.message}`);
  }
  return modes.get(name);
}

function showDevices(known) {
  devices.clear();
  known.devices.forEach(({ id, links }) => links?.forEach((name) => devices.set(name, id)));
}

/** Removes a helper, with all links through it. */
export async function remove(id) {
  try {
    const links = [...devices].filter(([, of]) => of === id).map(([name]) => name);
    showDevices(await ask('DELETE', `/v1/devices/${encodeURIComponent(id)}`));
    refused('');
    at('removed').textContent = `${links.map(isolated).join(', ')}: removed until the next reload or`
      + ` restart of the primary. To keep it so: mpbond unpair ${id}`;
    at('removed').hidden = false;
  } catch (error) {
    refused(error.message);
  }
}

async function setPolicyMode() {
  at('mode').disabled = true;
  try {
    await ask('PUT', '/v1/mode', { mode: at('mode').value });
    refused('');
  } catch (error) {
    refused(`mode: ${error.message}`);
    at('mode').value = (await ask('GET', '/v1/mode').catch(() => ({}))).mode ?? '';
  }
  at('mode').disabled = false;
}

let asking = '';
let timer = 0;
// Number of the requests so far that change the pairing.
let pairs = 0;

const SENTENCES = {
  none: () => 'A device that lends its link is added while this primary runs.',
  waiting: (p) => `On the other device, within ${p.expires_in_s} s:`,
  asking: (p) => `${p.device.name} has called with the code. Does it show this id?`,
  paired: (p) => `${p.device.name} is used now, until the next reload or restart.`
    + (p.section ? ' To keep it, append this to the file of the primary:' : ''),
  failed: (p) => `Not paired: ${p.error}.`,
};

/** Asks for the state of the pairing, or changes it, and shows it. */
async function pair(method, value) {
  clearTimeout(timer);
  if (method === 'POST') at('removed').hidden = true;
  if (method !== 'GET' || !document.hidden) {
    const asked = (pairs += method === 'GET' ? 0 : 1);
    try {
      const pairing = await ask(method, '/v1/pairing', value);
      // A later request has shown, or will show, what is true now.
      if (asked !== pairs) return;
      showPairing(pairing);
      if (method !== 'GET') refused('');
    } catch (error) {
      if (asked !== pairs) return;
      if (method !== 'GET') refused(error.message);
    }
  }
  const isOpen = ['waiting', 'asking'].includes(at('pairing').dataset.state);
  // One that was begun by another program is shown, too.
  timer = setTimeout(() => pair('GET'), isOpen ? PAIRING_MS : MODES_MS);
}

function showPairing(pairing) {
  const { state } = pairing;
  const put = (id, text) => {
    if (at(id).textContent !== text) at(id).textContent = text;
    at(id).hidden = !text;
  };
  asking = pairing.device?.id ?? '';
  at('pairing').dataset.state = state;
  put('pairing-text', SENTENCES[state]?.(pairing) ?? state);
  const calls = (pairing.addresses ?? []).map((a) => `mpbond pair --role helper ${a} ${pairing.code}`);
  put('pairing-shown', pairing.section ?? (state === 'asking' ? asking : calls.join('\n')));
  const isOpen = state === 'waiting' || state === 'asking';
  at('pairing-begin').hidden = isOpen;
  at('pairing-cancel').hidden = !isOpen && state === 'none';
  at('pairing-cancel').textContent = isOpen ? 'Cancel' : 'Done';
  at('pairing-trust').hidden = state !== 'asking';
  at('pairing-refuse').hidden = state !== 'asking';
}
