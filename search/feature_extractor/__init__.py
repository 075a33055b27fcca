"""Feature extractors, which describe candidates by numbers."""

from search.feature_extractor.feature_extractor import FeatureExtractor, PyFeatureExtractor

__all__ = ["FeatureExtractor", "PyFeatureExtractor"]
