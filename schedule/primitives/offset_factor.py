"""Multiplying unsigned instead of signed integers, or the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from schedule.analysis.bindings import is_trivial_binding
from schedule.analysis.block_kind import check_reduction, require_pipeline
from schedule.analysis.buffer_definition import checked_buffer, stage_buffer
from schedule.errors import ArgumentError, Problem, fail
from schedule.instruction import BlockArg, NewBlocks, ReadIndex, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.staging.nests import Sweep
from schedule.state import ScheduleState
from tensorir.comparison.equal import structural_equal
from tensorir.indices.accesses import loads_in
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    Add,
    BufferLoad,
    Cast,
    IterVar,
    Mul,
    PointerType,
    PrimExpr,
    PrimType,
    Sub,
    Var,
    integer_limits,
)
from tensorir.nodes.float_format import holds_values_of
from tensorir.nodes.ops import const, is_const_int
from tensorir.nodes.stmt import BufferStore, sequence
from tensorir.rewriting.visit import collect_vars, substitute

NO_PRODUCT = Problem(
    "NotSumOfProductsError",
    "the factor {buffer} of {0} cannot be offset: {reason}",
    "the block must be a sum of products of integers, C[i] = C[i] + Cast(A[i, k]) * B[k], with an "
    "init and a loop for each axis",
)


@primitive("OffsetFactor")
def offset_factor(
    state: ScheduleState, block: BlockArg, read_buffer_index: ReadIndex, dtype: str
) -> NewBlocks:
    """Offset a factor of a sum of products from signed to unsigned integers, or back.

    Before: for i, j, k: C[i, j] = 0 if k == 0; C[i, j] += Cast(A[i, k]) * Cast(B[k, j])
    After:  for i, k: A_offset[i, k] = A[i, k] + 128                # offset_factor(C, 0, "uint8")
            for j, k: C_offset[j] = 0 if k == 0; C_offset[j] += 128 * Cast(B[k, j])
            for i, j, k: C[i, j] = 0 - C_offset[j] if k == 0; C[i, j] += Cast(A_offset[i, k]) * ...

    The difference between the minima of both types is added to all numbers of the factor: 128 from
    int8 to uint8, -128 back. The sums start at minus the amount that this adds. As sums of integers
    wrap, the result is equal in every bit. Returns the block that offsets the factor,
    `<buffer>_offset`, and the block that computes the start values.

    Raises ScheduleError: BufferIndexOutOfRangeError, NotSumOfProductsError,
    NotStagePipelineError, NotReductionBlockError, ArgumentError (a ValueError) for a type that is
    not the integer type of the other signedness with the same number of bits.
    """
    # Preconditions.
    buffer = checked_buffer(block, read_buffer_index, "global", "read")
    kind = _other_sign(buffer.dtype, dtype)
    scope, graph = require_pipeline(state, block)
    if state.enable_check:
        check_reduction(state, block, graph)
    product = _product(state, block, buffer, kind)
    node = block.block
    loops = loops_above(block)
    offset = integer_limits(kind)[0] - integer_limits(buffer.dtype)[0]
    moved = _new_buffer(buffer, f"{buffer.name}_offset", kind, buffer.shape)

    # Rewrite: the offset factor.
    sweep = Sweep.over([Range(n) for n in buffer.shape])
    value = Add(Cast(kind, BufferLoad(buffer, sweep.places)), const(offset, kind))
    read = [BufferRegion.from_point(buffer, sweep.places)]
    name = state.free_name(block, moved.name)
    shift = sweep.storing_nest(moved, sweep.places, value, name, read)

    # Rewrite: the amount that the offset adds to each sum, over the loops that the other factor
    # uses.
    store = product.store
    used = collect_vars(product.other)
    factors = {load.buffer for load in loads_in(product.other)}
    kept = [
        k
        for k, axis in enumerate(node.iter_vars)
        if axis.iter_type == IterVar.COMM_REDUCE or axis.var in used
    ]
    chosen = [node.iter_vars[k] for k in kept]
    spatial = [axis for axis in chosen if axis.iter_type == IterVar.DATA_PAR]
    total = store.buffer.dtype
    shape = [axis.dom.extent for axis in spatial if axis.dom is not None]
    share = _new_buffer(store.buffer, f"{store.buffer.name}_offset", total, shape)
    bound = [block.block_realize.iter_values[k] for k in kept]
    nest, fresh = Sweep.like(
        [loops[k].loop for k in kept], chosen, bound, block.block_realize.predicate
    )
    place = [fresh[axis.var] for axis in spatial]
    term = Mul(const(offset, total), substitute(product.other, fresh))
    sums = nest.around_block(
        BufferStore(share, Add(BufferLoad(share, place), term), place),
        [substitute(region, fresh) for region in node.reads if region.buffer in factors],
        [BufferRegion.from_point(share, place)],
        state.free_name(block, share.name),
        init=BufferStore(share, const(0, total), place),
    )

    # Rewrite: the block itself.
    mine = [axis.var for axis in spatial]
    factor = Cast(product.cast.dtype, BufferLoad(moved, product.load.indices))
    begin = product.init
    new = node.with_(
        reads=(
            *(
                region if region.buffer is not buffer else BufferRegion(moved, region.region)
                for region in node.reads
            ),
            BufferRegion.from_point(share, mine),
        ),
        body=BufferStore(store.buffer, Add(product.own, product.times(factor)), store.indices),
        init=BufferStore(begin.buffer, Sub(begin.value, BufferLoad(share, mine)), begin.indices),
    )
    state.replace(block, new)
    state.replace(loops[0], sequence([shift.nest, sums.nest, loops[0].loop]))
    root = scope.block
    state.replace(scope, root.with_(alloc_buffers=(*root.alloc_buffers, moved, share)))

    # Result.
    return state.get_sref(shift.block), state.get_sref(sums.block)


@dataclass(frozen=True)
class _Product:
    """A store that adds a product to the stored element."""

    store: BufferStore
    own: PrimExpr
    """The element before the addition."""
    cast: Cast
    load: BufferLoad
    """The factor, and its conversion."""
    other: PrimExpr
    """The other factor."""
    is_first: bool
    """True if the factor is the left one."""
    init: BufferStore

    def times(self, factor: PrimExpr) -> Mul:
        """Return the product with another expression in the factor's place."""
        return Mul(factor, self.other) if self.is_first else Mul(self.other, factor)


