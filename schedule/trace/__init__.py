"""Traces: what was done to a program, replayed, written and read.

`trace` has `Trace`, `json_form` and `python_text` its two forms, the latter with names of random
variables, and `python_reader` reads it back.
"""

from schedule.trace.trace import Trace, translate

__all__ = ["Trace", "translate"]
