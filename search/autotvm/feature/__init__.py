"""Features of configurations, for cost models of tuners."""

from search.autotvm.feature.config_features import FEATURES, ConfigFeatures
from search.autotvm.feature.loops import (
    get_buffer_curve_sample_flatten,
    get_itervar_feature,
    get_itervar_feature_flatten,
)

__all__ = [
    "FEATURES",
    "ConfigFeatures",
    "get_buffer_curve_sample_flatten",
    "get_itervar_feature",
    "get_itervar_feature_flatten",
]
