#!/usr/bin/env python3
"""Opens reports in a real browser, with the screens of a laptop and a phone, light and dark. Pages must be complete and
without console messages, and their plots must be saveable. report_test.py PROGRAM [--pictures DIR]; the last line is
"N passed, N failed"."""

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import require  # noqa: E402
from browser import Browser  # noqa: E402

LAPTOP, PHONE = (1366, 900), (390, 844)

PLOTS = ("return [...document.querySelectorAll('figure')].filter(f => f.querySelector('.plot')).map(f => ({id: f.id,"
         " lengths: [...f.querySelectorAll('.plot svg path.series')].map(p => p.getTotalLength()),"
         " shapes: f.querySelectorAll('.plot svg path, .plot svg circle, .plot svg line').length,"
         " points: [...f.querySelectorAll('.plot svg path.series')].map(p => (p.getAttribute('d').match(/[ML]/g) || []).length),"
         " bad: /NaN|Infinity|undefined/.test(f.querySelector('.plot').innerHTML),"
         " label: f.querySelector('.plot svg').getAttribute('aria-label') || '',"
         " wide: f.querySelector('.plot svg').getBoundingClientRect().width}))")
ROWS = ("return [...document.querySelectorAll('#plot-timeline .row')].map(r => ({peer: r.dataset.peer,"
        " slowness: Number(r.dataset.slowness), waiting: Number(r.dataset.waiting), stopped: Number(r.dataset.stopped),"
        " computing: Number(r.dataset.computing), title: r.querySelector('title').textContent,"
        " colors: [...r.querySelectorAll('path')].filter(p => p.getAttribute('class').startsWith('slow'))"
        "   .map(p => [p.getBBox().width * p.getTotalLength(), p.getAttribute('fill')]).sort((a, b) => b[0] - a[0])}))")


def check_png(path):
    data = open(path, "rb").read()
    require(data[:8] == b"\x89PNG\r\n\x1a\n", f"{path} does not begin as a PNG")
    at, packed, size = 8, b"", None
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        require(zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + length:at + 12 + length], "big"),
                f"{path}: a checksum is wrong")
        if kind == b"IHDR":
            size = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    pixels = zlib.decompress(packed)
    require(size and min(size) > 100 and len(pixels) >= size[0] * size[1], f"{path} has too few pixels")
    require(len(set(pixels)) > 20, f"{path} is empty")


def check_svg(path):
    root = xml.parse(path).getroot()
    require(root.tag == "{http://www.w3.org/2000/svg}svg", f"{path} is no SVG")
    drawn = [e for e in root.iter() if e.tag.split("}")[1] in ("path", "circle", "line")]
    require(len(drawn) > 3, f"{path} is empty")
    require("var(" not in open(path).read(), f"{path} needs the page's style")


