"""Ansor's names over the search: workloads, tasks, logs of transform steps, and their dispatch.

    @auto_scheduler.register_workload
    def matmul_relu(n, dtype):
        A, B = (te.placeholder((n, n), dtype, name) for name in "AB")
        k = te.reduce_axis((0, n), "k")
        C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
        D = te.compute((n, n), lambda i, j: te.max(C[i, j], 0.0), "D")
        return [A, B, D]

    task = auto_scheduler.SearchTask(matmul_relu, (512, "float32"), target="llvm")
    print(task.compute_dag)
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=64, measure_callbacks=[auto_scheduler.RecordToFile("matmul.json")]
        )
    )
    sch, args = task.apply_best("matmul.json")
    lib = codegen.build(sch.mod, task.target)
    print(task.print_best("matmul.json"))

    with auto_scheduler.ApplyHistoryBest("matmul.json"):
        lib = codegen.build(task.mod, task.target)

    tasks, weights = auto_scheduler.extract_tasks(model, target="llvm")
    scheduler = auto_scheduler.TaskScheduler(tasks, weights)
    scheduler.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=900, measure_callbacks=[auto_scheduler.RecordToFile("model.json")]
        )
    )

It is a layer over schedules, traces and databases: a sketch is a design space, a record a
`TuningRecord`, a log a `Database` (`to_database`, and back by `from_database`). Logs that Ansor
wrote are read, their steps become traced schedules. What differs: searches of this project write
the one step `["TR", trace]`, which Ansor does not know; a workload may also be a PrimFunc or a
module; `apply_best` returns a `Schedule`; there are CPUs only.
"""

from search.auto_scheduler.dispatch import ApplyHistoryBest, ApplyHistoryBestOrSample
from search.auto_scheduler.extract_tasks import extract_tasks
from search.auto_scheduler.hardware_params import HardwareParams
from search.auto_scheduler.log.database import from_database, to_database
from search.auto_scheduler.log.file import (
    RecordReader,
    distill_record_file,
    load_best_record,
    load_records,
    save_records,
)
from search.auto_scheduler.log.log_format import explain_log, records_to_table
from search.auto_scheduler.log.record import (
    MeasureInput,
    MeasureResult,
    dump_record_to_string,
    load_record_from_string,
    recover_measure_input,
)
from search.auto_scheduler.search_task import SearchTask
from search.auto_scheduler.steps.compute_dag import ComputeDAG, LayoutRewriteOption
from search.auto_scheduler.steps.loop_steps import (
    AnnotateStep,
    FollowFusedSplitStep,
    FollowSplitStep,
    FuseStep,
    PragmaStep,
    ReorderStep,
    SplitStep,
    StorageAlignStep,
)
from search.auto_scheduler.steps.stage_steps import (
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    RfactorStep,
)
from search.auto_scheduler.steps.state import State
from search.auto_scheduler.steps.step import Step, StepError, TraceStep
from search.auto_scheduler.tuning.callbacks import LogEstimatedLatency, PrintTableInfo, RecordToFile
from search.auto_scheduler.tuning.cost_model import XGBModel
from search.auto_scheduler.tuning.options import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    RPCRunner,
    TuningOptions,
)
from search.auto_scheduler.tuning.policy import EmptyPolicy, SearchPolicy, SketchPolicy
from search.auto_scheduler.tuning.preload import (
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SketchRuleCondition,
)
from search.auto_scheduler.tuning.sketch_params import SketchParams
from search.auto_scheduler.tuning.task_scheduler import TaskScheduler
from search.auto_scheduler.workload_registry import (
    compatible_factor,
    make_workload_key,
    register_workload,
    workload_of,
)
from search.cost_model import RandomModel
from search.records.measure_error_no import MeasureErrorNo

__all__ = [
    "AnnotateStep",
    "ApplyHistoryBest",
    "ApplyHistoryBestOrSample",
    "CacheReadStep",
    "CacheWriteStep",
    "ComputeAtStep",
    "ComputeDAG",
    "ComputeInlineStep",
    "ComputeRootStep",
    "EmptyPolicy",
    "FollowFusedSplitStep",
    "FollowSplitStep",
    "FuseStep",
    "HardwareParams",
    "LayoutRewriteOption",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "LogEstimatedLatency",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "PragmaStep",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "PrintTableInfo",
    "RPCRunner",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "ReorderStep",
    "RfactorStep",
    "SearchPolicy",
    "SearchTask",
    "SketchParams",
    "SketchPolicy",
    "SketchRuleCondition",
    "SplitStep",
    "State",
    "Step",
    "StepError",
    "StorageAlignStep",
    "TaskScheduler",
    "TraceStep",
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
    "records_to_table",
    "recover_measure_input",
    "register_workload",
    "save_records",
    "to_database",
    "workload_of",
]
