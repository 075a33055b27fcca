"""Feature extractors, which compute the inputs of cost models."""

from typing import TYPE_CHECKING

from search.feature_extractor.feature_extractor import (
    FeatureExtractor,
    PackedFeatures,
    PyFeatureExtractor,
)
from search.feature_extractor.nest_feature import NestFeature
from search.feature_extractor.per_store_feature import PerStoreFeature
from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.feature_extractor.gpu_feature import GpuFeature

__all__ = [
    "FeatureExtractor",
    "GpuFeature",
    "NestFeature",
    "PackedFeatures",
    "PerStoreFeature",
    "PyFeatureExtractor",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
