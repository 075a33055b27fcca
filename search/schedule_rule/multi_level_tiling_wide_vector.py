"""Multi-level tiling for wide vector registers."""

from __future__ import annotations

from schedule import LoopRV
from search.errors import TuningError
from search.schedule_rule.multi_level_tiling import MultiLevelTiling, ReuseType, TilingState
from tensorir.nodes.expr import IntImm


class MultiLevelTilingWideVector(MultiLevelTiling):
    """Tiles as `MultiLevelTiling` does, with whole vectors as the innermost tile.

    The loop over the last dimension of the written buffer always has as many iterations innermost
    as a register of `vector_length_in_bits` holds elements of that buffer, or all of its iterations
    if there are no more. The rest of the loop and the other loops are split by sampled factors.
    """

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
    ) -> None:
        super().__init__(
            structure,
            max_innermost_factor=max_innermost_factor,
            reuse_read=reuse_read,
            reuse_write=reuse_write,
        )
        if vector_length_in_bits <= 0:
            raise TuningError(
                f"vector_length_in_bits is the length of a register, got {vector_length_in_bits}"
            )
        self.vector_length_in_bits = vector_length_in_bits

    def split(self, state: TilingState, loop: LoopRV, parts: int, most: int | None) -> list[LoopRV]:
        """Return a loop in parts; that of the last written dimension ends in a whole vector."""
        if parts == 1 or not _is_innermost_written(state, loop):
            return super().split(state, loop, parts, most)
        sch = state.sch
        bits = sch.get(state.block).writes[0].buffer.dtype.bits
        lanes = max(1, self.vector_length_in_bits // bits)
        extent = sch.get(loop).extent
        if not isinstance(extent, IntImm) or extent.value <= lanes:
            return sch.split(loop, [*[1] * (parts - 1), None])
        outer, vector = sch.split(loop, [None, lanes])
        return [*super().split(state, outer, parts - 1, most), vector]


def _is_innermost_written(state: TilingState, loop: LoopRV) -> bool:
    """Say whether a loop gives the last index of what the block writes."""
    realize = state.sch.get_sref(state.block).block_realize
    region = realize.block.writes[0].region
    loop_var = state.sch.get(loop).loop_var
    return any(
        value is loop_var and axis.var is region[-1].min
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if region
    )
