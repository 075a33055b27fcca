"""Changing the order of a block's axes."""

from __future__ import annotations

from schedule.errors import Problem, check
from schedule.instruction import BlockArg, IntsInput, primitive
from schedule.state import ScheduleState
from tensorir.nodes.stmt import BlockRealize

NOT_A_PERMUTATION = Problem(
    "InvalidReorderIndex",
    "{order} is not a valid permutation of the {count} axes of {0}",
    "name each position from 0 to the number of axes less 1 once",
)


@primitive("ReorderBlockIterVar")
def reorder_block_iter_var(state: ScheduleState, block: BlockArg, new_order: IntsInput) -> None:
    """Permute the axes of a block together with their bindings; loops stay as they are.

    Raises ScheduleError (InvalidReorderIndex) unless `new_order` is a permutation.
    """
    node, realize = block.block, block.block_realize
    count = len(node.iter_vars)
    valid = sorted(new_order) == list(range(count))
    check(valid, NOT_A_PERMUTATION, block, order=list(new_order), count=count)
    axes = [node.iter_vars[k] for k in new_order]
    values = [realize.iter_values[k] for k in new_order]
    new = node.with_(iter_vars=axes)
    state.replace(block, BlockRealize(values, realize.predicate, new), {node: new})