class Reports(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.downloads = os.path.join(folder, "saved")
        os.mkdir(self.downloads)
        self.pages = {}

    def starling(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=300)
        require(done.returncode == 0, f"starling {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_runs(self):
        """A run with a straggler, two side by side, and a small sweep."""
        common = ["--data", "glyphs", "--model", "softmax", "--pace", "20ms", "--epochs", "0.4"]
        self.starling("simulate", *common, "--peers", "6", "--slow", "2=8", "--name", "straggler", "--out",
                      self.path("one"))
        self.pages["one"] = self.path("one/report.html")  # written by simulate
        for rule in ("pairwise", "d-psgd"):
            self.starling("simulate", *common, "--peers", "4", "--slow", "1=4", "--rule", rule, "--topology", "ring", "--out",
                          self.path(rule))
        self.pages["two"] = self.path("two.html")
        self.starling("report", self.path("pairwise"), self.path("d-psgd"), "--out", self.pages["two"], "--csv",
                      self.path("two.csv"))
        with open(self.path("pipelines.toml"), "w") as file:
            file.write('name = "pipelines"\npeers = 4\n[model]\nname = "mlp"\n[data]\nsource = "glyphs"\n[training]\n'
                       'pace = "20ms"\nepochs = 0.4\ndevices = "cpu:0,cpu:1,cpu:2"\nsplit = "stages"\n[pipeline]\n'
                       'micro_batches = 8\nlatency = "100us"\n[[peer]]\nnumber = 2\nspeeds = "0.25,1,1"\n')
        self.starling("simulate", self.path("pipelines.toml"), "--out", self.path("pipelines"))
        self.pages["pipelines"] = self.path("pipelines/report.html")
        self.starling("swarm", "--peers", "2", "--model", "lenet", "--data", "glyphs", "--steps", "60", "--batch-size", "32",
                      "--devices", "cpu:0,cpu:1", "--split", "stages", "--micro-batches", "4", "--out", self.path("measured"))
        with open(self.path("sweep.toml"), "w") as file:
            file.write('name = "small"\npeers = 4\n[model]\nname = "softmax"\n[data]\nsource = "glyphs"\n[training]\n'
                       'pace = "20ms"\nepochs = 0.3\n[[fault]]\npeer = 1\nslow = 1.0\nfrom = "0s"\n[sweep]\n'
                       'gossip.rule = ["pairwise", "d-psgd"]\nfault.1.slow = [1, 4, 16]\nseed = [1, 2, 3]\n')
        self.starling("sweep", self.path("sweep.toml"), "--out", self.path("sweep"))
        self.pages["sweep"] = self.path("sweep/report.html")
        self.starling("report", self.path("sweep"), "--csv", self.path("sweep.csv"))

    # Checks every page at a screen size and color scheme.
    def looks_whole(self, name, size, dark):
        browser = self.browser
        browser.look(*size, dark)
        browser.open(self.pages[name])
        plots = browser.run(PLOTS)
        seen = {plot["id"] for plot in plots}
        wanted = {"plot-accuracy", "plot-loss", "plot-consensus", "plot-timeline", "plot-graph"}
        staleness = browser.run("return document.querySelector('#plot-staleness').textContent")
        require("plot-staleness" in seen or "same staleness" in staleness, f"staleness: {staleness}")
        if name == "sweep":
            wanted |= {"plot-by-slow", "plot-by-rule"}
        if name == "pipelines":
            wanted |= {"plot-pipelines"}
        require(wanted <= seen, f"not drawn: {sorted(wanted - seen)}")
        for plot in plots:
            require(plot["shapes"] > 3 and plot["wide"] > 250, f"{plot['id']} is empty: {plot}")
            require(not plot["bad"], f"{plot['id']} has places that are no numbers")
            require(len(plot["label"]) > 20, f"{plot['id']} has no words for those who do not see it")
            if plot["id"] in ("plot-accuracy", "plot-loss", "plot-consensus"):
                require(plot["lengths"] and min(plot["lengths"]) > 20 and min(plot["points"]) > 2, f"no curve in {plot}")
        across = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        require(across[0] <= across[1], f"the page is wider than the screen: {across}")
        shade = browser.run("return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
        require((sum(shade) < 200) == dark, f"the page's color is {shade}")
        require(browser.run("return performance.getEntriesByType('resource').length") == 0, "it asks for other files")
        require(browser.run("return document.querySelectorAll('table caption').length") >= 2, "a table has no caption")
        nameless = browser.run("return [...document.querySelectorAll('button, input, select, [tabindex]')].filter(e =>"
                               " !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')"
                               " || e.closest('label'))).length")
        require(nameless == 0, "a control has no name")
        if self.pictures:
            what = f"{name}-{'phone' if size == PHONE else 'laptop'}-{'dark' if dark else 'light'}.png"
            with open(os.path.join(self.pictures, what), "wb") as file:
                file.write(base64.b64decode(browser.picture()))
        said = browser.said()
        require(not said, f"the console heard {said}")

    def straggler_stands_out(self):
        self.browser.look(*LAPTOP, False)
        self.browser.open(self.pages["one"])
        rows = {row["peer"]: row for row in self.browser.run(ROWS)}
        require(len(rows) == 6, f"rows of {sorted(rows)}")
        slow = rows.pop("p2")
        require(6.5 < slow["slowness"] < 9.5, f"p2 is 8 times slower, and shown as {slow['slowness']}")
        for peer, row in rows.items():
            require(0.8 < row["slowness"] < 1.25, f"{peer} is no slower than others, and shown as {row['slowness']}")
            require(row["colors"][0][1] != slow["colors"][0][1], f"{peer} has the straggler's color")
        require("times as long" in slow["title"], slow["title"])

    def waiting_is_seen(self):
        """In lock-step the other peers wait for the straggler."""
        self.browser.look(*LAPTOP, False)
        self.browser.open(self.pages["two"])
        self.browser.run("const s = document.getElementById('run'); s.value = [...s.options].find(o =>"
                         " o.text.includes('d-psgd')).value; s.dispatchEvent(new Event('change'));")
        rows = {row["peer"]: row for row in self.browser.run(ROWS)}
        require(rows["p1"]["waiting"] < 0.2 and 3.3 < rows["p1"]["slowness"] < 4.7, f"the straggler: {rows['p1']}")
        for peer in ("p0", "p2", "p3"):
            require(rows[peer]["waiting"] > 0.5, f"{peer} waits for the straggler: {rows[peer]}")

    def pipelines_are_drawn(self):
        """A Gantt chart for each kind of pipeline: a box for each pass, gaps beside a slow device."""
        self.browser.look(*LAPTOP, False)
        self.browser.open(self.pages["pipelines"])
        stages = self.browser.run("return [...document.querySelectorAll('#plot-pipelines .stage')].map(s => ({"
                                  "idle: Number(s.dataset.idle), kept: Number(s.dataset.kept),"
                                  " passes: s.querySelectorAll('path.pass').length, title: s.querySelector('title').textContent}))")
        require(len(stages) == 6, f"two pipelines of three stages: {stages}")
        for stage in stages:
            require(stage["passes"] == 16, f"passes of eight micro-batches: {stage}")
        require("speed 0.25" in stages[3]["title"], stages[3]["title"])
        require(stages[4]["idle"] > stages[1]["idle"], "the second stage waits for a slow one, and is not more idle")
        require(stages[0]["kept"] == 3, f"1f1b keeps as many micro-batches as there are stages: {stages[0]}")

    def measured_pipelines_are_drawn(self):
        """The last batch of each real peer in stages, and a table of what its stages took."""
        self.browser.look(*PHONE, False)
        self.browser.open(self.path("measured/report.html"))
        across = self.browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        require(across[0] <= across[1], f"the page is wider than the screen: {across}")
        self.browser.look(*LAPTOP, False)
        self.browser.open(self.path("measured/report.html"))
        stages = self.browser.run("return [...document.querySelectorAll('#plot-pipelines .stage')].map(s => [...s.querySelectorAll('.pass')].map(p => p.dataset.pass).sort().join())")
        require(stages == [",".join(["backward"] * 4 + ["forward"] * 4 + ["update"])] * 4, f"{stages}")
        rows = self.browser.run("return [...document.querySelectorAll('#plot-pipelines .stages tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        require([row[0] for row in rows] == ["p0, 1", "p0, 2", "p1, 1", "p1, 2"], f"{rows}")
        require(all(row[2] in ("cpu:0", "cpu:1") and float(row[3].split()[0]) > 0 and row[6] == "1" for row in rows), f"{rows}")
        require("as measured" in self.browser.run("return document.querySelector('#plot-pipelines figcaption').textContent"), "the caption")

    def axis_and_runs_can_be_chosen(self):
        browser = self.browser
        browser.look(*LAPTOP, False)
        browser.open(self.pages["two"])
        curve = "return [...document.querySelectorAll('#plot-loss path.series')].map(p => p.getAttribute('d'))"
        title = "return document.querySelector('#plot-loss svg').getAttribute('aria-label')"
        before = browser.run(curve)
        require(len(before) == 2, f"{len(before)} curves of two runs")
        browser.type("#axis input[value=t]", "\ue014")  # the right arrow key
        require("samples" in browser.run(title) and browser.run(curve) != before, "the right key does not choose samples")
        browser.click("#axis label:last-of-type")
        require("bytes" in browser.run(title), "a click does not choose bytes")
        browser.click("#log-loss")
        browser.click("#legend label:first-of-type")
        require(len(browser.run(curve)) == 1, "a run that is clicked away is still there")
        browser.type("#plot-loss .plot", "\ue014")
        require(browser.run("return document.querySelector('#plot-loss .tip').textContent.length") > 10,
                "the arrow keys tell no value")
        require(not browser.said(), "the console heard something")

    def kinds_have_one_curve(self):
        """Several seeds are a mean with a band, and a setting with numbers has a numeric axis."""
        browser = self.browser
        browser.look(*LAPTOP, False)
        browser.open(self.pages["sweep"])
        count = "return document.querySelectorAll('#plot-accuracy path.%s').length"
        require(browser.run(count % "series") == 6, f"{browser.run(count % 'series')} curves of 6 kinds")
        require(browser.run(count % "band") == 6, f"{browser.run(count % 'band')} bands of 6 kinds")
        require(browser.run("return document.querySelectorAll('#legend label').length") == 6, "the legend has other entries")
        dashes = browser.run("return new Set([...document.querySelectorAll('#plot-loss path.series')].map(p =>"
                             " p.getAttribute('stroke-dasharray') + p.getAttribute('stroke'))).size")
        require(dashes == 6, f"{dashes} kinds of lines")
        curve = "return document.querySelector('#plot-loss path.series').getAttribute('d')"
        before = browser.run(curve)
        require(browser.run("return document.getElementById('log-x').checked"), "kinds that take 16 times as long need a log axis")
        browser.click("#log-x")
        require(browser.run(curve) != before, "the switch changes nothing")
        # The places of 1, 4 and 16 on the axis, by the first kind's points.
        places = browser.run("return document.querySelector('#plot-by-slow path.series').getAttribute('d').slice(1)"
                             ".split('L').map(p => Number(p.split(' ')[0]))")
        require(len(places) == 3 and abs((places[2] - places[1]) / (places[1] - places[0]) - 4) < 0.01,
                f"1, 4 and 16 are at {places}")
        require(browser.run("return [...document.querySelectorAll('#plot-by-slow svg text')].some(t => t.textContent === 'slow')"),
                "the axis is not called slow")
        require(not browser.said(), "the console heard something")

    def amounts_are_on_a_numeric_axis(self):
        with open(self.path("rates.toml"), "w") as file:
            file.write('name = "rates"\npeers = 2\nlooks = 0\n[model]\nname = "softmax"\n[data]\nsource = "glyphs"\n[training]\n'
                       'steps = 20\n[gossip]\nrule = "all-reduce"\n[sweep]\n'
                       'network.bandwidth = ["1Gbit/s", "50Mbit/s", "100Mbit/s"]\n')
        self.starling("sweep", self.path("rates.toml"), "--out", self.path("rates"))
        browser = self.browser
        browser.look(*LAPTOP, False)
        browser.open(self.path("rates/report.html"))
        places = browser.run("return document.querySelector('#plot-by-bandwidth path.series').getAttribute('d').slice(1)"
                             ".split('L').map(p => Number(p.split(' ')[0]))")
        require(len(places) == 3 and abs((places[2] - places[1]) / (places[1] - places[0]) - 18) < 0.3,
                f"50, 100 and 1000 Mbit/s are at {places}")
        title = "bandwidth (Gbit/s)"
        require(browser.run(f"return [...document.querySelectorAll('#plot-by-bandwidth svg text')].some(t => t.textContent === '{title}')"),
                f"the axis is not called {title}")
        text = browser.run("return document.querySelector('#plot-by-bandwidth').textContent")
        require("3 runs with 1 seed, in virtual time." in text, f"the caption is {text}")
        require(not browser.said(), "the console heard something")

    def interrupted_runs_are_marked(self):
        shutil.copytree(self.path("pairwise"), self.path("stopped"))
        with open(self.path("stopped/summary.json")) as file:
            summary = json.load(file)
        summary.update(interrupted=True, epochs=0.1, epochs_asked=0.4)
        with open(self.path("stopped/summary.json"), "w") as file:
            file.write(json.dumps(summary) + "\n")
        self.starling("report", self.path("stopped"), self.path("d-psgd"), "--out", self.path("stopped.html"))
        browser = self.browser
        browser.look(*LAPTOP, False)
        browser.open(self.path("stopped.html"))
        for place in ("#table tbody", "#legend", "#plot-timeline figcaption", "#plot-graph figcaption", "#peers caption"):
            browser.run("const s = document.getElementById('run'); s.value = [...s.options].find(o =>"
                        " o.text.includes('pairwise')).value; s.dispatchEvent(new Event('change'));")
            words = browser.run(f"return document.querySelector('{place}').textContent")
            require("interrupted" in words, f"{place} says {words}")
        require(not browser.said(), "the console heard something")

    def save(self, button, name):
        path = os.path.join(self.downloads, name)
        if os.path.exists(path):
            os.remove(path)
        self.browser.click(button)  # a real click: browsers limit the files that scripts save
        # The browser reserves the name with an empty file and renames the complete download to it.
        suite.until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, lambda: f"{name} is not saved; there are {os.listdir(self.downloads)}")
        return path

    def plots_can_be_saved(self, name):
        self.browser.look(*LAPTOP, True)  # saved plots are light also in dark mode
        self.browser.open(self.pages[name])
        title = self.browser.run("return JSON.parse(document.getElementById('data').textContent).title")
        title = re.sub(r"[^A-Za-z0-9._-]+", "-", title + "-")
        for plot in self.browser.run(PLOTS):
            short = plot["id"].replace("plot-", "")
            for kind, check in (("svg", check_svg), ("png", check_png)):
                check(self.save(f"#{plot['id']} .saves button[data-kind={kind.upper()}]", f"{title}{short}.{kind}"))

    def table_can_be_saved(self, name):
        self.browser.look(*PHONE, False)
        self.browser.open(self.pages[name])
        saved = self.save("#save-table", {"two": "run-table.csv", "sweep": "small-table.csv"}[name])
        text = open(saved, newline="").read()
        require(text == open(self.path(name + ".csv"), newline="").read(), "the page's CSV is not the program's")
        lines = list(csv.DictReader(io.StringIO(text)))
        shown = self.browser.run("return [...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        require(len(lines) == len(shown), "the CSV has other rows than the page")
        for line, row in zip(lines, shown):
            for key in ("rule", "runs"):
                require(line[key] in row, f"{line[key]} is not in {row}")
            median = float(line["seconds_to_target_median"])  # four digits; the page has three
            require(any(re.fullmatch(r"[0-9.]+", cell.split(" ")[0]) and
                        abs(float(cell.split(" ")[0]) - median) <= 0.006 * median for cell in row), f"{median} is not in {row}")

    def run(self):
        self.case("runs write reports, and several runs make one report", self.make_runs)
        if self.failed:
            return
        self.browser = Browser(self.downloads)
        try:
            for name in self.pages:
                for size, what in ((LAPTOP, "a laptop"), (PHONE, "a phone")):
                    for dark in (False, True):
                        self.case(f"{name} is complete on {what}, {'dark' if dark else 'light'}",
                                  lambda: self.looks_whole(name, size, dark))
            self.case("a straggler stands out among timelines", self.straggler_stands_out)
            self.case("the report shows that peers wait for a straggler", self.waiting_is_seen)
            self.case("pipelines are drawn as Gantt charts", self.pipelines_are_drawn)
            self.case("measured pipelines are drawn, and their stages listed", self.measured_pipelines_are_drawn)
            self.case("a kind of several seeds is one curve with a band", self.kinds_have_one_curve)
            self.case("amounts in several units are on a numeric axis", self.amounts_are_on_a_numeric_axis)
            self.case("interrupted runs are marked", self.interrupted_runs_are_marked)
            self.case("axes and runs can be chosen by mouse and keyboard", self.axis_and_runs_can_be_chosen)
            for name in self.pages:
                self.case(f"plots of {name} are saved as SVG and PNG", lambda: self.plots_can_be_saved(name))
            for name in ("two", "sweep"):
                self.case(f"the table of {name} is saved as CSV", lambda: self.table_can_be_saved(name))
        finally:
            self.browser.close()


if __name__ == "__main__":
    sys.exit(suite.main(Reports))
