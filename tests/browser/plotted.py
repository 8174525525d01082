"""What a plot shows, read back from its SVG by its axes' own ticks."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"


class Plot:
    """One <svg> of a page."""

    def __init__(self, text):
        self.root = ET.fromstring(text)
        ids = {element.get("id") for element in self.root.iter() if element.get("id")}
        assert {use.get(HREF)[1:] for use in self.root.iter(f"{SVG}use")} <= ids
        values, places = zip(*self._y_ticks(), strict=True)
        self.slope = (values[-1] - values[0]) / (places[-1] - places[0])
        self.zero = values[0] - self.slope * places[0]

    def group(self, name):
        """The groups with this class."""
        return self.root.findall(f".//{SVG}g[@class='{name}']")

    def points(self, name):
        """(x, value) of the lines of a group; a list for each part that is unbroken."""
        parts = []
        for path in (p for group in self.group(name) for p in group.iter(f"{SVG}path")):
            for letter, x, y in re.findall(r"([ML]) (\S+) (\S+)", path.get("d")):
                if letter == "M":
                    parts.append([])
                parts[-1].append((float(x), self.zero + self.slope * float(y)))
        return parts

    def markers(self, name):
        """(x, value) of the markers of a group."""
        uses = [use for group in self.group(name) for use in group.iter(f"{SVG}use")]
        return [(float(u.get("x")), self.zero + self.slope * float(u.get("y"))) for u in uses]

    @property
    def texts(self):
        return Counter(text.text for text in self.root.iter(f"{SVG}text"))

    def _y_ticks(self):
        """(value, y) of the ticks on the left."""
        for tick in self.root.iter(f"{SVG}g"):
            use, text = tick.find(f"{SVG}g/{SVG}g/{SVG}use"), tick.find(f"{SVG}g/{SVG}text")
            if use is not None and text is not None and "end" in text.get("style"):
                yield float(text.text), float(use.get("y"))
