'use strict';
// Timeline: one lane for each CPU and one for idle episodes, with keys (those of Perfetto, w s a d,
// too), search, and a legend of the tasks in view.
(function () {
  const data = JSON.parse(document.getElementById('timeline-data').textContent);
  const canvas = document.getElementById('timeline');
  const tip = document.getElementById('tip');
  const legend = document.getElementById('legend');
  const search = document.getElementById('search');
  const found = document.getElementById('found');
  const LANE = 26, LEFT = 64, RIGHT = 14, AXIS = 22, LEGEND = 12;
  const lanes = data.lanes.map(function (lane) {
    const n = lane.items.length / 4;
    const start = new Float64Array(n), end = new Float64Array(n);
    const task = new Uint32Array(n), share = new Uint8Array(n);
    let at = 0;
    for (let i = 0; i < n; i++) {
      start[i] = at + lane.items[4 * i];
      end[i] = start[i] + lane.items[4 * i + 1];
      at = end[i];
      task[i] = lane.items[4 * i + 2];
      share[i] = lane.items[4 * i + 3];
    }
    return { name: lane.name, start: start, end: end, task: task, share: share };
  });
  data.lanes = null;
  const colours = data.tasks.map(function (name) {
    let h = 0;
    for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) % 360;
    return 'hsl(' + h + ' 50% 48%)';
  });
  // Black or white: a label on a colour.
  const labels = new Map();
  function labelOn(g, colour) {
    if (!labels.has(colour)) {
      g.fillStyle = colour;
      const number = parseInt(g.fillStyle.slice(1), 16);
      const part = function (v) { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
      const light = 0.2126 * part(number >> 16) + 0.7152 * part(number >> 8 & 255) + 0.0722 * part(number & 255);
      labels.set(colour, light > 0.179 ? '#000' : '#fff');
    }
    return labels.get(colour);
  }
  const full = Math.max(1, data.span_us);
  let from = 0, to = full;
  // By task, 1 if it is shown in colour; null: all are. An array, because a search looks at every
  // run, and a set takes several times as long.
  let chosen = null, choices = 0;
  let pointer = null;
  let ink = {};

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    ['ink', 'faint', 'rule', 'alarm', 'calm'].forEach(function (name) {
      ink[name] = style.getPropertyValue('--' + name).trim();
    });
  }

  function firstEndingAfter(ends, t) {
    let lo = 0, hi = ends.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (ends[mid] > t) hi = mid; else lo = mid + 1;
    }
    return lo;
  }

  function length(us) {
    if (us < 1000) return us.toFixed(0) + ' µs';
    if (us < 1e6) return (us / 1e3).toFixed(us < 1e4 ? 2 : 1) + ' ms';
    return (us / 1e6).toFixed(3) + ' s';
  }

  // Distance of ticks: 1, 2 or 5 times a power of ten, at least `least`.
  function step(least) {
    const ten = Math.pow(10, Math.floor(Math.log10(Math.max(1, least))));
    return [1, 2, 5, 10].map(function (n) { return n * ten; }).find(function (s) { return s >= least; });
  }

  // Instants are seconds from the start, as in the tables.
  function instant(us, distance) {
    const decimals = Math.min(6, Math.max(0, Math.ceil(6 - Math.log10(distance))));
    return (us / 1e6).toFixed(decimals) + ' s';
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const wide = canvas.clientWidth, high = AXIS + LANE * (lanes.length + 1);
    // Without room, as for a moment while a window changes, ticks would have no distance.
    const room = wide - LEFT - RIGHT;
    if (room <= 0) return;
    canvas.style.height = high + 'px';
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    const g = canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.clearRect(0, 0, wide, high);
    g.font = '11px system-ui, sans-serif';
    const scale = room / (to - from);
    const distance = step((to - from) * 90 / room);
    g.textAlign = 'center';
    for (let t = Math.ceil(from / distance) * distance; t <= to; t += distance) {
      const x = LEFT + (t - from) * scale;
      g.fillStyle = ink.rule;
      g.fillRect(x, AXIS - 4, 1, high);
      g.fillStyle = ink.faint;
      const text = instant(t, distance), half = g.measureText(text).width / 2;
      g.fillText(text, Math.min(Math.max(x, half + 2), wide - half - 2), 13);
    }
    lanes.forEach(function (lane, row) {
      const y = AXIS + row * LANE;
      g.textAlign = 'left';
      g.fillStyle = ink.ink;
      g.fillText(lane.name, 4, y + 16);
      g.fillStyle = ink.rule;
      g.fillRect(LEFT, y + LANE - 4, room, 1);
      function colour(task) { return !chosen || chosen[task] ? colours[task] : ink.calm; }
      // Of several items within one pixel only the longest is drawn, a chosen one first; its height
      // is the busy share of the pixel.
      let pixel = -1, best = -1, shown = 0, busy = 0;
      function flush() {
        if (pixel < 0) return;
        const tall = Math.max(2, Math.min(1, busy) * (LANE - 6));
        g.fillStyle = colour(shown);
        g.fillRect(LEFT + pixel, y + LANE - 4 - tall, 1, tall);
        pixel = -1;
      }
      for (let i = firstEndingAfter(lane.end, from); i < lane.start.length && lane.start[i] < to; i++) {
        const a = Math.max(0, (lane.start[i] - from) * scale);
        const b = Math.min(room, (lane.end[i] - from) * scale);
        const part = lane.share[i] / 255, task = lane.task[i];
        if (b - a >= 1) {
          flush();
          const tall = Math.max(2, part * (LANE - 6));
          g.fillStyle = colour(task);
          g.fillRect(LEFT + a, y + LANE - 4 - tall, b - a, tall);
          if (b - a > 60 && tall > 12) {
            g.fillStyle = labelOn(g, colour(task));
            const most = Math.floor((b - a) / 7), name = data.tasks[task];
            g.fillText(name.length > most ? name.slice(0, most - 1) + '…' : name, LEFT + a + 3, y + 16);
          }
          continue;
        }
        const p = Math.floor(a);
        if (p !== pixel) { flush(); pixel = p; best = -1; busy = 0; }
        busy += (b - a) * part;
        const weight = b - a + (chosen && chosen[task] ? 1 : 0);
        if (weight >= best) { best = weight; shown = task; }
      }
      flush();
    });
    const y = AXIS + lanes.length * LANE;
    g.textAlign = 'left';
    g.fillStyle = ink.ink;
    g.fillText('idle', 4, y + 16);
    data.idle.forEach(function (e) {
      if (e[0] + e[1] < from || e[0] > to) return;
      const a = Math.max(0, (e[0] - from) * scale), b = Math.min(room, (e[0] + e[1] - from) * scale);
      g.fillStyle = data.causes[e[2]] && data.causes[e[2]][1] ? ink.alarm : ink.calm;
      g.fillRect(LEFT + a, y + 4, Math.max(1, b - a), LANE - 8);
    });
  }

  // The tasks that ran longest in view.
  function list() {
    const times = new Float64Array(data.tasks.length);
    lanes.forEach(function (lane) {
      for (let i = firstEndingAfter(lane.end, from); i < lane.start.length && lane.start[i] < to; i++) {
        const ran = Math.min(to, lane.end[i]) - Math.max(from, lane.start[i]);
        times[lane.task[i]] += ran * lane.share[i] / 255;
      }
    });
    const order = Array.from(times.keys()).filter(function (t) { return times[t] > 0; });
    order.sort(function (a, b) { return times[b] - times[a]; });
    legend.textContent = '';
    order.slice(0, LEGEND).forEach(function (task) {
      const entry = document.createElement('button');
      const square = document.createElement('i');
      square.style.background = colours[task];
      entry.append(square, data.tasks[task] + ', ' + length(times[task]));
      entry.setAttribute('aria-pressed', String(Boolean(chosen && choices === 1 && chosen[task])));
      entry.addEventListener('click', function () {
        search.value = entry.getAttribute('aria-pressed') === 'true' ? '' : data.tasks[task];
        choose();
      });
      legend.append(entry);
    });
    if (order.length > LEGEND) legend.append('and ' + (order.length - LEGEND) + ' more');
  }
  let waiting = 0;
  function listSoon() {
    clearTimeout(waiting);
    waiting = setTimeout(list, 120);
  }

  function show(a, b) {
    const width = Math.min(full, Math.max(10, b - a));
    from = Math.min(Math.max(0, a), full - width);
    to = from + width;
    window.requestAnimationFrame(draw);
    listSoon();
  }
  function zoom(factor, around) {
    const middle = around === undefined ? (from + to) / 2 : around;
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }
  function move(share) { const d = (to - from) * share; show(from + d, to + d); }
  const KEYS = {
    w: 'in', '+': 'in', '=': 'in', s: 'out', '-': 'out', a: 'left', arrowleft: 'left',
    d: 'right', arrowright: 'right', 0: 'all', home: 'all'
  };
  const actions = {
    in: function (at) { zoom(0.6, at); },
    out: function (at) { zoom(1 / 0.6, at); },
    left: function () { move(-0.2); },
    right: function () { move(0.2); },
    all: function () { show(0, full); },
    previous: function () { next(-1); },
    next: function () { next(1); }
  };
  document.querySelectorAll('#tools button').forEach(function (button) {
    button.addEventListener('click', function () { actions[button.dataset.action](); });
  });

  function choose() {
    const words = search.value.trim().toLowerCase();
    chosen = null;
    found.textContent = '';
    if (words) {
      chosen = new Uint8Array(data.tasks.length);
      choices = 0;
      data.tasks.forEach(function (name, task) {
        if (name.toLowerCase().includes(words)) { chosen[task] = 1; choices++; }
      });
      let runs = 0;
      lanes.forEach(function (lane) {
        for (let i = 0; i < lane.task.length; i++) runs += chosen[lane.task[i]];
      });
      found.textContent = choices + (choices === 1 ? ' task, ' : ' tasks, ') + runs + ' runs';
    }
    window.requestAnimationFrame(draw);
    listSoon();
  }
  search.addEventListener('input', choose);
  search.addEventListener('keydown', function (event) {
    if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
    if (event.key === 'Escape') { search.value = ''; choose(); search.blur(); }
  });

  // Shows the next run of a chosen task, or the one before.
  function next(way) {
    if (!chosen) { search.focus(); return; }
    const middle = (from + to) / 2;
    let best = null;
    lanes.forEach(function (lane) {
      // The runs of a lane are in order: the first one found from the middle on is the nearest.
      const last = way > 0 ? lane.task.length : -1;
      let i = Math.max(0, firstEndingAfter(lane.end, middle) - 1) + (way > 0 ? 0 : 1);
      for (i = Math.min(i, lane.task.length - 1); i !== last; i += way) {
        const at = (lane.start[i] + lane.end[i]) / 2;
        if (!chosen[lane.task[i]] || (at - middle) * way < 0.5) continue;
        if (!best || Math.abs(at - middle) < Math.abs(best.at - middle)) {
          best = { at: at, long: lane.end[i] - lane.start[i], lane: lane.name };
        }
        break;
      }
    });
    if (!best) { found.textContent = 'no further run'; return; }
    const width = Math.min(to - from, Math.max(best.long * 20, 1000));
    show(best.at - width / 2, best.at + width / 2);
    found.textContent = best.lane + ', ' + (best.at / 1e6).toFixed(6) + ' s';
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return {
      us: from + (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (to - from),
      row: Math.floor((event.clientY - box.top - AXIS) / LANE)
    };
  }

  // The wheel scrolls the page, as elsewhere; with Ctrl it zooms.
  canvas.addEventListener('wheel', function (event) {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      zoom(Math.exp(event.deltaY * 0.002), at(event).us);
    } else if (sideways && Math.abs(sideways) >= Math.abs(event.shiftKey ? event.deltaX : event.deltaY)) {
      move(sideways / 1000);
    } else {
      return;
    }
    event.preventDefault();
  }, { passive: false });
  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (event.key === '/') { search.focus(); event.preventDefault(); return; }
    if (event.key === 'Escape') { search.value = ''; choose(); return; }
    // Tables that are wider than the screen, and the page, have keys of their own.
    if (event.target.closest('.wide')) return;
    if (event.key === 'Home' && event.target !== canvas) return;
    const action = KEYS[event.key.toLowerCase()];
    const box = canvas.getBoundingClientRect();
    if (!action || box.bottom < 0 || box.top > window.innerHeight) return;
    actions[action](pointer === null ? undefined : pointer);
    event.preventDefault();
  });
  let held = null;
  canvas.addEventListener('pointerdown', function (event) {
    held = { us: at(event).us };
    canvas.setPointerCapture(event.pointerId);
  });
  ['pointerup', 'pointercancel'].forEach(function (name) {
    canvas.addEventListener(name, function () { held = null; });
  });
  canvas.addEventListener('pointerleave', function () { pointer = null; });
  canvas.addEventListener('pointermove', function (event) {
    const p = at(event);
    if (held) { const d = held.us - p.us; show(from + d, to + d); return; }
    pointer = p.us;
    let words = (Math.max(0, p.us) / 1e6).toFixed(6) + ' s';
    const lane = lanes[p.row];
    if (lane) {
      const i = firstEndingAfter(lane.end, p.us);
      if (i < lane.start.length && lane.start[i] <= p.us) {
        words += ': ' + data.tasks[lane.task[i]] + ', ' + length(lane.end[i] - lane.start[i]);
      }
    } else if (p.row === lanes.length) {
      const e = data.idle.find(function (e) { return e[0] <= p.us && p.us <= e[0] + e[1]; });
      if (e) words += ': idle ' + length(e[1]) + ', ' + data.causes[e[2]][0];
    }
    tip.textContent = words;
  });
  canvas.addEventListener('dblclick', actions.all);
  // Times in tables.
  document.querySelectorAll('button.at').forEach(function (button) {
    button.addEventListener('click', function () {
      const us = Number(button.dataset.us), long = Math.max(100, Number(button.dataset.length));
      show(us - long, us + 2 * long);
      canvas.scrollIntoView({ block: 'center' });
      canvas.focus({ preventScroll: true });
    });
  });
  function redraw() { readColours(); draw(); }
  new ResizeObserver(redraw).observe(canvas);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  redraw();
  list();
}());
