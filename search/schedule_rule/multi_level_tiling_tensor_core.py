"""The rule that tiles products of matrices for the tensor cores of a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from codegen.target.tensor_cores import ROW_BYTES
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.intrin_match import Mismatch
from schedule.sref import StmtSRef
from search.errors import TuningError, refusal_reason
from search.schedule_rule.multi_level_tiling import MultiLevelTiling, ReuseType, TilingState
from search.schedule_rule.multi_level_tiling_with_intrin import (
    IntrinLoop,
    described_nest,
    intrin_loops,
    separate,
)
from search.space_generator.annotations import (
    AUTO_TENSORIZE,
    AUTO_TENSORIZE_INIT,
    WARP_EXECUTION,
)
from search.space_generator.matrix_axes import MatrixAxes, matrix_axes
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import floordiv, floormod
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.tensor_intrin import TensorIntrin
from tensorir.tensor_intrin.tensor_core import NAMES

_KEYS: Final = ("init", "load_a", "load_b", "compute", "store")
_ROW_FACTOR: Final = 32
"""The rows of an operand in shared memory are a multiple of 32 elements and `ROW_BYTES` apart, so
that a warp reads several rows without bank conflicts."""


def intrin_group(factors: str, sums: str, *, transposed: bool = False) -> dict[str, str]:
    """Return the intrinsics of tensor cores for the dtypes of factors and sums.

    Shared memory is of scope `shared.dyn`; `transposed` means a right factor `B[j, k]`.
    """
    short, wide, trans = NAMES[factors], NAMES[sums], "_trans" if transposed else ""
    size = "16x16x16"
    return {
        "init": f"wmma_fill_{size}_{wide}",
        "load_a": f"wmma_load_{size}_{short}_a_shared_dyn",
        "load_b": f"wmma_load_{size}_{short}_b{trans}_shared_dyn",
        "compute": f"wmma_sync_{size}_{short}{short}{wide}{trans}",
        "store": f"wmma_store_{size}_{wide}_shared_dyn",
    }


class _Group:
    """A group of intrinsics, with the operands that its product requires."""

    def __init__(self, names: Mapping[str, str]) -> None:
        if set(names) != set(_KEYS):
            raise TuningError(
                f"invalid group of intrinsics with the keys {', '.join(names)}; it has the keys "
                f"{', '.join(_KEYS)}"
            )
        self.names = dict(names)
        self.buffers = {key: _buffers(name) for key, name in names.items()}
        """The buffers of each intrinsic, the written one last."""
        self.desc = _intrinsic(names["compute"]).desc
        self.extents, _ = described_nest(self.desc)
        self.layouts = factor_layouts(names["compute"])
        filled = described_nest(_intrinsic(names["init"]).desc)[1].block.body
        assert isinstance(filled, BufferStore)
        self.fill = filled.value

    def fits(self, block: Block, axes: MatrixAxes) -> bool:
        """Return True if a product has the dtypes of the group, and starts from its fill."""
        *factors, sums = self.buffers["compute"]
        found = [load.buffer.dtype for load in axes.loads]
        return (
            [b.dtype for b in factors] == found
            and axes.result.dtype is sums.dtype
            and isinstance(block.init, BufferStore)
            and expr_deep_equal(block.init.value, self.fill)
        )


def factor_layouts(name: str) -> tuple[str, str]:
    """Return the letters of the dimensions of both factors of an intrinsic: `"ik"` and `"jk"`.

    Raises TuningError for an intrinsic that does not multiply matrices.
    """
    axes = matrix_axes(described_nest(_intrinsic(name).desc)[1].block)
    if axes is None or axes.kinds != "ijk":
        raise TuningError(
            f"the intrinsic {name} does not multiply matrices; `compute` is one such as "
            f"wmma_sync_16x16x16_f16f16f32"
        )
    left, right = ("".join(axes.dims(load)) for load in axes.loads)
    return left, right


def _intrinsic(name: str) -> TensorIntrin:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    return intrin


def _buffers(name: str) -> list[Buffer]:
    desc = _intrinsic(name).desc
    return [desc.buffer_map[param] for param in desc.params]


@dataclass(eq=False)
class _State(TilingState):
    """An unfinished design for a group of intrinsics."""

    group: _Group
    axes: MatrixAxes
    operands: tuple[int, int] = (0, 1)
    """The positions of both factors among the regions that the block reads."""
    result: BlockRV | None = None
    """The block that copies the result of the product to the buffer of the program."""


class MultiLevelTilingTensorCore(MultiLevelTiling):
    """Tiles a product of matrices for tensor cores, with fragments and staged results.

    Each of `intrin_groups` has the names of the intrinsics that fill a tile of the result
    (`"init"`), load tiles of both factors from shared memory (`"load_a"`, `"load_b"`), multiply
    them (`"compute"`), and store a tile of the result to shared memory (`"store"`). There is one
    design for each group whose dtypes are those of the block, and which the target supports.

    The axes of the block are fused to those of a product of two matrices, with axes of batches
    around it: a convolution becomes a product, as by im2col, whose operands are gathered when they
    are copied to shared memory. Shapes that are no multiples of the tile are padded with zeros.

    The tiles have the same arguments as in `MultiLevelTiling`; the last of `tile_binds` is bound to
    the warps of a block. `reuse_read` and `reuse_write` are required, and have the scope of shared
    memory that the intrinsics have. Results go from fragments to shared memory, one row of tiles of
    each warp at a time, and all threads copy them on. With `use_software_pipeline`, operands are
    copied to shared memory while those of the step before are multiplied. Blocks that are no such
    products are left to later rules. Raises TuningError for invalid groups.

    The staging of results is that of MetaSchedule; Feng et al., TensorIR (ASPLOS 2023), describes
    how the axes are matched.
    """

    def __init__(
        self,
        intrin_groups: Sequence[Mapping[str, str]],
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
        use_software_pipeline: bool = False,
    ) -> None:
        super().__init__(
            structure,
            tile_binds,
            max_innermost_factor,
            vector_load_lens,
            reuse_read,
            reuse_write,
        )
        if self.reuse_read.req != "must" or self.reuse_write.req != "must":
            raise TuningError(
                "tensor cores load from and store to shared memory; reuse_read and reuse_write are "
                '"must"'
            )
        if not self.tile_binds:
            raise TuningError(
                "tensor cores need the threads of warps; tile_binds ends with the axis of warps, "
                "such as threadIdx.y"
            )
        if len(self.r_indices) < 2:
            raise TuningError(
                f"invalid tiling structure {structure!r} for tensor cores; fragments are loaded at "
                f"the last R but one, so it has two R or more"
            )
        self.intrin_groups = [dict(group) for group in intrin_groups]
        self.use_software_pipeline = use_software_pipeline
        self._groups = [_Group(group) for group in intrin_groups]

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return a design for each group of intrinsics that fits."""
        sref = sch.get_sref(block)
        if not self.applies_to(sch, sref) or not self._fitting(sref):
            return [sch]
        try:
            return self.designs(sch.copy(), block) or [sch]
        except ScheduleError as error:
            self._log(sch, block, refusal_reason(error))
            return [sch]

    def _fitting(self, block: StmtSRef) -> list[tuple[_Group, MatrixAxes]]:
        gpu = self._task_target().gpu
        axes = matrix_axes(block.block)
        if gpu is None or axes is None:
            return []
        if NAMES.get(str(axes.loads[0].buffer.dtype)) not in gpu.tensor_core_dtypes:
            return []
        return [(group, axes) for group in self._groups if group.fits(block.block, axes)]

    def start(self, sch: Schedule, block: BlockRV) -> list[TilingState]:
        """Return an unfinished design for each group."""
        return [
            _State(sch.copy(), block, [], group=group, axes=axes)
            for group, axes in self._fitting(sch.get_sref(block))
        ]

    def steps(self) -> list[Callable[[Any], list[Any]]]:
        """Return the steps of tiling, around those for fragments."""
        return [
            self.make_product,
            self.tile,
            self.group_by_warps,
            self.add_write_reuse,
            self.store_fragments,
            self.add_read_reuse,
            self.load_fragments,
            self.add_software_pipeline,
        ]

    # -------------------------------------------------------------------------------- the product

    def make_product(self, state: _State) -> list[_State]:
        """Let the block multiply matrices of whole tiles; its tiles become blocks of their own."""
        sch, names = state.sch, state.group.names
        try:
            self._fuse_axes(state)
            parts = intrin_loops(sch.get_sref(state.block), state.group.desc)
            state.block = separate(sch, state.block, parts)
        except Mismatch as difference:
            self._log(sch, state.block, difference.reason)
            return []
        except ScheduleError as error:
            self._log(sch, state.block, refusal_reason(error))
            return []
        sch.annotate(state.block, AUTO_TENSORIZE, names["compute"])
        sch.annotate(state.block, AUTO_TENSORIZE_INIT, names["init"])
        sch.annotate(state.block, WARP_EXECUTION, 1)
        return [state]

    def _fuse_axes(self, state: _State) -> None:
        """Let the block read and write copies with the axes of the product, padded to tiles."""
        sch, block, axes = state.sch, state.block, state.axes
        reads = [region.buffer for region in sch.get(block).reads]
        left, right = (reads.index(load.buffer) for load in axes.loads)
        state.operands = left, right
        state.result = sch.reindex(block, ("write", 0))
        copies = [sch.reindex(block, ("read", k)) for k in (left, right)]
        maps = [axes.fused(layout) for layout in state.group.layouts]
        for k, layout in zip((left, right), maps, strict=True):
            sch.transform_layout(block, ("read", k), layout, assume_injective_transform=True)
        rows = axes.fused("ij")
        sch.transform_layout(block, ("write", 0), rows, assume_injective_transform=True)
        for copy, layout in zip((state.result, *copies), (rows, *maps), strict=True):
            sch.transform_block_layout(copy, layout)
        sch.transform_block_layout(block, axes.fused("ijk"))
        tile = state.group.extents
        if any(axes.count(kind) % most for kind, most in zip("ijk", tile, strict=True)):
            sch.pad_einsum(block, [1] * axes.batches + tile)
            _inline_around(sch, block, copies, state.result)

    def split(self, state: TilingState, loop: LoopRV, parts: int, most: int | None) -> list[LoopRV]:
        """Split a loop; loops over batches belong to the outermost tiles."""
        assert isinstance(state, _State)
        realize = state.sch.get_sref(state.block).block_realize
        own = state.sch.get(loop).loop_var
        if any(value is own for value in realize.iter_values[: state.axes.batches]):
            return [loop]
        return super().split(state, loop, parts, most)

    # ---------------------------------------------------------------------------------- fragments

    def group_by_warps(self, state: _State) -> list[_State]:
        """Give the result of the product a layout of tiles, grouped by warps."""
        rows, columns = (math.prod(f[len(self.tile_binds) :]) for f in state.factors[:2])
        sch, block = state.sch, state.block
        result = sch.get(block).writes[0].buffer
        names = [Var(f"i{k}", dim.dtype) for k, dim in enumerate(result.shape)]
        *batches, i, j = names
        tile_i, tile_j, _ = state.group.extents
        outer: list[PrimExpr] = [
            floordiv(floordiv(i, tile_i), rows),
            floordiv(floordiv(j, tile_j), columns),
            floormod(floordiv(i, tile_i), rows),
            floormod(floordiv(j, tile_j), columns),
        ]
        layout = IndexMap(names, [*batches, *outer, floormod(i, tile_i), floormod(j, tile_j)])
        sch.transform_layout(block, ("write", 0), layout, assume_injective_transform=True)
        return [state]

    def store_fragments(self, state: _State) -> list[_State]:
        """Store the fragments of each warp to shared memory by rows of tiles, and copy them on."""
        sch, copy = state.sch, state.write
        assert copy is not None
        assert state.result is not None
        sums = sch.cache_write(state.block, 0, state.group.buffers["store"][0].scope())
        warp_i, warp_j, row, column, *_ = sch.get_loops(copy)[-6:]
        sch.reorder(row, warp_i, warp_j, column)
        sch.compute_at(sums, row, preserve_unit_loops=True)
        warp = sch.fuse(*sch.get_loops(sums)[-6:-4])
        sch.bind(warp, self.tile_binds[-1])
        sch.reverse_compute_inline(state.result)
        store = sch.blockize(sch.get_loops(sums)[-2])
        sch.annotate(store, AUTO_TENSORIZE, state.group.names["store"])
        sch.fuse(*sch.get_loops(copy)[-5:])
        self.fetch_together(sch, copy, state.group.buffers["store"][0].dtype)
        return [state]

    def load_fragments(self, state: _State) -> list[_State]:
        """Load tiles of both factors to fragments; set the distance of their rows before."""
        sch = state.sch
        loop = state.tiles[self.r_indices[-2]][-1]
        for k, key in zip(state.operands, ("load_a", "load_b"), strict=True):
            scope = state.group.buffers[key][-1].scope()
            fragment = sch.cache_read(state.block, k, scope)
            sch.compute_at(fragment, loop, preserve_unit_loops=True)
            tile = state.group.buffers[key][-1].shape
            parts = [
                IntrinLoop(position, extent.value)
                for position, extent in zip((-2, -1), tile, strict=True)
                if isinstance(extent, IntImm)
            ]
            load = separate(sch, fragment, parts)
            sch.annotate(load, AUTO_TENSORIZE, state.group.names[key])
        for copy in state.reads:
            (producer,) = sch.get_producers(copy)
            sch.compute_inline(producer)
            dtype = sch.get(copy).writes[0].buffer.dtype
            sch.storage_align(copy, 0, -2, _ROW_FACTOR, row_offset(dtype))
        return [state]

    def add_software_pipeline(self, state: _State) -> list[_State]:
        """Copy the operands of a step while those of the step before are multiplied."""
        if not self.use_software_pipeline:
            return [state]
        return self.pipelined(state, (3,)) or [state]

    def _log(self, sch: Schedule, block: BlockRV, reason: str) -> None:
        name = sch.get(block).name_hint
        self._task_logger().debug("Block %s is not tiled for tensor cores: %s", name, reason)


def row_offset(dtype: DataType) -> int:
    """Return by how many elements rows in shared memory are longer than a multiple of 32."""
    return ROW_BYTES // dtype.nbytes


def row_stride(length: int, dtype: DataType) -> int:
    """Return the distance of rows of so many elements in shared memory."""
    return length + (row_offset(dtype) - length) % _ROW_FACTOR


def _inline_around(
    sch: Schedule, block: BlockRV, copies: Sequence[BlockRV], result: BlockRV
) -> None:
    """Inline the copies of operands into the blocks that pad them, and what removes the padding."""
    for copy in copies:
        (consumer,) = sch.get_consumers(copy)
        if sch.get_sref(consumer) is not sch.get_sref(block):
            sch.compute_inline(copy)
    (consumer,) = sch.get_consumers(block)
    if sch.get_sref(consumer) is not sch.get_sref(result):
        sch.compute_inline(consumer)
