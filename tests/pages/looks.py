"""How a page looks: on screens of two widths, by day and by night."""

WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")
NO_SCROLL = "document.documentElement.scrollWidth <= window.innerWidth"
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true })"

LUMINANCE = """color => {
    const linear = color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
        const c = part / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}"""


def luminance_of(page, selector, name):
    """The relative luminance of a colour of the first such element: 0 is black, 1 white."""
    read = f"element => getComputedStyle(element).{name}"
    color = page.locator(selector).first.evaluate(read)
    return page.evaluate(f"({LUMINANCE})('{color}')")


def contrast(one, other):
    """Of two luminances, as WCAG has it."""
    low, high = sorted((one, other))
    return (high + 0.05) / (low + 0.05)


def looks(page):
    """(width, scheme), once the page is shown so: every one of them."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            yield width, scheme
