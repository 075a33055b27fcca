"""Search strategies, which choose the candidates to measure next."""

from search.search_strategy.evolutionary_search import EvolutionarySearch
from search.search_strategy.search_strategy import (
    PySearchStrategy,
    ReplayFunc,
    ReplayTrace,
    SearchStrategy,
)

__all__ = ["EvolutionarySearch", "PySearchStrategy", "ReplayFunc", "ReplayTrace", "SearchStrategy"]
