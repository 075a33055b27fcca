"""Ansor's names over the search: workloads, tasks, logs of transform steps, and their dispatch.

    task = auto_scheduler.SearchTask(workload_function, (512, "float32"), target="llvm")
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=64, measure_callbacks=[auto_scheduler.RecordToFile("log.json")]
        )
    )
    sch, args = task.apply_best("log.json")

A sketch is a design space, a record a `TuningRecord`, a log a `Database` (`to_database`, and back
by `from_database`). Logs that Ansor wrote are read; their steps become traced schedules. These
things differ: searches of this project write the one step `["TR", trace]`, which Ansor rejects; a
workload may also be a PrimFunc or a module; `apply_best` returns a `Schedule`; there are CPUs only.
"""

from search.compat.auto_scheduler.callbacks import (
    LogEstimatedLatency,
    PrintTableInfo,
    RecordToFile,
)
from search.compat.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from search.compat.auto_scheduler.explain import explain_log
from search.compat.auto_scheduler.history import (
    ApplyHistoryBest,
    ApplyHistoryBestOrSample,
    from_database,
    to_database,
)
from search.compat.auto_scheduler.options import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    RPCRunner,
    TuningOptions,
)
from search.compat.auto_scheduler.policy import (
    EmptyPolicy,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SketchPolicy,
    XGBModel,
)
from search.compat.auto_scheduler.records import (
    MeasureInput,
    MeasureResult,
    RecordReader,
    distill_record_file,
    dump_record_to_string,
    load_best_record,
    load_record_from_string,
    load_records,
    recover_measure_input,
    save_records,
)
from search.compat.auto_scheduler.search_task import SearchTask, extract_tasks
from search.compat.auto_scheduler.sketch_policy import Sketch, sketches
from search.compat.auto_scheduler.stages import StepError
from search.compat.auto_scheduler.task import HardwareParams
from search.compat.auto_scheduler.task_scheduler import TaskScheduler
from search.compat.auto_scheduler.workloads import (
    compatible_factor,
    make_workload_key,
    register_workload,
    workload_of,
)
from search.cost_model import RandomModel
from search.database.record_files import MeasureErrorNo

__all__ = [
    "ApplyHistoryBest",
    "ApplyHistoryBestOrSample",
    "ComputeDAG",
    "EmptyPolicy",
    "HardwareParams",
    "LayoutRewriteOption",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "LogEstimatedLatency",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "PrintTableInfo",
    "RPCRunner",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "Sketch",
    "SketchPolicy",
    "StepError",
    "TaskScheduler",
    "TuningOptions",
    "XGBModel",
    "compatible_factor",
    "distill_record_file",
    "dump_record_to_string",
    "explain_log",
    "extract_tasks",
    "from_database",
    "load_best_record",
    "load_record_from_string",
    "load_records",
    "make_workload_key",
    "recover_measure_input",
    "register_workload",
    "save_records",
    "sketches",
    "to_database",
    "workload_of",
]
