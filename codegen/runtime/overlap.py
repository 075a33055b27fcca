"""Arguments that share memory with an argument that a function writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class Span(NamedTuple):
    """The memory of an argument: its first address, the address behind it, and its use."""

    start: int
    end: int
    is_written: bool
    name: str


_NOTHING: Final = Span(0, 0, False, "")


def overlap(spans: Sequence[Span]) -> str | None:
    """Return a text with the names of two arguments that share memory, one of which is written.

    Return None if there are no such arguments.
    """
    longest = longest_written = _NOTHING
    for span in sorted(span for span in spans if span.start < span.end):
        other = longest if span.is_written else longest_written
        if span.start < other.end:
            first, second = (x for x in spans if x in (other, span))
            return f"arguments {first.name!r} and {second.name!r}"
        if span.end > longest.end:
            longest = span
        if span.is_written and span.end > longest_written.end:
            longest_written = span
    return None