def _product(state: ScheduleState, block: StmtSRef, buffer: Buffer, kind: DataType) -> _Product:
    """Return the parts of a sum of products of a buffer; ScheduleError for any other block."""

    def refuse(reason: str) -> NoReturn:
        fail(NO_PRODUCT, block, buffer=buffer.name, reason=reason)

    node = block.block
    loops = loops_above(block)
    alone = bool(loops) and state.child_blocks(loops[0]) == [block]
    if not alone or not is_trivial_binding(block):
        refuse("an axis lacks its own loop")
    if not is_const_int(block.block_realize.predicate, 1):
        refuse("its predicate leaves some steps out")
    if not all(is_const_int(sref.loop.min, 0) for sref in loops):
        refuse("a loop does not start at 0")
    store, init = node.body, node.init
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        refuse("it does not store one element and initialise it")
    total = store.value
    if not isinstance(total, Add) or not isinstance(total.b, Mul):
        refuse("it does not add a product")
    own, factors = total.a, total.b
    if not structural_equal(own, BufferLoad(store.buffer, store.indices)):
        refuse("it does not add to the stored element")
    loads = list(loads_in(factors))
    read = [load for load in loads if load.buffer is buffer]
    if len(read) != 1:
        refuse("it is read more than once, or not at all")
    for factor, other in ((factors.a, factors.b), (factors.b, factors.a)):
        if isinstance(factor, Cast) and factor.value is read[0]:
            if not factor.dtype.is_integral or not holds_values_of(factor.dtype, kind):
                refuse(f"it is multiplied as {factor.dtype}, which lacks some values of {kind}")
            return _Product(store, own, factor, read[0], other, factor is factors.a, init)
    refuse("it is not converted where it is multiplied")


def _other_sign(dtype: DataType, text: str) -> DataType:
    """Return the new type of a factor; ArgumentError if it differs in more than its sign."""
    sign = "uint" if dtype.is_int else "int"
    wanted = f"{sign}{dtype.bits}"
    if not dtype.is_integral or dtype.is_bool or text != wanted:
        reason = f"is {text!r}; the factor is {dtype}, so it can only be {wanted!r}"
        raise ArgumentError("offset_factor", "dtype", reason)
    return DataType(text)


def _new_buffer(buffer: Buffer, name: str, dtype: DataType, shape: Sequence[PrimExpr]) -> Buffer:
    """Return a compact buffer with new memory."""
    made = stage_buffer(buffer, name, "global", list(shape))
    return made.with_(dtype=dtype, data=Var(name, PointerType(PrimType(dtype), "global")))
