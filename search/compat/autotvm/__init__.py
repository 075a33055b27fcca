"""Templates: handwritten schedules with knobs for a tuner, and logs of their times.

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

A template is a stochastic schedule. Each knob is one sampling instruction of the trace, named after
the knob. So replaying, mutating, storing and printing traces work on templates unchanged, and
`tune_tir` accepts `TemplateSpace(task)`. `task_of_space` makes the space of any stochastic schedule
a task with a `ConfigSpace`. Builders, runners and the tuning loop are those of the search; names
and defaults are those of AutoTVM.
"""

from search.compat.autotvm import callback, feature, measure, record, task, tuner
from search.compat.autotvm.config import Config, ConfigEntity
from search.compat.autotvm.config_space import ConfigSpace, FallbackConfigEntity
from search.compat.autotvm.dispatch import (
    GLOBAL_SCOPE,
    ApplyConfig,
    DispatchContext,
    FallbackContext,
)
from search.compat.autotvm.entities import (
    AnnotateEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from search.compat.autotvm.errors import (
    ArgumentsError,
    InstantiationError,
    KnobError,
    SpaceIndexError,
    TemplateError,
    UnknownKnobError,
)
from search.compat.autotvm.history import ApplyHistoryBest, apply_history_best
from search.compat.autotvm.knobs import (
    AnnotateSpace,
    Axis,
    OtherOptionSpace,
    ReorderSpace,
    SplitSpace,
    VirtualAxis,
)
from search.compat.autotvm.log_format import compare, explain_log, records_to_table
from search.compat.autotvm.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    SlowerThan,
    measure_option,
    measured_by,
)
from search.compat.autotvm.spaces import TemplateSpace, task_of_space
from search.compat.autotvm.task import TASK_TABLE, Task, get_config, template
from search.compat.autotvm.tuning import create_measure_batch
from search.database.record_files import MeasureErrorNo

__all__ = [
    "GLOBAL_SCOPE",
    "TASK_TABLE",
    "AnnotateEntity",
    "AnnotateSpace",
    "ApplyConfig",
    "ApplyHistoryBest",
    "ArgumentsError",
    "Axis",
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
    "OtherOptionEntity",
    "OtherOptionSpace",
    "RPCRunner",
    "ReorderEntity",
    "ReorderSpace",
    "SlowerThan",
    "SpaceIndexError",
    "SplitEntity",
    "SplitSpace",
    "Task",
    "TemplateError",
    "TemplateSpace",
    "UnknownKnobError",
    "VirtualAxis",
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
    "record",
    "records_to_table",
    "task",
    "task_of_space",
    "template",
    "tuner",
]
