"""The search for good schedules. It builds on `schedule` and `codegen`.

    best = search.tune_tir(
        mod, target="llvm -num-cores=1",
        config=search.TuneConfig(max_trials_global=64, num_trials_per_iter=64),
        work_dir="./tune_tmp",
    )

returns the best `Schedule`. The rooms, in the order in which a search goes through them:

- a design space is made by a `space_generator` of `schedule_rule`s, which ask `analysis`; `spaces`
  has its points, and a `mutator` steps from one to another;
- a `search_strategy` chooses candidates by a `cost_model`, which sees what a `feature_extractor`
  reads, and a `postproc` completes each;
- a `builder` compiles them and a `runner` measures them (`measuring`), in processes (`workers`),
  or on other machines (`distributed`);
- a `task_scheduler` shares trials among tasks, a `measure_callback` is told of each, and a
  `database` keeps them; `runs` is a run with all of that, and `reports` is what it says;
- `dispatch` finds schedules in later builds, and `graph_tuner` layouts between kernels;
- `networks` tunes whole models, each function as often as it counts, and `command_line` is the
  command `tensorir`, which does all this in a shell;
- `autotvm` and `auto_scheduler` are other names and formats of the same; `records` are the files
  of logs, `trials` what was tried, as a table that is explained and drawn, and `report_page` the
  page that shows a search.

Each sort of part has an abstract class to derive from, and short names for `create`. All load on
first use. docs/search.md draws the data between them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from codegen.schedules import Schedules, offer_schedules
from tensorir.lazy_names import names_on_use
from tensorir.version import __version__

if TYPE_CHECKING:
    from search import (
        arg_info,
        builder,
        cost_model,
        database,
        feature_extractor,
        graph_tuner,
        measure_callback,
        mutator,
        plot,
        postproc,
        relax_integration,
        runner,
        schedule_rule,
        search_strategy,
        sketch_policy,
        space_generator,
        task_scheduler,
        tir_integration,
        transform,
        trials,
    )
    from search.builder import Builder
    from search.context import TuneContext, design_spaces
    from search.cost_model import CostModel
    from search.database import Database, compatible_factor
    from search.dispatch.adapted_replay import schedule_using_anchor_trace
    from search.dispatch.find_schedule import FoundSchedule, find_schedule
    from search.dispatch.history import (
        History,
        apply_database,
        apply_default_schedules,
        find_schedules,
    )
    from search.dispatch.sample_on_miss import SampleOnMiss, Sampler, default_schedule
    from search.distributed.dask_builder import DaskBuilder
    from search.distributed.dask_runner import DaskRunner
    from search.errors import DatabaseError, TuningError, WorkerError
    from search.feature_extractor import FeatureExtractor
    from search.kinds import derived_object
    from search.measure_callback import MeasureCallback
    from search.measuring.measure_candidate import MeasureCandidate
    from search.mutator import Mutator
    from search.networks.extract_tasks import ExtractedTask, extract_tasks
    from search.networks.tune_model import tune_model
    from search.postproc import Postproc
    from search.random_search import random_search
    from search.relax_integration import tune_relax
    from search.report_page.written_report import report
    from search.reports.profiler import Profiler
    from search.runner import EvaluatorConfig, Runner
    from search.runs.replayed_search import Replayed
    from search.runs.tuned_schedule import TunedSchedule
    from search.schedule_rule import ScheduleRule
    from search.search_strategy import SearchStrategy
    from search.space_generator import SpaceGenerator
    from search.spaces.design_space import DesignSpace
    from search.spaces.named_decisions import decisions_of
    from search.task_scheduler import TaskScheduler
    from search.trials.explain import explain
    from search.trials.run_directory import load_run
    from search.tune import compile_tir, tune_module, tune_tasks, tune_tir
    from search.tune_config import TuneConfig

__all__ = [
    "Builder",
    "CostModel",
    "DaskBuilder",
    "DaskRunner",
    "Database",
    "DatabaseError",
    "DesignSpace",
    "EvaluatorConfig",
    "ExtractedTask",
    "FeatureExtractor",
    "FoundSchedule",
    "History",
    "MeasureCallback",
    "MeasureCandidate",
    "Mutator",
    "Postproc",
    "Profiler",
    "Replayed",
    "Runner",
    "SampleOnMiss",
    "Sampler",
    "ScheduleRule",
    "SearchStrategy",
    "SpaceGenerator",
    "TaskScheduler",
    "TuneConfig",
    "TuneContext",
    "TunedSchedule",
    "TuningError",
    "WorkerError",
    "__version__",
    "apply_database",
    "apply_default_schedules",
    "arg_info",
    "builder",
    "compatible_factor",
    "compile_tir",
    "cost_model",
    "database",
    "decisions_of",
    "default_schedule",
    "derived_object",
    "design_spaces",
    "explain",
    "extract_tasks",
    "feature_extractor",
    "find_schedule",
    "find_schedules",
    "graph_tuner",
    "load_run",
    "measure_callback",
    "mutator",
    "plot",
    "postproc",
    "random_search",
    "relax_integration",
    "report",
    "runner",
    "schedule_rule",
    "schedule_using_anchor_trace",
    "search_strategy",
    "sketch_policy",
    "space_generator",
    "task_scheduler",
    "tir_integration",
    "transform",
    "trials",
    "tune_model",
    "tune_module",
    "tune_relax",
    "tune_tasks",
    "tune_tir",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)


def _default_schedules() -> Schedules:
    """Return what makes schedules of kernels without a record."""
    made: Schedules = import_module("search.dispatch.default_schedules").DefaultSchedules()
    return made


offer_schedules(_default_schedules)
