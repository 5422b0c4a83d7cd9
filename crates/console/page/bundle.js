// The diagnostic bundle: one file about the daemon, for a report of a fault.

import { at, put } from './elements.js';

const NAME = 'mpbond-diagnostics.json';

/** Shows the button, where this console makes bundles. */
export function start(secret, has) {
  if (!has) return;
  at('bundle').hidden = false;
  at('bundle-save').onclick = () => save(secret);
}

async function save(secret) {
  at('bundle-save').disabled = true;
  put(at('bundle-text'), 'The doctor looks at the daemon: up to 45 s.');
  try {
    const answer = await fetch('/diagnostics', {
      headers: { Authorization: `Bearer ${secret}` },
      cache: 'no-store',
      credentials: 'omit',
    });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await answer.blob());
    link.download = NAME;
    link.click();
    URL.revokeObjectURL(link.href);
    put(at('bundle-text'), `${NAME}: read it before you send it to somebody.`);
  } catch (error) {
    put(at('bundle-text'), `No bundle: ${error.message}`);
  }
  at('bundle-save').disabled = false;
}
