"""The equalities of programs: for finding a workload, and for not measuring twice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final

from search.kinds import Kinds
from search.measuring.flops import estimate_tir_flops
from tensorir.comparison.equal import structural_equal
from tensorir.comparison.structural_hash import structural_hash
from tensorir.function import IRModule
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.visit import children

_NO_ALIAS: Final = "tir.noalias"
_NOTES: Final = frozenset({"global_symbol", "op_pattern"})


class ModuleEquality(ABC):
    """Equality of modules with a hash that goes with it."""

    kinds: ClassVar[Kinds[ModuleEquality]] = Kinds("module equality")

    @staticmethod
    def create(kind: str | ModuleEquality = "structural") -> ModuleEquality:
        """Return `"structural"`, `"ignore-ndarray"`, `"ignore-lengths"` or `"anchor-block"`."""
        return kind if isinstance(kind, ModuleEquality) else ModuleEquality.kinds.make(kind)

    @abstractmethod
    def hash(self, mod: IRModule) -> int:
        """Return 64 bits that are equal for equal modules, in every process."""

    @abstractmethod
    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Say whether two modules count as the same."""


@ModuleEquality.kinds.register("structural")
class StructuralEquality(ModuleEquality):
    """The same but for names."""

    def hash(self, mod: IRModule) -> int:
        """Return the structural hash."""
        return structural_hash(mod)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Compare structurally."""
        return structural_equal(a, b)


@ModuleEquality.kinds.register("ignore-ndarray")
class IgnoreDataEquality(ModuleEquality):
    """The same but for names and the contents of constant arrays."""

    def hash(self, mod: IRModule) -> int:
        """Return the structural hash of the module without the data."""
        return structural_hash(mod, ignore_ndarray=True)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Compare structurally, data left out."""
        return structural_equal(a, b, ignore_ndarray=True)


@ModuleEquality.kinds.register("ignore-lengths")
class IgnoreLengthsEquality(ModuleEquality):
    """The same but for names and the values of integers, such as the lengths of loops.

    It finds the programs that may be compatible; `compatible_factor` says which of them are.
    """

    def hash(self, mod: IRModule) -> int:
        """Return the structural hash of the module without its integers."""
        return structural_hash(mod, ignore_integers=True)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Compare structurally, the values of integers left out."""
        return structural_equal(a, b, ignore_integers=True)


@ModuleEquality.kinds.register("anchor-block")
class AnchorBlockEquality(ModuleEquality):
    """The same reduction block, whatever stands around it; data are ignored.

    The anchor is the block with `init`; of several, the one in the loop nest with the most
    operations. Modules without one are compared as by `ignore-ndarray`.
    """

    def hash(self, mod: IRModule) -> int:
        """Return the structural hash of the anchor block."""
        anchor = anchor_block(mod)
        return structural_hash(mod if anchor is None else anchor, ignore_ndarray=True)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Compare the anchor blocks structurally; their buffers may be any that fit."""
        first, second = anchor_block(a), anchor_block(b)
        if first is None or second is None:
            return first is second and structural_equal(a, b, ignore_ndarray=True)
        return structural_equal(first, second, map_free_vars=True, ignore_ndarray=True)


def unnamed(mod: IRModule) -> IRModule:
    """Return a module without what is said of its one function and changes no schedule.

    That is what it is called, inside and outside of it, and how a graph may fuse it (`op_pattern`).
    `tir.noalias` may be there or not: schedules suppose it, unless it is False. All other
    attributes count, such as `layout_free_buffers` and `tir.no_contraction`.
    """
    if len(mod) != 1:
        return mod
    (func,) = mod.functions.values()
    attrs = {key: value for key, value in func.attrs.items() if key not in _NOTES}
    return IRModule({"main": func.with_(attrs={_NO_ALIAS: True, **attrs})}, mod.attrs)


def same_structure(a: IRModule, b: IRModule) -> bool:
    """Say whether two programs are the same but for names and such notes, in their data too."""
    return a is b or structural_equal(unnamed(a), unnamed(b))


class ModuleSet:
    """A set of modules under some equality."""

    def __init__(self, equality: ModuleEquality) -> None:
        self.equality = equality
        self._buckets: dict[int, list[IRModule]] = {}
        self._size = 0

    def copy(self) -> ModuleSet:
        """Return a set with the same modules."""
        twin = ModuleSet(self.equality)
        twin._buckets = {key: list(bucket) for key, bucket in self._buckets.items()}
        twin._size = self._size
        return twin

    def add(self, mod: IRModule, key: int | None = None) -> bool:
        """Add a module and return whether it is new; `key` is its hash where that is known."""
        key = self.equality.hash(mod) if key is None else key
        bucket = self._buckets.setdefault(key, [])
        if any(self.equality.equal(mod, other) for other in bucket):
            return False
        bucket.append(mod)
        self._size += 1
        return True

    def has(self, mod: IRModule, key: int | None = None) -> bool:
        """Say whether an equal module is in the set."""
        key = self.equality.hash(mod) if key is None else key
        return any(self.equality.equal(mod, other) for other in self._buckets.get(key, ()))

    def __contains__(self, mod: IRModule) -> bool:
        return self.has(mod)

    def __iter__(self) -> Iterator[IRModule]:
        for bucket in self._buckets.values():
            yield from bucket

    def __len__(self) -> int:
        return self._size


def anchor_block(mod: IRModule) -> Block | None:
    """Return the block with `init` in the loop nest that does most operations, None without one."""
    best: tuple[float, Block] | None = None
    for func in mod.prim_funcs().values():
        for nest in _top_level_nests(func.body):
            for block in _blocks_with_init(nest):
                work = estimate_tir_flops(nest)
                if best is None or work > best[0]:
                    best = (work, block)
    return None if best is None else best[1]


def _top_level_nests(body: Stmt) -> list[Stmt]:
    """Return the statements in the root block, or the body itself where there is no root."""
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        inner = body.block.body
        return list(getattr(inner, "seq", (inner,)))
    return [body]


def _blocks_with_init(node: Node) -> Iterator[Block]:
    if isinstance(node, Block) and node.init is not None:
        yield node
    for child in children(node):
        if isinstance(child, (Stmt, For)):
            yield from _blocks_with_init(child)
