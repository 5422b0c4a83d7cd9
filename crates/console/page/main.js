// The page: takes the lines of the stream, and has the views show them.

import * as bundle from './bundle.js';
import { Chart } from './chart.js';
import * as controls from './controls.js';
import { given, read, token } from './stream.js';
import * as views from './views.js';

const HISTORY_S = 600;
const MAX_EVENTS = 256;

const state = { samples: [], events: [], frame: null, t: 0, owner: null };
const chart = new Chart(...['chart', 'readout', 'spoken'].map((id) => document.getElementById(id)));

function take(line) {
  state.t = line.t;
  if (line.type === 'history') {
    state.samples = line.samples;
    state.events = line.events;
    state.owner = line.owner;
    controls.start(secret, line.may_change, show);
    bundle.start(secret, line.has_bundle);
    return;
  }
  state.events = state.events.concat(line.events).slice(-MAX_EVENTS);
  if (line.type === 'frame') {
    if (line.sample) state.samples.push(line.sample);
    state.frame = line;
    views.live('live', 'good');
    views.banner(null);
  } else {
    views.live('no answer', 'bad');
    views.banner(`The daemon does not answer. ${line.why}. It is asked again every second.`);
  }
  const first = state.samples.findIndex((s) => s.t > state.t - HISTORY_S);
  state.samples.splice(0, first < 0 ? state.samples.length : first);
  show();
}

function show() {
  if (!state.frame) return;
  views.show(state);
  chart.show(state);
}

// The address of another start, opened in this tab.
addEventListener('hashchange', () => given() && location.reload());

const secret = token();
if (secret) {
  read(secret, take, (sentence) => {
    views.live('not connected', 'bad');
    views.banner(sentence);
  });
} else {
  views.live('no token', 'bad');
  views.banner('Open the address that mpbond console has printed: it ends with # and a secret.');
}
