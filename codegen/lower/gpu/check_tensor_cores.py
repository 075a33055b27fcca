"""The check that a kernel uses tensor cores as the target has them."""

from __future__ import annotations

import math

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.gpu.tile_definitions import is_defined_by
from codegen.lower.rewriters import analyzer_for, controls
from codegen.lower.thread_axes import LANES, axis_of, tensor_core_of
from codegen.target import Target, as_target
from codegen.target.gpu import WARP, GpuLimits
from codegen.target.tensor_cores import ROW_BYTES, SIDE, roles, tile_alignment
from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import is_fragment, memory_of, scope_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from tensorir.nodes.ops import is_const_int
from tensorir.rewriting.visit import children, walk
from tensorir.tensor_intrin.tensor_core import INSTRUCTIONS, definition_of


def check_tensor_cores(func: PrimFunc, target: str | Target | None = None) -> PrimFunc:
    """Return a lowered program; raise LoweringError if it cannot run on tensor cores.

    The target needs tensor cores for the dtypes, each warp needs all of its threads, and no
    condition may divide it. Loops compute what their instruction does. A fragment is accessed by
    instructions only, all of which use it as the same operand in the same layout. The
    message names the loop, the condition or the fragment.
    """
    limits = as_target(target).gpu
    if limits is not None:
        _Check(func, limits, as_target(target)).visit(func.body)
    return func


