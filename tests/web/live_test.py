#!/usr/bin/env python3
"""Opens the live page in a real browser: with recordings, which a server in this file plays back like a peer (docs/API.md),
and with real peers, one slow and one killed. live_test.py PROGRAM [--pictures DIR]; uses the page built with the program. The
last line is "N passed, N failed"."""

import base64
import contextlib
import copy
import http.client
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import HANG, Beats, require  # noqa: E402
from browser import Browser  # noqa: E402
from recording import Player, Recording  # noqa: E402

os.environ.setdefault("STARLING_EXPORT", "none")  # peers leave no models

LAPTOP, PHONE = (1366, 900), (390, 844)
DEATH_MAX = 15  # seconds, until a killed peer is shown as failed
CHANGE_MAX = 2  # seconds, until a change of another peer's condition is shown
EPOCH = 60000  # samples of the built-in glyphs
RIGHT, ENTER, ESCAPE = "\ue014", "\ue007", "\ue00c"

CURVES = ("return [...document.querySelectorAll('#curves figure')].map(f => ({id: f.id,"
          " curves: [...f.querySelectorAll('path.series')].map(p => ({name: p.dataset.name, d: p.getAttribute('d'), long: p.getTotalLength()})),"
          " bad: /NaN|Infinity|undefined/.test(f.innerHTML), label: f.querySelector('svg[role=img]').getAttribute('aria-label') || ''}))")
# The number of colors on the graph's canvas, and the painted fraction.
PAINTED = ("const c = document.querySelector('#net canvas'), d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
           " return [new Set(d).size, d.filter(x => x).length / d.length]")
ROWS = ("return [...document.querySelectorAll('#table tbody tr')].map(r => ({name: r.dataset.name, state: r.dataset.state,"
        " cells: [...r.cells].map(c => c.textContent), link: (r.querySelector('a') || {}).href || ''}))")
# The texts of cards that are wider than their place, and so cut or above others.
CUT = ("return [...document.querySelectorAll('.facts dt, .facts dd, .facts small, .counts dt, .counts dd, #situation')]"
       ".filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline').map(e => e.textContent)")
PILL = "return document.getElementById('connection').dataset.is"
NAMELESS = ("return [...document.querySelectorAll('button, input, select, [tabindex]')].filter(e => !(e.textContent.trim()"
            " || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label'))).map(e => e.outerHTML)")
SHIFTED = ("return new Promise(done => { new PerformanceObserver(l => done(l.getEntries().filter(e => !e.hadRecentInput)"
           ".reduce((s, e) => s + e.value, 0))).observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(0), 300); })")

SHIFTS = ("return new Promise(done => { new PerformanceObserver(l => done(l.getEntries().flatMap(e => e.sources.map(s => (s.node && (s.node.id || s.node.className"
          " || s.node.nodeName)) + ' ' + [s.previousRect.x, s.previousRect.y] + '->' + [s.currentRect.x, s.currentRect.y])))).observe({type: 'layout-shift', buffered: true}); setTimeout(() => done([]), 300); })")


