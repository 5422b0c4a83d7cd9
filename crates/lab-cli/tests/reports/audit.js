'use strict';
// Faults of the page that a reader would see, as a list of sentences. `Page::run_first` puts this
// into every page.
(function () {
  const SLACK = 1;
  const short = text => text.trim().replace(/\s+/g, ' ').slice(0, 60);
  const lies = (inner, outer) => inner.left >= outer.left - SLACK && inner.right <= outer.right + SLACK
    && inner.top >= outer.top - SLACK && inner.bottom <= outer.bottom + SLACK;
  const shown = element => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && element.getClientRects().length > 0;

  // WCAG 2.1: relative luminance and contrast.
  const channels = colour => (colour.match(/[\d.]+/g) || []).map(Number);
  function luminance(colour) {
    const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
    const [r, g, b] = channels(colour).map(part);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(a, b) {
    const [x, y] = [luminance(a), luminance(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  }
  const isClear = colour => channels(colour).length === 4 && channels(colour)[3] === 0;
  function ground(element) {
    for (let e = element; e; e = e.parentElement) {
      if (e.tagName === 'svg') {
        const paper = e.querySelector(':scope > rect');
        return paper ? getComputedStyle(paper).fill : 'rgb(255, 255, 255)';
      }
      const colour = getComputedStyle(e).backgroundColor;
      if (!isClear(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  }

  // Labels on a canvas, with what was below them.
  const labels = new Map();
  const prototype = CanvasRenderingContext2D.prototype;
  const open = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind) {
    return open.call(this, kind, { willReadFrequently: true });
  };
  const write = prototype.fillText;
  prototype.fillText = function (text, x, y) {
    const ratio = this.getTransform().a, box = this.measureText(text);
    const left = x - box.actualBoundingBoxLeft, right = x + box.actualBoundingBoxRight;
    const top = y - box.actualBoundingBoxAscent, bottom = y + box.actualBoundingBoxDescent;
    // Left of the text, where nothing of it is drawn.
    const below = this.getImageData((left - 1) * ratio, (top + bottom) / 2 * ratio, 1, 1).data;
    const list = labels.get(this.canvas) || [];
    list.push({ text, left, right, top, bottom, colour: this.fillStyle, below: Array.from(below) });
    labels.set(this.canvas, list);
    write.apply(this, arguments);
  };
  const clear = prototype.clearRect;
  prototype.clearRect = function () {
    labels.set(this.canvas, []);
    clear.apply(this, arguments);
  };
  function rgb(fill) {
    const number = parseInt(fill.slice(1), 16);
    return `rgb(${number >> 16}, ${number >> 8 & 255}, ${number & 255})`;
  }

  function canvases(faults) {
    document.querySelectorAll('canvas').forEach(canvas => {
      const list = labels.get(canvas) || [];
      if (list.length < 3) faults.push('a canvas without labels');
      for (const label of list) {
        const { text, left, right, top, bottom, colour, below } = label;
        const outer = { left: 0, top: 0, right: canvas.clientWidth, bottom: canvas.clientHeight };
        if (!lies(label, outer)) faults.push(`clipped on the canvas: "${text}"`);
        const behind = below[3] === 0 ? ground(canvas) : `rgb(${below.slice(0, 3)})`;
        const ratio = contrast(rgb(colour), behind);
        if (ratio < 4.5) {
          faults.push(`contrast ${ratio.toFixed(1)} on the canvas: "${text}", ${rgb(colour)} on ${behind}`);
        }
        for (const other of list) {
          if (other !== label && left < other.right && other.left < right
            && top < other.bottom && other.top < bottom) {
            faults.push(`overlap on the canvas: "${text}" and "${other.text}"`);
          }
        }
      }
    });
  }

  function pictures(faults) {
    document.querySelectorAll('svg').forEach(svg => {
      const title = svg.querySelector('title');
      const name = title ? short(title.textContent) : '';
      const outer = svg.getBoundingClientRect();
      const texts = Array.from(svg.querySelectorAll('text'));
      const boxes = texts.map(text => text.getBoundingClientRect());
      texts.forEach((text, i) => {
        if (!lies(boxes[i], outer)) faults.push(`clipped in "${name}": "${short(text.textContent)}"`);
        const size = parseFloat(getComputedStyle(text).fontSize) * outer.width / svg.viewBox.baseVal.width;
        if (size < 8.9) faults.push(`${size.toFixed(1)} px in "${name}": "${short(text.textContent)}"`);
      });
      const level = text => !text.hasAttribute('transform');
      for (let i = 0; i < texts.length; i++) {
        for (let j = 0; j < i; j++) {
          const [a, b] = [boxes[i], boxes[j]];
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          // Lines of one heading may touch.
          if (wide > SLACK && high > 3 && level(texts[i]) && level(texts[j])) {
            faults.push(`overlap in "${name}": "${short(texts[i].textContent)}" and "${short(texts[j].textContent)}"`);
          }
        }
      }
      if (texts.length === 0) faults.push(`no text in "${name}"`);
      if (!name.includes(' ') || name.length < 12) faults.push(`not a sentence: "${name}"`);
      const written = texts.filter(text => parseFloat(getComputedStyle(text).fontWeight) >= 600);
      const heading = short(written.map(text => text.textContent).join(' '));
      if (svg === document.documentElement && heading === '') faults.push(`no heading in "${name}"`);
      const ticks = texts.filter(text => /^-?\d+(\.\d+)?( [^ ]+)?$/.test(text.textContent));
      if (ticks.length < 2) faults.push(`no ticks in "${name}"`);
      const grid = Array.from(svg.querySelectorAll('line[stroke="#dddddd"]'));
      const number = (line, name) => Number(line.getAttribute(name));
      const upright = new Set(grid.filter(l => number(l, 'x1') === number(l, 'x2')).map(l => number(l, 'x1')));
      svg.querySelectorAll('line[stroke="#333333"]').forEach(mark => {
        const isMark = number(mark, 'y2') - number(mark, 'y1') === 4;
        if (isMark && !upright.has(number(mark, 'x1'))) faults.push(`a tick without a grid line in "${name}"`);
      });
      if (grid.length < 2) faults.push(`no grid in "${name}"`);
      // A name that is cut is a tooltip in full.
      texts.filter(text => text.textContent.includes('…')).forEach(text => {
        const whole = text.parentElement.querySelector(':scope > title');
        if (!whole || whole.parentElement === svg) faults.push(`cut without a title in "${name}": "${short(text.textContent)}"`);
      });
      const drawn = svg.querySelectorAll('path, rect, circle');
      if (drawn.length < 2) faults.push(`nothing drawn in "${name}"`);
    });
  }

  function words(faults) {
    const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      const element = node.parentElement;
      if (!node.textContent.trim() || !shown(element) || /^(SCRIPT|STYLE|title)$/i.test(element.tagName)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const { left, right } = range.getBoundingClientRect();
      if (!element.closest('.wide, .chart, svg') && (left < 0 || right > window.innerWidth)) {
        faults.push(`beyond the window: "${short(node.textContent)}"`);
      }
      const style = getComputedStyle(element);
      const colour = element.ownerSVGElement ? style.fill : style.color;
      const ratio = contrast(colour, ground(element));
      if (ratio < 4.5) {
        faults.push(`contrast ${ratio.toFixed(1)}: "${short(node.textContent)}", ${colour} on ${ground(element)}`);
      }
    }
    document.querySelectorAll('input').forEach(input => {
      const colour = getComputedStyle(input, '::placeholder').color;
      const ratio = contrast(colour, ground(input));
      if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(1)}: "${input.placeholder}"`);
    });
    // Text that is cut has the whole text in its title.
    document.querySelectorAll('body *').forEach(element => {
      const style = getComputedStyle(element);
      const cuts = style.overflowX === 'hidden' || style.overflowX === 'clip';
      if (cuts && element.scrollWidth > element.clientWidth + SLACK
        && !element.title.includes(element.textContent.trim())) {
        faults.push(`cut without a title: "${short(element.textContent)}"`);
      }
    });
  }

  function width(faults) {
    const page = document.documentElement;
    if (!document.body || page.scrollWidth <= window.innerWidth) return;
    const widest = Array.from(document.querySelectorAll('body *'))
      .filter(e => !e.closest('.wide, .chart') && e.getBoundingClientRect().right > window.innerWidth + SLACK);
    const which = widest.length ? `${widest[0].tagName} "${short(widest[0].textContent)}"` : '?';
    faults.push(`the page is ${page.scrollWidth} wide, the window ${window.innerWidth}: ${which}`);
  }

  window.audit = async function () {
    const frame = () => new Promise(done => requestAnimationFrame(done));
    await frame();
    await frame();
    const faults = [];
    width(faults);
    words(faults);
    pictures(faults);
    canvases(faults);
    return Array.from(new Set(faults));
  };
  window.labels = () => labels.get(document.querySelector('canvas'));
}());
