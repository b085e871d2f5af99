#!/usr/bin/env python3
"""Makes the figures of a small straggler sweep with `starling plot`, and reads them with poppler: size, fonts, words, and
pixels. plot_test.py PROGRAM [--pictures DIR]; the last line is "N passed, N failed"."""

import collections
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import require  # noqa: E402

SWEEP = """name = "stragglers"
peers = 3
[model]
name = "softmax"
[data]
source = "glyphs"
[training]
pace = "20ms"
epochs = 0.2
[[fault]]
peer = 1
slow = 1
[sweep]
gossip.rule = ["pairwise", "d-psgd"]
fault.1.slow = [1, 4, 16, 64]
seed = [1, 2, 3]
"""
KINDS = ["pairwise", "d-psgd"]
COLORS = [(0x33, 0x22, 0x88), (0xcc, 0x66, 0x77)]  # of the first two kinds
DPI = 300


class Pixels:
    """A rendered page: a PPM file."""

    def __init__(self, data):
        head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
        self.width, self.height = int(head.group(1)), int(head.group(2))
        self.data = data[head.end():]

    def row(self, y):
        return self.data[3 * self.width * y:3 * self.width * (y + 1)]

    def is_white_around(self, rim):
        """Whether the outermost pixels are white."""
        white = b"\xff" * (3 * rim)
        rows = [self.row(y) for y in range(self.height)]
        return (all(set(row) == {255} for row in rows[:rim] + rows[-rim:]) and
                all(row[:3 * rim] == white and row[-3 * rim:] == white for row in rows))

    def counts(self):
        return collections.Counter(zip(self.data[0::3], self.data[1::3], self.data[2::3]))


