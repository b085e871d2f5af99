"use strict";
// The live page of a peer: follows api/v1/live (docs/API.md) and redraws at most once per second.
(() => {
  const { Plot, axes, bytes, count, dark, digits, escape, keys, lines, niceStep, percent, theme, titled } = Plots;
  const $ = (id) => document.getElementById(id);
  const ROUND = 900;         // minimum milliseconds between two redraws
  const QUIET = 6000;        // milliseconds without data until the connection counts as lost
  const RETRY = [500, 1000, 2000, 4000];
  const POINTS = 1024, EVENTS = 256;

  // ---- received data ----
  let points = [], events = [], status = {}, members = [], earlier = 0, seconds = 0, topology = null;
  let anew = true;           // the next events are the first of a new connection

  // ---- the connection's state ----
  let source = null, connected = false, failures = 0, heardAt = 0, retry = 0;
  let excuse = "";  // the peer's reason for rejecting the stream, such as that it is still loading

  const simulated = () => status.device === "simulated";
  const known = (x) => x !== null && x !== undefined;
  const put = (element, words) => { if (element.textContent !== words) element.textContent = words; };

  // The predicted log decrease of the squared disagreement per exchange that is started or, if the rule counts rounds, per
  // step of any peer; null without a prediction.
  const fallOf = (t) => {
    const p = t && t.prediction;
    if (!p || !p.by || !(p.factor > 0 && p.factor < 1)) return null;
    return p.by === "round" ? -Math.log(p.factor) / p.steps / Math.max(1, t.members.length) : -Math.log(p.factor);
  };
  const remember = (point) => {
    if (!point) return;
    const last = points[points.length - 1];
    const full = { ...point, fall: fallOf(topology) };
    if (last && point.seconds <= last.seconds) points[points.length - 1] = full;
    else points.push(full);
    if (points.length > POINTS) points = points.filter((_, k) => k % 2 === 1 || k === points.length - 1);
  };

  // ---- text ----
  const since = (s) => {
    if (!known(s)) return "–";
    if (s < 1) return "now";
    if (s < 100) return `${Math.round(s)} s`;
    if (s < 6000) return `${Math.round(s / 60)} min`;
    return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
  };
  const clock = (s) => {
    const t = Math.round(s), two = (x) => String(x).padStart(2, "0");
    return t < 3600 ? `${Math.floor(t / 60)}:${two(t % 60)}` : `${Math.floor(t / 3600)}:${two(Math.floor(t / 60) % 60)}:${two(t % 60)}`;
  };
  const steady = (x, n = 3) => {  // with a constant number of digits
    if (!known(x)) return "–";
    return Math.abs(x) >= 1000 || x === 0 ? count(x) : Math.abs(x) >= 1e-3 ? x.toPrecision(n) : digits(x, n);
  };
  const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const whole = (x) => (known(x) ? number.format(x) : "–");
  const or = (x, f) => (known(x) ? f(x) : "–");

  // ---- header ----
  const fact = (name, of) => ({ name, of });
  const facts = [
    fact("Progress", () => (status.epoch_samples > 0 ? [`${(status.swarm_samples / status.epoch_samples).toFixed(2)} epochs`, `${count(status.swarm_samples)} samples`] : [or(status.swarm_samples, (x) => `${count(x)} samples`)])),
    fact("Members", () => [or(status.members_live, (x) => `${whole(x)} alive`), known(status.members_known) ? `of ${whole(status.members_known)} known` : ""]),
    fact("Total speed", () => [or(points.length ? points[points.length - 1].samples_per_second : null, (x) => `${count(x)} samples/s`), "reported by all members"]),
    fact("Model and data", () => [status.model || "–", status.data ? `on ${status.data}` : ""]),
    fact("Topology", () => [(topology && topology.topology) || status.topology || "–", topology && known(topology.spectral_gap) ? `gap ${digits(topology.spectral_gap)}` : ""]),
    fact("Rule", () => [status.rule || "–", status.payload || ""]),
    fact("State", () => [!connected && /\bloading\b/.test(excuse) ? "loading" : status.condition || "–", or(status.steps, (x) => `step ${whole(x)}`)]),
    fact("Device", () => [status.device || "–", or(status.samples_per_second, (x) => (status.sample_tokens > 0 ? `${count(x * status.sample_tokens)} tokens/s` : `${count(x)} samples/s`))]),
    fact("Loss", () => [steady(status.loss), known(status.learning_rate) ? `rate ${digits(status.learning_rate)}` : ""]),
    fact("Accuracy", () => [or(status.accuracy, (x) => `${(100 * x).toFixed(1)} %`), [status.sample_tokens > 0 && known(status.test_loss) ? `perplexity ${digits(Math.exp(status.test_loss))}` : "", known(status.accuracy) && known(status.accuracy_steps) ? `at step ${whole(status.accuracy_steps)}` : ""].filter(Boolean).join(", ")]),
    fact("Distance to partners", () => [steady(status.distance), points.length && known(points[points.length - 1].distance) ? `${steady(points[points.length - 1].distance)} mean` : ""]),
    fact("Staleness", () => [or(status.staleness, (x) => `${x.toFixed(1)} steps`), "of this peer, per exchange"]),
  ];
  for (const f of facts) {
    const box = document.createElement("div");
    box.innerHTML = `<dt>${f.name}</dt><dd>–</dd><dd><small>&nbsp;</small></dd>`;
    [f.value, f.aside, f.box] = [box.querySelector("dd"), box.querySelector("small"), box];
    $("facts").append(box);
  }
  const drawHead = () => {
    const name = status.name || "A peer";
    put($("name"), name);
    const title = `${name}${status.swarm ? ` in ${status.swarm}` : ""} - Starling`;
    if (document.title !== title) document.title = title;
    titled(name);
    put($("where"), [status.swarm && `swarm ${status.swarm}`, status.address, known(status.uptime_seconds) && `up ${since(status.uptime_seconds)}`, status.version && `version ${status.version}`].filter(Boolean).join("  ·  "));
    for (const f of facts) {
      const [value, aside = ""] = f.of();
      put(f.value, value);
      put(f.aside, aside || "\u00a0");
      const both = `${value} ${aside}`.trim();
      if (f.box.title !== both) f.box.title = both;
    }
    put($("situation"), status.situation || "\u00a0");
    const over = status.condition === "finished" || status.condition === "leaving";
    $("pause").disabled = !connected || over;
    $("leave").disabled = !connected || over;
    $("rewire").disabled = !connected || over || !status.topology;
    put($("pause"), status.paused ? "Resume" : "Pause");
    for (const id of ["pause", "leave", "rewire"]) $(id).hidden = simulated();  // a simulation takes no commands
  };

  // ---- members that need attention ----
  const groups = { slow: (m) => m.state !== "left" && m.state !== "failed" && m.slowdown >= Net.SLOW, silent: (m) => m.state === "suspect" || m.state === "failed", left: (m) => m.state === "left", all: () => true };
  const drawMarked = () => {
    const slow = members.filter(groups.slow).sort((a, b) => b.slowdown - a.slowdown), of = (state) => members.filter((m) => m.state === state).sort((a, b) => byName(a.name, b.name));
    const failed = of("failed"), suspect = of("suspect"), shut = of("quarantined"), paused = members.filter((m) => m.condition === "paused");
    const names = (list, tell = (m) => m.name) => list.slice(0, 3).map((m) => escape(tell(m))).join(", ") + (list.length > 3 ? ` and ${list.length - 3} more` : "");
    const words = [
      slow.length && `<b>▲ slow:</b> ${names(slow, (m) => `${m.name} (${digits(m.slowdown, 2)}×)`)}`,
      failed.length && `<b>× failed:</b> ${names(failed)}`,
      suspect.length && `<b class="warn">◆ suspect:</b> ${names(suspect)}`,
      shut.length && `<b class="warn">■ quarantined:</b> ${names(shut)}`,
      paused.length && `<b class="calm">‖ paused:</b> ${names(paused)}`,
    ].filter(Boolean).join(" &nbsp; ") || (members.length ? "all members are healthy" : "");
    if (drawMarked.last !== words) $("marked").innerHTML = drawMarked.last = words;
    // Text for screen readers: names only, because figures change every second.
    put($("aloud"), [["slow", slow], ["failed", failed], ["suspect", suspect], ["quarantined", shut], ["paused", paused]].filter(([, list]) => list.length)
      .map(([what, list]) => `${what}: ${list.slice(0, 3).map((m) => m.name).join(", ")}${list.length > 3 ? ` and ${list.length - 3} more` : ""}`).join("; "));
  };

  // ---- the graph ----
  const graph = new Net.Graph($("net"), (id) => light(id), (id) => {
    const row = rows.get(id);
    if (!row || !row.tr.isConnected) return;
    const view = $("scroll");
    view.scrollTop = row.tr.offsetTop - view.clientHeight / 2;
    view.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  });
  const drawGraph = () => {
    graph.draw();
    graph.tell();
    const t = topology || { topology: "", members: [], edges: [] };
    const many = (n, one, more) => `${whole(n)} ${n === 1 ? one : more}`;
    const kinds = ["slow", "suspect", "failed", "quarantined", "paused"].map((k) => [k, members.filter((m) => Net.kindOf(m) === k).length]).filter(([, n]) => n > 0);
    const paused = members.filter((m) => m.condition === "paused" && t.members.includes(m.id)).length;
    put(document.querySelector("#graph figcaption"), t.topology ? `${many(t.members.length - paused, "member trains", "members train")}, ${paused ? `${whole(paused)} paused, ` : ""}${many(t.edges.length, "link", "links")}` +
      (known(t.contraction) ? `; factor per exchange${t.contraction_is_bound ? " at most" : ""} ${digits(t.contraction, 4)} of the squared disagreement.` : ".") : "");
    const label = t.topology ? `${t.topology}: ${many(t.members.length, "member", "members")}, ${many(t.edges.length, "link", "links")}, ` +
      `${many(graph.fresh, "exchange is", "exchanges are")} new or running${kinds.map(([k, n]) => `; ${n} ${k}`).join("")}. Use the arrow keys to select a member.` : "Members and links";
    if ($("net").getAttribute("aria-label") !== label) $("net").setAttribute("aria-label", label);
  };

  // ---- exchanges, rejections, traffic ----
  const COUNTS = [["completed", "started and completed"], ["answered", "answered"], ["aborted", "aborted"], ["rejected", "rejected"],
    ["half_applied_chunks", "half applied"], ["chunks_overlapped", "overlapped"], ["chunks_clipped", "clipped"], ["lost_weight", "lost weight"]];
  const counts = COUNTS.map(([key, name]) => {
    const box = document.createElement("div");
    box.innerHTML = `<dt>${name}</dt><dd>–</dd>`;
    $("counts").append(box);
    return [key, box.querySelector("dd")];
  });
  const reasons = [
    ["Chunks rejected", () => (status.exchanges || {}).chunks_refused],
    ["Connections rejected", () => status.connections_refused],
    ["Traffic", () => `${bytes(status.bytes_sent || 0)} sent, ${bytes(status.bytes_received || 0)} received`],
    ["Links open", () => `${whole(status.links_open)}, ${whole(status.bulk_links_open)} for parameters`],
    ["Process", () => `${or(status.memory_bytes, bytes)}, loop lag ${or(status.loop_lag_seconds, (x) => `${steady(x * 1000, 2)} ms`)}`],
  ].map(([name, of]) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = name;
    $("reasons").append(dt, dd);
    return [dd, of];
  });
  const drawCounts = () => {
    const e = status.exchanges || {};
    for (const [key, dd] of counts) put(dd, key === "lost_weight" ? steady(e[key] || 0, 2) : whole(e[key]));
    for (const [dd, of] of reasons) {
      const value = of();
      const some = value && typeof value === "object" ? Object.entries(value).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]) : null;
      put(dd, some ? some.map(([reason, n]) => `${reason.replaceAll("_", " ")} ${whole(n)}`).join(", ") || "none" : typeof value === "string" ? value : "none");
      dd.className = some && some.length ? "some" : "";
    }
  };

  // ---- events ----
  let listed = [];  // the event numbers on the page, latest first
  const drawEvents = () => {
    const list = $("events"), item = (event) => {
      const li = document.createElement("li");
      const at = new Date(event.time);
      li.className = event.level;
      li.innerHTML = `<time datetime="${escape(event.time)}">${escape(Number.isNaN(at.getTime()) ? clock(event.seconds) : at.toLocaleTimeString("en-GB"))}</time>` +
        `<b>${event.level === "error" ? "× " : event.level === "warning" ? "▲ " : ""}${escape(event.what)}</b><span>${escape(event.text)}</span>`;
      return li;
    };
    const latest = [...events].reverse();
    if (latest.length === listed.length && latest.every((e, k) => e.number === listed[k])) return;
    const there = new Set(listed), view = $("events-view"), at = view.scrollTop, high = view.scrollHeight;
    if (listed.length === 0 || !latest.some((e) => there.has(e.number))) {
      list.replaceChildren(...latest.map(item));
    } else {
      list.prepend(...latest.filter((e) => !there.has(e.number)).map(item));
      while (list.children.length > latest.length) list.lastChild.remove();
      if (at > 4) view.scrollTop = at + view.scrollHeight - high;  // keep the reader's scroll position
    }
    listed = latest.map((e) => e.number);
  };
  $("only-warnings").onchange = (event) => $("events").classList.toggle("few", event.target.checked);

  // ---- plots ----
  const timeStep = (span, wanted) => [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400].find((s) => span / s <= wanted) || niceStep(span, wanted);
  const against = {
    time: { key: "time", title: "time since this peer started", tick: clock, tell: clock, floats: true, step: timeStep, of: (p) => p.seconds },
    epochs: { ...axes.s, key: "epochs", title: "epochs of the swarm", tick: digits, tell: (x) => `${digits(x, 4)} epochs`, floats: true, of: (p) => p.swarm_samples / (status.epoch_samples || 1) },
  };
  let axis = against.time;
  const column = (of) => points.map((p) => [axis.of(p), of(p)]).filter(([x, y]) => known(x) && Number.isFinite(x) && known(y) && Number.isFinite(y));
  const plot = (id, title, o) => new Plot(id, title, () => {
    const make = (c) => o.series(c).map((s) => (o.log && o.log() ? { ...s, points: s.points.filter((p) => p[1] > 0) } : s)).filter((s) => s.points.length > 0);
    const series = make(theme()), caption = o.caption();
    if (series.every((s) => s.points.length < 2)) return { blank: o.missing, caption };
    const last = (s) => `${s.name} ${o.tell(s.points[s.points.length - 1][1])}`;
    const spec = { ...o, x: axis, series, caption, log: Boolean(o.log && o.log()), label: `${title} against ${axis.title}; now: ${series.map(last).join("; ")}` };
    return { ...spec, draw: (w, c, forFile) => lines({ ...spec, series: make(c) }, w, c, forFile) };
  }, o.keyed && ((c) => keys(o.series(c), c)));
  // The squared disagreement V falls by the topology's factor with every exchange, push or round (docs/API.md, "prediction")
  // and grows by the same amount with every sample (docs/RESULTS.md, "The prediction"); that amount is fitted in logarithms.
  // Exchanges and steps of other peers are unknown; assume this peer's number per sample.
  const predict = () => {
    const at = points.filter((p) => known(p.fall) && known(p.swarm_samples)), by = topology && topology.prediction && topology.prediction.by;
    const begun = (by === "round" ? status.steps : (status.exchanges || {}).completed) / status.samples;  // per sample
    if (!by || at.length < 3 || !(begun > 0)) return [];
    const first = at[0], last = at[at.length - 1], fall = (p) => p.fall * begun, unit = [];
    // A page opened late starts at the equilibrium of growth and decrease.
    let v = first.swarm_samples > 0.02 * last.swarm_samples ? 1 / fall(first) : first.swarm_samples;
    let before = first, logs = 0, looks = 0;
    for (const p of at) {
      const more = Math.max(0, p.swarm_samples - before.swarm_samples), a = fall(p) * more;
      v = v * Math.exp(-a) + (a > 1e-9 ? -Math.expm1(-a) / a : 1) * more;
      unit.push([p, v]);
      before = p;
      if (p.distance > 0 && v > 0) { logs += Math.log((p.distance * p.distance) / v); ++looks; }
    }
    if (looks < 3) return [];
    const source = Math.exp(logs / looks);
    return unit.filter(([p, w]) => w > 0 && p.distance > 0).map(([p, w]) => [axis.of(p), Math.sqrt(source * w)]);
  };
  const plots = [
    plot("plot-loss", "Loss", { y: "loss", tick: digits, tell: (x) => digits(x), log: () => $("log-loss").checked, missing: "No step yet.",
      series: (c) => [{ name: "this peer", color: c.colors[0], width: 2.2, points: column((p) => p.loss) }, { name: "median member", color: c.colors[7], dash: "3 4", width: 1.6, points: column((p) => p.median_loss) }],
      caption: () => "Recent training batches, smoothed. Dashed: the median member, since this page was opened." }),
    plot("plot-accuracy", "Accuracy", { y: "accuracy", tick: percent, tell: percent, most: 1.0001, missing: "This replica has not been evaluated yet.",
      series: (c) => [{ name: "this peer", color: c.colors[2], width: 2.2, points: column((p) => p.accuracy) }],
      caption: () => "This peer's replica on up to 1,000 test samples, as many as can be evaluated in 2 % of the time." }),
    plot("plot-distance", "Distance between partners", { y: "distance", tick: digits, tell: (x) => digits(x), log: () => true, missing: "No exchange yet.",
      series: (c) => [{ name: "measured", color: c.colors[0], width: 2.2, points: column((p) => p.distance) },
        ...(topology && topology.prediction && topology.prediction.by
          ? [{ name: "predicted", legend: "predicted from the topology", color: c.colors[1], dash: "3 4", width: 1.6, points: predict() }] : [])],
      keyed: true,
      caption: () => {
        const told = topology && topology.prediction;
        return "Distance between partners at an exchange, mean over members. " +
          (told && told.words ? `${told.by ? "Dashed: predicted, with a fitted level. " : ""}${escape(told.words)}` : "");
      } }),
    plot("plot-speed", "Speed of all members", { y: "samples per second", tick: count, tell: (x) => `${count(x)} samples/s`, zero: true, missing: "No speed reported yet.",
      series: (c) => [{ name: "all members", color: c.colors[3], width: 2.2, points: column((p) => p.samples_per_second) }],
      caption: () => "The sum of the speeds last reported by the members." }),
  ];
  plots.push(new Plot("plot-pipeline", "Stages of this peer", () => {
    const pipeline = status.pipeline;
    if (!pipeline || pipeline.steps === 0) return null;
    return { draw: (w, c, forFile) => Pipelines.draw([pipeline], w, c, forFile),
      caption: "Measured: a recent batch (without a flush some of them), a box with the number of its micro-batch for each pass. Gaps are time in which a stage waits; below a row is how many micro-batches it keeps." + Pipelines.table([pipeline]) };
  }, Pipelines.keys));
  const drawPlots = () => plots.forEach((p) => p.draw());
  for (const input of document.querySelectorAll("input[name=axis]")) input.onchange = () => { axis = against[input.value]; drawPlots(); };
  $("log-loss").onchange = drawPlots;

  // ---- the table ----
  const MARKS = { suspect: "◆", failed: "×", left: "○", quarantined: "■", paused: "‖", joining: "○", finished: "○" };
  const byName = new Intl.Collator("en", { numeric: true }).compare;
  const names = new Map();  // id -> name
  const columns = [
    { key: "name", title: "Member", wide: 18, text: true, sort: (m) => m.name },
    { key: "state", title: "State", wide: 12, text: true, sort: (m) => m.condition, show: (m) => [m.condition, m.state] },
    { key: "speed", title: "Samples/s", wide: 9.5, sort: (m) => m.samples_per_second, show: (m) => [or(m.samples_per_second, count)] },
    { key: "slowdown", title: "Slowdown", wide: 9.5, sort: (m) => m.slowdown, show: (m) => [or(m.slowdown, (x) => `${groups.slow(m) ? "▲ " : ""}${x >= 10 ? Math.round(x) : x.toFixed(1)}×`), groups.slow(m) ? "slow" : ""] },
    { key: "loss", title: "Loss", wide: 8, sort: (m) => m.loss, show: (m) => [steady(m.loss)] },
    { key: "staleness", title: "Staleness", wide: 9.5, sort: (m) => m.staleness, show: (m) => [or(m.staleness, (x) => x.toFixed(1))] },
    { key: "steps", title: "Steps", wide: 8.5, sort: (m) => m.steps, show: (m) => [whole(m.steps)] },
    { key: "partner", title: "Partner", wide: 12, text: true, sort: (m) => names.get(m.partner) || null, show: (m) => [m.partner ? names.get(m.partner) || m.partner.slice(0, 8) : "–"] },
    { key: "heard", title: "Last seen", wide: 10.5, sort: (m) => (m.this_peer ? -1 : m.last_heard_seconds), show: (m) => [m.this_peer ? "here" : known(m.last_heard_seconds) ? since(m.last_heard_seconds) : "never"] },
    { key: "device", title: "Device", wide: 11, text: true, sort: (m) => m.device, show: (m) => [m.device || "–"] },
  ];
  const SETTLED = ["name", "state", "device"];  // columns whose order rarely changes
  let order = { key: "name", down: false }, sortedAt = 0;
  const rows = new Map();  // id -> { tr, cells, shown }
  const body = document.querySelector("#table tbody");
  const heads = columns.map((c) => {
    const th = document.createElement("th");
    th.scope = "col";
    th.style.width = `${c.wide}%`;
    if (c.text) th.className = "text";
    th.innerHTML = `<button type="button">${c.title}</button>`;
    th.firstChild.onclick = () => {
      order = { key: c.key, down: order.key === c.key ? !order.down : !c.text };
      sortedAt = 0;
      drawTable();
    };
    document.querySelector("#table thead tr").append(th);
    return th;
  });
  // The page of another peer: only valid HOST:PORT texts become links.
  const page = (m) => (/^(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$/.test(m.http || "") && !m.this_peer ? `http://${m.http}/` : "");
  const makeRow = (id) => {
    const tr = document.createElement("tr"), cells = columns.map((c, k) => {
      const cell = document.createElement(k === 0 ? "th" : "td");
      if (k === 0) cell.scope = "row";
      if (c.text) cell.className = "text";
      tr.append(cell);
      return cell;
    });
    tr.onpointerenter = () => graph.point(id);
    tr.onpointerleave = () => graph.point(null);
    const row = { tr, cells, shown: [] };
    tr.dataset.id = id;
    rows.set(id, row);
    watch.observe(tr);
    return row;
  };
  // For rows that are out of sight only the status columns are updated at once; the rest is updated with every fifth redraw or
  // when the row scrolls into view. Laying out thousands of changed numbers per second dominates the browser's work otherwise.
  const inSight = new Set(), AT_ONCE = ["state", "device", "speed", "slowdown"];
  let drawings = 0;
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const { id } = target.dataset, row = rows.get(id);
      if (!isIntersecting || !row) { inSight.delete(id); continue; }
      inSight.add(id);
      fill(row, members.find((m) => m.id === id) || row.member);
    }
  });
  const fill = (row, m) => {
    const all = row.member === undefined || inSight.has(m.id) || drawings % 5 === 0;
    row.member = m;
    const slow = groups.slow(m), link = page(m);
    const name = [m.name, link, m.this_peer, slow].join("\n");
    if (row.shown[0] !== name) {
      row.shown[0] = name;
      row.cells[0].innerHTML = (link ? `<a href="${escape(link)}" target="_blank" rel="noopener noreferrer">${escape(m.name)}</a>` : escape(m.name)) +
        (m.this_peer ? "<small>this peer</small>" : "") + (slow ? '<small class="slow">straggler</small>' : "");
      row.cells[0].title = `${m.name} at ${m.address}, ${m.id}`;
    }
    columns.forEach((c, k) => {
      if (k === 0 || (!all && !AT_ONCE.includes(c.key))) return;
      const [words, kind = ""] = c.show(m), now = words + "\n" + kind;
      if (row.shown[k] === now) return;
      row.shown[k] = now;
      if (c.key === "state") row.cells[k].innerHTML = `<span class="mark" aria-hidden="true">${MARKS[m.condition] || "●"}</span>${escape(words)}`;
      else if (row.cells[k].firstChild) row.cells[k].firstChild.data = words;
      else row.cells[k].textContent = words;
      row.cells[k].className = (c.text ? "text " : "") + kind;
    });
    if (row.tr.dataset.state !== m.state) row.tr.dataset.state = m.state;
    if (row.tr.dataset.name !== m.name) row.tr.dataset.name = m.name;
  };
  const light = (id) => {
    for (const tr of body.querySelectorAll("tr.at")) tr.classList.remove("at");
    if (id !== null && rows.has(id)) rows.get(id).tr.classList.add("at");
  };
  const compare = (a, b) => {
    const of = columns.find((c) => c.key === order.key), x = of.sort(a), y = of.sort(b);
    if (known(x) !== known(y)) return known(x) ? -1 : 1;  // unknown values come last in either direction
    const by = !known(x) ? 0 : typeof x === "string" ? byName(x, y) : x - y;
    return (order.down ? -by : by) || byName(a.name, b.name);
  };
  const drawTable = () => {
    names.clear();
    for (const m of members) names.set(m.id, m.name);
    const group = document.querySelector("input[name=show]:checked").value, words = $("filter").value.trim().toLowerCase();
    const has = (m) => groups[group](m) && (!words || [m.name, m.address, m.condition, m.device, m.id].some((t) => (t || "").toLowerCase().includes(words)));
    const wanted = members.filter(has);
    for (const [id, row] of rows) if (!names.has(id)) { watch.unobserve(row.tr); row.tr.remove(); rows.delete(id); inSight.delete(id); }
    ++drawings;
    const stay = new Set(wanted.map((m) => m.id));
    for (const [id, row] of rows) if (!stay.has(id)) row.tr.remove();
    for (const m of wanted) fill(rows.get(m.id) || makeRow(m.id), m);
    // Columns that change all the time are re-sorted only occasionally, and never during user input.
    const held = body.matches(":hover") || body.contains(document.activeElement), now = performance.now();
    if (sortedAt === 0 || !((held && !SETTLED.includes(order.key)) || (now - sortedAt < 4000 && !SETTLED.includes(order.key)))) {
      wanted.sort(compare);
      sortedAt = now;
      let at = body.firstChild;
      for (const m of wanted) {
        const tr = rows.get(m.id).tr;
        if (tr === at) at = at.nextSibling;
        else body.insertBefore(tr, at);
      }
    } else {
      for (const m of wanted) if (!rows.get(m.id).tr.isConnected) body.append(rows.get(m.id).tr);
    }
    heads.forEach((th, k) => {
      const sort = columns[k].key === order.key ? (order.down ? "descending" : "ascending") : "none";
      if (th.getAttribute("aria-sort") !== sort) th.setAttribute("aria-sort", sort);
    });
    const folded = earlier > 0 ? `, ${whole(earlier)} earlier ${earlier === 1 ? "life" : "lives"} not shown` : "";
    put($("shown"), (wanted.length === members.length ? `${whole(members.length)} ${members.length === 1 ? "member" : "members"}` : `${whole(wanted.length)} of ${whole(members.length)} members`) + folded);
    for (const input of document.querySelectorAll("input[name=show]")) {
      const n = members.filter(groups[input.value]).length;
      put(input.nextSibling, input.value === "all" || n === 0 ? input.value : `${input.value} ${whole(n)}`);
    }
  };
  for (const input of document.querySelectorAll("input[name=show]")) input.onchange = () => { sortedAt = 0; drawTable(); };
  $("filter").oninput = () => { sortedAt = 0; drawTable(); };
  $("filter").onkeydown = (event) => { if (event.key === "Escape") { $("filter").value = ""; $("filter").oninput(); } };

  // ---- drawing, at most once per second ----
  let drawnAt = -Infinity, timer = 0;
  const drawAll = () => {
    clearTimeout(timer);
    timer = 0;
    drawnAt = performance.now();
    graph.measure();
    plots.forEach((p) => p.measure());
    drawHead();
    drawMarked();
    drawGraph();
    drawCounts();
    drawEvents();
    drawPlots();
    drawTable();
    if (drawAll.first === undefined && status.name) {
      requestAnimationFrame(() => performance.mark("starling-first-state"));
      drawAll.first = true;
    }
  };
  const soon = () => {
    if (timer || document.hidden || !status.name) return;
    const wait = drawnAt + ROUND - performance.now();
    if (wait <= 0) drawAll();
    else timer = setTimeout(drawAll, wait);
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
  const drawKeys = () => { $("keys").innerHTML = Net.keys(); };
  dark.addEventListener("change", () => { drawKeys(); drawAll(); });
  let width = document.body.clientWidth, resized = 0;
  addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(resized);
    resized = setTimeout(drawAll, 120);
  });

  // ---- the connection ----
  const tell = (is, words) => {
    const pill = $("connection");
    if (pill.dataset.is !== is) pill.dataset.is = is;
    put(pill.lastChild, words);
    document.body.classList.toggle("stale", is !== "live" && members.length > 0);
  };
  // The reason with which a reachable peer rejects the stream; empty if it does not answer. (EventSource does not expose this.)
  const whyNot = async () => {
    const over = new AbortController(), late = setTimeout(() => over.abort(), 3000);
    try {
      const answer = await fetch("api/v1/live", { signal: over.signal });
      if (answer.status === 503) return (await answer.json()).error || "";
    } catch { /* unreachable */ } finally {
      clearTimeout(late);
      over.abort();  // a stream after all: the next attempt opens it
    }
    return "";
  };
  const lose = async () => {
    if (source) source.close();
    source = null;
    if (connected || failures === 0) lose.since = new Date();
    const lost = () => tell("lost", status.condition === "finished" ? "finished and offline" : members.length ? `disconnected since ${lose.since.toLocaleTimeString("en-GB")}, retrying` : "disconnected, retrying");
    if (connected) lost();
    connected = false;
    drawHead();
    clearTimeout(retry);
    retry = 0;
    excuse = await whyNot();
    if (excuse) tell("waiting", excuse);
    else lost();
    drawHead();
    retry = setTimeout(connect, excuse ? RETRY[1] : RETRY[Math.min(failures, RETRY.length - 1)]);
    ++failures;
  };
  const connect = () => {
    source = new EventSource("api/v1/live");
    heardAt = performance.now();
    const on = (name, take) => source.addEventListener(name, (message) => {
      heardAt = performance.now();
      take(JSON.parse(message.data));
    });
    on("history", (it) => { points = []; anew = true; it.points.forEach(remember); });
    on("topology", (it) => {
      topology = it;
      for (const p of points) if (!known(p.fall)) p.fall = fallOf(it);
      graph.setTopology(it);
      soon();
    });
    on("events", (it) => {
      if (anew) events = [];
      anew = false;
      const last = events.length ? events[events.length - 1].number : -1;
      events = [...events, ...it.events.filter((e) => e.number > last)].slice(-EVENTS);
      soon();
    });
    on("state", (it) => {
      ({ status, seconds } = it);
      members = it.members.filter((m) => !m.earlier_life);
      earlier = it.members.length - members.length;
      const losses = members.map((m) => (m.condition === "training" ? m.loss : null)).filter(known).sort((a, b) => a - b);
      remember(it.point && { ...it.point, median_loss: losses.length > 1 ? losses[losses.length >> 1] : null });
      graph.setMembers(members);
      if (!connected) { connected = true; failures = 0; excuse = ""; tell("live", "live"); if (!simulated()) Try.connected(); }
      soon();
    });
    source.onerror = lose;
  };
  setInterval(() => { if (source && performance.now() - heardAt > QUIET) lose(); }, 1000);

  // ---- commands to the peer ----
  const problem = (words) => { put($("problem"), words); $("problem").hidden = !words; };
  // The token accepted by this peer: stored per tab and origin, never in a URL.
  const KEY = "starling-token";
  let token = "";
  try { token = sessionStorage.getItem(KEY) || ""; } catch { /* no storage: keep it while the page is open */ }
  const keep = (words) => {
    token = words;
    try { if (words) sessionStorage.setItem(KEY, words); else sessionStorage.removeItem(KEY); } catch { /* as above */ }
  };
  // Asks for the token; null if cancelled. `wrong` explains why it is asked for again.
  const typed = (wrong) => new Promise((done) => {
    const words = $("token-words"), is = (sentence) => {
      put($("token-wrong"), sentence);
      words.setAttribute("aria-invalid", String(sentence !== ""));
    };
    $("token").returnValue = "";
    $("token").querySelector("form").onsubmit = (event) => {
      if (/^[A-Za-z0-9._~+/=-]+$/.test(words.value.trim())) return;
      event.preventDefault();
      is("Not a valid token: use only letters, digits and -_.~+/=.");
    };
    $("token").onclose = () => {
      const given = words.value.trim();
      words.value = "";
      done($("token").returnValue === "send" ? given : null);
    };
    $("token").showModal();
    is(wrong);  // after opening, so that screen readers announce it
  });
  $("token-cancel").onclick = () => $("token").close("");
  // Sends a command; returns the reason for a failure, or an empty text.
  const command = async (what, body, take = async () => {}) => {
    try {
      for (let words = token; ;) {
        const headers = { "Content-Type": "application/json", ...(words && { Authorization: `Bearer ${words}` }) };
        const answer = await fetch(`api/v1/${what}`, { method: "POST", headers, body: JSON.stringify(body) });
        if (answer.ok) {
          if (words !== token) keep(words);
          await take(answer);
          return "";
        }
        if (answer.status !== 401) {
          const said = await answer.json().catch(() => ({}));
          return `Rejected: ${said.error || `HTTP status ${answer.status}`}`;
        }
        keep("");
        const given = await typed(words && "The peer rejected this token.");
        if (given === null) return "Not sent: the peer requires its token.";
        words = given;
      }
    } catch {
      return "Not sent: no connection to the peer.";
    }
  };
  // What a command returns besides success, for the part of the page that tries the model.
  const request = async (what, body, read) => {
    let got = null;
    const wrong = await command(what, body, async (answer) => { got = await read(answer); });
    return { got, wrong };
  };
  const ask = async (what) => {
    problem("");
    problem(await command(what, {}));
  };
  $("pause").onclick = () => ask(status.paused ? "resume" : "pause");
  $("leave").onclick = () => $("sure").showModal();
  $("rewire").onclick = () => {
    $("wiring-words").value = status.topology;
    put($("wiring-wrong"), "");
    $("wiring").showModal();
    $("wiring-words").select();
  };
  $("wiring-cancel").onclick = () => $("wiring").close();
  $("wiring").querySelector("form").onsubmit = async (event) => {
    event.preventDefault();  // stays open until the peer has accepted it
    put($("wiring-wrong"), "");
    const wrong = await command("topology", { topology: $("wiring-words").value.trim() });
    if (wrong) put($("wiring-wrong"), wrong); else $("wiring").close();
  };
  $("sure").onclose = () => { if ($("sure").returnValue === "leave") ask("leave"); $("sure").returnValue = ""; };

  Try.begin({ request, put, escape, percent, name: () => status.name || "model" });
  drawKeys();
  drawAll();
  drawnAt = -Infinity;  // draw the first state immediately
  connect();
})();
