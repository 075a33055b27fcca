"""Making one or several loop nests the body of a new block."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.block_division import (
    BlockDivision,
    check_init_moves_out,
    divide_block,
    init_nest,
    same_outer_axes,
)
from schedule.analysis.regions import bounding_box
from schedule.errors import Problem, check
from schedule.instruction import BlocksOrLoopArg, NewBlock, primitive
from schedule.sref import StmtSRef, loops_above, lowest_common_ancestor, scope_root
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.stmt import Block, BlockRealize, Stmt, sequence
from tensorir.rewriting.visit import substitute

NOT_ONE_CHILD = Problem(
    "NonSingleChildBlockError",
    "{0} should have only one child block, but it has {count}",
    "blockize a loop further in, or give the blocks as a list",
)
NO_BLOCKS = Problem(
    "NoBlockError",
    "blockize needs a loop or at least one block, but the list is empty",
    "pass a LoopRV, or a list of BlockRV with at least one in it",
)
NOT_SIBLINGS = Problem(
    "BlocksNotSiblingsError",
    "{0} and {1} are not the only blocks in two statements that follow one another",
    "give blocks whose nests directly follow one another in one loop or block, in program order",
)
OTHER_AXES = Problem(
    "OuterAxesMismatchError",
    "the blocks cannot share an outer block, because {0} would have the outer axes {first} there, "
    "and {1} {second}",
    "split and reorder the loops of the blocks in the same way, so that the outer loops drive "
    "the same axes",
)
REDUCES = Problem(
    "OuterReductionError",
    "{0} has a reduction with an init, which several blocks in one outer block cannot share",
    "decompose_reduction separates the init first",
)


@primitive("Blockize")
def blockize(
    state: ScheduleState, target: BlocksOrLoopArg, preserve_unit_iters: bool = True
) -> NewBlock:
    """Make the body of a loop, or several blocks that follow one another, one block.

    Before: for i_0, i_1 in T.grid(4, 8): block B: vi = i_0 * 8 + i_1; S(vi)    # blockize(i_1)
    After:  for i_0 in range(4): block B_o: vi_o = i_0
                for i_1 in range(8): block B: vi_i = i_1; S(vi_o * 8 + vi_i)

    The outer block gets the part of each axis that the outer loops drive; its regions are those of
    all inner instances together. An init moves to the outer block. Given a list of blocks, the
    outer block is called `outer_<name>_<name>_`, and all blocks must agree on its axes. With
    `preserve_unit_iters`, axes of extent 1 stay visible in indices.

    TVM also accepts reductions that an inner loop repeats, or whose axes do not start at their
    minimum. Initialising those once, before the inner loops, is wrong, so they are refused here.

    Raises ScheduleError: NonSingleChildBlockError, SubspaceNotDivisibleError, RootBlockError,
    DependentAxisError, and for lists NoBlockError, BlocksNotSiblingsError, OuterAxesMismatchError,
    OuterReductionError.
    """
    if not isinstance(target, StmtSRef):
        return _blockize_blocks(state, target, preserve_unit_iters)

    # Preconditions.
    children = state.child_blocks(target)
    check(len(children) == 1, NOT_ONE_CHILD, target, count=len(children))
    (block,) = children
    loops = loops_above(block)
    position = loops.index(target)
    outer, inner = loops[:position], loops[position:]
    division = divide_block(block, outer, inner, preserve_unit_iters)
    if block.block.init is not None:
        check_init_moves_out(block, inner)
        if state.enable_check:
            check_any_order(block)

    # Rewrite.
    old = block.block
    realize, reuse = _outer_block(division)
    state.replace(target, realize, {**reuse, old: _innermost(realize.block.body)})

    # Result.
    return state.get_sref(realize.block)


def _outer_block(division: BlockDivision) -> tuple[BlockRealize, dict[Block, Block]]:
    """Return the outer block around the inner one, and the map from old to new blocks."""
    plain, reuse = division.substitute_axes()
    init = None
    inner = plain.with_(iter_vars=division.inner_axes, init=None)
    if plain.init is not None:
        init = init_nest(division, plain, plain.name_hint)
        if division.reduces_outside:
            inner = inner.with_(reads=(*plain.writes, *plain.reads))
    outer = Block(
        division.outer_axes,
        division.relaxed(plain.reads),
        division.relaxed(plain.writes),
        f"{plain.name_hint}_o",
        division.nest(inner),
        init,
    )
    return BlockRealize(division.outer_values, division.outer_predicate, outer), reuse


def _innermost(nest: Stmt) -> Block:
    while not isinstance(nest, BlockRealize):
        nest = nest.body  # type: ignore[attr-defined]
    return nest.block


# -------------------------------------------------------------------------------- several blocks


def _blockize_blocks(
    state: ScheduleState, blocks: Sequence[StmtSRef], preserve_unit_iters: bool
) -> StmtSRef:
    # Preconditions.
    check(bool(blocks), NO_BLOCKS)
    for block in blocks:
        state.scope_root(block)
        check(scope_root(block) is scope_root(blocks[0]), NOT_SIBLINGS, blocks[0], block)
    place = _place(blocks)
    siblings = _check_siblings(state, blocks, place)
    divisions = []
    for block in blocks:
        loops = loops_above(block)
        depth = loops.index(place) + 1 if place in loops else 0
        division = divide_block(block, loops[:depth], loops[depth:], preserve_unit_iters)
        reduces = division.reduces_outside and block.block.init is not None
        check(not reduces, REDUCES, block)
        divisions.append(division)
        same = same_outer_axes((divisions[0], division))
        check(same, OTHER_AXES, blocks[0], block, **_outer_texts(divisions[0], division))

    # Rewrite.
    shared = divisions[0]
    reuse: dict[Block, Block] = {}
    nests: list[Stmt] = []
    reads: list[BufferRegion] = []
    writes: list[BufferRegion] = []
    for division in divisions:
        plain, inside = division.substitute_axes()
        pairs = zip(division.outer_axes, shared.outer_axes, strict=True)
        renamed: dict[Var, PrimExpr] = {a.var: b.var for a, b in pairs if a is not b}
        inner = plain.with_(iter_vars=division.inner_axes)
        reads += [substitute(region, renamed) for region in division.relaxed(plain.reads)]
        writes += [substitute(region, renamed) for region in division.relaxed(plain.writes)]
        inner = substitute(inner, renamed)
        reuse.update(inside)
        reuse[division.block] = inner
        nests.append(division.nest(inner))
    name = "".join(f"{block.block.name_hint}_" for block in blocks)
    made = Block(
        shared.outer_axes,
        _unite_regions(reads),
        _unite_regions(writes),
        f"outer_{name}",
        sequence(nests),
    )
    realize = BlockRealize(shared.outer_values, shared.outer_predicate, made)
    assert place.stmt is not None
    state.replace(place, place.stmt.with_(body=siblings.replace(realize)), reuse)

    # Result.
    return state.get_sref(made)


def _place(blocks: Sequence[StmtSRef]) -> StmtSRef:
    """Return the loop or block whose body contains the blocks."""
    if len(set(blocks)) > 1:
        return lowest_common_ancestor(blocks)
    parent = blocks[0].parent
    assert parent is not None
    return parent


def _check_siblings(
    state: ScheduleState, blocks: Sequence[StmtSRef], place: StmtSRef
) -> StmtCursor:
    """Return the position of several blocks' statements, which must follow one another."""
    below = StmtCursor.below(place).around(*blocks)
    first = below.position(blocks[0])
    for k, block in enumerate(blocks):
        current = block
        while current.parent is not place:
            assert current.parent is not None
            current = current.parent
            alone = len(state.child_blocks(current)) == 1
            check(alone, NOT_SIBLINGS, blocks[0], block)
        stmt = current.block_realize if current.is_block else current.stmt
        at = first + k
        in_order = at < below.last and below.parts[at] is stmt
        check(in_order, NOT_SIBLINGS, blocks[max(k - 1, 0)], block)
    return below


def _outer_texts(first: BlockDivision, second: BlockDivision) -> dict[str, str]:
    texts = [
        ", ".join(
            f"{axis.var.name} = {value}"
            for axis, value in zip(d.outer_axes, d.outer_values, strict=True)
        )
        for d in (first, second)
    ]
    return {"first": f"({texts[0]})", "second": f"({texts[1]})"}


def _unite_regions(regions: Sequence[BufferRegion]) -> list[BufferRegion]:
    """Return one region for each buffer: the smallest box around all of its regions."""
    by_buffer: dict[Buffer, list[Sequence[Range] | None]] = {}
    for region in regions:
        by_buffer.setdefault(region.buffer, []).append(region.region)
    return [
        BufferRegion(buffer, bounding_box(parts, buffer)) for buffer, parts in by_buffer.items()
    ]
