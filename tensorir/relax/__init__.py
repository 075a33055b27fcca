"""Graph functions, which call tensor functions and library functions on arrays.

    x = relax.Var("x", relax.TensorStructInfo((1, 784), "float32"))

`Var`, `Call` and `StringImm` here are the classes for graph functions, under TVM's names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorir.relax import op
from tensorir.relax.calls import (
    call_dps_packed,
    call_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
)
from tensorir.relax.expr import (
    Binding,
    BindingBlock,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeValue,
    ExternFunc,
    GraphCall,
    GraphExpr,
    GraphVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringValue,
    Tuple,
    TupleGetItem,
    VarBinding,
    const_of,
)
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.relations import common_base, fits, is_base_of
from tensorir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.relax.visit import GraphRewriter

if TYPE_CHECKING:
    from tensorir.relax.block_builder import BlockBuilder

Var, Call, StringImm, DataTypeImm, const = (
    GraphVar,
    GraphCall,
    StringValue,
    DataTypeValue,
    const_of,
)

__all__ = [
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataTypeValue",
    "DataflowBlock",
    "DataflowVar",
    "ExternFunc",
    "FuncStructInfo",
    "Function",
    "GraphCall",
    "GraphExpr",
    "GraphRewriter",
    "GraphVar",
    "If",
    "MatchCast",
    "ObjectStructInfo",
    "Operator",
    "PrimStructInfo",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "ShapeStructInfo",
    "StringImm",
    "StringValue",
    "StructInfo",
    "TensorStructInfo",
    "Tuple",
    "TupleGetItem",
    "TupleStructInfo",
    "Var",
    "VarBinding",
    "call_dps_packed",
    "call_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "common_base",
    "const",
    "const_of",
    "fits",
    "is_base_of",
    "op",
]


def __getattr__(name: str) -> Any:
    """Load the builder and the transforms on first use; this package does not need them."""
    if name == "BlockBuilder":
        return import_module("tensorir.relax.block_builder").BlockBuilder
    if name == "transform":
        return import_module("tensorir.transform")
    elsewhere = _ELSEWHERE.get(name)
    remedy = f"; it is {elsewhere}" if elsewhere else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{remedy}")


_ELSEWHERE = {
    "build": "codegen.vm_build",
    "vm": "codegen.vm",
    "VirtualMachine": "codegen.VirtualMachine",
    "VMExecutable": "codegen.Executable",
}
"""Names of higher layers that users of TVM look for in this package."""
