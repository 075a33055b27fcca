"""Search strategies, which choose the next candidates to measure."""

from search.search_strategy.evolutionary_search import EvolutionarySearch
from search.search_strategy.search_strategy import (
    PySearchStrategy,
    ReplayFunc,
    ReplayTrace,
    SearchStrategy,
)

__all__ = ["EvolutionarySearch", "PySearchStrategy", "ReplayFunc", "ReplayTrace", "SearchStrategy"]
