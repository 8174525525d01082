"""What a plot shows, read back from its SVG by its axes' own ticks."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def svgs(page):
    """The drawings of a page, as a browser reads them there."""
    found = re.findall(r'<svg (?!class="spark").*?</svg>', page, re.DOTALL)
    return [svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) for svg in found]


def lines(path):
    """[(x, y), ...] of each part of a path of straight lines."""
    parts = []
    for letter, x, y in re.findall(r"([MLHVv])([\d.]+)(?: ([\d.]+))?", path):
        if letter == "M":
            parts.append([(float(x), float(y))])
            continue
        last = parts[-1][-1]
        place = {
            "L": (x, y),
            "H": (x, last[1]),
            "V": (last[0], x),
            "v": (last[0], last[1] + float(x)),
        }
        parts[-1].append(tuple(map(float, place[letter])))
    return parts


def axis(ticks):
    """What stands at a place, by the first tick and the last: (place, value) of each."""
    (start, low), *_, (end, high) = ticks
    return lambda place: low + (high - low) * (place - start) / (end - start)


class Plot:
    """One <svg> of a page."""

    def __init__(self, text):
        self.root = ET.fromstring(text)
        self.title = self.root.findtext(f"{SVG}title")
        ticks = [(float(y), float(text)) for _, y, text in self.labels("values")]
        self.value = axis(ticks)
        self.tenth = abs(self.value(0.1) - self.value(0))

    def all(self, name):
        """The elements with this class."""
        return self.root.findall(f".//*[@class='{name}']")

    def labels(self, name):
        """(x, y, text) of the texts of a group."""
        texts = [text for group in self.all(name) for text in group.iter(f"{SVG}text")]
        return [(float(text.get("x")), float(text.get("y")), text.text) for text in texts]

    def points(self, name):
        """(x, value) of the lines with this class; a list for each part that is unbroken."""
        found = [path.get("d") for group in self.all(name) for path in group.iter(f"{SVG}path")]
        parts = [part for path in found for part in lines(path)]
        return [[(x, self.value(y)) for x, y in part] for part in parts]

    def dots(self, name):
        """(x, value) of the circles with this class."""
        return [(float(c.get("cx")), self.value(float(c.get("cy")))) for c in self.all(name)]

    def band(self):
        """The least and the most of what is usual."""
        (rect,) = self.all("band")
        top = float(rect.get("y"))
        return self.value(top + float(rect.get("height"))), self.value(top)

    @property
    def texts(self):
        return Counter(text.text for text in self.root.iter(f"{SVG}text"))
