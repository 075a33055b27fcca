"""Feature extractors, which compute the inputs of cost models."""

from search.feature_extractor.feature_extractor import (
    FeatureExtractor,
    PackedFeatures,
    PyFeatureExtractor,
)
from search.feature_extractor.gpu_feature import GpuFeature
from search.feature_extractor.nest_feature import NestFeature
from search.feature_extractor.per_store_feature import PerStoreFeature

__all__ = [
    "FeatureExtractor",
    "GpuFeature",
    "NestFeature",
    "PackedFeatures",
    "PerStoreFeature",
    "PyFeatureExtractor",
]
