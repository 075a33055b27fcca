"""Traces: records of the changes of a program, and their JSON and Python forms.

`trace` has the class `Trace`. `json_form` writes and reads JSON, `python_text` writes Python with
names for the random variables, and `python_reader` reads that text.
"""

from schedule.trace.trace import Trace, translate

__all__ = ["Trace", "translate"]
