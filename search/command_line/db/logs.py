"""Logs of other tools among the databases of the command line."""

from __future__ import annotations

from pathlib import Path

from search.compat.auto_scheduler.explain import StepsLog
from search.compat.autotvm.log_format import TemplateLog


def log_kind(path: str) -> str | None:
    """Return whose log a file is, `"AutoTVM"` or `"Ansor"`, None for anything else."""
    place = Path(path)
    if not place.is_file():
        return None
    if TemplateLog().recognises(place):
        return "AutoTVM"
    return "Ansor" if StepsLog().recognises(place) else None
