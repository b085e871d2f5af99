"use strict";
// Draws the plots of a report from the data that stands in the page. Every plot is made as one SVG text, on the
// page in the page's colors and in a file in those of paper, so what is saved is what is seen.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
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
  const SLOW_FROM = [1, 1.25, 1.75, 3, 6];  // by how much, for each of the colors

  // ---- words and numbers ----
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
  const linear = (low, high, from, to, wanted) => {
    if (!(high > low)) high = low + (Math.abs(low) || 1);
    const step = niceStep(high - low, wanted);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) ticks.push(Number((k * step).toPrecision(12)));
    return { at: (x) => from + ((x - low) / (high - low)) * (to - from), ticks, low, high };
  };
  const logarithmic = (low, high, from, to) => {
    if (!(high > low)) { low /= 2; high *= 2; }
    const a = Math.log10(low), b = Math.log10(high);
    const ticks = [];
    const steps = b - a > 4 ? [1] : b - a > 1.6 ? [1, 3] : [1, 2, 5];
    for (let k = Math.floor(a); k <= Math.ceil(b); ++k)
      for (const m of steps) { const x = m * 10 ** k; if (x >= low * 0.999 && x <= high * 1.001) ticks.push(Number(x.toPrecision(3))); }
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

  // Names of what is drawn, in rows that fit; for files alone, as the page has its own.
  const namesAbove = (series, w, c) => {
    let x = 14, y = 18, body = "";
    for (const s of series) {
      const wide = 34 + 6.4 * s.name.length;
      if (x > 14 && x + wide > w - 10) { x = 14; y += 18; }
      body += `<line x1="${x}" x2="${x + 20}" y1="${y - 4}" y2="${y - 4}" stroke="${s.color}" stroke-width="2.5"` +
        `${s.dash ? ` stroke-dasharray="${s.dash}"` : ""}/>` + text(x + 26, y, s.name, { fill: c.ink, size: 12 });
      x += wide + 12;
    }
    return { body, height: y + 8 };
  };

  // Lines over a common axis. spec: { label, x: axis, y: title, tick, series: [{ name, color, dash, width, points }], log,
  // zero, bars, categories }
  const lines = (spec, w, c, forFile) => {
    const h = w < 430 ? 250 : 290;
    const named = forFile && spec.series.length > 1 ? namesAbove(spec.series, w, c) : { body: "", height: 0 };
    const left = 66, right = 16, top = 12 + named.height, bottom = 44, full = h + named.height;
    const all = spec.series.flatMap((s) => (s.end ? [...s.points, s.end] : s.points));
    const xs = all.map((p) => p[0]);
    const ys = all.flatMap((p) => (p[2] === undefined ? [p[1]] : [p[1], p[2], p[3]])).filter((y) => !spec.log || y > 0);
    let low = Math.min(...ys), high = Math.max(...ys);
    if (spec.zero && low > 0) low = 0;
    if (!(high > low)) { const room = Math.abs(low) * 0.1 || 1; low -= room; high += room; }
    const pad = (high - low) * 0.05;
    const yAxis = spec.log ? logarithmic(low * 0.85, high * 1.18, full - bottom, top)
      : linear(spec.zero && low === 0 ? 0 : low - pad, Math.min(high + pad, spec.most ?? Infinity), full - bottom, top, 5);
    const xAxis = spec.categories
      ? { at: (k) => left + ((k + 0.5) / spec.categories.length) * (w - left - right), ticks: spec.categories.map((_, k) => k) }
      : linear(Math.min(0, ...xs), Math.max(...xs), left, w - right, w < 430 ? 4 : 6);
    let body = named.body;
    for (const y of yAxis.ticks) {
      const at = yAxis.at(y);
      if (at < top - 1 || at > full - bottom + 1) continue;
      body += `<line x1="${left}" x2="${w - right}" y1="${num(at)}" y2="${num(at)}" stroke="${c.grid}"/>` +
        text(left - 8, at + 4, spec.tick(y), { fill: c.quiet, anchor: "end" });
    }
    for (const x of xAxis.ticks)
      body += text(xAxis.at(x), full - bottom + 18, spec.categories ? spec.categories[x] : spec.x.tick(x), { fill: c.quiet, anchor: "middle" });
    body += `<line x1="${left}" x2="${w - right}" y1="${full - bottom}" y2="${full - bottom}" stroke="${c.axis}"/>`;
    body += text((left + w - right) / 2, full - 8, spec.x.title, { fill: c.quiet, anchor: "middle" });
    body += text(15, (top + full - bottom) / 2, spec.y, { fill: c.quiet, anchor: "middle", turn: true });
    if (spec.rule !== undefined && spec.rule >= yAxis.low && spec.rule <= yAxis.high)
      body += `<line x1="${left}" x2="${w - right}" y1="${num(yAxis.at(spec.rule))}" y2="${num(yAxis.at(spec.rule))}" stroke="${c.quiet}" stroke-dasharray="2 4"/>` +
        text(w - right - 4, yAxis.at(spec.rule) + 14, spec.ruleName, { fill: c.quiet, size: 11.5, anchor: "end" });
    const groups = spec.series.length;
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
        if (spec.log && !(y > 0)) { pen = false; return ""; }
        const move = pen && (!spec.marks || spec.joined) ? "L" : "M";
        pen = true;
        return `${move}${num(xAxis.at(x))} ${num(yAxis.at(y))}`;
      }).join("");
      body += `<path class="series" data-name="${escape(s.name)}" d="${d}" fill="none" stroke="${s.color}" stroke-width="${s.width || 2}" ` +
        `stroke-linejoin="round" stroke-linecap="round"${s.dash ? ` stroke-dasharray="${s.dash}"` : ""}${s.faint ? ` opacity=".45"` : ""}/>`;
      if (s.end) body += `<circle cx="${num(xAxis.at(s.end[0]))}" cy="${num(yAxis.at(s.end[1]))}" r="4" fill="${c.page}" stroke="${s.color}" stroke-width="2"/>`;
      for (const [x, y, from, to] of spec.marks || s.points.length === 1 ? s.points : []) {
        if (from !== undefined)
          body += `<path d="M${num(xAxis.at(x))} ${num(yAxis.at(from))}V${num(yAxis.at(to))}m-4 0h8M${num(xAxis.at(x) - 4)} ${num(yAxis.at(from))}h8" stroke="${s.color}" stroke-width="1.5" fill="none"/>`;
        body += `<circle cx="${num(xAxis.at(x))}" cy="${num(yAxis.at(y))}" r="4" fill="${s.color}"/>`;
      }
    });
    return { svg: svg(w, full, spec.label, body, forFile && c.page), xAxis, yAxis, left, right, top, bottom, w, h: full };
  };

  // ---- plots: a title, buttons, the picture, what is below it ----
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
  const fileName = (what) => `${data.title}-${what}`.replace(/[^A-Za-z0-9._-]+/g, "-");
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
    // make() returns { draw(width, colors, forFile) -> svg text or { svg, ... }, caption, rows } or null
    constructor(id, title, make, above) {
      this.place = typeof id === "string" ? $(id) : id;
      this.title = title;
      this.make = make;
      this.above = above;
      this.name = (typeof id === "string" ? id : id.id).replace("plot-", "");
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
      const w = Math.max(280, Math.floor(this.box.clientWidth));
      if (this.above) this.head.innerHTML = this.above(theme());
      const drawn = spec.draw(w, theme(), false);
      this.box.innerHTML = drawn.svg || drawn;
      this.caption.innerHTML = spec.caption || "";
      this.caption.hidden = !spec.caption;
      if (drawn.xAxis) this.listen(drawn);
    }
    build() {
      this.place.innerHTML = `<div class="bar"><h3>${escape(this.title)}</h3><span class="saves"></span></div><div class="above"></div>` +
        `<div class="plot"></div><figcaption></figcaption>`;
      this.box = this.place.querySelector(".plot");
      this.head = this.place.querySelector(".above");
      this.caption = this.place.querySelector("figcaption");
      const saves = this.place.querySelector(".saves");
      const button = (kind, act) => {
        const b = document.createElement("button");
        b.type = "button";
        b.textContent = kind;
        b.dataset.kind = kind;
        b.setAttribute("aria-label", `Save “${this.title}” as ${kind}`);
        b.onclick = act;
        saves.append(b);
      };
      const file = () => { const drawn = this.spec.draw(720, themes.light, true); return drawn.svg || drawn; };
      button("SVG", () => save(fileName(this.name) + ".svg", "image/svg+xml", '<?xml version="1.0" encoding="UTF-8"?>\n' + file() + "\n"));
      button("PNG", () => savePng(fileName(this.name) + ".png", file()));
    }
    // A hair line that tells values: after the mouse or a finger, or with the arrow keys.
    listen(drawn) {
      const { xAxis, yAxis, left, right, top, bottom, w, h } = drawn;
      const series = this.spec.series;
      if (this.spec.bars || this.spec.marks) return;
      const box = this.box, picture = box.querySelector("svg");
      const hair = document.createElementNS("http://www.w3.org/2000/svg", "g");
      picture.append(hair);
      const tip = document.createElement("div");
      tip.className = "tip";
      tip.hidden = true;
      tip.setAttribute("aria-live", "polite");
      box.append(tip);
      const places = [...new Set(series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
      let index = -1;
      const hide = () => { tip.hidden = true; hair.innerHTML = ""; };
      const show = (k) => {
        index = Math.max(0, Math.min(places.length - 1, k));
        const x = places[index];
        let dots = "", words = `<b>${escape(this.spec.x.tell(x))}</b>`;
        for (const s of series) {
          let best = null;
          for (const p of s.points) if (best === null || Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p;
          if (!best || best[0] < x - (xAxis.high - xAxis.low) * 0.05 || best[0] > x + (xAxis.high - xAxis.low) * 0.05) continue;
          if (this.spec.log && !(best[1] > 0)) continue;
          dots += `<circle cx="${num(xAxis.at(best[0]))}" cy="${num(yAxis.at(best[1]))}" r="3.5" fill="${s.color}"/>`;
          if (series.length <= 12) words += `<br><i style="background:${s.color}"></i>${escape(s.name)} ${escape(this.spec.tell(best[1]))}`;
        }
        const at = xAxis.at(x);
        hair.innerHTML = `<line x1="${num(at)}" x2="${num(at)}" y1="${top}" y2="${h - bottom}" stroke="${theme().axis}" stroke-dasharray="3 3"/>${dots}`;
        tip.innerHTML = words;
        tip.hidden = false;
        const px = (at / w) * box.clientWidth;
        const flips = px > box.clientWidth / 2;
        tip.style.left = flips ? "auto" : `${px + 12}px`;
        tip.style.right = flips ? `${box.clientWidth - px + 12}px` : "auto";
      };
      const nearest = (event) => {
        const frame = picture.getBoundingClientRect();
        const x = ((event.clientX - frame.left) / frame.width) * w;
        if (x < left - 10 || x > w - right + 10) return hide();
        let best = 0;
        places.forEach((p, k) => { if (Math.abs(xAxis.at(p) - x) < Math.abs(xAxis.at(places[best]) - x)) best = k; });
        show(best);
      };
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${this.title}: left and right arrow keys tell values`);
      box.onpointermove = nearest;
      box.onpointerdown = nearest;
      box.onpointerleave = hide;
      box.onblur = hide;
      box.onkeydown = (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
        if (step === undefined) { if (event.key === "Escape") hide(); return; }
        event.preventDefault();
        show(index + step);
      };
    }
  }

  // ---- which runs are shown, in which colors ----
  const byGroup = data.groups.length > 1;
  const families = byGroup ? data.groups.map((g, k) => ({ name: g.label, runs: g.runs, k }))
    : data.runs.map((r, k) => ({ name: r.label, runs: [k], k }));
  const MANY = 16;
  const shown = families.map((_, k) => k < MANY);
  const dashes = ["", "7 4", "2 4", "9 3 2 3"];
  const colorOf = (k, c) => c.colors[k % c.colors.length];
  const dashOf = (k, c) => dashes[Math.floor(k / c.colors.length) % dashes.length];
  let axis = axes.t;
  const drawLegend = () => {
    const place = $("legend");
    if (families.length < 2) return;
    place.replaceChildren(...families.map((f) => {
      const label = document.createElement("label");
      const c = theme();
      label.innerHTML = `<input type="checkbox"${shown[f.k] ? " checked" : ""}>` +
        `<i style="border-color:${colorOf(f.k, c)};border-top-style:${["solid", "dashed", "dotted"][Math.floor(f.k / c.colors.length) % 3]}"></i><span>${escape(f.name)}</span>`;
      label.querySelector("input").onchange = (event) => { shown[f.k] = event.target.checked; drawCurves(); };
      return label;
    }));
  };
  // The points of a run in which both are known.
  const points = (run, key) => {
    const p = run.points, x = p[axis.key], y = p[key];
    const out = [];
    for (let k = 0; k < x.length; ++k) if (x[k] !== null && y[k] !== null) out.push([x[k], y[k]]);
    // The end is judged by other images than looks are: a mark of its own.
    const ends = p.ended && out.length > 1 && (key === "acc" || key === "loss");
    return { looks: ends ? out.slice(0, -1) : out, end: ends ? out[out.length - 1] : undefined };
  };
  const seriesOf = (key, c, look = {}) => {
    const out = [];
    for (const f of families) {
      if (!shown[f.k]) continue;
      f.runs.forEach((r, nth) => {
        const { looks: p, end } = points(data.runs[r], key);
        if (p.length === 0) return;
        const several = byGroup && f.runs.length > 1;
        out.push({ name: (several ? data.runs[r].label : f.name) + (look.suffix || ""), color: colorOf(f.k, c), dash: look.dash ?? dashOf(f.k, c),
          width: look.width || (several ? 1.4 : 2.2), faint: several && nth > 0, points: p, end });
      });
    }
    return out;
  };
  const endOf = (series, tell) => series.slice(0, 6).map((s) => `${s.name} ends at ${tell((s.end || s.points[s.points.length - 1])[1])}`).join("; ");
  const curve = (o) => {
    const c = theme();
    // A logarithm has no place for zero.
    const drawable = (colors) => o.series(colors).map((s) => (o.log ? { ...s, points: s.points.filter((p) => p[1] > 0) } : s)).filter((s) => s.points.length > 0);
    const series = drawable(c);
    if (series.length === 0) return { empty: o.series(c).length > 0 ? "It is zero throughout." : shown.some(Boolean) ? o.missing : "All runs are hidden; the names above show them." };
    const spec = { ...o, x: axis, series };
    spec.label = `${o.title} against ${axis.title}: ${endOf(series, o.tell)}`;
    return { ...spec, draw: (w, colors, forFile) => lines({ ...spec, series: drawable(colors) }, w, colors, forFile) };
  };
  const logLoss = $("log-loss");
  const plots = [
    new Plot("plot-accuracy", "Accuracy of the mean model", () => curve({ title: "Accuracy", missing: "No run was judged.", y: "accuracy", tick: percent, tell: percent, most: 1.0001,
      series: (c) => seriesOf("acc", c), rule: data.target ?? undefined, ruleName: data.target ? `target ${percent(data.target)}` : "",
      caption: data.runs.some((r) => r.points.acc.filter((y) => y !== null).length > 1) ? "On the first 1,000 test images at each look, off the clock; the ring is the end, on all of them."
        : "At the end alone: a swarm of processes looks at its mean model only where the run has a target." })),
    new Plot("plot-loss", "Loss", () => {
      const measured = data.runs.some((r) => r.points.loss.filter((y) => y !== null).length > 1);
      return curve({ title: "Loss", missing: "No run told of its loss.", y: "loss", tick: digits, tell: digits, log: logLoss.checked, series: (c) => seriesOf(measured ? "loss" : "train", c),
        caption: measured ? "Of the mean model, on the same test images." : "Of late training batches, the mean over peers." });
    }),
    new Plot("plot-consensus", "Consensus distance", () => {
      const told = [...new Set(families.filter((f) => shown[f.k]).flatMap((f) => f.runs.map((r) => data.runs[r].prediction)).filter(Boolean))];
      return curve({ title: "Consensus distance", missing: axis === axes.t ? "Not measured: a swarm of processes looks at its mean model only where the run has a target." : "Not measured against this axis.", y: "distance of the replicas", tick: digits, tell: digits, log: true,
        series: (c) => [...seriesOf("con", c), ...seriesOf("pred", c, { dash: "3 4", width: 1.6, suffix: ", predicted" })],
        caption: "How far replicas are from their mean, in parts of its length. " +
          (data.runs.some((r) => r.points.pred.some((y) => y !== null)) ? "Dashed: the topology's prediction, if every step adds equally much; how much is fitted, the shape is the topology's. " : "") + escape(told.slice(0, 4).join(" ")) });
    }),
    new Plot("plot-staleness", "Staleness", () => {
      const labels = [];
      const sums = families.map((f) => {
        const sum = {};
        for (const r of f.runs) for (const [label, n] of data.runs[r].staleness) {
          if (!labels.includes(label)) labels.push(label);
          sum[label] = (sum[label] || 0) + n;
        }
        return sum;
      });
      if (labels.length === 0) return null;
      for (const few of ["0", "1", "2"]) if (!labels.includes(few)) labels.push(few);
      labels.sort((a, b) => parseInt(a, 10) - parseInt(b, 10));
      const seriesFor = (c) => families.filter((f) => shown[f.k] && Object.keys(sums[f.k]).length > 0).slice(0, 8).map((f) => {
        const total = Object.values(sums[f.k]).reduce((a, b) => a + b, 0);
        return { name: f.name, color: colorOf(f.k, c), points: labels.map((l, k) => [k, (sums[f.k][l] || 0) / total]) };
      });
      const series = seriesFor(theme());
      if (series.length === 0) return null;
      const spec = { bars: true, categories: labels, zero: true, series, x: { title: "own steps between lending and mixing" }, y: "exchanges", tick: percent,
        label: "Staleness: " + series.map((s) => `${s.name}: ${s.points.map(([k, y]) => `${labels[k]} steps ${percent(y)}`).join(", ")}`).join("; ") };
      return { ...spec, draw: (w, c, forFile) => lines({ ...spec, series: seriesFor(c) }, w, c, forFile),
        caption: "Of completed exchanges, by the steps that landed in a peer's replica while one was under way." };
    }),
  ];
  const drawCurves = () => plots.forEach((p) => p.draw());

  // ---- time to target by each value of a sweep ----
  const valuePlots = [];
  const makeValuePlots = () => {
    const measure = data.groups.some((g) => g.time) ? { key: "time", title: `seconds to ${percent(data.target)}`, tick: digits, zero: true }
      : { key: "accuracy", title: "accuracy at the end", tick: percent, zero: false };
    data.keys.forEach((key, at) => {
      const values = [...new Set(data.groups.map((g) => g.values[at]))];
      if (values.length < 2 || data.groups.length < 3) return;
      const numeric = values.every((v) => v !== "" && Number.isFinite(Number(v)));
      if (numeric) values.sort((a, b) => Number(a) - Number(b));
      const others = new Map();
      for (const g of data.groups) {
        const rest = data.keys.map((k, i) => (i === at ? "" : `${k.split(".").pop()}=${g.values[i] || "not set"}`)).filter(Boolean).join(", ");
        if (!others.has(rest)) others.set(rest, []);
        others.get(rest).push(g);
      }
      if (others.size > 8) return;
      const seriesFor = (c) => [...others].map(([name, groups], k) => ({
        name: name || measure.title, color: colorOf(k, c), width: 2,
        points: values.flatMap((v, x) => {
          const g = groups.find((it) => it.values[at] === v);
          const s = g && g[measure.key];
          if (!s) return [];
          return [s.low === undefined ? [x, s.mean] : [x, s.mean, s.low, s.high]];
        }),
      })).filter((s) => s.points.length > 0);
      if (seriesFor(theme()).length === 0) return;
      const figure = document.createElement("figure");
      const short = key.split(".").pop();
      figure.id = `plot-by-${short}`;
      $("values").append(figure);
      valuePlots.push(new Plot(figure, `${measure.key === "time" ? "Time to target" : "Accuracy"} by ${short}`, () => {
        const spec = { categories: values.map((v) => v || "not set"), marks: true, joined: numeric, zero: measure.zero, series: seriesFor(theme()), x: { title: key }, y: measure.title, tick: measure.tick };
        spec.label = `${measure.title} by ${key}: ` + spec.series.map((s) => `${s.name}: ${s.points.map((p) => `${values[p[0]]} ${measure.tick(p[1])}`).join(", ")}`).join("; ");
        return { ...spec, draw: (w, c, forFile) => lines({ ...spec, series: seriesFor(c) }, w, c, forFile),
          caption: "Means over seeds, with 95 % confidence intervals." + (others.size > 1 ? " " + [...others.keys()].map((n, k) => `<span style="color:${colorOf(k, theme())}">■</span> ${escape(n)}`).join(" &nbsp; ") : "") };
      }));
    });
  };

  // ---- who does what when ----
  const level = (code) => {  // 0..1, as a character of 36
    const k = code.charCodeAt(0);
    return (k < 58 ? k - 48 : k - 87) / 35;
  };
  const timeline = (run, w, c, forFile) => {
    const rows = run.rows;
    const high = rows.length <= 8 ? 30 : rows.length <= 20 ? 22 : rows.length <= 40 ? 14 : 9;
    const size = Math.min(12.5, Math.max(8, high * 0.75));
    const left = 44, right = 94, top = forFile ? 34 : 6, bottom = 40;
    const h = top + rows.length * high + bottom;
    const columns = rows[0].c.length, wide = (w - left - right) / columns;
    let body = "";
    if (forFile) {
      let x = 14;
      for (const [name, color] of [["computing", c.slow[0]], ["computing, slowed", c.slow[4]], ["exchanging", c.exchanging], ["waiting", c.waiting], ["stopped", c.stopped]]) {
        body += `<rect x="${x}" y="8" width="12" height="12" rx="3" fill="${color}"/>` + text(x + 17, 18, name, { fill: c.ink, size: 12 });
        x += 34 + 6.6 * name.length;
      }
    }
    rows.forEach((row, nth) => {
      const y = top + nth * high, strip = high >= 14 ? Math.max(3, high * 0.16) : 2, gap = high >= 14 ? 3 : 1;
      const tall = high - gap - strip;
      const paths = {};
      const add = (key, from, k, y0, y1) => {  // columns from..k-1
        if (y1 - y0 < 0.15) return;
        (paths[key] = paths[key] || []).push(`M${num(left + from * wide)} ${num(y0)}H${num(left + k * wide)}V${num(y1)}H${num(left + from * wide)}Z`);
      };
      for (let k = 0; k < columns;) {
        let end = k + 1;
        while (end < columns && row.c[end] === row.c[k] && row.w[end] === row.w[k] && row.s[end] === row.s[k] && row.z[end] === row.z[k]) ++end;
        const waits = level(row.w[k]), stands = level(row.s[k]);
        const computes = Math.min(level(row.c[k]), 1 - Math.min(1, waits + stands));
        const alone = Math.max(0, 1 - waits - stands - computes);
        let at = y + tall;
        const stack = (key, part) => { add(key, k, end, at - part * tall, at); at -= part * tall; };
        stack(`slow${row.z[k]}`, computes);
        if (alone > 0.06) stack("exchanging", alone);
        stack("waiting", waits);
        stack("stopped", Math.max(0, (at - y) / tall));
        k = end;
      }
      for (let k = 0; k < columns;) {
        let end = k + 1;
        while (end < columns && row.e[end] === row.e[k]) ++end;
        const part = level(row.e[k]);
        if (part > 0) add(`strip${Math.min(3, Math.floor(part * 4))}`, k, end, y + tall, y + tall + strip);
        k = end;
      }
      const fills = { exchanging: c.exchanging, waiting: c.waiting, stopped: c.stopped };
      c.slow.forEach((color, k) => { fills[`slow${k}`] = color; });
      let marks = "";
      for (const [key, d] of Object.entries(paths)) {
        const strip4 = key.startsWith("strip");
        marks += `<path class="${key}" d="${d.join("")}" fill="${strip4 ? c.exchanging : fills[key]}"${strip4 ? ` opacity="${0.35 + 0.2 * Number(key[5])}"` : ""}/>`;
      }
      const [computing, exchanging, waiting, stopped] = row.parts;
      const slow = row.slow >= 1.25;
      let aside = "", color = c.quiet;
      if (slow) { aside = `${digits(row.slow, 2)}× slower`; color = c.slow[SLOW_FROM.filter((s) => row.slow >= s).length - 1]; }
      else if (waiting >= 0.15) aside = `waits ${Math.round(100 * waiting)} %`;
      else if (stopped >= 0.15) aside = `off ${Math.round(100 * stopped)} %`;
      const words = `${row.p}: computing ${percent(computing)}, exchanging ${percent(exchanging)}, waiting ${percent(waiting)}, stopped ${percent(stopped)}` +
        (slow ? `; its steps take ${digits(row.slow, 2)} times as long as the median peer's` : "");
      body += `<g class="row" data-peer="${escape(row.p)}" data-slowness="${row.slow}" data-computing="${computing}" data-exchanging="${exchanging}" ` +
        `data-waiting="${waiting}" data-stopped="${stopped}"><title>${escape(words)}</title>${marks}` +
        (high < 11 && nth % 2 === 1 && !slow ? "" : text(left - 7, y + tall / 2 + size * 0.36, row.p, { fill: slow ? color : c.ink, size, anchor: "end", weight: slow ? 700 : 0 })) +
        (aside ? text(w - right + 7, y + tall / 2 + size * 0.36, aside, { fill: color, size, weight: slow ? 700 : 0 }) : "") + "</g>";
    });
    const xAxis = linear(0, run.rows_to, left, w - right, w < 430 ? 4 : 8);
    const floor = h - bottom;
    body += `<line x1="${left}" x2="${w - right}" y1="${floor}" y2="${floor}" stroke="${c.axis}"/>`;
    for (const x of xAxis.ticks) body += `<line x1="${num(xAxis.at(x))}" x2="${num(xAxis.at(x))}" y1="${floor}" y2="${floor + 4}" stroke="${c.axis}"/>` + text(xAxis.at(x), floor + 17, digits(x), { fill: c.quiet, anchor: "middle" });
    body += text((left + w - right) / 2, h - 5, "time, seconds", { fill: c.quiet, anchor: "middle" });
    const slowest = [...rows].sort((a, b) => b.slow - a.slow)[0];
    const label = `Time lines of ${rows.length} peers over ${digits(run.rows_to)} seconds` + (slowest.slow >= 1.25 ? `; ${slowest.p} is the slowest, ${digits(slowest.slow, 2)} times slower than the median` : "");
    return svg(w, h, label, body, forFile && c.page);
  };
  const withRows = data.runs.map((r, k) => k).filter((k) => data.runs[k].rows.length > 0 || data.runs[k].graph);
  // The run in which somebody is slowest is the one to look at first.
  const slowestOf = (k) => Math.max(1, ...data.runs[k].rows.map((row) => row.slow));
  let chosen = withRows.reduce((best, k) => (slowestOf(k) > 1.2 * slowestOf(best) ? k : best), withRows[0] ?? 0);
  const swatch = (color, name) => `<li><i style="background:${color}"></i>${name}</li>`;
  const timePlot = new Plot("plot-timeline", "Time lines", () => {
    const run = data.runs[chosen];
    if (!run || run.rows.length === 0) return null;
    return { draw: (w, c, forFile) => timeline(run, w, c, forFile),
      caption: `Each row is a peer: a column's height is shared among what it did then. How long its steps take, beside the median peer's, is the color; the strip below tells of exchanges, which go on beside steps.` +
        (run.hidden > 0 ? ` ${run.hidden} of the peers are left out; the slowest and the quickest are there.` : "") };
  }, (c) => `<ul class="keys"><li><i class="ramp" style="background:linear-gradient(90deg,${c.slow.join(",")})"></i>computing, at the usual speed to 6 times slower</li>` +
    swatch(c.exchanging, "exchanging") + swatch(c.waiting, "waiting") + swatch(c.stopped, "stopped") + "</ul>");

  // ---- graph and peers ----
  const graphPlot = new Plot("plot-graph", "Topology", () => {
    const run = data.runs[chosen];
    if (!run || !run.graph) return null;
    const parsed = new DOMParser().parseFromString(run.graph, "image/svg+xml").documentElement;
    const [, , w, h] = parsed.getAttribute("viewBox").split(" ").map(Number);
    const text2 = run.graph.replace("<svg ", `<svg width="${w}" height="${h}" role="img" aria-label="${escape(`${run.topology}: ${run.graph_text}`)}" `);
    // On paper there is no dark.
    return { draw: (_, c, forFile) => (forFile ? text2.replace(/<style>[\s\S]*?<\/style>/, "") : text2), caption: escape(run.graph_text) };
  });
  const drawPeers = () => {
    const run = data.runs[chosen];
    const number = (x) => (x === null ? "" : Math.round(x).toLocaleString("en-US"));
    $("peers").innerHTML = `<table><caption>Peers of ${escape(run.label)}</caption><thead><tr><th scope="col">peer</th><th scope="col">steps</th><th scope="col">samples</th>` +
      `<th scope="col">accuracy</th><th scope="col">exchanges</th><th scope="col">slow</th><th scope="col" class="text">state</th></tr></thead><tbody>` +
      run.peers.map((p) => `<tr><th scope="row">${escape(p.name)}</th><td>${number(p.steps)}</td><td>${number(p.samples)}</td><td>${p.accuracy === null ? "" : percent(p.accuracy)}</td>` +
        `<td>${number(p.exchanges)}</td><td>${digits(p.slow)}</td><td class="text">${escape(p.state)}</td></tr>`).join("") + "</tbody></table>";
  };
  const drawRun = () => { timePlot.draw(); graphPlot.draw(); drawPeers(); };

  // ---- together ----
  const known = { t: true, s: true, b: data.runs.some((r) => r.points.b.some((x) => x !== null)) };
  for (const input of document.querySelectorAll("input[name=axis]")) {
    input.disabled = !known[input.value];
    input.onchange = () => { axis = axes[input.value]; drawCurves(); };
  }
  logLoss.onchange = drawCurves;
  const select = $("run");
  if (withRows.length > 1) {
    select.replaceChildren(...withRows.map((k) => new Option(data.runs[k].label, String(k))));
    select.value = String(chosen);
    select.onchange = () => { chosen = Number(select.value); drawRun(); };
    $("choose").hidden = false;
  }
  $("save-table").onclick = () => save(fileName("table") + ".csv", "text/csv", data.csv);
  makeValuePlots();
  const drawAll = () => { drawLegend(); drawCurves(); valuePlots.forEach((p) => p.draw()); drawRun(); };
  drawAll();
  dark.addEventListener("change", drawAll);
  let width = document.body.clientWidth, timer = 0;
  addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(drawAll, 120);
  });
})();
