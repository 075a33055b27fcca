"""The explorer of a schedule: program, costs, machine code and accesses, step by step."""

from search.explorer.explorer import Explorer

__all__ = ["Explorer"]
