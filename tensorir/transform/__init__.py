"""Transforms of modules with graph functions, and what runs them."""

from tensorir.transform.define_pass import FunctionPass, ModulePass, function_pass, module_pass
from tensorir.transform.instruments import (
    PassInstrument,
    PassTimingInstrument,
    PrintAfter,
    PrintAfterAll,
    PrintBefore,
    PrintBeforeAll,
)
from tensorir.transform.pass_context import Pass, PassContext, PassInfo, Sequential

__all__ = [
    "FunctionPass",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PassTimingInstrument",
    "PrintAfter",
    "PrintAfterAll",
    "PrintBefore",
    "PrintBeforeAll",
    "Sequential",
    "function_pass",
    "module_pass",
]
