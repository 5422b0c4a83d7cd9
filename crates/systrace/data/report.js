'use strict';
// Timeline: one lane per CPU and one for idle episodes. The wheel zooms around
// the pointer, dragging moves the view, a double click shows all.
(function () {
  const data = JSON.parse(document.getElementById('timeline-data').textContent);
  const canvas = document.getElementById('timeline');
  const tip = document.getElementById('tip');
  const LANE = 26, LEFT = 64, AXIS = 22;
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
    return 'hsl(' + h + ' 55% 52%)';
  });
  const full = Math.max(1, data.span_us);
  let from = 0, to = full;

  function firstEndingAfter(ends, t) {
    let lo = 0, hi = ends.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (ends[mid] > t) hi = mid; else lo = mid + 1;
    }
    return lo;
  }

  function text(us) {
    if (Math.abs(to - from) < 5000) return us.toFixed(0) + ' µs';
    if (Math.abs(to - from) < 5e6) return (us / 1e3).toFixed(2) + ' ms';
    return (us / 1e6).toFixed(3) + ' s';
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const wide = canvas.clientWidth, high = AXIS + LANE * (lanes.length + 1);
    canvas.style.height = high + 'px';
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    const g = canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.clearRect(0, 0, wide, high);
    g.font = '11px system-ui, sans-serif';
    const room = wide - LEFT, scale = room / (to - from);
    g.fillStyle = '#5b6575';
    for (let i = 0; i <= 5; i++) {
      const t = from + (to - from) * i / 5;
      g.textAlign = i === 0 ? 'left' : i === 5 ? 'right' : 'center';
      g.fillText(text(t), LEFT + room * i / 5, 14);
    }
    lanes.forEach(function (lane, row) {
      const y = AXIS + row * LANE;
      g.textAlign = 'left';
      g.fillStyle = '#1d2430';
      g.fillText(lane.name, 4, y + 16);
      // Of several items within one pixel only the longest is drawn; its
      // height is the busy share of the pixel.
      let pixel = -1, best = 0, colour = '', busy = 0;
      function flush() {
        if (pixel < 0) return;
        const tall = Math.max(2, Math.min(1, busy) * (LANE - 6));
        g.fillStyle = colour;
        g.fillRect(LEFT + pixel, y + LANE - 4 - tall, 1, tall);
        pixel = -1;
      }
      for (let i = firstEndingAfter(lane.end, from); i < lane.start.length && lane.start[i] < to; i++) {
        const a = Math.max(0, (lane.start[i] - from) * scale);
        const b = Math.min(room, (lane.end[i] - from) * scale);
        const part = lane.share[i] / 255;
        if (b - a >= 1) {
          flush();
          const tall = Math.max(2, part * (LANE - 6));
          g.fillStyle = colours[lane.task[i]];
          g.fillRect(LEFT + a, y + LANE - 4 - tall, b - a, tall);
          if (b - a > 60) {
            g.fillStyle = '#fff';
            g.fillText(data.tasks[lane.task[i]].slice(0, Math.floor((b - a) / 7)), LEFT + a + 3, y + 16);
          }
          continue;
        }
        const p = Math.floor(a);
        if (p !== pixel) { flush(); pixel = p; best = 0; busy = 0; }
        busy += (b - a) * part;
        if (b - a >= best) { best = b - a; colour = colours[lane.task[i]]; }
      }
      flush();
    });
    const y = AXIS + lanes.length * LANE;
    g.textAlign = 'left';
    g.fillStyle = '#1d2430';
    g.fillText('idle', 4, y + 16);
    data.idle.forEach(function (e) {
      if (e[0] + e[1] < from || e[0] > to) return;
      const a = Math.max(0, (e[0] - from) * scale), b = Math.min(room, (e[0] + e[1] - from) * scale);
      g.fillStyle = data.causes[e[2]] && data.causes[e[2]][1] ? '#c02b3c' : '#c3cad5';
      g.fillRect(LEFT + a, y + 4, Math.max(1, b - a), LANE - 8);
    });
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return {
      us: from + (event.clientX - box.left - LEFT) / (box.width - LEFT) * (to - from),
      row: Math.floor((event.clientY - box.top - AXIS) / LANE)
    };
  }

  function show(a, b) {
    const width = Math.min(full, Math.max(1, b - a));
    from = Math.min(Math.max(0, a), full - width);
    to = from + width;
    window.requestAnimationFrame(draw);
  }

  canvas.addEventListener('wheel', function (event) {
    event.preventDefault();
    const p = at(event), factor = Math.exp(event.deltaY * 0.002);
    show(p.us - (p.us - from) * factor, p.us + (to - p.us) * factor);
  }, { passive: false });
  let held = null;
  canvas.addEventListener('pointerdown', function (event) {
    held = { us: at(event).us };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointerup', function () { held = null; });
  canvas.addEventListener('pointermove', function (event) {
    const p = at(event);
    if (held) { const d = held.us - p.us; show(from + d, to + d); return; }
    let words = text(p.us);
    const lane = lanes[p.row];
    if (lane) {
      const i = firstEndingAfter(lane.end, p.us);
      if (i < lane.start.length && lane.start[i] <= p.us) {
        words += ': ' + data.tasks[lane.task[i]] + ', ' + text(lane.end[i] - lane.start[i]);
      }
    } else if (p.row === lanes.length) {
      const e = data.idle.find(function (e) { return e[0] <= p.us && p.us <= e[0] + e[1]; });
      if (e) words += ': idle ' + text(e[1]) + ', ' + data.causes[e[2]][0];
    }
    tip.textContent = words;
  });
  canvas.addEventListener('dblclick', function () { show(0, full); });
  window.addEventListener('resize', draw);
  draw();
}());