class Figures(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, *command):
        done = subprocess.run(command, capture_output=True, timeout=120)
        require(done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}")
        return done.stdout

    def plot(self, name, *flags):
        told = self.read(self.program, "plot", *flags, "--out", self.path(name)).decode()
        if self.pictures and not name.endswith(".svg"):
            picture = os.path.join(self.pictures, name.rsplit(".", 1)[0])
            if name.endswith(".pdf"):
                self.read("pdftoppm", "-r", str(DPI), "-png", "-singlefile", self.path(name), picture)
            else:
                os.replace(self.path(name), picture + ".png")
                os.symlink(picture + ".png", self.path(name))
        return told

    def make_runs(self):
        with open(self.path("sweep.toml"), "w") as file:
            file.write(SWEEP)
        self.read(self.program, "sweep", self.path("sweep.toml"), "--out", self.path("sweep"))

    def make_figures(self):
        runs = self.path("sweep")
        told = self.plot("curves.pdf", runs, "--only", "slow=4")
        require("means of 3 runs of each kind; bands are 95 % confidence intervals" in told, told)
        self.plot("factor.pdf", runs, "--x", "slow", "--label", "pairwise=Gossip")
        self.plot("rules.pdf", runs, "--x", "rule", "--y", "accuracy")
        self.plot("consensus.pdf", runs, "--y", "consensus", "--only", "slow=4", "--x", "samples")
        self.plot("all.pdf", runs, "--width", "5", "--font", "9")
        self.plot("ring.pdf", "--topology", "ring", "--peers", "16")
        self.plot("rounds.pdf", "--topology", "one-peer-exponential", "--peers", "8")
        self.plot("curves.svg", runs, "--only", "slow=4")
        self.plot("curves.png", runs, "--only", "slow=4", "--height", "2")

    def words(self, name):
        """The words of a PDF, with their boxes in points."""
        text = self.read("pdftotext", "-bbox", self.path(name), "-").decode()
        box = " ".join(rf'{side}="([\d.-]+)"' for side in ("xMin", "yMin", "xMax", "yMax"))
        return [(word, *map(float, places)) for *places, word in re.findall(f"<word {box}>(.*?)</word>", text)]

    def page(self, name):
        found = re.search(r"Page size:\s+([\d.]+) x ([\d.]+) pts", self.read("pdfinfo", self.path(name)).decode())
        return float(found.group(1)), float(found.group(2))

    def size_and_fonts(self, name, width, font):
        wide, high = self.page(name)
        require(abs(wide - 72 * width) < 0.1, f"the page is {wide} points wide, not {72 * width}")
        lines = self.read("pdffonts", self.path(name)).decode().splitlines()[2:]
        require(lines, "the page has no font")
        for line in lines:
            require(line.split()[-5] == "yes", f"a font is not embedded: {line}")
        sizes = collections.Counter()
        document = self.read("pdftohtml", "-xml", "-i", "-zoom", "1", "-stdout", self.path(name)).decode()
        fonts = {one.get("id"): float(one.get("size")) for one in xml.fromstring(document).iter("fontspec")}
        for text in xml.fromstring(document).iter("text"):
            sizes[fonts[text.get("font")]] += len("".join(text.itertext()))
        require(sizes and sizes.most_common(1)[0][0] == font, f"sizes of letters: {sizes}")
        # Exponents are smaller.
        require(all(0.6 * font <= size <= font for size in sizes), f"sizes of letters: {sizes}")
        for word, left, top, right, bottom in self.words(name):
            inside = 0 <= left < right <= wide and 0 <= top < bottom <= high
            require(inside, f"{word!r} is cut at {left, top, right, bottom}")

    def pixels(self, name):
        return Pixels(self.read("pdftoppm", "-r", str(DPI), "-singlefile", self.path(name)))

    def nothing_touches_the_border(self, name):
        page = self.pixels(name)
        require(page.is_white_around(4), "a pixel at the border is not white")
        require(len(page.counts()) > 20, "the page is empty")

    def kinds_differ(self, name, labels):
        counts = self.pixels(name).counts()
        for color in COLORS:
            require(counts[color] > 100, f"{counts[color]} pixels have the color {color}")
        words = [word for word, *_ in self.words(name)]
        for label in labels:
            require(words.count(label) == 1, f"{label} is {words.count(label)} times in {words}")

    def figures_have_names(self):
        """An SVG for readers of screens, a PDF in its metadata; and equal figures are equal bytes."""
        root = xml.parse(self.path("curves.svg")).getroot()
        svg = "{http://www.w3.org/2000/svg}"
        require(root.get("role") == "img", f"the role is {root.get('role')}")
        title, text = root.findtext(svg + "title"), root.findtext(svg + "desc")
        require(title == "accuracy (%) against virtual time (s)", f"the title is {title!r}")
        require("means of 3 runs of each kind" in text and "6 runs with 3 seeds, in virtual time." in text, f"{text!r}")
        texts = ["".join(element.itertext()) for element in root.iter(svg + "text")]
        for word in ("accuracy (%)", "virtual time (s)", "d-psgd", "pairwise"):
            require(texts.count(word) == 1, f"{word} is {texts.count(word)} times in {texts}")
        require(root.find(f".//{svg}symbol") is None, "letters of the SVG are drawings")
        with open(self.path("curves.pdf"), "rb") as file:
            first = file.read()
        for seconds, day in (("0", "1970-01-01"), ("86400", "1970-01-02")):
            os.environ["SOURCE_DATE_EPOCH"] = seconds
            self.plot("again.pdf", self.path("sweep"), "--only", "slow=4")
            del os.environ["SOURCE_DATE_EPOCH"]
            told = self.read("pdfinfo", "-isodates", self.path("again.pdf")).decode()
            require(re.search(r"Title:\s+accuracy \(%\) against virtual time", told), told)
            require(re.search(rf"CreationDate:\s+{day}T00:00:00Z", told), told)
            with open(self.path("again.pdf"), "rb") as file:
                require((file.read() == first) == (seconds == "0"), f"bytes with the date {day}")

    def curves_have_dashes_and_bands(self):
        root = xml.parse(self.path("curves.svg")).getroot()
        require(abs(float(root.get("width").removesuffix("pt")) - 237.6) < 0.1, f"the SVG is {root.get('width')} wide")
        lines, bands = {}, set()
        for element in root.iter("{http://www.w3.org/2000/svg}path"):
            style = dict(part.split(":", 1) for part in element.get("style", "").split(";") if ":" in part)
            style = {**dict(element.items()), **{key.strip(): value for key, value in style.items()}}
            if float(style.get("stroke-width", 0)) == 1.1:
                lines[style["stroke"]] = style.get("stroke-dasharray", "none")
            if style.get("fill-opacity") == "0.18":
                bands.add(style["fill"])
        require(len(lines) == 2 and len(set(lines.values())) == 2, f"dashes of the curves: {lines}")
        require(len(bands) == 2 and bands == set(lines), f"bands {bands} of curves {lines}")

    def numbers_are_on_a_numeric_axis(self):
        """The places of the numbers below the x axis are those of a logarithmic axis."""
        low = max(bottom for _, _, _, _, bottom in self.words("factor.pdf"))
        places = {float(word): (left + right) / 2 for word, left, top, right, bottom in self.words("factor.pdf")
                  if re.fullmatch(r"[\d.]+", word) and low - 24 < bottom < low - 6}
        require(len(places) >= 3, f"numbers at the x axis: {places}")
        from math import log
        (a, x), (b, y) = min(places.items()), max(places.items())
        for value, place in places.items():
            wanted = x + (y - x) * log(value / a) / log(b / a)
            require(abs(place - wanted) < 0.6, f"{value} is at {place}, not {wanted}")
        require("slow-down" in [word for word, *_ in self.words("factor.pdf")], "the axis is not called slow-down")

    def png_has_its_size(self):
        data = open(self.path("curves.png"), "rb").read()
        size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        require(size == (990, 600), f"the PNG has {size} pixels")
        at = data.index(b"pHYs") + 4
        density = int.from_bytes(data[at:at + 4], "big")
        require(abs(0.0254 * density - DPI) < 0.1 and data[at + 8] == 1, f"the PNG has {density} pixels per meter")
        require(zlib.crc32(data[at - 4:at + 9]) == int.from_bytes(data[at + 9:at + 13], "big"), "a checksum is wrong")

    def run(self):
        self.case("a straggler sweep runs", self.make_runs)
        if self.failed:
            return
        self.case("figures of the sweep and of topologies are drawn", self.make_figures)
        if self.failed:
            return
        columns = [(name, 3.3, 8) for name in ("curves.pdf", "factor.pdf", "rules.pdf", "consensus.pdf", "ring.pdf",
                                               "rounds.pdf")]
        for name, width, font in [*columns, ("all.pdf", 5, 9)]:
            self.case(f"{name} is {width} inches wide, with embedded fonts of {font} points",
                      lambda: self.size_and_fonts(name, width, font))
            self.case(f"nothing touches the border of {name}", lambda: self.nothing_touches_the_border(name))
        for name, labels in (("curves.pdf", KINDS), ("factor.pdf", ["Gossip", "d-psgd"]),
                             ("consensus.pdf", [*KINDS, "predicted"])):
            self.case(f"each kind has its color and one entry in the legend of {name}",
                      lambda: self.kinds_differ(name, labels))
        self.case("figures have titles, descriptions and no date of their own", self.figures_have_names)
        self.case("curves have dashes of their own, and bands", self.curves_have_dashes_and_bands)
        self.case("a setting with numbers has a numeric axis", self.numbers_are_on_a_numeric_axis)
        self.case("a PNG has 300 dots per inch", self.png_has_its_size)


if __name__ == "__main__":
    sys.exit(suite.main(Figures))
