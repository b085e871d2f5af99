"use strict";
// The report: curves, tables and graphs of the data in the page, drawn by plots.js.
(() => {
  const { Plot, axes, bytes, count, dark, digits, escape, fileName, lines, linear, num, percent, sample, save, svg, text, theme, titled } = Plots;
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SLOW_FROM = [1, 1.25, 1.75, 3, 6];  // slowness at which each color begins
  titled(data.title);

  // ---- the runs shown, and their colors ----
  const SEEDS_APART = 8;  // more seeds of a single kind are shown as their mean
  const byGroup = data.groups.length > 1 || data.runs.length > SEEDS_APART;
  const families = byGroup ? data.groups.map((g, k) => ({ name: g.label, runs: g.counted.length > 0 ? g.counted : g.runs, all: g.runs, t: g.t, k }))
    : data.runs.map((r, k) => ({ name: r.label, runs: [k], all: [k], k }));
  const MANY = 16;
  const shown = families.map((_, k) => k < MANY);
  const dashes = ["", "7 4", "2 4", "9 3 2 3"];
  const colorOf = (k, c) => c.colors[k % c.colors.length];
  const dashOf = (k) => dashes[k % dashes.length];
  const markOf = (k) => (families.length > 1 ? k % 5 : undefined);
  const badge = (words) => (words ? ` <span class="badge">${escape(words)}</span>` : "");
  let axis = axes.t;
  const drawLegend = () => {
    const place = $("legend");
    if (families.length < 2) return;
    place.replaceChildren(...families.map((f) => {
      const label = document.createElement("label");
      const c = theme();
      label.innerHTML = `<input type="checkbox"${shown[f.k] ? " checked" : ""}><svg width="34" height="12" aria-hidden="true">` +
        `${sample({ color: colorOf(f.k, c), dash: dashOf(f.k), mark: markOf(f.k) }, c, 1, 6, 32)}</svg><span>${escape(f.name)}` +
        `${badge(f.all.some((r) => data.runs[r].interrupted) ? "interrupted" : "")}</span>`;
      label.querySelector("input").onchange = (event) => { shown[f.k] = event.target.checked; drawCurves(); };
      return label;
    }));
    if (!families.some((f) => f.runs.length > 1)) return;
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "Lines are means over seeds, bands 95 % confidence intervals of the mean; of two seeds, bands reach from one to the other.";
    place.append(note);
  };
  // The points of a run that have both coordinates.
  const points = (run, key) => {
    const p = run.points, x = p[axis.key], y = p[key];
    const out = [];
    for (let k = 0; k < x.length; ++k) if (x[k] !== null && y[k] !== null) out.push([x[k], y[k]]);
    // The end is evaluated on more images than the other points, so it has its own mark.
    const ends = p.ended && out.length > 1 && (key === "acc" || key === "loss");
    return { evaluations: ends ? out.slice(0, -1) : out, end: ends ? out[out.length - 1] : undefined };
  };
  // The mean of the curves of several seeds where all have values, and its band (docs/RESULTS.md, "Figures"): with t, a 95 %
  // confidence interval, on the logarithms if `log`, within 0 and `most`; for two seeds, from the lesser to the greater one.
  const GRID = 240;
  const meanOf = (curves, t, log, most) => {
    const from = Math.max(...curves.map((p) => p[0][0])), to = Math.min(...curves.map((p) => p[p.length - 1][0]));
    if (!(from <= to)) return { points: curves[0], band: [] };
    let grid = [...new Set([from, to, ...curves.flatMap((p) => p.map(([x]) => x).filter((x) => x > from && x < to))])].sort((a, b) => a - b);
    if (grid.length > GRID) grid = Array.from({ length: GRID }, (_, k) => grid[Math.round((k * (grid.length - 1)) / (GRID - 1))]);
    const nexts = curves.map(() => 0), mean = [], band = [];
    const sum = (values) => values.reduce((a, b) => a + b, 0);
    for (const x of grid) {
      let values = curves.map((p, k) => {
        while (p[nexts[k]][0] < x) ++nexts[k];
        const [x1, y1] = p[nexts[k]];
        if (x1 === x || nexts[k] === 0) return y1;
        const [x0, y0] = p[nexts[k] - 1];
        return y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
      });
      const logs = log && values.every((y) => y > 0);
      if (logs) values = values.map(Math.log);
      const middle = sum(values) / values.length, back = logs ? Math.exp : (y) => y;
      const deviation = Math.sqrt(sum(values.map((y) => (y - middle) ** 2)) / (values.length - 1));
      const half = t === null ? 0 : (t * deviation) / Math.sqrt(values.length);
      mean.push([x, back(middle)]);
      band.push(t === null ? [x, back(Math.min(...values)), back(Math.max(...values))] : [x, Math.max(0, back(middle - half)), Math.min(most, back(middle + half))]);
    }
    return { points: mean, band };
  };
  const seriesOf = (key, c, look = {}) => {
    const out = [];
    for (const f of families) {
      if (!shown[f.k]) continue;
      const curves = f.runs.map((r) => points(data.runs[r], key)).filter((it) => it.evaluations.length > 0);
      if (curves.length === 0) continue;
      const drawn = curves.length === 1 ? { points: curves[0].evaluations } : meanOf(curves.map((it) => it.evaluations), f.t, look.log, key === "acc" ? 1 : Infinity);
      const ends = curves.map((it) => it.end).filter(Boolean);
      const middle = (k) => ends.reduce((a, p) => a + p[k], 0) / ends.length;
      out.push({ name: f.name + (look.suffix || ""), color: colorOf(f.k, c), dash: look.dash ?? dashOf(f.k), mark: look.plain ? undefined : markOf(f.k),
        width: look.width || 2, ...drawn, band: look.plain ? [] : drawn.band, end: ends.length === curves.length ? [middle(0), middle(1)] : undefined });
    }
    return out;
  };
  // Whether the shortest curve would take less than a tenth of a linear axis.
  const spreads = () => {
    const ends = data.runs.map((r) => Math.max(0, ...r.points[axis.key].filter((x) => x !== null))).filter((x) => x > 0);
    return ends.length > 1 && Math.max(...ends) > 10 * Math.min(...ends);
  };
  const about = data.about;  // runs, seeds and kind of time
  const endOf = (series, tell) => series.slice(0, 6).map((s) => `${s.name} ends at ${tell((s.end || s.points[s.points.length - 1])[1])}`).join("; ");
  const curve = (o) => {
    const c = theme();
    // Zero has no logarithm.
    const fits = (p) => (!o.log || p[1] > 0) && (!logX.checked || p[0] > 0);
    const drawable = (colors) => o.series(colors).map((s) => ({ ...s, points: s.points.filter(fits) })).filter((s) => s.points.length > 0);
    const series = drawable(c);
    if (series.length === 0) return { empty: o.series(c).length > 0 ? "It is zero throughout." : shown.some(Boolean) ? o.missing : "All runs are hidden; the names above show them." };
    const spec = { ...o, x: axis, logX: logX.checked, series };
    spec.label = `${o.title} against ${axis.title}: ${endOf(series, o.tell)}`;
    return { ...spec, caption: `${o.caption} ${about}`, draw: (w, colors, forFile) => lines({ ...spec, series: drawable(colors) }, w, colors, forFile) };
  };
  const logLoss = $("log-loss"), logX = $("log-x");
  logX.checked = spreads();
  const predicted = data.runs.some((r) => r.points.pred.some((y) => y !== null));
  const rule = { rule: data.target ?? undefined, ruleName: data.target ? `target ${data.target_text}` : "" };
  const plots = [
    new Plot("plot-accuracy", "Accuracy of the mean model", () => curve({ title: "Accuracy", missing: "No run was evaluated.", y: "accuracy", tick: percent, tell: percent, most: 1.0001,
      series: (c) => seriesOf("acc", c), ...(data.target_is_loss ? {} : rule),
      caption: data.runs.some((r) => r.points.acc.filter((y) => y !== null).length > 1) ? "Evaluations of the mean model use the first 1,000 test images and are not part of the time; the ring is the end, on all test images."
        : "Evaluated only at the end. A swarm of processes evaluates its mean model on the way if that costs at most 2 % of the run, or with --looks or a target." })),
    new Plot("plot-loss", "Loss", () => {
      const measured = data.runs.some((r) => r.points.loss.filter((y) => y !== null).length > 1);
      return curve({ title: "Loss", missing: "No run has a loss.", y: "loss", tick: digits, tell: digits, log: logLoss.checked, series: (c) => seriesOf(measured ? "loss" : "train", c, { log: logLoss.checked }), ...(data.target_is_loss ? rule : {}),
        caption: measured ? "Of the mean model, on the same test images." : "Of recent training batches, the mean over peers." });
    }),
    new Plot("plot-consensus", "Consensus distance", () => {
      const told = [...new Set(families.filter((f) => shown[f.k]).flatMap((f) => f.runs.map((r) => data.runs[r].prediction)).filter(Boolean))];
      return curve({ title: "Consensus distance", missing: axis === axes.t ? "Not measured. A swarm of processes measures it with each evaluation of its mean model: if that costs at most 2 % of the run, or with --looks or a target." : "Not measured against this axis.", y: "distance of the replicas", tick: digits, tell: digits, log: true,
        series: (c) => [...seriesOf("con", c, { log: true, ...(predicted ? { dash: "" } : {}) }),
          ...seriesOf("pred", c, { log: true, plain: true, dash: "3 4", width: 1.6, suffix: ", predicted" })],
        caption: "The replicas' root mean square distance from their mean, relative to the mean's length. " +
          (predicted ? "Dashed: predicted from the topology, if every step adds the same amount; only that amount is fitted. " : "") + escape(told.slice(0, 4).join(" ")) });
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
      const used = labels.filter((l) => sums.some((sum) => sum[l] > 0));
      if (used.length === 1)
        return { empty: `All completed exchanges had the same staleness: ${used[0]} ${used[0] === "1" ? "step" : "steps"} of the peer's own while the exchange was under way.` };
      const spec = { bars: true, categories: labels, zero: true, series, x: { title: "own steps between lending and mixing" }, y: "exchanges", tick: percent,
        label: "Staleness: " + series.map((s) => `${s.name}: ${s.points.map(([k, y]) => `${labels[k]} steps ${percent(y)}`).join(", ")}`).join("; ") };
      return { ...spec, draw: (w, c, forFile) => lines({ ...spec, series: seriesFor(c) }, w, c, forFile),
        caption: `Completed exchanges, by the number of steps that the peer made while the exchange was under way. ${about}` };
    }),
  ];
  const drawCurves = () => plots.forEach((p) => p.draw());

  // ---- time to target by each value of a sweep ----
  const valuePlots = [];
  const makeValuePlots = () => {
    const measure = data.groups.some((g) => g.time) ? { key: "time", title: `seconds to ${data.target_text}`, tick: digits, log: true }
      : { key: "accuracy", title: "accuracy at the end", tick: percent, zero: false };
    data.keys.forEach((key, at) => {
      const values = [...new Set(data.groups.map((g) => g.values[at]))];
      if (values.length < 2 || data.groups.length < 3) return;
      // Durations, data rates and sizes are numbers in one unit.
      const amounts = data.amounts[at], numeric = amounts !== null, amount = (v) => amounts.of[v];
      if (numeric) values.sort((a, b) => amount(a) - amount(b));
      const others = new Map();
      for (const g of data.groups) {
        const rest = data.keys.map((k, i) => (i === at ? "" : `${k}=${g.values[i] || "not set"}`)).filter(Boolean).join(",");
        if (!others.has(rest)) others.set(rest, []);
        others.get(rest).push(g);
      }
      if (others.size > 8) return;
      const seriesFor = (c) => [...others].map(([name, groups], k) => ({
        name: name || measure.title, color: colorOf(k, c), dash: dashOf(k), mark: k % 5, width: 2,
        points: values.flatMap((v, nth) => {
          const g = groups.find((it) => it.values[at] === v);
          const s = g && g[measure.key], x = numeric ? amount(v) : nth;
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
        const spec = { marks: true, joined: numeric, log: measure.log, series: seriesFor(theme()), x: { title: numeric && amounts.unit ? `${short} (${amounts.unit})` : short, tick: digits, floats: true }, y: measure.title, tick: measure.tick };
        if (numeric) spec.logX = amount(values[0]) > 0 && amount(values[values.length - 1]) > 30 * amount(values[0]);
        else spec.categories = values.map((v) => v || "not set");
        const told = (x) => (numeric ? x : values[x]);
        spec.label = `${measure.title} by ${short}: ` + spec.series.map((s) => `${s.name}: ${s.points.map((p) => `${told(p[0])} ${measure.tick(p[1])}`).join(", ")}`).join("; ");
        return { ...spec, draw: (w, c, forFile) => lines({ ...spec, series: seriesFor(c) }, w, c, forFile),
          caption: (data.groups.every((g) => g.runs.length < 2) ? "One run of each kind." : measure.key === "time" ? "Geometric means over seeds, with 95 % confidence intervals on logarithms." : "Means over seeds, with 95 % confidence intervals.") + ` ${about}` + (others.size > 1 ? " " + Plots.keys(spec.series, theme()) : "") };
      }));
    });
  };

  // ---- time lines ----
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
  // The first run shown is the one with the slowest peer.
  const slowestOf = (k) => Math.max(1, ...data.runs[k].rows.map((row) => row.slow));
  let chosen = withRows.reduce((best, k) => (slowestOf(k) > 1.2 * slowestOf(best) ? k : best), withRows[0] ?? 0);
  const swatch = (color, name) => `<li><i style="background:${color}"></i>${name}</li>`;
  const timePlot = new Plot("plot-timeline", "Time lines", () => {
    const run = data.runs[chosen];
    if (!run || run.rows.length === 0) return null;
    return { draw: (w, c, forFile) => timeline(run, w, c, forFile),
      caption: badge(run.interrupted) + ` A row per peer. The height of each column is divided among the peer's activities at that time. The color shows how long its steps take compared with the median peer's; the strip below shows exchanges, which overlap with steps.` +
        (run.hidden > 0 ? ` ${run.hidden} peers are left out; the slowest and the fastest are shown.` : "") };
  }, (c) => `<ul class="keys"><li><i class="ramp" style="background:linear-gradient(90deg,${c.slow.join(",")})"></i>computing, at the usual speed to 6 times slower</li>` +
    swatch(c.exchanging, "exchanging") + swatch(c.waiting, "waiting") + swatch(c.stopped, "stopped") + "</ul>");

  // ---- pipelines ----
  const pipelinePlot = new Plot("plot-pipelines", "Pipelines", () => {
    const run = data.runs[chosen];
    if (!run || run.pipelines.length === 0) return null;
    const measured = run.pipelines.some((p) => p.measured);
    return { draw: (w, c, forFile) => Pipelines.draw(run.pipelines, w, c, forFile),
      caption: badge(run.interrupted) + (measured ? " The last batch of each peer in stages (without a flush some of the last ones), as measured" : " A step of each kind of pipeline (without a flush its first batches), without faults") +
        ": a row per stage, and a box with the number of its micro-batch for each pass. Gaps are idle time; below a row is how many micro-batches the stage keeps." +
        (run.pipelines.length > Pipelines.MOST ? ` ${run.pipelines.length - Pipelines.MOST} more are left out.` : "") + Pipelines.table(run.pipelines.slice(0, Pipelines.MOST)) };
  }, Pipelines.keys);

  // ---- graph and peers ----
  const graphPlot = new Plot("plot-graph", "Topology", () => {
    const run = data.runs[chosen];
    if (!run || !run.graph) return null;
    const parsed = new DOMParser().parseFromString(run.graph, "image/svg+xml").documentElement;
    const [, , w, h] = parsed.getAttribute("viewBox").split(" ").map(Number);
    const text2 = run.graph.replace("<svg ", `<svg width="${w}" height="${h}" role="img" aria-label="${escape(`${run.topology}: ${run.graph_text}`)}" `);
    // A file has no dark style.
    return { draw: (_, c, forFile) => (forFile ? text2.replace(/<style>[\s\S]*?<\/style>/, "") : text2), caption: escape(run.graph_text) + badge(run.interrupted) };
  });
  const drawPeers = () => {
    const run = data.runs[chosen];
    const number = (x) => (x === null ? "" : Math.round(x).toLocaleString("en-US"));
    const own = run.peers.some((p) => p.own);
    $("peers").innerHTML = `<table><caption>Peers of ${escape(run.label)}${badge(run.interrupted)}</caption><thead><tr><th scope="col">peer</th><th scope="col">steps</th><th scope="col">samples</th>` +
      `<th scope="col">accuracy</th><th scope="col">exchanges</th><th scope="col">slow</th><th scope="col" class="text">state</th>${own ? '<th scope="col" class="text">own data</th>' : ""}</tr></thead><tbody>` +
      run.peers.map((p) => `<tr><th scope="row">${escape(p.name)}</th><td>${number(p.steps)}</td><td>${number(p.samples)}</td><td>${p.accuracy === null ? "" : percent(p.accuracy)}</td>` +
        `<td>${number(p.exchanges)}</td><td>${digits(p.slow)}</td><td class="text">${escape(p.state)}</td>${own ? `<td class="text">${escape(p.own)}</td>` : ""}</tr>`).join("") + "</tbody></table>";
  };
  const drawRun = () => { timePlot.draw(); pipelinePlot.draw(); graphPlot.draw(); drawPeers(); };

  // ---- together ----
  const known = { t: true, s: true, b: data.runs.some((r) => r.points.b.some((x) => x !== null)) };
  for (const input of document.querySelectorAll("input[name=axis]")) {
    input.disabled = !known[input.value];
    input.onchange = () => { axis = axes[input.value]; logX.checked = spreads(); drawCurves(); };
  }
  logLoss.onchange = logX.onchange = drawCurves;
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
