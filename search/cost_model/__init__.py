"""Cost models, which predict the speed of candidates."""

from search.cost_model.cost_model import CostModel, PyCostModel, RandomModel, Scores
from search.cost_model.tree_ensemble import XGBConfig
from search.cost_model.xgb_model import XGBModel

__all__ = ["CostModel", "PyCostModel", "RandomModel", "Scores", "XGBConfig", "XGBModel"]
