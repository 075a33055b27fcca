"""The errors of templates, their tasks and their logs."""

from __future__ import annotations

from search.errors import TuningError


class TemplateError(TuningError, RuntimeError):
    """A template is not known, or cannot be called so."""


class ArgumentsError(TuningError, RuntimeError):
    """The arguments of a template cannot be written to a log."""


class KnobError(TuningError, ValueError):
    """A knob is defined in a way that cannot be, or a configuration does not fit it."""


class UnknownKnobError(KnobError, KeyError):
    """A configuration has no knob of this name."""

    __str__ = Exception.__str__


class SpaceIndexError(TuningError, IndexError):
    """There is no configuration with this index."""


class InstantiationError(TuningError, ValueError):
    """A template refuses a configuration."""
