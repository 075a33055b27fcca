"""Building and running configurations: inputs, builders, runners and results."""

from search.autotvm.measure.builder import Builder, LocalBuilder
from search.autotvm.measure.measurement import (
    BuildResult,
    MeasureInput,
    MeasureResult,
    SlowerThan,
)
from search.autotvm.measure.option import (
    create_measure_batch,
    measure_option,
    measured_by,
    measured_from,
)
from search.autotvm.measure.rpc_runner import RPCRunner, request_remote
from search.autotvm.measure.runner import LocalRunner, Runner
from search.records.measure_error_no import MeasureErrorNo

__all__ = [
    "BuildResult",
    "Builder",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "Runner",
    "SlowerThan",
    "create_measure_batch",
    "measure_option",
    "measured_by",
    "measured_from",
    "request_remote",
]
