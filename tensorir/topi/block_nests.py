"""Loop nests around blocks, for formulas whose steps run in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tensorir.nodes.buffer import Buffer, Range, decl_buffer
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import BufferLoad, ExprLike, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, as_expr, cast, const
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, sequence
from tensorir.script.parts import complete_block


def at(buffer: Buffer, *indices: ExprLike) -> PrimExpr:
    """Return an element of a buffer."""
    return BufferLoad(buffer, list(map(as_expr, indices)))


def block_nest(
    name: str,
    extents: Sequence[ExprLike],
    body: Callable[[Sequence[PrimExpr]], Stmt],
    visible: Mapping[Var, Buffer],
    *,
    kinds: Sequence[int] = (),
    init: Callable[[Sequence[PrimExpr]], Stmt] | None = None,
    where: Callable[[Sequence[PrimExpr]], PrimExpr] | None = None,
    buffers: Sequence[Buffer] = (),
    annotations: Mapping[str, str] | None = None,
) -> Stmt:
    """Return a block in a loop nest, with one axis for each loop.

    `kinds` are those of the first axes, such as `IterVar.OPAQUE` for loops that must run
    sequentially; other axes are data-parallel. `where(loop variables)` is the condition of the
    block, `buffers` has its allocations.
    """
    if not extents:
        return body([])
    sizes = [cast(INT64, as_expr(n)) for n in extents]
    variables = [Var(f"i{k}", INT64) for k in range(len(sizes))]
    axes = [Var(f"v_i{k}", INT64) for k in range(len(sizes))]
    of_axes = [*kinds, *[IterVar.DATA_PAR] * (len(sizes) - len(kinds))]
    iters = [
        IterVar(Range(n), axis, kind) for n, axis, kind in zip(sizes, axes, of_axes, strict=True)
    ]
    start = None if init is None else init(axes)
    block = Block(
        iters, (), (), name, body(axes), start, alloc_buffers=buffers, annotations=annotations or {}
    )
    condition = TRUE if where is None else where(variables)
    stmt: Stmt = BlockRealize(variables, condition, complete_block(block, (True, True), visible))
    for variable, size in reversed(list(zip(variables, sizes, strict=True))):
        stmt = For(variable, const(0, INT64), size, ForKind.SERIAL, stmt)
    return stmt


class Nests:
    """Loop nests that run one after the other, and the buffers that they allocate.

    `visible` has the buffers that are declared outside, by their pointers. The names of all blocks
    get a prefix.
    """

    def __init__(self, dtype: str, visible: Mapping[Var, Buffer], prefix: str = "") -> None:
        self.dtype = dtype
        self.prefix = prefix
        self.visible = dict(visible)
        self.buffers: list[Buffer] = []
        self.statements: list[Stmt] = []

    @property
    def body(self) -> Stmt:
        """The nests in order."""
        return sequence(self.statements)

    def allocate(self, name: str, shape: Sequence[ExprLike]) -> Buffer:
        """Return a new buffer."""
        buffer = decl_buffer([cast(INT64, as_expr(n)) for n in shape], self.dtype, name)
        self.visible[buffer.data] = buffer
        self.buffers.append(buffer)
        return buffer

    def compute(
        self, name: str, shape: Sequence[ExprLike], element: Callable[..., PrimExpr]
    ) -> Buffer:
        """Return a new buffer with `element(*indices)`."""
        buffer = self.allocate(name, shape)
        self.store(name, buffer, element)
        return buffer

    def store(
        self,
        name: str,
        buffer: Buffer,
        element: Callable[..., PrimExpr],
        place: Callable[..., Sequence[PrimExpr]] = lambda *axes: axes,
        *,
        extents: Sequence[ExprLike] | None = None,
        where: Callable[[Sequence[PrimExpr]], PrimExpr] | None = None,
    ) -> None:
        """Store `element(*axes)` at `place(*axes)`; extents of axes are by default the shape."""
        self.statements.append(
            block_nest(
                self.prefix + name,
                buffer.shape if extents is None else extents,
                lambda axes: BufferStore(buffer, element(*axes), place(*axes)),
                self.visible,
                where=where,
            )
        )

    def reduce(
        self,
        name: str,
        shape: Sequence[ExprLike],
        steps: ExprLike,
        combine: Callable[[PrimExpr, PrimExpr], PrimExpr],
        start: float,
        element: Callable[..., PrimExpr],
        annotations: Mapping[str, str] | None = None,
    ) -> Buffer:
        """Return a new buffer with `element(*indices, step)`, combined over the steps."""
        buffer = self.allocate(name, shape)

        def update(axes: Sequence[PrimExpr]) -> Stmt:
            place = axes[:-1]
            return BufferStore(buffer, combine(BufferLoad(buffer, place), element(*axes)), place)

        self.statements.append(
            block_nest(
                self.prefix + name,
                [*shape, steps],
                update,
                self.visible,
                kinds=[*[IterVar.DATA_PAR] * len(shape), IterVar.COMM_REDUCE],
                init=lambda axes: BufferStore(buffer, const(start, self.dtype), axes[:-1]),
                annotations=annotations,
            )
        )
        return buffer

    def nest(
        self,
        name: str,
        extents: Sequence[ExprLike],
        inside: Callable[[Nests, Sequence[PrimExpr]], None],
        kinds: Sequence[int] = (),
    ) -> None:
        """Add a block whose body are the nests that `inside(nests, axes)` adds."""
        inner = Nests(self.dtype, self.visible, self.prefix)

        def body(axes: Sequence[PrimExpr]) -> Stmt:
            inside(inner, axes)
            return inner.body

        self.statements.append(
            block_nest(
                self.prefix + name, extents, body, self.visible, kinds=kinds, buffers=inner.buffers
            )
        )
