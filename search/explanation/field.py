"""A field of a line of a log, with its value and what it means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple


class Field(NamedTuple):
    """A field of a line."""

    name: str
    value: str
    meaning: str


ERROR_MEANINGS: Final = {
    "NO_ERROR": "it was built and measured",
    "INSTANTIATION_ERROR": "the template or a primitive refused the configuration",
    "COMPILE_HOST": "the program could not be compiled",
    "COMPILE_DEVICE": "the program could not be compiled for the device",
    "RUNTIME_DEVICE": "it failed while it ran, or the process that ran it died",
    "WRONG_ANSWER": "the results differ from those of the reference",
    "BUILD_TIMEOUT": "building took longer than the builder allows",
    "RUN_TIMEOUT": "running took longer than the runner allows",
    "UNKNOWN_ERROR": "none of these",
    "STOPPED_EARLY": "it was stopped as soon as it was certain not to be the best",
    "BUILD_ERROR": "it could not be built",
    "RUN_ERROR": "it failed while it ran",
    "CHECK_ERROR": "the results differ from those of the unscheduled program",
}


def utc(timestamp: float) -> str:
    """Return a time in seconds since 1970 as a date; the number if it is none."""
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp} s after 1970"
