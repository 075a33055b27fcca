"""Times as people write them."""

from __future__ import annotations


def time_text(seconds: float, digits: int = 4) -> str:
    """Return a time with so many digits in the largest unit of s, ms and us that it has one of."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.{digits}g} {name}"
    return f"{seconds * 1e6:.{digits}g} us"


def speed_text(before: float, after: float) -> str:
    """Return how the time `after` compares with `before`: "2.5 times as fast", "563 times slower".

    Both are in seconds and positive.
    """
    if after <= before:
        return f"{before / after:.3g} times as fast"
    return f"{after / before:.3g} times slower"
