"""The errors of templates, their tasks and their logs."""

from __future__ import annotations

from search.errors import TuningError


class TemplateError(TuningError, RuntimeError):
    """A template or a log is unknown, or cannot be used in this way."""


class ArgumentsError(TuningError, RuntimeError):
    """The arguments of a template cannot be written to a log."""


class KnobError(TuningError, ValueError):
    """A knob cannot be defined, or a configuration does not fit it."""


class UnknownKnobError(KnobError, KeyError):
    """A configuration lacks a knob of this name."""

    __str__ = Exception.__str__


class SpaceIndexError(TuningError, IndexError):
    """No configuration has this index."""


class InstantiationError(TuningError, ValueError):
    """A template refuses a configuration."""
