// The stream of data: lines of JSON, with the token of this start.

const KEY = 'mpbond-token';
const SILENT_MS = 12000;

/** The token in the address, if there is one. */
export const given = () => /^#[0-9a-f]{32}$/.test(location.hash) && location.hash.slice(1);

/** The token of the address, which is taken out of it, or the one that this tab has had. */
export function token() {
  if (given()) {
    sessionStorage.setItem(KEY, given());
    // Not in what is copied or shown; the browser's own history may contain it.
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem(KEY);
}

/**
 * Reads the stream for ever, again from its begin whenever it ends.
 * `line` gets each object, `trouble` a sentence when nothing can be read.
 */
export async function read(secret, line, trouble) {
  for (;;) {
    let wait = 1000;
    try {
      await readOnce(secret, line);
      trouble('The console has ended this connection; it is opened again.');
    } catch (error) {
      if (error.status === 401) {
        sessionStorage.removeItem(KEY);
        trouble('This address is of an earlier start: open the one that mpbond console has printed.');
        return;
      }
      if (error.status === 503) {
        wait = 5000;
        trouble('Too many pages of this console are open: close one of them.');
      } else {
        trouble('The program mpbond console does not answer: it may have ended. Trying again.');
      }
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function readOnce(secret, line) {
  const ends = new AbortController();
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => ends.abort(), SILENT_MS);
  };
  alive();
  try {
    const answer = await fetch('/stream', {
      headers: { Authorization: `Bearer ${secret}` },
      cache: 'no-store',
      credentials: 'omit',
      signal: ends.signal,
    });
    if (!answer.ok) throw Object.assign(new Error('refused'), { status: answer.status });
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
      rest = lines.pop();
      lines.forEach((text) => line(JSON.parse(text)));
    }
  } finally {
    clearTimeout(timer);
  }
}
