"""A tuner whose model is made of gradient-boosted trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schedule.random_state import RandomState
from search.autotvm.errors import TemplateError
from search.autotvm.tuner.annealing import ModelOptimizer, SimulatedAnnealingOptimizer
from search.autotvm.tuner.model_based import ModelBasedTuner
from search.autotvm.tuner.xgb_cost_model import XGBoostCostModel

if TYPE_CHECKING:
    from search.autotvm.task import Task


_PROGRAMS_A_TRIAL: Final = 16
"""The programs that are made for each trial, which takes about as long as they do."""
_WALKERS: Final = 32
"""The points that walk at once where each step makes a program."""


class XGBTuner(ModelBasedTuner):
    """Measures what trees, fitted to the measurements so far, expect most of.

    `feature_type`: `itervar` sees the loops of the program, `knob` the values of the knobs (the
    fastest; for one task only), `curve` neither, for transfer between operators; `per_store` and
    `nest` are what the models of the search see (`PerStoreFeature`, `NestFeature`). `loss_type`,
    `num_threads` and `log_interval` as for `XGBoostCostModel`; `plan_size` and
    `diversity_filter_ratio` as for `ModelBasedTuner`. `optimizer` is `sa`, for simulated annealing,
    or a `ModelOptimizer`. Where features are those of programs, which take milliseconds each to
    make, the walk is short, and goes on with the next plan.
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: str | ModelOptimizer = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        *,
        seed: int | None = None,
    ) -> None:
        rng = RandomState(-1 if seed is None else seed)
        model = XGBoostCostModel(
            task, feature_type, loss_type, num_threads, log_interval, rng.fork()
        )
        if isinstance(optimizer, str):
            if optimizer != "sa":
                raise TemplateError(f"optimizer is 'sa' or a ModelOptimizer, got {optimizer!r}")
            optimizer = SimulatedAnnealingOptimizer(
                task, log_interval=log_interval, rng=RandomState(rng.fork())
            )
            if feature_type != "knob":
                optimizer.parallel_size = min(optimizer.parallel_size, _WALKERS)
                optimizer.n_iter = max(1, _PROGRAMS_A_TRIAL * plan_size // _WALKERS)
        super().__init__(task, model, optimizer, plan_size, diversity_filter_ratio, seed=rng.fork())