class _Check:
    def __init__(self, func: PrimFunc, limits: GpuLimits, target: Target) -> None:
        self._name = name_of(func)
        self._analyzer: Analyzer = analyzer_for(func)
        self._dtypes = {"wmma": limits.tensor_core_dtypes, "mma": limits.mma_dtypes}
        self._target = target
        self._lanes: s.For | None = None
        self._differing: set[Var] = set()
        """Variables whose values differ between the threads of a warp."""
        self._around: list[PrimExpr] = []
        """The conditions and extents around the visited statement."""
        self._roles: dict[Var, str] = {}
        """The operand and the layout as which each fragment is used."""

    def visit(self, node: s.Stmt) -> None:
        """Check a statement and those inside of it."""
        instruction = tensor_core_of(node)
        if instruction is not None:
            assert isinstance(node, s.AttrStmt)
            self._check(instruction, node)
            return
        outer = self._lanes, self._differing
        if isinstance(node, s.For) and axis_of(node) == LANES:
            self._lanes, self._differing = node, {node.loop_var}
        is_divided = isinstance(node, (s.For, s.While, s.IfThenElse)) and not axis_of(node)
        parts = controls(node) if is_divided else []
        if isinstance(node, s.LetStmt) and self._differs(node.value):
            self._differing |= {node.var}
        if isinstance(node, (s.BufferStore, s.Evaluate)):
            self._check_elements(node)
        for part in controls(node):
            self._check_elements(part)
        self._around += parts
        for inside in children(node):
            if isinstance(inside, s.Stmt):
                self.visit(inside)
        del self._around[len(self._around) - len(parts) :]
        if isinstance(node, s.For):
            self._lanes, self._differing = outer

    def _differs(self, node: PrimExpr) -> bool:
        return any(
            part in self._differing
            if isinstance(part, Var)
            else isinstance(part, BufferLoad) and memory_of(part.buffer.data) == "local"
            for part in walk(node)
        )

    def _check_elements(self, node: s.Stmt | PrimExpr) -> None:
        for part in walk(node):
            if isinstance(part, (BufferLoad, s.BufferStore)) and is_fragment(part.buffer.data):
                raise LoweringError(
                    f"{self._name} accesses single elements of {part.buffer.name}, but only tensor "
                    f"cores know where a fragment has which element; tensorize each block that "
                    f"loads, fills, multiplies or stores it, and compute with its elements after "
                    f"it is stored"
                )

    def _check(self, node: Call, around: s.AttrStmt) -> None:
        self._check_call(node, around)
        name, *operands = node.args
        assert isinstance(name, StringImm)
        parts = name.value.split(".")
        dtype = parts[-2] if parts[1] == "mma" else ""
        dtypes = self._dtypes[parts[0]]
        if not dtypes or (dtype and dtype not in dtypes):
            known = ", ".join(sorted(dtypes))
            missing = "no mma.sync" if self._dtypes["wmma"] else "no tensor cores"
            has = f"tensor cores only for {known}" if known else missing
            raise LoweringError(
                f"{self._name} runs {name.value} on tensor cores, but {self._target} has {has}; "
                f"choose a target such as 'cuda -arch=sm_80', or leave out sch.tensorize"
            )
        extent = None if self._lanes is None else self._lanes.extent
        if not (isinstance(extent, IntImm) and extent.value == WARP):
            found = f"has {extent} iterations" if self._lanes is not None else "is missing"
            raise LoweringError(
                f"{self._name} runs {name.value} on tensor cores, which need the {WARP} threads of "
                f"a warp, but the loop bound to {LANES} {found}; bind a loop of {WARP} to {LANES}, "
                f"and other threads to threadIdx.y"
            )
        for condition in self._around:
            if self._differs(condition):
                raise LoweringError(
                    f"{self._name} runs {name.value} only where {condition}, which differs between "
                    f"the threads of a warp; all {WARP} have to run it"
                )
        tiles = zip(operands[::2], operands[1::2], roles(name.value), strict=True)
        for first, row, role in tiles:
            assert isinstance(first, BufferLoad)
            if is_fragment(first.buffer.data):
                self._check_fragment(first, row, role)
            else:
                self._check_memory(first, row, name.value)

    def _check_call(self, node: Call, around: s.AttrStmt) -> None:
        name = node.args[0].value if node.args and isinstance(node.args[0], StringImm) else ""
        definition = definition_of(name) if name in INSTRUCTIONS else None
        known = None if definition is None else tensor_core_of(definition)
        firsts = node.args[1::2]
        are_tiles = all(isinstance(x, BufferLoad) and len(x.indices) == 1 for x in firsts)
        if known is None or len(node.args) != len(known.args) or not are_tiles:
            raise LoweringError(
                f"{self._name} has an invalid instruction of tensor cores, `{node}`; it takes a "
                f"name ({', '.join(INSTRUCTIONS)}), and for each tile, the written one first, "
                f"its first element and the distance of its rows"
            )
        if definition is not None and not is_defined_by(around, definition):
            raise LoweringError(
                f"{self._name} runs {name} on tensor cores for loops that compute something "
                f"else, or with other tiles than `{node}`; use sch.tensorize, or write the loops "
                f"of its intrinsic: {definition.body}"
            )

    def _check_memory(self, first: BufferLoad, row: PrimExpr, name: str) -> None:
        buffer, start = first.buffer, tile_alignment(name)
        memory = memory_of(buffer.data)
        if name.startswith("mma.load") and memory != "shared":
            raise LoweringError(
                f"{self._name} loads a tile of {buffer.name} by {name} from {memory} memory, but "
                f"ldmatrix reads shared memory only; copy the tile there by sch.cache_read"
            )
        for what, value, nbytes in (
            ("begins at element", first.indices[0], start),
            ("has rows of", row, min(start, ROW_BYTES)),
        ):
            if not self._is_multiple(value, max(1, nbytes // buffer.dtype.nbytes)):
                raise LoweringError(
                    f"a tile of {buffer.name} in {self._name} {what} {value}, which is no multiple "
                    f"of {nbytes} bytes; tensor cores need that, so choose other tiles, or other "
                    f"factors of sch.storage_align"
                )

    def _check_fragment(self, first: BufferLoad, row: PrimExpr, role: str) -> None:
        buffer = first.buffer
        pointer, (start,) = buffer.data, first.indices
        if scope_of(pointer) == "warp":
            numbers = 16 // buffer.dtype.nbytes if role != "d" else SIDE**2 // WARP
            if not is_const_int(row, numbers) or not self._is_multiple(start, numbers * WARP):
                raise LoweringError(
                    f"a tile of the fragment {pointer.name} of {self._name} begins at element "
                    f"{start} and has {row} elements of a thread; it must begin at a multiple of "
                    f"{numbers * WARP} and have {numbers}, so choose the shape "
                    f"(..., {WARP}, {numbers}) with sch.transform_layout"
                )
        elif not isinstance(row, IntImm) or row.value % SIDE:
            raise LoweringError(
                f"rows of the fragment {pointer.name} of {self._name} have {row} elements; they "
                f"must be whole tiles of {SIDE}"
            )
        known = self._roles.setdefault(pointer, role)
        if known != role:
            raise LoweringError(
                f"{self._name} uses the fragment {pointer.name} as {known} and as {role}: a factor "
                f"is loaded and multiplied as the same operand in one layout, row or col; use the "
                f"intrinsics with _trans in their names for both, or for none"
            )

    def _is_multiple(self, value: PrimExpr, of: int) -> bool:
        known = self._analyzer.modular_set(value)
        return math.gcd(known.coeff, known.base) % of == 0
