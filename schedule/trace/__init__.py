"""Traces: what was done to a program, replayed, written and read.

`trace` has `Trace`, `json_form` and `python_text` its two forms, `python_reader` reads the second
one back, and `names` names random variables.
"""

from schedule.trace.trace import Trace, translate

__all__ = ["Trace", "translate"]
