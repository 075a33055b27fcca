"""Templates: schedules written by hand, with knobs that a tuner turns, and logs of what it found.

    @autotvm.template("tutorial/matmul")
    def matmul(n, dtype):
        sch = Schedule(...)
        y, x, k = sch.get_loops(sch.get_block("C"))
        cfg = autotvm.get_config()
        cfg.define_split("tile_y", y, num_outputs=2)
        yo, yi = cfg["tile_y"].apply(sch, y)
        return sch

    task = autotvm.task.create("tutorial/matmul", args=(512, "float32"), target="llvm")
    sch = task.instantiate(task.config_space.get(12))

    option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.tune(100, option, callbacks=[autotvm.callback.log_to_file("matmul.log")])
    with autotvm.apply_history_best("matmul.log"), codegen.Target("llvm"):
        lib = codegen.build(matmul(512, "float32").mod)

A template is a stochastic schedule. Each knob is one sampling instruction of the trace that it
leaves, called by the knob's name: what replays, mutates, stores and prints traces works on
templates as it is, `tune_tir` with `TemplateSpace(task)` among it. The space of any stochastic
schedule can be walked as a `ConfigSpace`, too (`task_of_space`). Names and defaults are those of
AutoTVM.
"""

from search.autotvm import callback, feature, measure, record, task, tuner
from search.autotvm.dispatch import (
    GLOBAL_SCOPE,
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    apply_fixed_config,
)
from search.autotvm.errors import (
    ArgumentsError,
    InstantiationError,
    KnobError,
    SpaceIndexError,
    TemplateError,
    UnknownKnobError,
)
from search.autotvm.history import (
    ApplyGraphBest,
    ApplyHistoryBest,
    apply_graph_best,
    apply_history_best,
)
from search.autotvm.log_format import compare, explain_log, records_to_table
from search.autotvm.measure.builder import Builder, LocalBuilder
from search.autotvm.measure.measurement import BuildResult, MeasureInput, MeasureResult, SlowerThan
from search.autotvm.measure.option import (
    create_measure_batch,
    measure_option,
    measured_by,
    measured_from,
)
from search.autotvm.measure.rpc_runner import RPCRunner
from search.autotvm.measure.runner import LocalRunner, Runner
from search.autotvm.registration import TASK_TABLE, MissingTask, get_config, template
from search.autotvm.schedule_task import task_of_space
from search.autotvm.space.annotate import AnnotateEntity, AnnotateSpace
from search.autotvm.space.config import Config
from search.autotvm.space.config_space import ConfigSpace
from search.autotvm.space.entity import ConfigEntity
from search.autotvm.space.fallback import FallbackConfigEntity
from search.autotvm.space.knob import Axis, VirtualAxis
from search.autotvm.space.option import OtherOptionEntity, OtherOptionSpace
from search.autotvm.space.reorder import ReorderEntity, ReorderSpace
from search.autotvm.space.split import SplitEntity, SplitSpace
from search.autotvm.task import Task
from search.autotvm.template_space import TemplateSpace
from search.records.measure_error_no import MeasureErrorNo

__all__ = [
    "GLOBAL_SCOPE",
    "TASK_TABLE",
    "AnnotateEntity",
    "AnnotateSpace",
    "ApplyConfig",
    "ApplyFixedConfig",
    "ApplyGraphBest",
    "ApplyHistoryBest",
    "ArgumentsError",
    "Axis",
    "BuildResult",
    "Builder",
    "Config",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackConfigEntity",
    "FallbackContext",
    "InstantiationError",
    "KnobError",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "MissingTask",
    "OtherOptionEntity",
    "OtherOptionSpace",
    "RPCRunner",
    "ReorderEntity",
    "ReorderSpace",
    "Runner",
    "SlowerThan",
    "SpaceIndexError",
    "SplitEntity",
    "SplitSpace",
    "Task",
    "TemplateError",
    "TemplateSpace",
    "UnknownKnobError",
    "VirtualAxis",
    "apply_fixed_config",
    "apply_graph_best",
    "apply_history_best",
    "callback",
    "compare",
    "create_measure_batch",
    "explain_log",
    "feature",
    "get_config",
    "measure",
    "measure_option",
    "measured_by",
    "measured_from",
    "record",
    "records_to_table",
    "task",
    "task_of_space",
    "template",
    "tuner",
]
