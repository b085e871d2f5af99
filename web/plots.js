"use strict";
// What the pages share: numbers as text, scales, and plots. Every plot is one SVG text, with the page's colors on the page
// and with those of paper in a file, so a saved plot equals the one shown.
const Plots = (() => {
  let title = "";  // of saved files
  const themes = {
    light: {
      page: "#ffffff", ink: "#17202b", quiet: "#5a6675", grid: "#e6eaef", axis: "#9aa5b1",
      colors: ["#1f5fd0", "#d9480f", "#0b8a6a", "#9333b8", "#b7791f", "#0e7c99", "#c2255c", "#5c6b7a"],
      slow: ["#4f86e8", "#8a78d8", "#b962b0", "#d94a6a", "#b81414"],
      exchanging: "#12a08c", waiting: "#f3b73e", stopped: "#dfe3e8",
    },
    dark: {
      page: "#171d25", ink: "#e7ecf2", quiet: "#9aa7b6", grid: "#27303a", axis: "#5d6a78",
      colors: ["#6ea8fe", "#ff8f5a", "#3fc8a0", "#cf8bec", "#e5b34a", "#4cc3e0", "#f7789f", "#a9b6c4"],
      slow: ["#4a7fdc", "#8f80e0", "#c873c0", "#ee6683", "#ff5a4f"],
      exchanging: "#2cc4ae", waiting: "#e0a52e", stopped: "#2d3641",
    },
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (dark.matches ? themes.dark : themes.light);
  const FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";

  // ---- text and numbers ----
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const digits = (x, n = 3) => {
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e6 || size < 1e-3) return x.toExponential(Math.max(0, n - 2)).replace("e+", "e").replace(/\.0+e/, "e");
    return String(Number(x.toPrecision(n)));
  };
  const scaled = (x, n = 3) => {
    for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
      if (Math.abs(x) >= size) return [digits(x / size, n), unit];
    return [digits(x, n), ""];
  };
  const count = (x) => scaled(x).join(" ").trim();
  const bytes = (x) => `${scaled(x).join(" ").trim()}B`.replace(/(\d)B/, "$1 B");
  const seconds = (x) => `${digits(x)} s`;
  const percent = (x) => `${Number((100 * x).toFixed(Math.abs(x) < 0.995 ? 1 : 2))} %`;
  const axes = {
    t: { key: "t", title: "time, seconds", tell: seconds, tick: digits },
    s: { key: "s", title: "samples, of all peers", tell: (x) => `${count(x)} samples`, tick: count },
    b: { key: "b", title: "bytes sent, by all peers", tell: bytes, tick: bytes },
  };

  // ---- scales ----
  const niceStep = (span, wanted) => {
    const raw = span / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    return power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999);
  };
  const linear = (low, high, from, to, wanted, stepOf = niceStep) => {
    if (!(high > low)) high = low + (Math.abs(low) || 1);
    const step = stepOf(high - low, wanted);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) ticks.push(Number((k * step).toPrecision(12)));
    return { at: (x) => from + ((x - low) / (high - low)) * (to - from), ticks, low, high };
  };
  const logarithmic = (low, high, from, to, most = 9) => {
    if (!(high > low)) { low /= 2; high *= 2; }
    const a = Math.log10(low), b = Math.log10(high);
    let ticks = [];
    for (const steps of [[1, 1.5, 2, 3, 4, 6, 8], [1, 2, 5], [1, 3], [1]]) {
      if (steps.length > (b - a > 4 ? 1 : b - a > 1.6 ? 2 : b - a > 0.7 ? 3 : 7)) continue;
      ticks = [];
      for (let k = Math.floor(a); k <= Math.ceil(b); ++k)
        for (const m of steps) { const x = m * 10 ** k; if (x >= low * 0.999 && x <= high * 1.001) ticks.push(Number(x.toPrecision(3))); }
      if (ticks.length <= most) break;
    }
    return { at: (x) => from + ((Math.log10(Math.max(x, low * 1e-3)) - a) / (b - a)) * (to - from), ticks, low, high };
  };

  // ---- SVG ----
  const num = (x) => (Math.round(x * 100) / 100).toString();
  const text = (x, y, words, o = {}) =>
    `<text x="${num(x)}" y="${num(y)}" fill="${o.fill}" font-size="${o.size || 12}"` +
    `${o.anchor ? ` text-anchor="${o.anchor}"` : ""}${o.weight ? ` font-weight="${o.weight}"` : ""}` +
    `${o.turn ? ` transform="rotate(-90 ${num(x)} ${num(y)})"` : ""}>${escape(words)}</text>`;
  const svg = (w, h, label, body, paper) =>
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img" ` +
    `aria-label="${escape(label)}" font-family="${FONT}">` +
    (paper ? `<rect width="${w}" height="${h}" fill="${paper}"/>` : "") + body + "</svg>";

  // The shape of a marker, by the number of a series: circle, square, triangle, diamond, triangle.
  const marker = (k, x, y, attributes, r = 4) => {
    if (k % 5 === 0) return `<circle cx="${num(x)}" cy="${num(y)}" r="${r}" ${attributes}/>`;
    const corners = [, [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]], [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]],
      [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]], [[0, 1.2], [1.1, -0.8], [-1.1, -0.8]]][k % 5];
    return `<path d="M${corners.map(([dx, dy]) => `${num(x + r * dx)} ${num(y + r * dy)}`).join("L")}Z" ${attributes}/>`;
  };
  const stroke = (s) => `stroke="${s.color}"${s.dash ? ` stroke-dasharray="${s.dash}"` : ""}`;
  // A sample of a series for legends.
  const sample = (s, c, x, y, wide) => `<line x1="${x}" x2="${x + wide}" y1="${y}" y2="${y}" stroke-width="2.5" ${stroke(s)}/>` +
    (s.mark === undefined ? "" : marker(s.mark, x + wide / 2, y, `fill="${c.page}" stroke="${s.color}" stroke-width="1.6"`, 3.4));
  // A legend on the page.
  const keys = (series, c) => `<ul class="keys">${series.map((s) =>
    `<li><svg width="30" height="12" viewBox="0 0 30 12" aria-hidden="true">${sample(s, c, 1, 6, 28)}</svg> ${escape(s.legend || s.name)}</li>`).join("")}</ul>`;
  // Markers at equal distances along a curve, at other places for each series.
  const along = (s, places, c) => {
    const MARKS = 4, steps = places.slice(1).map((p, k) => Math.hypot(p[0] - places[k][0], p[1] - places[k][1]));
    const length = steps.reduce((a, b) => a + b, 0), shift = 0.2 + 0.12 * (s.mark % 5);
    let out = "", gone = 0, drawn = 0;
    steps.forEach((step, k) => {
      for (let due; drawn < MARKS && step > 0 && gone + step >= (due = (length * (drawn + shift)) / MARKS); ++drawn) {
        const part = (due - gone) / step, [a, b] = [places[k], places[k + 1]];
        out += marker(s.mark, a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]), `fill="${c.page}" stroke="${s.color}" stroke-width="1.5"`, 3.4);
      }
      gone += step;
    });
    return out;
  };

  // A legend in rows that fit. Only files need it: the page has its own.
  const namesAbove = (series, w, c) => {
    let x = 14, y = 18, body = "";
    for (const s of series) {
      const wide = 40 + 6.4 * s.name.length;
      if (x > 14 && x + wide > w - 10) { x = 14; y += 18; }
      body += sample(s, c, x, y - 4, 26) + text(x + 32, y, s.name, { fill: c.ink, size: 12 });
      x += wide + 12;
    }
    return { body, height: y + 8 };
  };

  const heightAt = (w) => (w < 430 ? 250 : 290);
  // A message in a frame of the height of lines().
  const blank = (words, w, c) => svg(w, heightAt(w), words, text(w / 2, heightAt(w) / 2, words, { fill: c.quiet, size: 13.5, anchor: "middle" }));

  // Lines over a common axis, which begins at 0 unless it floats. spec: { label, x: axis, y: title, tick, series: [{ name, color, dash, mark, width, points,
  // band: [[x, low, high]] }], log, logX, zero, bars, categories }. With `marks`, points have their own marks and error bars.
  const lines = (spec, w, c, forFile) => {
    const h = heightAt(w);
    const named = forFile && spec.series.length > 1 ? namesAbove(spec.series, w, c) : { body: "", height: 0 };
    const left = 66, right = 16, top = 12 + named.height, bottom = 44, full = h + named.height;
    const all = spec.series.flatMap((s) => (s.end ? [...s.points, s.end] : s.points));
    const xs = all.map((p) => p[0]).filter((x) => !spec.logX || x > 0);
    const bands = spec.series.flatMap((s) => s.band || []).flatMap((p) => [p[1], p[2]]);
    const ys = all.flatMap((p) => (p[2] === undefined ? [p[1]] : [p[1], p[2], p[3]])).concat(bands).filter((y) => !spec.log || y > 0);
    let low = Math.min(...ys), high = Math.max(...ys);
    if (spec.zero && low > 0) low = 0;
    if (!(high > low)) { const room = Math.abs(low) * 0.1 || 1; low -= room; high += room; }
    const pad = (high - low) * 0.05;
    const yAxis = spec.log ? logarithmic(low * 0.85, high * 1.18, full - bottom, top)
      : linear(spec.zero && low === 0 ? 0 : low - pad, Math.min(high + pad, spec.most ?? Infinity), full - bottom, top, 5);
    const least = Math.min(...xs, ...(spec.x.floats || spec.logX ? [] : [0])), most = Math.max(...xs);
    const roomX = spec.logX ? (most / least) ** 0.05 : (most - least) * 0.05;  // for marks at both ends
    const xAxis = spec.categories
      ? { at: (k) => left + ((k + 0.5) / spec.categories.length) * (w - left - right), ticks: spec.categories.map((_, k) => k) }
      : spec.logX ? logarithmic(least / (spec.marks ? roomX : 1), most * (spec.marks ? roomX : 1), left, w - right, w < 430 ? 5 : 8)
        : linear(least - (spec.marks ? roomX : 0), most + (spec.marks ? roomX : 0), left, w - right, w < 430 ? 4 : 6, spec.x.step);
    let body = named.body;
    for (const y of yAxis.ticks) {
      const at = yAxis.at(y);
      if (at < top - 1 || at > full - bottom + 1) continue;
      body += `<line x1="${left}" x2="${w - right}" y1="${num(at)}" y2="${num(at)}" stroke="${c.grid}"/>` +
        text(left - 6, at + 4, spec.tick(y), { fill: c.quiet, anchor: "end" });
    }
    for (const x of xAxis.ticks)
      body += text(xAxis.at(x), full - bottom + 18, spec.categories ? spec.categories[x] : spec.x.tick(x), { fill: c.quiet, anchor: "middle" });
    body += `<line x1="${left}" x2="${w - right}" y1="${full - bottom}" y2="${full - bottom}" stroke="${c.axis}"/>`;
    body += text((left + w - right) / 2, full - 8, spec.x.title, { fill: c.quiet, anchor: "middle" });
    body += text(11, (top + full - bottom) / 2, spec.y, { fill: c.quiet, anchor: "middle", turn: true });
    if (spec.rule !== undefined && spec.rule >= yAxis.low && spec.rule <= yAxis.high)
      body += `<line x1="${left}" x2="${w - right}" y1="${num(yAxis.at(spec.rule))}" y2="${num(yAxis.at(spec.rule))}" stroke="${c.quiet}" stroke-dasharray="2 4"/>` +
        text(w - right - 4, yAxis.at(spec.rule) + 14, spec.ruleName, { fill: c.quiet, size: 11.5, anchor: "end" });
    const groups = spec.series.length;
    const place = (x, y) => [xAxis.at(x), Math.max(top, Math.min(full - bottom, yAxis.at(y)))];
    for (const s of spec.series.filter((it) => (it.band || []).length > 1)) {
      const edge = (side) => s.band.filter((p) => !spec.logX || p[0] > 0).map((p) => place(p[0], p[side]).map(num).join(" "));
      body += `<path class="band" d="M${edge(1).join("L")}L${edge(2).reverse().join("L")}Z" fill="${s.color}" opacity=".16"/>`;
    }
    spec.series.forEach((s, k) => {
      if (spec.bars) {
        const room = (w - left - right) / spec.categories.length, wide = Math.min(46, (room * 0.78) / groups);
        const d = s.points.map(([x, y]) => {
          const at = xAxis.at(x) + (k - (groups - 1) / 2) * wide;
          return `M${num(at - wide * 0.46)} ${num(full - bottom)}V${num(yAxis.at(y))}H${num(at + wide * 0.46)}V${num(full - bottom)}Z`;
        }).join("");
        body += `<path class="series" data-name="${escape(s.name)}" d="${d}" fill="${s.color}"/>`;
        return;
      }
      if (spec.marks && !spec.joined) s = { ...s, points: s.points.map(([x, ...rest]) => [x + (k - (groups - 1) / 2) * Math.min(0.12, 0.6 / groups), ...rest]) };
      let pen = false;
      const d = s.points.map(([x, y]) => {
        if ((spec.log && !(y > 0)) || (spec.logX && !(x > 0))) { pen = false; return ""; }
        const move = pen && (!spec.marks || spec.joined) ? "L" : "M";
        pen = true;
        return `${move}${num(xAxis.at(x))} ${num(yAxis.at(y))}`;
      }).join("");
      body += `<path class="series" data-name="${escape(s.name)}" d="${d}" fill="none" stroke="${s.color}" stroke-width="${s.width || 2}" ` +
        `stroke-linejoin="round"${s.dash ? "" : ` stroke-linecap="round"`}${s.dash ? ` stroke-dasharray="${s.dash}"` : ""}${s.faint ? ` opacity=".45"` : ""}/>`;
      if (s.mark !== undefined && !spec.marks) body += along(s, s.points.filter((p) => (!spec.log || p[1] > 0) && (!spec.logX || p[0] > 0)).map((p) => [xAxis.at(p[0]), yAxis.at(p[1])]), c);
      if (s.end) body += `<circle cx="${num(xAxis.at(s.end[0]))}" cy="${num(yAxis.at(s.end[1]))}" r="4" fill="${c.page}" stroke="${s.color}" stroke-width="2"/>`;
      for (const [x, y, from, to] of spec.marks || s.points.length === 1 ? s.points : []) {
        if (from !== undefined)
          body += `<path d="M${num(xAxis.at(x))} ${num(yAxis.at(from))}V${num(yAxis.at(to))}m-4 0h8M${num(xAxis.at(x) - 4)} ${num(yAxis.at(from))}h8" stroke="${s.color}" stroke-width="1.5" fill="none"/>`;
        body += marker(s.mark || 0, xAxis.at(x), yAxis.at(y), `fill="${s.color}"`);
      }
    });
    return { svg: svg(w, full, spec.label, body, forFile && c.page), xAxis, yAxis, left, right, top, bottom, w, h: full };
  };

  // ---- plots: a title, buttons, the picture, a caption ----
  const save = (name, type, content) => {
    const link = document.createElement("a");
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 20000);
  };
  const fileName = (what) => `${title}-${what}`.replace(/[^A-Za-z0-9._-]+/g, "-");
  const savePng = (name, source) => {
    const picture = new Image();
    picture.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = picture.width * 2;
      canvas.height = picture.height * 2;
      const pen = canvas.getContext("2d");
      pen.fillStyle = "#ffffff";
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(name, "image/png", blob));
    };
    picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(source);
  };

  class Plot {
    // make() returns { draw(width, colors, forFile) -> svg text or { svg, ... }, caption, series, x, tell } or null, or { empty: why }.
    // With `blank` the frame keeps the height of a plot, so that the page does not move when data arrives.
    constructor(id, title, make, above) {
      this.place = typeof id === "string" ? document.getElementById(id) : id;
      this.title = title;
      this.make = make;
      this.above = above;
      this.name = this.place.id.replace("plot-", "");
    }
    draw() {
      const spec = this.make();
      if (!spec) { this.place.replaceChildren(); return; }
      if (spec.empty) {
        this.place.innerHTML = `<div class="bar"><h3>${escape(this.title)}</h3></div><figcaption>${escape(spec.empty)}</figcaption>`;
        return;
      }
      this.spec = spec;
      if (!this.box || !this.box.isConnected) this.build();
      const w = Math.max(280, Math.floor(this.width || this.box.clientWidth));
      if (this.above) this.head.innerHTML = this.above(theme(), spec);
      const drawn = spec.blank ? blank(spec.blank, w, theme()) : spec.draw(w, theme(), false);
      this.picture.innerHTML = drawn.svg || drawn;
      if (this.captioned !== spec.caption) this.caption.innerHTML = this.captioned = spec.caption || "";
      this.caption.hidden = !spec.caption;
      this.saves.hidden = Boolean(spec.blank);
      this.listen(drawn.xAxis && !spec.bars && !spec.marks ? drawn : null);
    }
    // Reads the width. Frequent drawing reads the widths of all plots before it writes: alternating is expensive.
    measure() {
      this.width = this.box && this.box.isConnected ? this.box.clientWidth : 0;
    }
    build() {
      this.place.innerHTML = `<div class="bar"><h3>${escape(this.title)}</h3><span class="saves"></span></div><div class="above"></div>` +
        `<div class="plot"><div class="picture"></div><div class="tip" aria-live="polite" hidden></div></div><figcaption></figcaption>`;
      this.box = this.place.querySelector(".plot");
      this.picture = this.place.querySelector(".picture");
      this.tip = this.place.querySelector(".tip");
      this.head = this.place.querySelector(".above");
      this.caption = this.place.querySelector("figcaption");
      this.captioned = undefined;
      this.saves = this.place.querySelector(".saves");
      const button = (kind, act) => {
        const b = document.createElement("button");
        b.type = "button";
        b.textContent = kind;
        b.dataset.kind = kind;
        b.setAttribute("aria-label", `Save “${this.title}” as ${kind}`);
        b.onclick = act;
        this.saves.append(b);
      };
      const file = () => { const drawn = this.spec.draw(720, themes.light, true); return drawn.svg || drawn; };
      button("SVG", () => save(fileName(this.name) + ".svg", "image/svg+xml", '<?xml version="1.0" encoding="UTF-8"?>\n' + file() + "\n"));
      button("PNG", () => savePng(fileName(this.name) + ".png", file()));
    }
    // A hair line that shows values: it follows the mouse, a finger or the arrow keys, and stays when the plot is redrawn.
    listen(drawn) {
      this.drawn = drawn;
      const box = this.box;
      if (!drawn) { this.hide(); box.removeAttribute("tabindex"); box.onpointermove = box.onpointerdown = box.onkeydown = null; return; }
      this.places = [...new Set(this.spec.series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
      this.hair = document.createElementNS("http://www.w3.org/2000/svg", "g");
      this.picture.querySelector("svg").append(this.hair);
      if (!this.tip.hidden) this.show(this.at === undefined ? this.index : this.nearest(this.at));
      if (box.tabIndex === 0) return;
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${this.title}: left and right arrow keys tell values`);
      box.onpointermove = box.onpointerdown = (event) => {
        const { w, left, right } = this.drawn, frame = this.picture.getBoundingClientRect();
        const x = ((event.clientX - frame.left) / frame.width) * w;
        if (x < left - 10 || x > w - right + 10) return this.hide();
        this.at = x;
        this.show(this.nearest(x));
      };
      box.onpointerleave = box.onblur = () => this.hide();
      box.onkeydown = (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
        if (step === undefined) { if (event.key === "Escape") this.hide(); return; }
        event.preventDefault();
        this.at = undefined;
        this.show((this.index ?? -1) + step);
      };
    }
    nearest(x) {
      const { xAxis } = this.drawn;
      let best = 0;
      this.places.forEach((p, k) => { if (Math.abs(xAxis.at(p) - x) < Math.abs(xAxis.at(this.places[best]) - x)) best = k; });
      return best;
    }
    hide() {
      if (this.tip.hidden) return;
      this.tip.hidden = true;
      if (this.hair) this.hair.innerHTML = "";
    }
    show(k) {
      const { xAxis, yAxis, top, bottom, w, h } = this.drawn, { box, tip } = this, { series, x: axis, log, tell } = this.spec;
      this.index = Math.max(0, Math.min(this.places.length - 1, k));
      const x = this.places[this.index];
      let dots = "", words = `<b>${escape(axis.tell(x))}</b>`;
      for (const s of series) {
        let best = null;
        for (const p of s.points) if (best === null || Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p;
        if (!best || !(Math.abs(xAxis.at(best[0]) - xAxis.at(x)) < 0.05 * w)) continue;
        if (log && !(best[1] > 0)) continue;
        dots += `<circle cx="${num(xAxis.at(best[0]))}" cy="${num(yAxis.at(best[1]))}" r="3.5" fill="${s.color}"/>`;
        if (series.length <= 12) words += `<br><i style="background:${s.color}"></i>${escape(s.name)} ${escape(tell(best[1]))}`;
      }
      const at = xAxis.at(x);
      this.hair.innerHTML = `<line x1="${num(at)}" x2="${num(at)}" y1="${top}" y2="${h - bottom}" stroke="${theme().axis}" stroke-dasharray="3 3"/>${dots}`;
      if (this.words !== words) tip.innerHTML = this.words = words;  // screen readers announce each change
      tip.hidden = false;
      const px = (at / w) * box.clientWidth;
      const flips = px > box.clientWidth / 2;
      tip.style.left = flips ? "auto" : `${px + 12}px`;
      tip.style.right = flips ? `${box.clientWidth - px + 12}px` : "auto";
    }
  }

  return { FONT, Plot, niceStep, axes, bytes, count, dark, digits, escape, keys, lines, logarithmic, linear, num, percent, sample, save, fileName, scaled, seconds, svg,
    text, theme, themes, titled: (words) => { title = words; } };
})();
