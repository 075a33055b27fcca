"""Dividing the dimensions of a buffer into physical ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from schedule.analysis.buffer_definition import accessed_buffer, defining_block, replace_buffer
from schedule.analysis.redirect import RedirectBuffers
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, BufferArg, primitive
from schedule.state import ScheduleState
from tensorir.nodes.buffer import MatchBufferRegion

WRONG_SEPARATORS = Problem(
    "InvalidAxisSeparatorError",
    "{separators} are no ascending positions among the {ndim} dimension(s) of {buffer}",
    "a separator at position k stands in front of dimension k",
)


@primitive("SetAxisSeparator")
def set_axis_separator(
    state: ScheduleState,
    block: BlockArg,
    buffer: BufferArg,
    axis_separators: Sequence[int] | None,
) -> None:
    """Say in front of which dimensions of a buffer a new physical dimension begins.

    Dimensions between two separators are flattened together when the program is lowered; None or
    an empty list makes the buffer flat. Views of the buffer by match_buffer, which have the last of
    its dimensions, are divided where it is.

    Raises ScheduleError: BufferIndexOutOfRangeError, BufferIsSubregionError,
    NonAllocatedBufferError, InvalidAxisSeparatorError.
    """
    old = accessed_buffer(block, *buffer)
    site = defining_block(state, block, old)
    separators = [int(k) for k in axis_separators or ()]
    ndim = len(old.shape)
    valid = all(0 <= k <= ndim for k in separators) and all(a < b for a, b in pairwise(separators))
    check(valid, WRONG_SEPARATORS, block, separators=separators, ndim=ndim, buffer=old.name)
    new = old.with_(axis_separators=separators)
    replace_buffer(state, site, old, new, _Separate({old: new}, None))


class _Separate(RedirectBuffers):
    """Divides the dimensions of a buffer, and of the views of it."""

    def rewrite_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:  # noqa: N802
        source, view = self.buffer(node.source.buffer), node.buffer
        if source is not node.source.buffer:
            dropped = len(source.shape) - len(view.shape)
            separators = [max(0, k - dropped) for k in source.axis_separators]
            self._buffers[view] = view.with_(axis_separators=separators)
        return self.generic(node)
