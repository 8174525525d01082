"""Numbers as people write them."""


def brief(value: float) -> str:
    """To four digits or to the unit, and never with an exponent for large ones."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
