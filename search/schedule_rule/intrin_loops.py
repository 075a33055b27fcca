"""The loops of a block that a tensor intrinsic takes over."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from schedule.analysis.bindings import is_trivial_binding
from schedule.analysis.intrin_match import Mismatch
from schedule.sref import StmtSRef, loops_above
from tensorir.comparison.equal import expr_deep_equal
from tensorir.function import PrimFunc
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, Cast, IntImm, PrimExpr, Var
from tensorir.nodes.float_format import holds_values_of
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, Stmt
from tensorir.rewriting.visit import rewrite, walk


@dataclass(frozen=True)
class IntrinLoop:
    """A loop around a block whose innermost iterations an intrinsic runs."""

    position: int
    """Place of the loop around the block, 0 for the outermost."""
    extent: int
    """The iterations that the intrinsic takes; they divide those of the loop."""


def intrin_loops(block: StmtSRef, desc: PrimFunc, *, other_sign: bool = False) -> list[IntrinLoop]:
    """Return the loops around a block for the loops of a description, in the latter's order.

    Block and description must compute the same; where they read it may differ still, since that
    depends on how the loops are divided. An operand may be narrower than the description's if it is
    converted where it is read, as int8 for int16, and with `other_sign` uint8 for int8. The last
    axis of a kind (spatial, reduction) in the description takes the last of the block, the one
    before that the one before, and so on. Raises Mismatch where the computations differ, or axes
    are missing or no multiples.
    """
    extents, described = described_nest(desc)
    node = block.block
    if not is_trivial_binding(block):
        raise Mismatch("an axis of the block is not bound to a loop of its own", node, described)
    _check_computation(node.body, described.block.body, other_sign)
    free: dict[int, list[int]] = {}
    for position, axis in enumerate(node.iter_vars):
        free.setdefault(axis.iter_type, []).append(position)
    found: list[IntrinLoop] = []
    loops = loops_above(block)
    for axis, extent in zip(reversed(described.block.iter_vars), reversed(extents), strict=True):
        positions = free.get(axis.iter_type)
        if not positions:
            raise Mismatch(
                "the block has fewer spatial or reduction axes than the intrinsic", node, described
            )
        position = positions.pop()
        total = loops[position].loop.extent
        if not isinstance(total, IntImm) or total.value % extent != 0:
            raise Mismatch(
                f"loop {loops[position].loop.loop_var.name} has {total} iterations, which is no "
                f"multiple of {extent}",
                node,
                described,
            )
        found.insert(0, IntrinLoop(position, extent))
    return found


def described_nest(desc: PrimFunc) -> tuple[list[int], BlockRealize]:
    """Return the extents of the loops of a description, and the one block inside them."""
    assert isinstance(desc.body, BlockRealize)
    stmt: Stmt = desc.body.block.body
    extents: list[int] = []
    loop_vars: list[Var] = []
    while isinstance(stmt, For) and isinstance(stmt.extent, IntImm):
        extents.append(stmt.extent.value)
        loop_vars.append(stmt.loop_var)
        stmt = stmt.body
    if isinstance(stmt, BlockRealize):
        values = stmt.iter_values
        if len(values) == len(loop_vars) and all(map(operator.is_, values, loop_vars)):
            return extents, stmt
    raise Mismatch(
        "the description of the intrinsic is no nest of loops over one block whose axes they are"
    )


def operand_loads(body: Stmt) -> list[BufferLoad]:
    """Return the loads in a store, those of the stored buffer left out."""
    assert isinstance(body, BufferStore)
    loads = [part for part in walk(body.value) if isinstance(part, BufferLoad)]
    return [load for load in loads if load.buffer is not body.buffer]


def _check_computation(found: Stmt, expected: Stmt, other_sign: bool) -> None:
    """Raise unless two bodies store the same function of the same number of buffers."""
    if not isinstance(found, BufferStore) or not isinstance(expected, BufferStore):
        raise Mismatch("the block is not a single store", found, expected)
    shared: dict[tuple[int, DataType], Var] = {}
    computed, described = (
        _without_indices(store.value, store.buffer, shared) for store in (found, expected)
    )
    if not expr_deep_equal(computed, described):
        raise Mismatch("the expressions differ", found, expected)
    for load, wanted in zip(operand_loads(found), operand_loads(expected), strict=True):
        fits = holds_values_of(wanted.dtype, load.dtype)
        if not fits and not (other_sign and _differ_in_sign(wanted, load)):
            raise Mismatch(
                f"{load.buffer.name} holds {load.dtype}, which {wanted.dtype} does not have all "
                f"values of",
                found,
                expected,
            )


def _differ_in_sign(a: BufferLoad, b: BufferLoad) -> bool:
    both = a.dtype.is_integral and b.dtype.is_integral
    return both and a.dtype.bits == b.dtype.bits and a.dtype.is_int != b.dtype.is_int


def _without_indices(
    value: PrimExpr, stored: Buffer, shared: dict[tuple[int, DataType], Var]
) -> PrimExpr:
    """Return a value with variables for loads, one for each buffer: the n-th one for the n-th.

    A load that is converted to a type that has all of its values is one of that type.
    """
    numbers = {stored: 0}

    def variable(load: BufferLoad, dtype: DataType) -> Var:
        number = numbers.setdefault(load.buffer, len(numbers))
        return shared.setdefault((number, dtype), Var(f"buffer_{number}", dtype))

    def converted(node: Cast) -> Var | None:
        load = node.value
        if isinstance(load, BufferLoad) and holds_values_of(node.dtype, load.dtype):
            return variable(load, node.dtype)
        return None

    return rewrite(
        value,
        before={
            Cast: lambda node, _: converted(node),
            BufferLoad: lambda node, _: variable(node, node.dtype),
        },
    )
