"""Explorers: a schedule step by step, and the trials of a run as points of their design spaces."""

from search.explorer.explorer import Explorer
from search.explorer.run_explorer import RunExplorer, explore

__all__ = ["Explorer", "RunExplorer", "explore"]
