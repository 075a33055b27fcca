"""Cost models, which predict how well candidates will do."""

from search.cost_model.cost_model import CostModel, PyCostModel
from search.cost_model.random_model import RandomModel
from search.cost_model.xgb_model import XGBConfig, XGBModel

__all__ = ["CostModel", "PyCostModel", "RandomModel", "XGBConfig", "XGBModel"]