# Notes whether the first state is part of a page's first picture.
NOTE_FIRST_PICTURE = ("requestAnimationFrame(() => { const name = document.getElementById('name');"
                      " window.firstPictureHasState = !!name && name.textContent !== 'A peer'; });")


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class LivePages(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        page = os.path.join(os.path.dirname(program), "generated", "node", "live_page")
        self.player = Player(open(page, "rb").read())
        self.recordings = {}

    def close(self):
        self.player.close()

    def record(self, name, peers, epochs, faults):
        path = os.path.join(self.folder, name)
        with open(path + ".toml", "w") as file:
            file.write(f'name = "{name}"\npeers = {peers}\nseed = 3\n[model]\nname = "softmax"\n[data]\nsource = "glyphs"\n'
                       f'[training]\npace = "500ms"\nepochs = {epochs}\n' + "".join(f"[[fault]]\n{fault}\n" for fault in faults))
        done = subprocess.run([self.program, "simulate", path + ".toml", "--out", path], capture_output=True, text=True,
                              timeout=300)
        require(done.returncode == 0, f"starling simulate: {done.stderr}")
        self.recordings[name] = Recording(self.program, path, EPOCH, http=self.player.address)

    def make_recordings(self):
        slow, crash = 'peer = {}\nslow = {}\nfrom = "0s"', 'peer = {}\ncrash = true\nfrom = "{}s"'
        self.record("large", 300, 40, [slow.format(7, 6.0), crash.format(12, 20), crash.format(77, 25), crash.format(150, 40)])
        self.record("small", 8, 1.2, [slow.format(3, 4.0), crash.format(5, 30)])
        self.record("three", 3, 0.4, [])
        self.large = self.recordings["large"]
        require(sorted(self.large.silent) == ["p12", "p150", "p77"], f"gone are {self.large.silent}")

    def until(self, script, what, *arguments):
        """Polls the script until its value is true, and returns it."""
        return suite.until(lambda: self.browser.run(script, *arguments), what, 0.05)

    def visit(self, recording, position, size=LAPTOP, dark=False):
        self.player.show(recording, position)
        self.browser.look(*size, dark)
        self.go(f"http://{self.player.address}/")
        self.see(recording, position)

    def go(self, address):
        self.browser.post("url", {"url": address})
        self.until("return performance.getEntriesByName('starling-first-state').length", "no state was drawn")

    def see(self, recording, position):
        """Waits until this frame is drawn."""
        step = f"step {recording.frames[position]['status']['steps']:,}"
        events = len(recording.frames[position]["happened"])
        self.until("return document.getElementById('facts').textContent.includes(arguments[0]) &&"
                   " document.getElementById('events').children.length === arguments[1]", f"{step} is not shown", step, events)

    def quiet(self):
        said = self.browser.said()
        require(not said, f"the console heard {said}")

    def rows(self):
        return {row["name"]: row for row in self.browser.run(ROWS)}

    def curves(self):
        return {plot["id"]: plot for plot in self.browser.run(CURVES)}

    # ---- recordings ----
    def looks_whole(self, name, size, dark):
        recording, browser = self.recordings[name], self.browser
        position = int(0.8 * len(recording.frames))
        self.visit(recording, position, size, dark)
        self.player.advance()
        self.see(recording, position + 1)
        plots = self.curves()
        require(set(plots) == {"plot-loss", "plot-accuracy", "plot-distance", "plot-speed"}, f"there are {sorted(plots)}")
        for plot in plots.values():
            require(plot["curves"] and plot["curves"][0]["long"] > 100, f"no curve in {plot}")
            require(not plot["bad"] and len(plot["label"]) > 20, f"{plot['id']}: {plot['label']}")
        require([c["name"] for c in plots["plot-distance"]["curves"]] == ["measured", "predicted"], "no prediction")
        colors, painted = browser.run(PAINTED)
        require(colors > 50 and 0.005 < painted < 0.9, f"the graph has {colors} colors on {painted} of its canvas")
        require(len(self.rows()) == len(recording.names), "a member has no row")
        across = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        require(across[0] <= across[1], f"the page is wider than the screen: {across}")
        require(not (cut := browser.run(CUT)), f"texts are cut: {cut}")
        tall = browser.run("return document.querySelector('#net canvas').getBoundingClientRect().height")
        require(tall <= 221 + 45 * len(recording.names), f"the graph of {len(recording.names)} members is {tall} pixels tall")
        shade = browser.run("return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
        require((sum(shade) < 200) == dark, f"the page's color is {shade}")
        asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name).filter(n => !/\\/api\\/v1\\/(live|input)$/.test(n))")
        require(not asked, f"unexpected requests: {asked}")
        require(not (nameless := browser.run(NAMELESS)), f"elements without an accessible name: {nameless}")
        self.does_not_shift(recording, position + 1, size, dark)
        if name == "small":
            self.is_accessible()
        if self.pictures:
            what = f"live-{name}-{'phone' if size == PHONE else 'laptop'}-{'dark' if dark else 'light'}.png"
            with open(os.path.join(self.pictures, what), "wb") as file:
                file.write(base64.b64decode(browser.picture()))
        self.quiet()

    def does_not_shift(self, recording, position, size, dark):
        """If the first state arrives before the page is drawn for the first time. On a busy machine this takes other visits,
        or is left out; some of the pages are always looked at."""
        early = 0
        for _ in range(20):
            if (shifted := self.browser.run(SHIFTED)) < 0.02:
                self.still += 1
                return
            early += self.browser.run("return window.firstPictureHasState")
            require(early < 3, f"the layout shifts by {shifted}: {self.browser.run(SHIFTS)}")
            self.visit(recording, position, size, dark)
        print("   left out: whether the layout of the next page shifts; the machine is busy")

    def is_accessible(self):
        """No violation of WCAG 2 at level A or AA, contrast included, as axe-core finds them."""
        axe = os.path.join(os.path.dirname(os.path.abspath(self.program)), "..", "python", "axe_playwright_python", "axe.min.js")
        if not os.path.exists(axe):
            print("   skipped: axe-core is not there (scripts/test installs it)")
            return
        with open(axe, encoding="utf-8") as file:
            self.browser.run(file.read())
        found = self.browser.run("return axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'], resultTypes: ['violations']})"
                                 ".then(r => [r.passes.length, r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).join('; '))])")
        require(found[0] > 10, f"axe-core checked only {found[0]} rules")
        require(not found[1], f"accessibility: {found[1]}")

    def first_picture_is_quick(self):
        took = []
        for _ in range(3):  # by Beats: as on an idle machine
            with Beats() as beats:
                self.visit(self.large, 60)
                took.append(beats.speed() * self.browser.run("return performance.getEntriesByName('starling-first-state')[0].startTime"))
        print(f"   300 members: first picture after {', '.join(f'{ms:.0f}' for ms in took)} ms")
        require(min(took) < 1000, f"the first picture took {took} ms")

    def updates_are_cheap(self):
        """Measures the processor time of the browser's main thread per update, in seconds."""
        cdp = lambda cmd, **params: self.browser.post("goog/cdp/execute", {"cmd": cmd, "params": params})
        busy = lambda: {m["name"]: m["value"] for m in cdp("Performance.getMetrics")["metrics"]}["TaskDuration"]
        self.visit(self.large, 50)
        cdp("Performance.enable", timeDomain="threadTicks")
        before, updates = busy(), 5
        for position in range(51, 51 + updates):
            self.player.advance()
            self.see(self.large, position)
        each = (busy() - before) / updates
        cdp("Performance.disable")
        print(f"   300 members: {1000 * each:.0f} ms of the main thread for an update")
        require(each < 0.4, f"an update takes {each} s")

    def a_burst_is_one_drawing(self):
        self.visit(self.large, 20)
        self.browser.run("window.drawn = 0; new MutationObserver(() => ++window.drawn).observe("
                         "document.querySelector('#facts dd'), {childList: true, characterData: true, subtree: true})")
        begun = time.monotonic()
        self.player.advance(30)
        self.see(self.large, 50)
        took, drawn = time.monotonic() - begun, self.browser.run("return window.drawn")
        require(drawn <= 2 + took, f"{drawn} drawings in {took} s")

    def plots_move(self):
        self.visit(self.large, 40)
        before = self.curves()
        self.player.advance(3)
        self.see(self.large, 43)
        for name, plot in self.curves().items():
            require(plot["curves"][0]["d"] != before[name]["curves"][0]["d"], f"{name} does not move")
        self.browser.click("#axis label:last-of-type")
        require("epochs" in self.curves()["plot-loss"]["label"], "a click does not choose epochs")
        self.browser.type("#plot-loss .plot", RIGHT)
        told = "return document.querySelector('#plot-loss .tip:not([hidden])')?.textContent"
        require("epochs" in (self.browser.run(told) or ""), "the arrow keys tell no value")
        self.player.advance()
        self.see(self.large, 44)
        require(self.browser.run(told), "what the keys told goes away when the plot is drawn again")
        self.quiet()

    def straggler_is_marked(self):
        self.visit(self.large, 60)
        rows = self.rows()
        slow = {name for name, row in rows.items() if "straggler" in row["cells"][0]}
        require(slow == {"p7"}, f"stragglers: {slow}")
        factor = rows["p7"]["cells"][3]
        require(factor.startswith("▲") and 5 <= float(factor[1:-1]) <= 7.5, f"p7 is 6 times slower, and shown as {factor}")
        marked = self.browser.run("return document.getElementById('marked').textContent")
        require("slow: p7" in marked and "failed: p12, p77, p150" in marked, marked)
        label = self.browser.run("return document.getElementById('net').getAttribute('aria-label')")
        require("1 slow" in label and "3 failed" in label and "297 members" in label, label)

    def a_death_is_seen(self):
        recording = self.large
        self.visit(recording, 40)
        row = lambda: self.rows()["p150"]
        require(row()["state"] == "alive", f"before: {row()}")
        self.player.advance(2)
        self.see(recording, 42)
        require(row()["state"] == "suspect" and row()["cells"][1] == "◆suspect", f"silent: {row()}")
        self.player.advance(4)
        self.see(recording, 46)
        require(row()["state"] == "failed" and row()["cells"][1] == "×failed", f"gone: {row()}")
        latest = self.browser.run("return document.querySelector('#events li').textContent")
        require("p150" in latest and "failed" in latest, f"the latest happening: {latest}")
        self.quiet()

    def table_by_keyboard(self):
        browser = self.browser
        self.visit(self.large, 60)
        first = "return document.querySelector('#table tbody tr').dataset.name"
        sort = "return document.querySelector('#table th:nth-child(4)').getAttribute('aria-sort')"
        require(browser.run(first) == "p0", "the names are not in order")
        browser.type("#table th:nth-child(4) button", ENTER)
        require(browser.run(first) == "p7" and browser.run(sort) == "descending", "the enter key does not sort by slowdown")
        browser.type("#table th:nth-child(4) button", ENTER)
        require(browser.run(first) != "p7" and browser.run(sort) == "ascending", "a second time does not turn it round")
        browser.type("#table th:nth-child(1) button", ENTER)
        names = [row["name"] for row in browser.run(ROWS)]
        require(names == sorted(names, key=lambda name: int(name[1:])) and len(names) == 300, f"by name: {names[:12]}")
        browser.type("#filter", "p29")
        require(sorted(self.rows()) == ["p29"] + [f"p29{k}" for k in range(10)], f"p29 leaves {sorted(self.rows())}")
        browser.type("#filter", ESCAPE)
        require(len(self.rows()) == 300, "escape does not bring everybody back")
        browser.type("#show input[value=all]", RIGHT)
        require(list(self.rows()) == ["p7"], f"slow are {list(self.rows())}")
        browser.type("#show input[value=slow]", RIGHT)
        require(list(self.rows()) == ["p12", "p77", "p150"], f"silent are {list(self.rows())}")
        self.player.advance()
        self.see(self.large, 61)
        require(list(self.rows()) == ["p12", "p77", "p150"], "the next state undoes the choice")
        browser.type("#net", RIGHT + RIGHT)
        tip = browser.run("return document.querySelector('#net .tip:not([hidden])')?.textContent") or ""
        require(tip.startswith("p1") and "links" in tip, f"the graph tells {tip}")
        self.quiet()

    def links_lead_to_other_pages(self):
        self.visit(self.large, 60)
        linked = {name: row["link"] for name, row in self.rows().items() if row["link"]}
        require(linked == {name: f"http://{self.player.address}/" for name in self.large.names if int(name[1:]) % 2 == 0 and name != "p0"},
                f"{len(linked)} links")
        self.go(linked["p2"])
        self.quiet()

    def stages_are_drawn(self):
        """A Gantt chart of what a peer in stages measured, and a table; a peer without stages has neither."""
        self.visit(self.recordings["small"], 60)
        require(not self.browser.run("return document.getElementById('plot-pipeline').children.length"), "a peer without stages has a chart")
        staged = copy.copy(self.recordings["small"])
        staged.frames = copy.deepcopy(staged.frames)
        stage = lambda name, busy, versions: {"name": name, "layers": f"fc{name}", "device": "cpu:0", "speed": 1, "busy_seconds": busy,
                                              "waiting_seconds": 2 - busy, "idle": 1 - busy / 2, "micro_batches_kept": 2, "versions": versions}
        passes = [{"stage": 1 + k % 2, "pass": ("forward", "backward", "update")[k // 2 % 3], "micro_batch": k, "begin_seconds": k / 10,
                   "end_seconds": (k + 1) / 10} for k in range(12)]
        for frame in staged.frames:
            frame["status"]["pipeline"] = {"schedule": "pipedream", "micro_batches": 1, "measured": True, "steps": 100, "step_seconds": 0.02,
                                           "bubble": 0.375, "stages": [stage("1", 1.5, 3), stage("2", 1.0, 1)], "passes": passes}
        self.visit(staged, 60)
        rows = self.browser.run("return [...document.querySelectorAll('#plot-pipeline .stages tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        require(rows == [["1", "fc1", "cpu:0", "15 ms", "25 %", "2", "3"], ["2", "fc2", "cpu:0", "10 ms", "50 %", "2", "1"]], f"{rows}")
        drawn = self.browser.run("return [...document.querySelectorAll('#plot-pipeline .stage')].map(s => [...s.querySelectorAll('.pass')].map(p => p.dataset.pass).join())")
        require(drawn == ["forward,backward,update,forward,backward,update"] * 2, f"{drawn}")
        label = self.browser.run("return document.querySelector('#plot-pipeline svg').getAttribute('aria-label')")
        require("bubble 37.5 %" in label and "NaN" not in label, label)
        self.quiet()

    def strangers_words_are_words(self):
        """Names and addresses come from other peers and are untrusted."""
        evil = copy.copy(self.recordings["small"])
        evil.frames = copy.deepcopy(evil.frames)
        for frame in evil.frames:
            frame["members"][1].update(name="<img src=x onerror='window.hurt=1'>", http="javascript:alert(1)//:80")
            frame["members"][2].update(http="evil.example/x:80")
            for event in frame["happened"]:
                event.update(text="<script>window.hurt=1</script>", what="<b>")
        self.visit(evil, 60)
        require(self.browser.run("return !window.hurt && !document.querySelector('td img, th img, #events script')"), "markup was interpreted")
        rows = self.browser.run(ROWS)
        require(not any(row["link"] for row in rows if row["name"][0] == "<" or row["name"] == "p2"), "a link leads elsewhere")
        require("<script>" in self.browser.run("return document.querySelector('#events span').textContent"), "the text is not shown")
        self.quiet()

    def a_lost_connection_is_told(self):
        self.visit(self.large, 30)
        self.player.cut()
        self.until(PILL + " === 'lost'", "a lost connection is not shown")
        require(len(self.rows()) == 300, "the known data is gone")
        require(self.browser.run("return document.getElementById('pause').disabled && document.getElementById('leave').disabled"),
                "an unreachable peer can be paused")
        self.player.advance(10)
        self.player.mend()
        self.until(PILL + " === 'live'", "it does not come back")
        self.see(self.large, 40)
        require(len(self.curves()["plot-loss"]["curves"][0]["d"].split("L")) > 30, "the history is gone")
        self.browser.said()  # the browser logs failed connections

    def loading_is_told(self):
        browser, player, pill = self.browser, self.player, "const p = document.getElementById('connection'); return [p.dataset.is, p.textContent.trim()]"
        phase = ("return [...document.querySelectorAll('#facts div')].find(d => d.querySelector('dt').textContent === 'State').querySelector('dd').textContent")
        told = pill + ".join() === 'waiting,the peer is still loading its data'"
        disabled = "return document.getElementById('pause').disabled && document.getElementById('leave').disabled"
        player.show(self.recordings["small"], 30)
        player.loading, player.refused = True, 0
        try:
            browser.look(*LAPTOP, False)
            browser.post("url", {"url": f"http://{player.address}/"})
            self.until(told, "loading is not shown")
            require(browser.run(phase) == "loading" and browser.run(disabled), f"its phase is {browser.run(phase)}")
            seen = player.refused
            suite.until(lambda: player.refused >= seen + 4, "it does not keep retrying")
            require(browser.run(told), f"the page says {browser.run(pill)} meanwhile")
        finally:
            player.loading = False
        self.until(PILL + " === 'live'", "it does not continue by itself")
        self.see(self.recordings["small"], 30)
        require(browser.run(phase) == "training" and not browser.run(disabled), "it still shows loading")
        # A known peer that disappears and returns: its data stays visible and is marked as stale.
        player.cut()
        self.until(PILL + " === 'lost'", "a lost connection is not shown")
        player.loading = True
        try:
            player.mend()
            self.until(told, "loading again is not shown")
            require(browser.run("return document.body.classList.contains('stale')") and len(self.rows()) == 8, "the known data is gone, or looks new")
            require(browser.run(phase) == "loading" and browser.run(disabled), f"its phase is {browser.run(phase)}")
        finally:
            player.loading = False
        self.until(PILL + " === 'live'", "it does not come back")
        require(not browser.run("return document.body.classList.contains('stale')"), "it is still marked as stale")
        browser.said()  # the browser logs failed requests

    def buttons_ask(self):
        browser, asked = self.browser, self.player.asked
        self.visit(self.recordings["small"], 60)
        browser.click("#pause")
        self.until("return document.getElementById('problem').hidden", "it was refused")
        suite.until(lambda: asked, "nothing is sent")
        require([(path, kind) for path, kind, _ in asked] == [("/api/v1/pause", "application/json")], f"asked: {asked}")
        browser.click("#leave")
        require(browser.run("return document.getElementById('sure').open"), "it leaves without confirmation")
        browser.click("#sure button[value=stay]")
        require(len(asked) == 1, f"asked: {asked}")
        self.player.refuses = "a command needs this machine or the peer's token"
        browser.click("#leave")
        browser.click("#sure button[value=leave]")
        said = self.until("return document.getElementById('problem').hidden ? '' : document.getElementById('problem').textContent", "no rejection is shown")
        require(self.player.refuses in said and asked[-1][0] == "/api/v1/leave", f"told: {said}; asked: {asked}")
        self.player.refuses = None
        browser.said()  # the refusal

    def a_topology_is_set(self):
        browser, player = self.browser, self.player
        is_open = lambda: browser.run("return document.getElementById('wiring').open")
        words = "return document.getElementById('wiring-words').value"
        self.visit(self.recordings["small"], 60)
        player.asked.clear()
        now = browser.run("return document.getElementById('net').getAttribute('aria-label').split(':')[0]")
        browser.click("#rewire")
        require(is_open() and browser.run(words) == now, f"the dialog has {browser.run(words)}, and the swarm {now}")
        focused = browser.run("const e = document.activeElement; return [e.id, e.closest('label').textContent.trim(), e.closest('dialog').matches(':modal')]")
        require(focused == ["wiring-words", "Topology", True], f"the keys go to {focused}")
        browser.click("#wiring-cancel")
        require(not is_open() and not player.asked, "it sends the command although cancelled")
        player.refuses = "there is no topology 'rign'; it would be ring"
        browser.click("#rewire")
        browser.run("document.getElementById('wiring-words').value = ''")
        browser.type("#wiring-words", "rign" + ENTER)
        said = self.until("return document.getElementById('wiring-wrong').textContent", "no rejection is shown")
        require(player.refuses in said and is_open(), f"told: {said}")
        browser.said()  # the refusal
        player.refuses = None
        browser.run("document.getElementById('wiring-words').value = ''")
        browser.type("#wiring-words", " ring " + ENTER)
        suite.until(lambda: not is_open(), "it stays open")
        require([(path, json.loads(body)) for path, _, body in player.asked] ==
                [("/api/v1/topology", {"topology": "rign"}), ("/api/v1/topology", {"topology": "ring"})], f"asked: {player.asked}")
        player.asked.clear()
        browser.click("#rewire")
        require(browser.run("return document.getElementById('wiring-wrong').textContent") == "", "an old rejection is shown")
        browser.click("#wiring-cancel")

    def a_token_is_asked_for(self):
        browser, player = self.browser, self.player
        token = "a-token.of~this+test/0123456789="
        opened = lambda: browser.run("return document.getElementById('token').open")
        stored = lambda: browser.run("return JSON.stringify({...sessionStorage})")
        def asked(times):
            suite.until(lambda: len(player.tokens) >= times, f"asked {len(player.tokens)} times, not {times}")
            return player.tokens[-1]
        said = "return document.getElementById('token').open && document.getElementById('token-wrong').textContent"
        self.visit(self.recordings["small"], 60)
        player.asked.clear(), player.tokens.clear()
        player.token = token
        try:
            browser.click("#pause")
            self.until("return document.getElementById('token').open", "no token is asked for")
            require(asked(1) is None, "a token is sent without input")
            focused = browser.run("const e = document.activeElement; return [e.id, e.type, e.closest('label').textContent.trim(), e.closest('dialog').matches(':modal')]")
            require(focused == ["token-words", "password", "Token", True], f"the keys go to {focused}")
            browser.type("#token-words", "two words" + ENTER)
            require("Not a valid token" in self.until(said, "an invalid token is sent") and len(player.tokens) == 1, "an invalid token is sent")
            browser.run("document.getElementById('token-words').value = ''")
            browser.type("#token-words", "wrong-token-0123456789" + ENTER)
            require(asked(2) == "Bearer wrong-token-0123456789", f"sent: {player.tokens}")
            told = self.until(said, "a wrong token is not reported")
            require(told == "The peer rejected this token.", told)
            require(stored() == "{}", f"a wrong token is kept: {stored()}")
            require(browser.run("return document.getElementById('token-words').value") == "", "the wrong words stay")
            browser.type("#token-words", ESCAPE)
            self.until("return document.getElementById('problem').textContent.includes('token')", "escape leads to nothing")
            require(not opened() and len(player.tokens) == 2, f"sent after all: {player.tokens}")
            require(browser.run("return document.activeElement.id") == "pause", "the keyboard focus is lost")
            browser.type("#pause", ENTER)
            self.until("return document.getElementById('token').open", "no token is asked for again")
            browser.type("#token-words", f" {token} " + ENTER)
            require(asked(4) == f"Bearer {token}", f"sent: {player.tokens}")
            self.until("return !document.getElementById('token').open && document.getElementById('problem').hidden", "the right token is rejected")
            self.until("return sessionStorage.length === 1", "the right token is not stored")
            require(json.loads(stored()) == {"starling-token": token}, stored())
            require(browser.run("return localStorage.length") == 0 and not browser.run("return document.cookie"), "it is stored beyond the session")
            # The next command, also after a reload, needs no new input.
            browser.click("#pause")
            require(asked(5) == f"Bearer {token}" and not opened(), "it is asked for again")
            self.go(f"http://{player.address}/")
            browser.click("#leave")
            browser.click("#sure button[value=leave]")
            require(asked(6) == f"Bearer {token}" and player.asked[-1][0] == "/api/v1/leave", f"sent: {player.tokens}")
            require(all(path in ("/api/v1/pause", "/api/v1/leave") for path, _, _ in player.asked), f"addresses: {player.asked}")
            require(token not in browser.run("return location.href + performance.getEntries().map(e => e.name).join()"), "it is in a URL")
            # If the peer has no token (403), asking for one is useless.
            player.token, player.refuses = None, "this peer accepts commands only from its own machine"
            browser.click("#pause")
            told = self.until("return document.getElementById('problem').hidden ? '' : document.getElementById('problem').textContent", "no rejection is shown")
            require(player.refuses in told and not opened(), told)
        finally:
            player.token = player.refuses = None
            browser.run("sessionStorage.clear()")
            browser.said()  # the refusals

    def predictions_go_by_the_rule(self):
        """The prediction for the peer's rule is drawn and described, or omitted if there is none."""
        caption = "return document.querySelector('#plot-distance figcaption').textContent"
        large, small = self.large, self.recordings["small"]
        self.visit(large, 60)
        require("that is a bound" in self.browser.run(caption), self.browser.run(caption))
        require("at most" in self.browser.run("return document.querySelector('#graph figcaption').textContent"), "the graph's figure is no bound")
        exchange = {c["name"]: c["d"] for c in self.visited(small, {})["curves"]}
        require("bound" not in self.browser.run(caption) and "predicted" in exchange, f"{exchange.keys()}: {self.browser.run(caption)}")
        keys = "return document.querySelector('#plot-distance .keys').textContent"
        require("predicted from the topology" in self.browser.run(keys), self.browser.run(keys))
        push = self.visited(small, {"by": "push", "words": "A push leaves much."})
        require({c["name"]: c["d"] for c in push["curves"]} == exchange, "an exchange's factor, said to be a push's, gives another curve")
        require("A push leaves much." in self.browser.run(caption), self.browser.run(caption))
        # Eight members, steps of 64 samples, an exchange every 8 steps: a round with the same effect as the corresponding exchanges.
        factor = small.topologies[60]["prediction"]["factor"]
        begun = small.frames[60]["status"]["exchanges"]["completed"] / small.frames[60]["status"]["steps"]
        members = len(small.topologies[60]["members"])
        rounds = self.visited(small, {"by": "round", "factor": factor ** (members * 2 * begun), "steps": 2})
        same = {c["name"]: c["d"] for c in rounds["curves"]}["predicted"]
        numbers = lambda d: [float(x) for x in re.findall(r"-?[0-9.]+", d)]
        apart = [abs(a - b) for a, b in zip(numbers(same), numbers(exchange["predicted"]), strict=True)]
        require(max(apart) <= 0.3, f"rounds that leave as much give a curve that is {max(apart)} pixels away")
        none = self.visited(small, {"by": None, "factor": None, "words": "No prediction: <b>momentum</b>."})
        require([c["name"] for c in none["curves"]] == ["measured"], f"predicted after all: {none}")
        require("predicted" not in self.browser.run(keys), self.browser.run(keys))
        require("No prediction: <b>momentum</b>." in self.browser.run(caption), self.browser.run(caption))
        self.quiet()

    def visited(self, recording, prediction):
        """The plot of distances with this prediction."""
        other = copy.copy(recording)
        other.topologies = [{**t, "prediction": {**t["prediction"], **prediction}} for t in recording.topologies]
        self.visit(other, 60)
        return self.curves()["plot-distance"]

    def motion_can_be_reduced(self):
        self.visit(self.recordings["small"], 60)
        moving = "return getComputedStyle(document.querySelector('#connection i')).animationName"
        require(self.browser.run(moving) != "none", "no activity indicator")
        self.browser.post("goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}})
        require(self.browser.run(moving) == "none", "the animation does not stop")

    # ---- real peers ----
    @contextlib.contextmanager
    def swarm(self, peers, slow):
        """Starts real peers; p0 starts the run, `slow` is five times slower. Yields the processes and p0's HTTP address."""
        processes, gossip, web = [], [free_port() for _ in range(peers)], [free_port() for _ in range(peers)]
        try:
            for k in range(peers):
                flags = ["--listen", f"127.0.0.1:{gossip[k]}", "--http", f"127.0.0.1:{web[k]}", "--name", f"p{k}", "--slot", f"{k}/{peers}",
                         "--data", "glyphs", "--pace", "20ms"]
                flags += ["--join", f"127.0.0.1:{gossip[0]}"] if k else ["--model", "softmax", "--seconds", "100000"]
                flags += ["--slow", f"{k}=5"] if k == slow else []
                with open(os.path.join(self.folder, f"peer{k}.log"), "w") as log:
                    processes.append(subprocess.Popen([self.program, "peer", *flags], stdout=log, stderr=log))
                if k == 0:
                    self.wait_for_port(processes[0], gossip[0])
                    self.wait_for_port(processes[0], web[0])
            yield processes, f"127.0.0.1:{web[0]}"
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()

    def wait_for_port(self, process, port):
        def listens():
            require(process.poll() is None, f"the process that shall listen at {port} ended: {self.log()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
        suite.until(listens, lambda: f"no process listens at {port}: {self.log()}")

    def log(self):
        return open(os.path.join(self.folder, "peer0.log")).read()

    def answer(self, address, path="/", body=None):
        connection = http.client.HTTPConnection(address, timeout=HANG)
        try:
            if body is None:
                connection.request("GET", path)
            else:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type") or "", answer.read()
        finally:
            connection.close()

    def shown_as(self, name, condition, beats=None):
        """The only row of the member shows this condition, within CHANGE_MAX if there is a clock."""
        one = ("const rows = [...document.querySelectorAll(`#table tbody tr[data-name='${arguments[0]}']`)];"
               "return rows.length === 1 && rows[0].cells[1].textContent.replace(/^[^a-z]/, '') === arguments[1]")
        what = f"{name} is not shown once, as {condition}"
        if not beats:
            self.until(one, what, name, condition)
            return
        took = beats.until(lambda: self.browser.run(one, name, condition), what, CHANGE_MAX)
        print(f"   real peers: {name} was shown as {condition} after {took:.1f} s")

    def names_are_taken_once(self, processes, address):
        """A live name is refused; the name of the dead p6 is free, and its earlier life is not listed beside the new one."""
        join = [self.program, "peer", "--listen", "127.0.0.1:0", "--join", json.loads(self.answer(address, "/api/v1/status")[2])["address"],
                "--data", "glyphs", "--pace", "20ms", "--export", "none"]
        twin = subprocess.run([*join, "--name", "p2"], capture_output=True, text=True, timeout=HANG, check=False)
        require(twin.returncode == 2 and "'p2' belongs to another live member" in twin.stderr and "--name p2-2" in twin.stderr,
                f"a second p2: {twin.returncode}, {twin.stderr[-500:]}")
        self.shown_as("p2", "training")
        with open(os.path.join(self.folder, "peer6-again.log"), "w") as log:
            processes[6] = subprocess.Popen([*join, "--name", "p6"], stdout=log, stderr=log)
        self.shown_as("p6", "training")
        require("2 earlier lives not shown" in self.browser.run("return document.getElementById('shown').textContent"), "earlier lives are not mentioned")

    def a_dropped_picture_is_predicted(self, address):
        """The page shows the class that the peer gives for the same pixels, asked for directly."""
        pixels = [255 - 8 * abs(x - 14) if 4 < y < 24 and abs(x - 14) < 4 else 0 for y in range(28) for x in range(28)]
        rows = b"".join(b"\0" + bytes(pixels[28 * y:28 * y + 28]) for y in range(28))
        chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
        self.until("return !document.getElementById('model').hidden", "the page does not offer to try the model")
        drop = ("const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0)), files = new DataTransfer();"
                "files.items.add(new File([bytes], 'one.png', {type: 'image/png'}));"
                "document.getElementById('drop').dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));")
        likeliest = "[...document.querySelectorAll('#guess li:first-child span')].map(e => e.textContent)"
        def equal():  # some steps lie between the two answers
            self.browser.run("document.getElementById('guess').replaceChildren()")
            self.browser.run(drop, base64.b64encode(png).decode())
            name, share = self.until(f"const words = {likeliest}; return words.length ? words : null", "no prediction is shown")
            status, _, body = self.answer(address, "/api/v1/predict", {"values": pixels})
            direct = json.loads(body)
            require(status == 200 and len(direct["probabilities"]) == 10 and abs(sum(direct["probabilities"]) - 1) < 1e-6, f"{status}: {body}")
            require(direct["class"] == max(range(10), key=lambda k: direct["probabilities"][k]), f"{direct}")
            return name == f"class {direct['class']}" and abs(float(share.split()[0].rstrip("%")) - 100 * direct["probability"]) < 3
        suite.until(equal, "the page shows another prediction than the peer gives")
        require(len(self.browser.run("return [...document.querySelectorAll('#guess li')].map(e => e.textContent)")) == 5, "not the five likeliest classes")
        self.browser.run(drop, base64.b64encode(b"no picture").decode())
        self.until("return document.getElementById('try-wrong').textContent.includes('one.png is not a picture')", "a file that is no picture is not refused")
        for values, words in (([1.0] * 783, "784 values"), ([256.0] * 784, "between 0 and 255"), ("x", "values")):
            status, _, body = self.answer(address, "/api/v1/predict", {"values": values})
            require(status == 400 and words in json.loads(body)["error"], f"{status}: {body}")
        status, kind, body = self.answer(address, "/api/v1/model", {})
        length = struct.unpack("<Q", body[:8])[0]
        header = json.loads(body[8:8 + length])
        end = max(tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
        require(status == 200 and header["__metadata__"]["model"] == "softmax" and len(body) == 8 + length + end, f"the model: {status}, {header}")
        self.quiet()

    def real_peers(self, processes, address):
        browser = self.browser
        browser.look(*LAPTOP, False)
        self.go(f"http://{address}/")
        browser.said()  # p0 has no stream while it loads its data
        everybody = "return document.querySelectorAll('#table tbody tr[data-state=alive]').length === 8"
        self.until(everybody, "eight peers do not find each other")
        marked = "return [...document.querySelectorAll('#table th .slow')].map(e => e.closest('tr').dataset.name).join()"
        self.until(marked + " === 'p3'", "the straggler is not marked, or others are")
        self.until("return ['loss', 'distance', 'speed'].every(n => document.querySelector(`#plot-${n} path.series`))", "a plot stays empty")
        if json.loads(self.answer(address, "/api/v1/status")[2])["accuracy"] is None:
            print("   skipped: the plot of accuracy, as p0 has not evaluated its replica yet")
        else:
            self.until("return document.querySelector('#plot-accuracy path.series')", "the plot of accuracy stays empty")
        before = {name: plot["curves"][0]["d"] for name, plot in self.curves().items() if plot["curves"]}
        self.until("return Object.entries(arguments[0]).every(([id, d]) => document.querySelector(`#${id} path.series`).getAttribute('d') !== d)",
                   "a plot does not move", before)
        links = self.rows()
        require(all(links[f"p{k}"]["link"] for k in range(1, 8)), f"without a link: {links}")
        doubtful = "return document.querySelector('#table tr[data-name=p6]').cells[1].textContent.match(/suspect|failed/)"
        failed = "return document.querySelector('#table tr[data-name=p6][data-state=failed]')"
        with Beats() as beats:
            processes[6].kill()
            took = beats.until(lambda: browser.run(doubtful), "a dead peer looks healthy", CHANGE_MAX)
            print(f"   real peers: the dead peer was not shown as training after {took:.1f} s")
            took += beats.until(lambda: browser.run(failed), "the death is not shown", DEATH_MAX)
            print(f"   real peers: the death was shown after {took:.1f} s")
        self.until("return document.getElementById('events').textContent.includes('p6')", "the death is not an event")
        if self.pictures:
            with open(os.path.join(self.pictures, "live-real-laptop-light.png"), "wb") as file:
                file.write(base64.b64decode(browser.picture()))
        self.quiet()
        self.a_dropped_picture_is_predicted(address)
        self.names_are_taken_once(processes, address)
        self.go(links["p1"]["link"])
        require(browser.run("return document.getElementById('name').textContent") == "p1", "p1's link leads elsewhere")
        button = "return document.getElementById('pause').textContent === arguments[0] && document.getElementById('facts').textContent.includes(arguments[1])"
        browser.click("#pause")
        self.until(button, "it does not pause", "Resume", "paused")
        browser.click("#pause")
        self.until(button, "it does not resume", "Pause", "training")
        self.go(f"http://{address}/")
        self.shown_as("p1", "training")
        for command, condition in (("pause", "paused"), ("resume", "training")):
            with Beats() as beats:
                ordered = subprocess.run([self.program, command, "p1", "--at", address], capture_output=True, text=True, check=False)
                require(ordered.returncode == 0 and ordered.stdout.startswith("p1 "), f"{command}: {ordered}")
                self.shown_as("p1", condition, beats)
            speed = lambda: self.rows()["p1"]["cells"][2]
            suite.until(lambda: (speed() == "0") == (condition == "paused"), lambda: f"p1 is {condition} at {speed()} samples/s")
        self.go(links["p1"]["link"])
        label = "return document.getElementById('net').getAttribute('aria-label').startsWith(arguments[0])"
        require(not browser.run(label, "ring:"), "the swarm is a ring already")
        browser.click("#rewire")
        browser.run("document.getElementById('wiring-words').value = ''")
        browser.type("#wiring-words", "ring" + ENTER)
        self.until(label, "the topology is not set", "ring:")
        self.quiet()
        browser.click("#leave")
        browser.click("#sure button[value=leave]")
        require(processes[1].wait(timeout=HANG) == 0, "p1 did not leave cleanly")

    def try_real_peers(self):
        with self.swarm(8, 3) as (processes, address):
            status, kind, body = self.answer(address)
            if status != 200 or not kind.startswith("text/html"):
                print(f"   skipped: real peers, as GET / answers {status} and no page")
                return
            self.case("GET / returns the page of this build", lambda: require(body == self.player.page, "it is a different page"))
            self.case("with real peers the page shows a straggler, a death and moving plots, and can pause, resume, rewire and remove peers", lambda: self.real_peers(processes, address))

    def a_text_is_continued(self):
        """The page of a peer with a network for text has a box that continues a prompt."""
        gossip, web = free_port(), free_port()
        text, network = os.path.join(self.folder, "verse.txt"), os.path.join(self.folder, "small.toml")
        with open(text, "w") as file:
            file.write("the cat sat on the mat, and the hat sat on the cat.\n" * 60)
        with open(network, "w") as file:
            file.write('type = "gpt"\nlayers = 1\nheads = 2\nfeatures = 16\ncontext = 16\n')
        flags = ["--listen", f"127.0.0.1:{gossip}", "--http", f"127.0.0.1:{web}", "--model", network, "--data", text, "--seconds", "100000", "--export", "none"]
        with open(os.path.join(self.folder, "peer0.log"), "w") as log:
            process = subprocess.Popen([self.program, "peer", *flags], stdout=log, stderr=log)
        try:
            self.wait_for_port(process, web)
            self.go(f"http://127.0.0.1:{web}/")
            self.browser.said()
            self.until("return !document.getElementById('writing').hidden && document.getElementById('drop').hidden", "the page has no box for text")
            written, button = "return document.getElementById('written').textContent", "return document.getElementById('write').textContent"
            self.browser.type("#prompt", "the hat")
            self.browser.run("document.getElementById('tokens').value = 40")
            self.browser.click("#write")
            self.until(f"return ({written.removeprefix('return ')}).length === 47", "there are not 40 characters after the prompt")
            require(self.browser.run(written).startswith("the hat"), "the text does not begin with the prompt")
            self.until(button + " === 'Continue the text'", "the button does not return")
            self.browser.run("document.getElementById('prompt').value = 'zz'")
            self.browser.click("#write")
            self.until("return document.getElementById('write-wrong').textContent.includes(\"'z' (U+007A)\")", "an unknown character is not refused")
            self.until("return document.getElementById('facts').textContent.includes('tokens/s')", "the page does not count tokens")
            self.browser.said()  # the refusal, as a status of HTTP
            status, _, body = self.answer(f"127.0.0.1:{web}", "/api/v1/predict", {"values": [1]})
            require(status == 404 and "reads text" in json.loads(body)["error"], f"{status}: {body}")
        finally:
            process.kill()
            process.wait()

    def run(self):
        self.case("simulated swarms become recordings", self.make_recordings)
        if self.failed:
            return
        self.browser = Browser(self.folder)
        self.still = 0  # pages whose layout was seen not to shift
        self.browser.post("goog/cdp/execute", {"cmd": "Page.addScriptToEvaluateOnNewDocument",
                                               "params": {"source": NOTE_FIRST_PICTURE}})
        try:
            self.visit(self.large, 0)  # the first page starts a process of the browser, and is resized while it loads
            for name in self.recordings:
                for size, what in ((LAPTOP, "a laptop"), (PHONE, "a phone")):
                    for dark in (False, True):
                        self.case(f"{name} is complete on {what}, {'dark' if dark else 'light'}", lambda: self.looks_whole(name, size, dark))
            self.case("the layout of some pages was seen not to shift", lambda: require(self.still > 0, "all were left out"))
            self.case("the first picture of 300 members appears within a second", self.first_picture_is_quick)
            self.case("an update of 300 members is cheap", self.updates_are_cheap)
            self.case("a burst of states is drawn at most once per second", self.a_burst_is_one_drawing)
            self.case("plots follow events and show values on request", self.plots_move)
            self.case("a straggler is marked by shape and text", self.straggler_is_marked)
            self.case("a death is shown as it happens", self.a_death_is_seen)
            self.case("the table can be sorted and filtered, and the graph navigated, by keyboard", self.table_by_keyboard)
            self.case("members' names link to their pages", self.links_lead_to_other_pages)
            self.case("the stages of a peer are drawn as measured", self.stages_are_drawn)
            self.case("untrusted texts are not interpreted", self.strangers_words_are_words)
            self.case("a lost connection is shown and restored", self.a_lost_connection_is_told)
            self.case("a page opened while its peer loads data shows this and continues by itself", self.loading_is_told)
            self.case("buttons send commands, and a rejection is shown", self.buttons_ask)
            self.case("the topology can be set, and a rejection is shown in the dialog", self.a_topology_is_set)
            self.case("a token is requested when needed, and stored in this tab only", self.a_token_is_asked_for)
            self.case("the prediction follows the rule, and is replaced by a sentence if there is none", self.predictions_go_by_the_rule)
            self.case("motion can be reduced", self.motion_can_be_reduced)
            self.try_real_peers()
            self.case("the page of a network for text continues a prompt", self.a_text_is_continued)
        finally:
            self.browser.close()


if __name__ == "__main__":
    sys.exit(suite.main(LivePages))
