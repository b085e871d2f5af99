"use strict";
// The members of a swarm and their links on a canvas: shape and color show who is healthy, slow or silent; highlighted
// links show current exchanges.
const Net = (() => {
  const { FONT, count, digits, escape, theme } = Plots;
  const SLOW = 2;  // members slower than the median by this factor are marked
  const LABELED = 40;  // up to this number of members, all names are shown

  // The marker of a member.
  const kindOf = (m) => {
    if (m.state !== "alive") return m.state;
    if (m.condition === "paused") return "paused";
    if (m.condition !== "training" && m.condition !== "settling") return "resting";
    return m.slowdown >= SLOW ? "slow" : "alive";
  };
  const isMarked = (m) => !["alive", "resting"].includes(kindOf(m));
  const HOLLOW = ["paused", "resting", "left"];
  const colorOf = (kind, c, m) => {
    if (kind === "failed" || kind === "slow") return c.slow[4];
    if (kind === "suspect" || kind === "quarantined") return c.colors[4];
    if (kind === "left") return c.axis;
    return m && m.slowdown >= 1.25 ? c.slow[m.slowdown >= 1.75 ? 2 : 1] : c.colors[0];
  };
  // The outline of a marker; filled except for failed members and those in HOLLOW.
  const trace = (pen, kind, x, y, r) => {
    pen.beginPath();
    if (kind === "failed") {
      pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r); pen.moveTo(x + r, y - r); pen.lineTo(x - r, y + r);
    } else if (kind === "slow") {
      pen.moveTo(x, y - 1.25 * r); pen.lineTo(x + 1.2 * r, y + r); pen.lineTo(x - 1.2 * r, y + r); pen.closePath();
    } else if (kind === "suspect") {
      pen.moveTo(x, y - 1.3 * r); pen.lineTo(x + 1.3 * r, y); pen.lineTo(x, y + 1.3 * r); pen.lineTo(x - 1.3 * r, y); pen.closePath();
    } else if (kind === "quarantined") {
      pen.rect(x - r, y - r, 2 * r, 2 * r);
    } else {
      pen.arc(x, y, r, 0, 7);
      if (kind === "paused") for (const dx of [-0.3 * r, 0.3 * r]) { pen.moveTo(x + dx, y - 0.45 * r); pen.lineTo(x + dx, y + 0.45 * r); }
    }
  };
  const path = {  // the same in SVG, for the legend
    alive: '<circle cx="9" cy="6" r="4" fill="COLOR"/>',
    slow: '<path d="M9 1L14 10H4Z" fill="COLOR"/>',
    suspect: '<path d="M9 .5L14.5 6L9 11.5L3.5 6Z" fill="COLOR"/>',
    failed: '<path d="M5 2L13 10M13 2L5 10" stroke="COLOR" stroke-width="2.4"/>',
    quarantined: '<path d="M5 2H13V10H5Z" fill="COLOR"/>',
    paused: '<circle cx="9" cy="6" r="4.6" fill="none" stroke="COLOR" stroke-width="1.6"/><path d="M7.5 4V8M10.5 4V8" stroke="COLOR" stroke-width="1.4"/>',
    resting: '<circle cx="9" cy="6" r="4" fill="none" stroke="COLOR" stroke-width="1.8"/>',
    left: '<circle cx="9" cy="6" r="4" fill="none" stroke="COLOR" stroke-width="1.8"/>',
  };
  const WORDS = { alive: "training", resting: "joining or finished" };
  const keys = () => {
    const c = theme();
    const key = (shape, words) => `<li><svg viewBox="0 0 18 12" aria-hidden="true">${shape}</svg>${words}</li>`;
    const line = (color, width) => `<path d="M1 6H17" stroke="${color}" stroke-width="${width}"/>`;
    return Object.keys(path).map((k) => key(path[k].replaceAll("COLOR", colorOf(k, c)), WORDS[k] || k)).join("") +
      key(line(c.quiet, 1), "may exchange") + key(line(c.exchanging, 2.4), "new or running exchange");
  };

  // ---- layout ----
  const turn = (part, r = 1) => [r * Math.sin(2 * Math.PI * part), -r * Math.cos(2 * Math.PI * part)];
  // Many members are spread over two or three circles, so that each is visible.
  const circle = (n) => {
    const rows = n > 160 ? 3 : n > 80 ? 2 : 1;
    return Array.from({ length: n }, (_, i) => turn(i / n, 1 - 0.045 * (i % rows)));
  };
  const line = (n) => Array.from({ length: n }, (_, i) => turn(0.07 + (0.86 * i) / Math.max(1, n - 1)));
  const star = (n) => [[0, 0], ...circle(n - 1)];
  const torus = (n, near) => {
    const columns = (near[0] || []).length >= 3 ? [...near[0]].sort((a, b) => a - b)[2] : Math.max(1, Math.min(2, n));
    return Array.from({ length: n }, (_, i) => [i % columns, Math.floor(i / columns)]);
  };
  const tree = (n) => Array.from({ length: n }, (_, i) => {
    const level = Math.floor(Math.log2(i + 1)), wide = 2 ** level;
    return turn((i + 1.5 - wide) / wide, level);
  });
  const hypercube = (n) => Array.from({ length: n }, (_, i) => {
    const at = [0, 0];
    for (let bit = 0; i >> bit; ++bit) {
      if (!((i >> bit) & 1)) continue;
      const far = 2 * 2 ** Math.floor((bit - 3) / 2), skew = Math.floor((bit - 3) / 2) % 2 === 0 ? 0.14 : -0.22;
      const [x, y] = bit === 0 ? [1, 0] : bit === 1 ? [0, 1] : bit === 2 ? [0.42, -0.36] : bit % 2 ? [far, -skew * far] : [skew * far, far];
      at[0] += x;
      at[1] += y;
    }
    return at;
  });
  const dumbbell = (n) => {
    const half = n - Math.floor(n / 2);
    return Array.from({ length: n }, (_, i) => {
      const left = i < half, [x, y] = turn(left ? 0.25 + (i + 1) / half : 0.75 + (i - half) / Math.max(1, n - half));
      return [x + (left ? -1.5 : 1.5), y];
    });
  };
  // Distances as in hops, near ones weighted most (Gansner, Koren & North, "Graph drawing by stress majorization", GD 2004,
  // section 2, weights 1/d^2), starting from the previous layout or from a circle.
  const stress = (n, near, before) => {
    const hops = near.map((_, from) => {
      const d = new Int16Array(n).fill(-1), queue = [from];
      d[from] = 0;
      for (let k = 0; k < queue.length; ++k) for (const j of near[queue[k]]) if (d[j] < 0) { d[j] = d[queue[k]] + 1; queue.push(j); }
      return d;
    });
    const longest = Math.max(1, ...hops.map((d) => Math.max(...d)));
    const xs = new Float64Array(n), ys = new Float64Array(n);
    circle(n).forEach(([x, y], i) => { const at = before[i] || [x, y]; xs[i] = (at[0] * longest) / 2; ys[i] = (at[1] * longest) / 2; });
    for (let sweep = before.filter(Boolean).length > n / 2 ? 12 : 60; sweep > 0; --sweep) {
      for (let i = 0; i < n; ++i) {
        let x = 0, y = 0, sum = 0;
        for (let j = 0; j < n; ++j) {
          if (i === j) continue;
          const d = hops[i][j] < 0 ? longest + 1 : hops[i][j], weight = 1 / (d * d);
          const dx = xs[i] - xs[j], dy = ys[i] - ys[j], part = d / Math.max(1e-9, Math.sqrt(dx * dx + dy * dy));
          x += weight * (xs[j] + part * dx);
          y += weight * (ys[j] + part * dy);
          sum += weight;
        }
        xs[i] = x / sum;
        ys[i] = y / sum;
      }
    }
    return Array.from(xs, (x, i) => [x, ys[i]]);
  };
  // Centered at 0, with the longer direction from -1 to 1.
  const fitted = (places) => {
    if (places.length < 2) return places.map(() => [0, 0]);
    const range = (k) => { const v = places.map((p) => p[k]); return [Math.min(...v), Math.max(...v)]; };
    const [left, right] = range(0), [top, bottom] = range(1), reach = Math.max(right - left, bottom - top, 1e-9) / 2;
    return places.map(([x, y]) => [(x - (left + right) / 2) / reach, (y - (top + bottom) / 2) / reach]);
  };
  const BY_DISTANCE = ["random-regular", "erdos-renyi", "file", "edges"];
  const OWN = { line, star, torus, hypercube, tree, dumbbell };

  class Graph {
    // `box` contains a canvas and a tooltip. Calls pointed(id or null) and chosen(id).
    constructor(box, pointed, chosen) {
      this.box = box;
      this.canvas = box.querySelector("canvas");
      this.tip = box.querySelector(".tip");
      this.pointed = pointed;
      this.ground = document.createElement("canvas");
      this.topology = { topology: "", members: [], edges: [] };
      this.members = [];
      this.partners = new Map();  // id -> id
      this.exchanges = [];  // [id, id, "late", "new" or "running"]
      this.fresh = 0;  // the number that are not late
      this.places = new Map();  // id -> [x, y], the longer direction from -1 to 1
      this.at = null;  // the id under the pointer
      this.canvas.onpointermove = this.canvas.onpointerdown = (event) => this.point(this.under(event));
      this.canvas.onpointerleave = () => this.point(null);
      this.canvas.onclick = (event) => { const id = this.under(event); if (id) chosen(id); };
      box.onblur = () => this.point(null);
      box.onkeydown = (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
        if (event.key === "Escape") this.point(null);
        if (event.key === "Enter" && this.at) chosen(this.at);
        if (step === undefined || this.drawn.length === 0) return;
        event.preventDefault();
        const now = this.drawn.findIndex((m) => m.id === this.at), last = this.drawn.length - 1;
        this.point(this.drawn[step === -Infinity ? 0 : step === Infinity ? last : (now + step + this.drawn.length) % this.drawn.length].id);
      };
      this.drawn = [];
    }

    setTopology(topology) {
      this.topology = topology;
      this.placed = null;
    }
    // members as in docs/API.md; the previous `partners` tell which exchanges are new.
    setMembers(members) {
      const fresh = new Set(), partners = new Map(), own = members.find((m) => m.this_peer);
      for (const m of members) {
        if (m.partner === null || m.partner === undefined || m.state === "failed" || m.state === "left") continue;
        partners.set(m.id, m.partner);
        if (this.partners.size > 0 && this.partners.get(m.id) !== m.partner) fresh.add(m.id);
      }
      this.members = members;
      this.partners = partners;
      this.exchanges = [];
      this.fresh = 0;
      const seen = new Set();
      const add = (a, b, is) => {
        const key = a < b ? a + b : b + a;
        if (seen.has(key)) return;
        seen.add(key);
        this.exchanges.push([a, b, is]);
        if (is !== "late") ++this.fresh;
      };
      if (own) for (const m of members) if (m.exchanging && !m.this_peer) add(own.id, m.id, "running");
      for (const id of fresh) add(id, partners.get(id), "new");
      for (const [id, partner] of partners) add(id, partner, "late");
    }

    // Training members are placed by the topology; others between them by name on a circle, otherwise in a row below.
    place() {
      const { members: ids, edges } = this.topology, training = new Set(ids);
      const others = this.members.filter((m) => !training.has(m.id) && m.state !== "left").slice(0, Math.max(20, ids.length));
      const key = this.topology.topology + "|" + others.map((m) => m.id).join();
      if (this.placed === key) return;
      this.placed = key;
      const family = this.topology.topology.split(":")[0], n = ids.length;
      const near = Array.from({ length: n }, () => []);
      for (const [a, b] of edges) { near[a].push(b); near[b].push(a); }
      const before = this.places, places = new Map();
      const own = n > 2 && (OWN[family] || (BY_DISTANCE.includes(family) && n <= 400 && stress));
      this.round = !own || own === line || (own === star && n > 2);
      if (!own) {
        const order = this.members.map((m) => m.id).filter((id) => training.has(id) || others.some((m) => m.id === id));
        const listed = order.filter((id) => training.has(id));
        const all = listed.length === n && listed.every((id, k) => id === ids[k]) ? order : [...ids, ...others.map((m) => m.id)];
        const round = circle(all.length);
        (all.length > 5 ? round : fitted(round)).forEach((at, k) => places.set(all[k], at));
      } else {
        fitted(own(n, near, ids.map((id) => before.get(id)))).forEach((at, k) => places.set(ids[k], at));
        others.forEach((m, k) => places.set(m.id, [-1 + (2 * (k + 0.5)) / others.length, 1.2]));
      }
      this.row = Boolean(own) && others.length > 0;
      this.places = places;
      this.paved = null;
    }

    // The links change rarely, so they have their own canvas.
    pave(size, scale, c) {
      const key = [this.placed, size, scale, c.page].join();
      if (this.paved === key) return;
      this.paved = key;
      this.ground.width = this.ground.height = size * scale;
      const pen = this.ground.getContext("2d"), { members: ids, edges } = this.topology;
      pen.scale(scale, scale);
      const thin = Math.ceil(edges.length / 5000);  // draw only every thin-th of very many links, which would otherwise be a black disk
      pen.strokeStyle = c.quiet;
      pen.lineWidth = edges.length > 400 ? 0.7 : 1;
      pen.globalAlpha = Math.min(0.6, Math.max(0.06, 6.5 / Math.sqrt(edges.length + 1)));
      for (const [a, b] of edges) {
        if (thin > 1 && (a * 31 + b * 17) % thin !== 0) continue;
        const from = this.places.get(ids[a]), to = this.places.get(ids[b]);
        if (!from || !to) continue;
        pen.beginPath();
        pen.moveTo(...this.spot(from));
        pen.lineTo(...this.spot(to));
        pen.stroke();
      }
    }

    spot([x, y]) {
      return [this.size / 2 + x * this.reach, this.size / 2 + (this.row ? y - 0.1 : y) * this.reach];
    }

    measure() {
      this.width = this.box.clientWidth;
    }
    draw() {
      this.place();
      const widest = `${220 + 45 * this.places.size}px`;  // few members need little room
      if (this.box.style.maxWidth !== widest) {
        this.box.style.maxWidth = widest;
        this.measure();
      }
      const c = theme(), size = this.size = Math.max(200, this.width), scale = Math.min(3, devicePixelRatio || 1);
      const many = this.places.size > LABELED;
      this.reach = (size / 2 - (many ? 30 : 40)) / (this.row ? 1.1 : 1);
      this.pave(size, scale, c);
      if (this.canvas.width !== size * scale) this.canvas.width = this.canvas.height = size * scale;
      const pen = this.canvas.getContext("2d");
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
      pen.drawImage(this.ground, 0, 0);
      pen.scale(scale, scale);
      const join = (a, b) => {
        const from = this.places.get(a), to = this.places.get(b);
        if (!from || !to) return;
        pen.beginPath();
        pen.moveTo(...this.spot(from));
        pen.lineTo(...this.spot(to));
        pen.stroke();
      };
      pen.strokeStyle = c.exchanging;
      for (const is of ["late", "new", "running"]) {
        pen.globalAlpha = is === "late" ? (many ? 0.12 : 0.35) : is === "new" ? (many ? 0.55 : 0.9) : 1;
        pen.lineWidth = is === "late" ? 1.2 : is === "new" ? (many ? 1.3 : 2.2) : 3;
        for (const [a, b, what] of this.exchanges) if (what === is) join(a, b);
      }
      if (this.at !== null) {
        const ids = this.topology.members, me = ids.indexOf(this.at);
        const own = this.topology.edges.filter(([a, b]) => a === me || b === me);
        pen.globalAlpha = own.length > 60 ? 0.35 : 0.9;
        pen.strokeStyle = c.colors[0];
        pen.lineWidth = own.length > 60 ? 0.7 : 1.4;
        for (const [a, b] of own) join(ids[a], ids[b]);
      }
      pen.globalAlpha = 1;

      this.drawn = this.members.filter((m) => this.places.has(m.id));
      const n = this.drawn.length, r = Math.max(2.6, Math.min(9, (2 * Math.PI * this.reach) / n / 3.2));
      // Marked members are drawn last, on top.
      const order = [...this.drawn].sort((a, b) => (isMarked(a) || a.this_peer) - (isMarked(b) || b.this_peer));
      for (const m of order) {
        const kind = kindOf(m), [x, y] = this.spot(this.places.get(m.id)), own = isMarked(m) ? Math.max(r, 5.5) : r;
        const hollow = HOLLOW.includes(kind);
        trace(pen, kind, x, y, own);
        pen.fillStyle = hollow ? c.page : colorOf(kind, c, m);
        pen.strokeStyle = kind === "failed" || hollow ? colorOf(kind, c, m) : c.page;
        pen.lineWidth = kind === "failed" ? 2.6 : hollow ? 2 : 1.2;
        if (kind !== "failed") pen.fill();
        pen.stroke();
        if (m.this_peer || m.id === this.at) {
          pen.beginPath();
          pen.arc(x, y, own + 4, 0, 7);
          pen.strokeStyle = m.id === this.at ? c.colors[0] : c.ink;
          pen.lineWidth = 1.8;
          pen.stroke();
        }
      }
      const taken = [], nodes = this.drawn.map((m) => this.spot(this.places.get(m.id)));
      const hits = (left, middle, wide) => taken.some(([l, t, w]) => left < l + w && l < left + wide && Math.abs(t - middle) < 13) ||
        nodes.some(([x, y]) => left < x + r + 1 && x - r - 1 < left + wide && Math.abs(y - middle) < r + 6);
      pen.textBaseline = "middle";
      pen.lineJoin = "round";
      for (const m of [...order].reverse()) {
        const marked = isMarked(m);
        if (many && !marked && !m.this_peer && m.id !== this.at) continue;
        const at = this.places.get(m.id), [x, y] = this.spot(at), far = Math.hypot(...at) || 1;
        pen.font = `${marked || m.this_peer ? "600 " : ""}${many ? 11.5 : 12.5}px ${FONT}`;
        const wide = pen.measureText(m.name).width, off = Math.max(r, 5.5) + (marked || m.this_peer ? 10 : 6);
        const [dx, dy] = this.round && far > 0.3 ? [at[0] / far, at[1] / far] : [0, -1];
        // Outside the circle, else above or below the node, where the name covers neither a node nor another name.
        const place = [[dx, dy], [0, -1], [0, 1]].map(([u, v]) => [
          Math.max(2, Math.min(this.size - wide - 2, x + u * off - wide / 2 + (u * wide) / 2)),
          Math.max(8, Math.min(this.size - 8, y + v * (off + 3))),
        ]).find(([left, middle]) => !hits(left, middle, wide));
        if (!place) continue;
        const [left, middle] = place;
        taken.push([left, middle, wide]);
        pen.strokeStyle = c.page;
        pen.lineWidth = 3.5;
        pen.strokeText(m.name, left, middle);
        pen.fillStyle = marked ? colorOf(kindOf(m), c, m) : c.ink;
        pen.fillText(m.name, left, middle);
      }
    }

    under(event) {
      const frame = this.canvas.getBoundingClientRect(), x = event.clientX - frame.left, y = event.clientY - frame.top;
      let best = null, nearest = 14;
      for (const m of this.drawn) {
        const [a, b] = this.spot(this.places.get(m.id)), far = Math.hypot(a - x, b - y);
        if (far < nearest) { nearest = far; best = m.id; }
      }
      return best;
    }
    // Highlights a member with its links and figures; null for none.
    point(id) {
      if (id === this.at) return;
      this.at = id;
      this.pointed(id);
      this.draw();
      this.tell();
    }
    tell() {
      const m = this.at !== null && this.members.find((it) => it.id === this.at);
      this.tip.hidden = !m || !this.places.has(m.id);
      if (this.tip.hidden) return;
      const [x] = this.spot(this.places.get(m.id));
      const degree = this.topology.edges.filter(([a, b]) => this.topology.members[a] === m.id || this.topology.members[b] === m.id).length;
      const words = [m.condition];
      if (m.samples_per_second !== null) words.push(`${count(m.samples_per_second)} samples/s`);
      if (m.slowdown >= 1.25) words.push(`${digits(m.slowdown, 2)}× slower than the median`);
      if (degree > 0) words.push(`${degree} ${degree === 1 ? "link" : "links"}`);
      const all = `<b>${escape(m.name)}</b><br>${words.map(escape).join("<br>")}`;
      if (this.told !== all) this.tip.innerHTML = this.told = all;
      const flips = x > this.size / 2;
      this.tip.style.left = flips ? "auto" : `${x + 16}px`;
      this.tip.style.right = flips ? `${this.size - x + 16}px` : "auto";
      const y = this.spot(this.places.get(m.id))[1];
      this.tip.style.top = `${Math.max(4, Math.min(this.size - 90, y - 20))}px`;
    }
  }
  return { Graph, keys, kindOf, SLOW };
})();
