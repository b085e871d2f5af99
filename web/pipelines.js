// The stages of pipelines as Gantt charts and as tables, on the live page and in the report; their fields are those of
// pipelines.jsonl (docs/RESULTS.md).
const Pipelines = (() => {
  const { count, digits, escape, linear, num, percent, svg, text } = Plots;
  const MOST = 6;  // that are drawn
  const kinds = (c) => ({ forward: ["forward pass", c.colors[0]], backward: ["backward pass", c.colors[1]], update: ["update", c.colors[3]], kept: ["micro-batches kept", c.exchanging] });
  const parts = (p) => p.schedule !== "pipedream" ? `${count(p.micro_batches)} micro-batches` : p.micro_batches === 1 ? "an update for each batch" : `an update for ${count(p.micro_batches)} batches`;
  const titleOf = (p) => `${p.peers ? `${p.peers}: ` : ""}${p.schedule}, ${parts(p)}, step ${digits(p.step_seconds)} s, bubble ${percent(p.bubble)}${p.measured ? ` measured over ${count(p.steps)} steps` : ""}`;
  const nameOf = (stage, nth) => `stage ${stage.name || nth + 1}`;
  const busyOf = (p, stage) => (p.steps > 0 ? `${digits((1e3 * stage.busy_seconds) / p.steps)} ms` : "–");

  // A Gantt chart of a step for each pipeline, all with the same axis: a row per stage with a box per pass, and below it
  // how many micro-batches the stage keeps.
  const draw = (pipelines, w, c, forFile) => {
    const shown = pipelines.slice(0, MOST), colors = kinds(c);
    const left = 62, right = 78, head = 24, high = 34, lane = 19, strip = 9, bottom = 40;
    let y = forFile ? 30 : 4, body = "";
    if (forFile) {
      let x = 14;
      for (const [name, color] of Object.values(colors)) {
        body += `<rect x="${x}" y="8" width="12" height="12" rx="3" fill="${color}"/>` + text(x + 17, 18, name, { fill: c.ink, size: 12 });
        x += 34 + 6.6 * name.length;
      }
    }
    const endOf = (p) => p.passes.reduce((last, pass) => Math.max(last, pass.end_seconds), p.step_seconds);
    const xAxis = linear(0, Math.max(...shown.map(endOf)), left, w - right, w < 430 ? 4 : 8);
    for (const p of shown) {
      body += text(left, y + 15, titleOf(p), { fill: c.ink, size: 12 });
      y += head;
      const most = Math.max(1, ...p.stages.map((s) => s.micro_batches_kept));
      p.stages.forEach((stage, nth) => {
        const words = `${nameOf(stage, nth)}, ${stage.layers}: ${p.measured ? `busy ${busyOf(p, stage)} per step` : `speed ${digits(stage.speed)}`}, idle ${percent(stage.idle)}, keeps at most ${count(stage.micro_batches_kept)} micro-batches`;
        let marks = `<rect x="${left}" y="${num(y)}" width="${num(w - left - right)}" height="${lane}" fill="${c.grid}" opacity="0.5"/>`;
        const changes = [];
        for (const { pass, micro_batch, begin_seconds, end_seconds } of p.passes.filter((it) => it.stage === nth + 1)) {
          const x = xAxis.at(begin_seconds), wide = Math.max(0.5, xAxis.at(end_seconds) - x);
          marks += `<path class="pass" data-pass="${escape(pass)}" d="M${num(x)} ${num(y)}h${num(wide)}v${lane}h${num(-wide)}Z" fill="${(colors[pass] || colors.update)[1]}" stroke="${c.page}" stroke-width="0.6"/>`;
          const number = String(micro_batch);
          if (pass !== "update" && wide > 7 * number.length + 3) marks += text(x + wide / 2, y + lane / 2 + 4, number, { fill: c.page, size: 10.5, anchor: "middle" });
          if (pass === "forward") changes.push([begin_seconds, 1]);
          if (pass === "backward") changes.push([end_seconds, -1]);
        }
        changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
        // Batches that were in the stages before the first pass shown.
        let kept = 0, least = 0;
        for (const [, by] of changes) { kept += by; least = Math.min(least, kept); }
        const floor = y + lane + strip, level = (n) => num(floor - (strip - 1) * Math.min(1, n / most));
        kept = -least;
        let path = `M${left} ${num(floor)}V${level(kept)}`;
        for (const [at, by] of changes) { kept += by; path += `H${num(xAxis.at(at))}V${level(kept)}`; }
        marks += `<path class="kept" d="${path}V${num(floor)}Z" fill="${c.exchanging}" opacity="0.7"/>`;
        body += `<g class="stage" data-idle="${stage.idle}" data-kept="${stage.micro_batches_kept}"><title>${escape(words)}</title>${marks}` +
          text(left - 7, y + lane / 2 + 4, nameOf(stage, nth), { fill: c.ink, size: 12, anchor: "end" }) +
          text(w - right + 7, y + lane / 2 + 4, stage.speed === 1 ? `idle ${Math.round(100 * stage.idle)} %` : `speed ${digits(stage.speed)}`, { fill: c.quiet, size: 12 }) + "</g>";
        y += high;
      });
    }
    body += `<line x1="${left}" x2="${w - right}" y1="${y}" y2="${y}" stroke="${c.axis}"/>`;
    for (const x of xAxis.ticks) body += `<line x1="${num(xAxis.at(x))}" x2="${num(xAxis.at(x))}" y1="${y}" y2="${y + 4}" stroke="${c.axis}"/>` + text(xAxis.at(x), y + 17, digits(x), { fill: c.quiet, anchor: "middle" });
    body += text((left + w - right) / 2, y + 35, "seconds", { fill: c.quiet, anchor: "middle" });
    return svg(w, y + bottom, `Gantt charts of pipelines. ${shown.map(titleOf).join("; ")}`, body, forFile && c.page);
  };
  const keys = (c) => `<ul class="keys">${Object.values(kinds(c)).map(([name, color]) => `<li><i style="background:${color}"></i>${name}</li>`).join("")}</ul>`;

  // The stages that were measured.
  const table = (pipelines) => {
    const rows = pipelines.filter((p) => p.measured).flatMap((p) => p.stages.map((s) =>
      `<tr><th scope="row">${escape(p.peers ? `${p.peers}, ${s.name}` : s.name)}</th><td class="text">${escape(s.layers)}</td><td class="text">${escape(s.device)}</td>` +
      `<td>${busyOf(p, s)}</td><td>${percent(s.idle)}</td><td>${count(s.micro_batches_kept)}</td><td>${count(s.versions)}</td></tr>`));
    if (rows.length === 0) return "";
    return `<div class="scroll" tabindex="0" role="region" aria-label="Stages"><table class="stages"><thead><tr><th scope="col">stage</th><th scope="col" class="text">layers</th><th scope="col" class="text">device</th>` +
      `<th scope="col">busy per step</th><th scope="col">waiting</th><th scope="col">micro-batches kept</th><th scope="col">versions</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
  };
  return { MOST, draw, keys, table };
})();
