"""Tuning one task, and the policies that names stand for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from search.auto_scheduler.tuning.cost_model import RandomModel, XGBModel
from search.auto_scheduler.tuning.options import TuningOptions
from search.auto_scheduler.tuning.policy import SearchPolicy, SketchPolicy
from search.errors import TuningError
from search.kinds import instances

if TYPE_CHECKING:
    from schedule import Schedule
    from search.auto_scheduler.search_task import SearchTask
    from search.cost_model import CostModel

_POLICIES: Final = ("default", "sketch.xgb", "sketch.random")


def tune_task(
    task: SearchTask,
    tuning_options: TuningOptions,
    search_policy: SearchPolicy | None = None,
    adaptive_training: bool = False,
) -> Schedule | None:
    """Search for the best schedule of a task and return it, None if every trial failed.

    Without a policy it is a `SketchPolicy` with an `XGBModel`, for which `adaptive_training` is.
    With `num_measure_trials` 0 nothing is measured: the result is what the model expects most of.
    """
    if not isinstance(tuning_options, TuningOptions):
        raise TuningError(f"tuning_options is a TuningOptions(...), got {tuning_options!r}")
    if not isinstance(search_policy, SearchPolicy | None):
        raise TuningError(
            f"search_policy is a policy such as SketchPolicy(task, XGBModel()), got "
            f"{search_policy!r}"
        )
    given = "default" if search_policy is None else [search_policy]
    (policy,) = make_policies(given, [task], adaptive_training=adaptive_training)
    return policy.tune(tuning_options)


def make_policies(
    policy: str | Sequence[SearchPolicy],
    tasks: Sequence[SearchTask],
    params: Mapping[str, Any] | None = None,
    adaptive_training: bool = False,
    model_file: str | os.PathLike[str] | None = None,
    verbose: int = 1,
) -> list[SearchPolicy]:
    """Return a policy for each task, which share one cost model.

    `policy` is `"default"`, `"sketch.xgb"`, `"sketch.random"`, or the policies themselves, which
    have their parameters and their model already. TuningError for anything else, and for what the
    policy has no use for.
    """
    if not isinstance(policy, str):
        given: list[SearchPolicy] = instances(SearchPolicy, "search_policy", policy)
        of = [made.search_task for made in given]
        if of != list(tasks):
            raise TuningError(
                "search_policy has a policy for each task, in their order: it is of "
                f"{', '.join(map(str, of))}, the tasks are {', '.join(map(str, tasks))}"
            )
        if params is not None or model_file is not None or adaptive_training:
            raise TuningError(
                "finished policies have their parameters and their cost model: leave out "
                "search_policy_params, load_model_file and adaptive_training, and give them to "
                "SketchPolicy and XGBModel"
            )
        return given
    if policy not in _POLICIES:
        raise TuningError(
            f"search_policy is one of {', '.join(map(repr, _POLICIES))} or a policy for each task, "
            f"got {policy!r}"
        )
    model: CostModel
    if policy != "sketch.random":
        model = XGBModel(adaptive_training=adaptive_training, model_file=model_file)
    elif model_file is None and not adaptive_training:
        model = RandomModel()
    else:
        raise TuningError(
            "'sketch.random' learns nothing: leave out load_model_file and adaptive_training"
        )
    return [SketchPolicy(task, model, params, verbose=verbose) for task in tasks]
