"""Search strategies, which decide what to measure next."""

from search.search_strategy.search_strategy import PySearchStrategy, SearchStrategy

__all__ = ["PySearchStrategy", "SearchStrategy"]
