"""The data pointers of a function that may lead to the same memory, and what follows for stores."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

from codegen.lower.indices import as_ramp, split_constant
from tensorir.arith.opaque import expr_key
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, IntImm, Ramp, Var
from tensorir.rewriting.visit import statements, walk_once
from tensorir.semantics.purity import has_effects


class Aliasing:
    """The knowledge about the memory that the pointers of a function lead to.

    Allocations never alias. Buffer parameters do not alias one another if the function is marked
    `tir.noalias`. Any other pointer may alias.
    """

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        noalias = func.attrs.get("tir.noalias")
        self._parameters_are_distinct = noalias is not None and bool(int(noalias))
        self._parameters = frozenset(buffer.data for buffer in func.buffer_map.values())

    @cached_property
    def allocated(self) -> frozenset[Var]:
        """The pointers to memory that the function allocates."""
        kinds = (s.Allocate, s.AllocateConst)
        return frozenset(n.buffer_var for n in statements(self._func.body) if isinstance(n, kinds))

    def may_overlap(self, some: Collection[Var], others: Collection[Var]) -> bool:
        """Say whether what one of `some` leads to may be what one of `others` leads to."""
        if not set(some).isdisjoint(others):
            return True
        if not others or self.allocated.issuperset(some) or self.allocated.issuperset(others):
            return False
        outside = {*some, *others} - self.allocated
        return not (self._parameters_are_distinct and outside <= self._parameters)


class Reordering:
    """The knowledge which of some stores in a row depend on their order."""

    def __init__(self, stores: list[s.BufferStore], aliasing: Aliasing) -> None:
        self._stores = stores
        self._aliasing = aliasing
        self._all: bool | None = None

    def may_permute(self, first: int, last: int) -> bool:
        """Say whether the stores from `first` to `last` give the same in every order.

        They do if none loads from memory that another one stores to, stores are their only effects,
        and each stores to different elements.
        """
        if self._all is None:
            self._all = self._are_independent(self._stores)
        return self._all or self._are_independent(self._stores[first : last + 1])

    def _are_independent(self, stores: list[s.BufferStore]) -> bool:
        written: dict[Var, list[s.BufferStore]] = {}
        loaded: set[Var] = set()
        for store in stores:
            written.setdefault(store.buffer.data, []).append(store)
            for part in (store.value, *store.indices):
                loaded |= {n.buffer.data for n in walk_once(part) if type(n) is BufferLoad}
                if has_effects(part):
                    return False
        if self._aliasing.may_overlap(written.keys(), loaded):
            return False
        pointers = list(written)
        return all(
            not self._aliasing.may_overlap({pointer}, pointers[k + 1 :])
            and _are_apart(written[pointer])
            for k, pointer in enumerate(pointers)
        )


def _are_apart(stores: list[s.BufferStore]) -> bool:
    """Say whether no two stores to one memory are to the same element."""
    if len(stores) == 1:
        return True
    seen: set[int] = set()
    base = None
    for store in stores:
        found = _elements(store)
        if found is None or not seen.isdisjoint(found[1]):
            return False
        if base is not None and base != found[0]:
            return False
        base = found[0]
        seen.update(found[1])
    return len({store.buffer.dtype for store in stores}) == 1


def _elements(store: s.BufferStore) -> tuple[Any, range] | None:
    """Return the elements that a store writes: a base, and the distances from it."""
    index = as_ramp(store.indices[0])
    stride, lanes = 1, 1
    if isinstance(index, Ramp):
        if type(index.stride) is not IntImm or not index.stride.value:
            return None
        stride, lanes, index = index.stride.value, index.lanes, index.base
    elif index.dtype.lanes > 1:
        return None
    base, first = split_constant(index)
    key = None if base is None else expr_key(base)
    return (key,), range(first, first + stride * lanes, stride)
