"""The search for good schedules. It builds on `schedule` and `codegen`.

    best = search.tune_tir(
        mod, target="llvm -num-cores=1",
        config=search.TuneConfig(max_trials_global=64, num_trials_per_iter=64),
        work_dir="./tune_tmp",
    )

returns the best `Schedule`. Start reading with `tune.py` (the functions that tune), `run.py` (the
resources of a run), `loop.py` (the search loop) and `task.py`. The subpackages, in the order in
which a search uses them:

- the candidates: a `space_generator` makes design spaces by `schedule_rule`s, a `mutator` changes a
  decision of a point, and a `postproc` completes each candidate;
- the choice: a `search_strategy` chooses candidates by a `cost_model`, from the features of a
  `feature_extractor`;
- the measurement: a `builder` compiles candidates and a `runner` measures them, here or on other
  machines;
- the loop: a `task_scheduler` chooses the next task, `runs` has the steps of the loop, a
  `measure_callback` is invoked after each trial, and a `database` stores the records;
- `reports` show the results as text, pictures, and a page; `explorer` shows schedules and trials;
- `history` finds schedules for a later build; `models` tunes whole models, `compat` has the names
  and logs of AutoTVM and Ansor, and `command_line` is the command `tensorir`.

Each kind of part has an abstract class to derive from, and short names for `create`. All load on
first use. docs/search.md draws the data between them.
"""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use
from tensorir.version import __version__

if TYPE_CHECKING:
    from codegen.errors import WorkerError
    from search import (
        arg_info,
        builder,
        cost_model,
        database,
        feature_extractor,
        measure_callback,
        mutator,
        postproc,
        relax_integration,
        runner,
        schedule_rule,
        search_strategy,
        space_generator,
        task_scheduler,
        tir_integration,
        transform,
    )
    from search.builder import Builder
    from search.compat import auto_scheduler, autotvm
    from search.compat.auto_scheduler import sketch_policy
    from search.context import TuneContext, design_spaces
    from search.cost_model import CostModel
    from search.database import Database, compatible_factor
    from search.errors import DatabaseError, TuningError
    from search.explorer import Explorer, RunExplorer, explore
    from search.feature_extractor import FeatureExtractor
    from search.history.adapted_replay import schedule_using_anchor_trace
    from search.history.default_designs import default_schedule
    from search.history.find_schedule import FoundSchedule, find_schedule
    from search.history.history import (
        History,
        apply_database,
        apply_default_schedules,
        find_schedules,
    )
    from search.history.sample_on_miss import SampleOnMiss, Sampler
    from search.kinds import derived_object
    from search.measure_callback import MeasureCallback
    from search.models import graph_tuner
    from search.models.extract_tasks import ExtractedTask, extract_tasks
    from search.models.tune_model import tune_model
    from search.mutator import Mutator
    from search.options import TuneConfig
    from search.postproc import Postproc
    from search.random_search import random_search
    from search.relax_integration import tune_relax
    from search.reports import plot
    from search.reports.comparison import compare
    from search.reports.explain import explain
    from search.reports.page.page import report
    from search.reports.profiler import Profiler
    from search.reports.run_directory import load_run
    from search.runner import EvaluatorConfig, Runner
    from search.runner.distributed.dask_runner import DaskBuilder, DaskRunner
    from search.runner.measure_candidate import MeasureCandidate
    from search.runs.replayed_search import Replayed
    from search.schedule_rule import ScheduleRule
    from search.search_strategy import SearchStrategy
    from search.space_generator import SpaceGenerator
    from search.space_generator.design_space import DesignSpace
    from search.space_generator.knobs import decisions_of
    from search.task_scheduler import TaskScheduler
    from search.tune import TunedSchedule, compile_tir, tune_module, tune_tasks, tune_tir

__all__ = [
    "Builder",
    "CostModel",
    "DaskBuilder",
    "DaskRunner",
    "Database",
    "DatabaseError",
    "DesignSpace",
    "EvaluatorConfig",
    "Explorer",
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
    "RunExplorer",
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
    "auto_scheduler",
    "autotvm",
    "builder",
    "compare",
    "compatible_factor",
    "compile_tir",
    "cost_model",
    "database",
    "decisions_of",
    "default_schedule",
    "derived_object",
    "design_spaces",
    "explain",
    "explore",
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
    "tune_model",
    "tune_module",
    "tune_relax",
    "tune_tasks",
    "tune_tir",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
