"""The equalities of programs: for finding a workload, and for not measuring twice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final, Generic, TypeVar

from search.kinds import Registry
from search.runner.flops import estimate_tir_flops
from tensorir.comparison.equal import structural_equal
from tensorir.comparison.structural_hash import structural_hash
from tensorir.function import IRModule
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.visit import children

V = TypeVar("V")
_NO_ALIAS: Final = "tir.noalias"
_NOTES: Final = frozenset({"global_symbol", "op_pattern"})


class ModuleEquality(ABC):
    """Equality of modules with a hash that goes with it."""

    kinds: ClassVar[Registry[ModuleEquality]] = Registry("module equality")

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

    ignores: ClassVar[Mapping[str, bool]] = {}
    """The options by which more is left out of the comparison."""

    def hash(self, mod: IRModule) -> int:
        """Return the structural hash of what is compared."""
        return structural_hash(mod, **self.ignores)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Compare structurally."""
        return structural_equal(a, b, **self.ignores)


@ModuleEquality.kinds.register("ignore-ndarray")
class IgnoreDataEquality(StructuralEquality):
    """The same but for names and the contents of constant arrays."""

    ignores: ClassVar[Mapping[str, bool]] = {"ignore_ndarray": True}


@ModuleEquality.kinds.register("ignore-lengths")
class IgnoreLengthsEquality(StructuralEquality):
    """The same but for names and the values of integers, such as the lengths of loops.

    It finds the programs that may be compatible; `compatible_factor` says which of them are.
    """

    ignores: ClassVar[Mapping[str, bool]] = {"ignore_integers": True}


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


class ModuleIndex(Generic[V]):
    """Values by program: each program finds those of programs that are the same as it."""

    def __init__(self, equality: ModuleEquality) -> None:
        self._equality = equality
        self._buckets: dict[int, list[tuple[IRModule, V]]] = {}

    def add(self, mod: IRModule, value: V) -> None:
        """Add a value of a program."""
        self._bucket(mod).append((mod, value))

    def add_first(self, mod: IRModule, value: V) -> bool:
        """Add a value unless there is one of the same program; say whether it was added."""
        bucket = self._bucket(mod)
        if any(self._equality.equal(mod, other) for other, _ in bucket):
            return False
        bucket.append((mod, value))
        return True

    def like(self, mod: IRModule, where: Callable[[V], bool] = lambda _: True) -> list[V]:
        """Return the values of programs that are the same, as far as they satisfy `where`.

        That is asked first, because comparing programs takes longer.
        """
        return [
            value
            for other, value in self._bucket(mod)
            if where(value) and self._equality.equal(other, mod)
        ]

    def _bucket(self, mod: IRModule) -> list[tuple[IRModule, V]]:
        return self._buckets.setdefault(self._equality.hash(mod), [])


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
