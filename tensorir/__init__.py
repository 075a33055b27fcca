"""The IR of tensor programs: nodes, script dialect, integer analysis.

`T`, `R` and `I` are the namespaces of the script dialect, `parse` reads scripts from text, and
`structural_equal`, `structural_hash`, `simplify` and `verify_well_formed` accept programs.

The subpackages, from the bottom up: `nodes` and the meaning of their operations (`semantics`),
walking and rebuilding them (`rewriting`), integer analysis (`arith`), maps of indices (`indices`),
memory accesses (`memory`), equality (`comparison`), the text form (`script`), and the interpreter
(`interp`). `te` builds programs from formulas, `workloads` has example programs, and
`tensor_intrin` has programs that hardware computes by one instruction. `relax` has graph functions,
`topi` has the formulas of the operators that they call, `frontend` imports trained models as graph
functions, and `transform` rewrites modules. docs/programs.md follows one program through these
packages.
"""

from tensorir import arith
from tensorir.arith import Analyzer
from tensorir.comparison.equal import (
    assert_structural_equal,
    expr_deep_equal,
    get_first_structural_mismatch,
    structural_equal,
)
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import (
    DiagnosticError,
    IRTypeError,
    IRValueError,
    TensorIRError,
    WellFormedError,
)
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion, Range, decl_buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import GlobalVar, IterVar, PrimExpr, Var
from tensorir.nodes.stmt import Block, BlockRealize, For, ForKind, Stmt
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import post_order_visit, pre_order_visit, substitute
from tensorir.script import I, R, T, parse, parse_expr, parse_index_map
from tensorir.simplify import simplify
from tensorir.specialize import specialize as _specialize  # noqa: F401 - a method of PrimFunc
from tensorir.tensor_intrin import TensorIntrin
from tensorir.verify import verify_ssa, verify_well_formed
from tensorir.version import __version__

__all__ = [
    "Analyzer",
    "Block",
    "BlockRealize",
    "Buffer",
    "BufferRegion",
    "DataType",
    "DiagnosticError",
    "For",
    "ForKind",
    "GlobalVar",
    "I",
    "IRModule",
    "IRTypeError",
    "IRValueError",
    "IndexMap",
    "IterVar",
    "MatchBufferRegion",
    "PrimExpr",
    "PrimFunc",
    "R",
    "Range",
    "Stmt",
    "T",
    "TensorIRError",
    "TensorIntrin",
    "Var",
    "WellFormedError",
    "__version__",
    "arith",
    "assert_structural_equal",
    "decl_buffer",
    "expr_deep_equal",
    "get_first_structural_mismatch",
    "parse",
    "parse_expr",
    "parse_index_map",
    "post_order_visit",
    "pre_order_visit",
    "renew_defs",
    "simplify",
    "structural_equal",
    "structural_hash",
    "substitute",
    "verify_ssa",
    "verify_well_formed",
]
