"""Matching a block against the description of a tensor intrinsic."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.function import PrimFunc
from tensorir.indices.accesses import loads_in
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import Add, BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from tensorir.rewriting.visit import rewrite, substitute, uses_var


@dataclass(frozen=True, slots=True)
class Mismatch(Exception):  # noqa: N818
    """The first place where a program and a description differ."""

    reason: str
    found: Node | None = None
    expected: Node | None = None


def match_intrin(block: Block, desc: PrimFunc) -> list[BufferRegion]:
    """Return the region of the program's buffers that each parameter of a description matches.

    The body of a block is matched against that of the description's root block.

    Loops, axes and buffers are paired by first use. A buffer of the program may have more
    dimensions and be accessed at an offset; the surplus indices and the offsets must be constant in
    the matched block. Raises Mismatch.
    """
    assert isinstance(desc.body, BlockRealize)
    matcher = _Matcher()
    matcher.stmt(block.body, desc.body.block.body)
    return [matcher.region(desc.buffer_map[param]) for param in desc.params]


Access = BufferLoad | BufferStore


class _Matcher:
    def __init__(self) -> None:
        self._vars: dict[Var, PrimExpr] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        self._starts: dict[Buffer, list[PrimExpr]] = {}
        self._inner: set[Var] = set()
        self._analyzer = Analyzer()

    def region(self, described: Buffer) -> BufferRegion:
        """Return the region that a parameter of the description matches."""
        buffer = self._buffers.get(described)
        if buffer is None:
            raise Mismatch(f"the description does not use its buffer {described.name}")
        starts = self._starts[described]
        surplus = len(starts) - len(described.shape)
        extents = [const(1, s.dtype) for s in starts[:surplus]]
        extents += [
            n.astype(s.dtype) for n, s in zip(described.shape, starts[surplus:], strict=True)
        ]
        ranges = [Range.from_min_extent(s, n) for s, n in zip(starts, extents, strict=True)]
        return BufferRegion(buffer, ranges)

    # ---------------------------------------------------------------------------------- statements

    def stmt(self, found: Stmt, expected: Stmt) -> None:
        """Match statements."""
        if type(found) is not type(expected):
            raise Mismatch(
                f"found {type(found).__name__} where the description has {type(expected).__name__}",
                found,
                expected,
            )
        if isinstance(found, For) and isinstance(expected, For):
            self._loop(found, expected)
        elif isinstance(found, SeqStmt) and isinstance(expected, SeqStmt):
            if len(found.seq) != len(expected.seq):
                raise Mismatch("the number of statements differs", found, expected)
            for a, b in zip(found.seq, expected.seq, strict=True):
                self.stmt(a, b)
        elif isinstance(found, BlockRealize) and isinstance(expected, BlockRealize):
            self._block(found, expected)
        elif isinstance(found, BufferStore) and isinstance(expected, BufferStore):
            self._store(found, expected)
        else:
            raise Mismatch(f"{type(found).__name__} cannot be matched", found, expected)

    def _loop(self, found: For, expected: For) -> None:
        self._same(found.min, expected.min, "where loops start", found, expected)
        self._same(found.extent, expected.extent, "the extents of loops", found, expected)
        if found.kind is not expected.kind or bool(found.annotations) != bool(expected.annotations):
            raise Mismatch("the kinds or annotations of loops differ", found, expected)
        self._pair(found.loop_var, expected.loop_var)
        with self._analyzer.loop_scope(found.loop_var, found.min, found.extent):
            self.stmt(found.body, expected.body)

    def _block(self, found: BlockRealize, expected: BlockRealize) -> None:
        axes = list(zip(found.block.iter_vars, expected.block.iter_vars, strict=False))
        same_count = len(found.block.iter_vars) == len(expected.block.iter_vars)
        if not same_count or any(a.iter_type != b.iter_type for a, b in axes):
            raise Mismatch(
                f"block {found.block.name_hint} has the axes {_axes(found)}, the description's "
                f"{expected.block.name_hint} {_axes(expected)}",
                found,
                expected,
            )
        for what, a, b in (
            ("predicates", found.predicate, expected.predicate),
            *(
                ("bindings", a, b)
                for a, b in zip(found.iter_values, expected.iter_values, strict=True)
            ),
        ):
            self._same(a, b, what, found, expected)
        for axis, described in axes:
            assert axis.dom is not None
            assert described.dom is not None
            self._same(axis.dom.min, described.dom.min, "domains of axes", found, expected)
            self._same(axis.dom.extent, described.dom.extent, "domains of axes", found, expected)
            self._pair(axis.var, described.var)
        with self._analyzer.scope():
            for axis, _ in axes:
                assert axis.dom is not None
                self._analyzer.bind(axis.var, axis.dom)
            self._contents(found, expected)

    def _contents(self, found: BlockRealize, expected: BlockRealize) -> None:
        init, described_init = found.block.init, expected.block.init
        if (init is None) != (described_init is None):
            raise Mismatch("only one of the blocks has an init", found, expected)
        if init is not None and described_init is not None:
            self.stmt(init, described_init)
        if found.block.alloc_buffers or found.block.match_buffers:
            raise Mismatch("the block allocates or matches buffers", found, expected)
        self.stmt(found.block.body, expected.block.body)

    def _store(self, found: BufferStore, expected: BufferStore) -> None:
        if (found.predicate is None) != (expected.predicate is None):
            raise Mismatch("only one of the stores has a predicate", found, expected)
        self._access(found, expected)
        self._value(found.value, expected.value)

    # --------------------------------------------------------------------------------- expressions

    def _pair(self, found: Var, expected: Var) -> None:
        self._vars[expected] = found.astype(expected.dtype)
        self._inner.add(found)

    def _value(self, found: PrimExpr, expected: PrimExpr) -> None:
        loads = list(loads_in(found))
        described = list(loads_in(expected))
        if len(loads) != len(described):
            raise Mismatch("the expressions differ", found, expected)
        for a, b in zip(loads, described, strict=True):
            self._access(a, b)
        paired = dict(zip(map(id, described), loads, strict=True))
        wanted = rewrite(
            expected,
            before={Var: lambda v, _: self._vars.get(v), BufferLoad: lambda v, _: paired[id(v)]},
        )
        if not self._equal(found, wanted):
            raise Mismatch("the expressions differ", found, expected)

    def _same(self, a: PrimExpr, b: PrimExpr, what: str, found: Node, expected: Node) -> None:
        """Match expressions outside of stores, such as bounds, bindings and predicates."""
        if type(a) is IntImm and a is b:
            return
        wanted = substitute(b, self._vars)
        if not self._equal(a, wanted if a.dtype.is_bool else wanted.astype(a.dtype)):
            raise Mismatch(f"{what} differ: `{a}`, described as `{b}`", found, expected)

    def _equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Return True if two expressions are equal for all values of the axes."""
        if expr_deep_equal(a, b) or (a.dtype.is_int and self._analyzer.can_prove_equal(a, b)):
            return True
        simple = self._analyzer.simplify(a, sort=True)
        return expr_deep_equal(simple, self._analyzer.simplify(b, sort=True))

    def _access(self, found: Access, expected: Access) -> None:
        """Pair the buffers of two accesses, and check that all accesses have the same offset."""
        buffer, indices = found.buffer, found.indices
        described, places = expected.buffer, expected.indices
        if buffer.dtype is not described.dtype or buffer.scope() != described.scope():
            raise Mismatch(
                f"{buffer.name} holds {buffer.dtype} in {buffer.scope()} memory, the description's "
                f"{described.name} {described.dtype} in {described.scope()}",
                found,
                expected,
            )
        known = self._buffers.setdefault(described, buffer)
        if known is not buffer or sum(b is buffer for b in self._buffers.values()) > 1:
            raise Mismatch(f"{described.name} would match several buffers", found, expected)
        surplus = len(indices) - len(places)
        if surplus < 0:
            raise Mismatch(f"{buffer.name} has too few dimensions", found, expected)
        starts: list[PrimExpr] = list(indices[:surplus])
        for index, place in zip(indices[surplus:], places, strict=True):
            moved = substitute(place, self._vars).astype(index.dtype)
            starts.append(self._offset(index, moved))
        if any(uses_var(start, self._inner.__contains__) for start in starts):
            raise Mismatch(f"the indices of {buffer.name} differ", found, expected)
        first = self._starts.setdefault(described, starts)
        if not all(
            self._analyzer.can_prove_equal(a, b) for a, b in zip(first, starts, strict=True)
        ):
            raise Mismatch(f"{buffer.name} is accessed at several offsets", found, expected)

    def _offset(self, index: PrimExpr, moved: PrimExpr) -> PrimExpr:
        """Return `index - moved`, simplified. Usually the index is a sum with the term `moved`."""
        if index is moved:
            return const(0, index.dtype)
        if type(index) is Add and index.b is moved:
            return self._analyzer.simplify(index.a)
        return self._analyzer.simplify(index - moved)


def _axes(realize: BlockRealize) -> str:
    kinds = {IterVar.DATA_PAR: "S", IterVar.COMM_REDUCE: "R"}
    parts = [
        f"{kinds.get(axis.iter_type, 'O')}({axis.dom.extent if axis.dom else '?'})"
        for axis in realize.block.iter_vars
    ]
    return ", ".join(parts) or "none"


def check_layout(region: BufferRegion, parameter: Buffer) -> None:
    """Raise Mismatch unless a region has the memory layout that the parameter needs.

    A parameter without strides is compact; variable strides match any value.
    """
    expected = parameter.all_strides()
    found = region.buffer.all_strides()[-len(expected) :] if expected else []
    analyzer = Analyzer()
    for has, needs, extent in zip(found, expected, parameter.shape, strict=True):
        single = isinstance(extent, IntImm) and extent.value == 1
        if isinstance(needs, Var) or single:
            continue
        if not analyzer.can_prove_equal(has, needs.astype(has.dtype)):
            raise Mismatch(
                f"the implementation needs {region.buffer.name} in another layout, with stride "
                f"{needs} and not {has}; transform the layout, or use a cache_read in a layout "
                f"that fits"
            )
