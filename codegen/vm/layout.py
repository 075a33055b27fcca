"""The frame of a graph function while it is translated, and the places of values in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from codegen.errors import CodegenError
from codegen.signature import Dim, dim_of
from codegen.vm import program as p
from codegen.vm.segments import Address, Root
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import struct_info as si
from tensorir.rewriting.visit import collect_vars

Path: TypeAlias = tuple[int, ...]
"""The fields, from the outermost tuple inwards, that lead to a part of a value."""


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor at an address that is known to machine code."""

    address: Address
    info: si.TensorStructInfo


@dataclass(frozen=True, slots=True)
class Held:
    """A value that a register holds."""

    register: int
    info: si.StructInfo


@dataclass(frozen=True, slots=True)
class Known:
    """A number, a string, a shape: a value that no tensor is a part of."""

    operand: p.Operand
    scalar: PrimExpr | None = None
    extents: tuple[PrimExpr, ...] | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that tensors share."""

    start: Address


Value: TypeAlias = "Place | Held | Known | Storage | tuple[Value, ...]"


def places_of(value: Value) -> list[Place]:
    """Return the tensors of a value with an address that is known to machine code."""
    if isinstance(value, tuple):
        return [place for part in value for place in places_of(part)]
    return [value] if isinstance(value, Place) else []


def fields_of(info: si.StructInfo, path: Path = ()) -> Iterator[tuple[Path, si.StructInfo]]:
    """Yield the struct infos of the leaves of a value, with their paths."""
    if isinstance(info, si.TupleStructInfo):
        for k, part in enumerate(info.elements):
            yield from fields_of(part, (*path, k))
    else:
        yield path, info


def rebuilt(info: si.StructInfo, parts: Mapping[Path, Value], path: Path = ()) -> Value:
    """Return the value whose parts are given by their paths."""
    if isinstance(info, si.TupleStructInfo):
        return tuple(rebuilt(x, parts, (*path, k)) for k, x in enumerate(info.elements))
    return parts[path]


def tensor_text(info: si.TensorStructInfo) -> str:
    """Return dtype and shape as a person writes them."""
    assert info.shape is not None
    extents = (str(n.value if isinstance(n, IntImm) else n) for n in info.shape)
    return f"{info.dtype}[{', '.join(extents)}]"


@dataclass(slots=True)
class FrameLayout:
    """The slots and registers of a frame of the function `name`."""

    name: str
    slots: list[Root | Var] = field(default_factory=list)
    registers: int = 0
    """The number of registers."""
    sizes: dict[Var, str] = field(default_factory=dict)
    """The sizes that are defined by now, with their names."""
    entry_sizes: frozenset[Var] = frozenset()
    """The sizes that the parameters define."""
    _is_entered: bool = False
    arena: Root = field(init=False)
    constants: Root = field(init=False)

    def enter(self) -> None:
        """End the parameters and results; sizes found from now on belong to the body."""
        self.arena = self.root("arena", None)
        self.constants = self.root("constants", None)
        self.slots += self.sizes
        self.entry_sizes = frozenset(self.sizes)
        self._is_entered = True

    def register(self) -> int:
        """Return a new register."""
        self.registers += 1
        return self.registers - 1

    def root(
        self, name: str, info: si.TensorStructInfo | None, nbytes: PrimExpr | None = None
    ) -> Root:
        """Return a new root, which has a slot, and a register unless it is memory of the frame."""
        has_register = info is not None or nbytes is not None
        register = self.register() if has_register else p.NONE
        root = Root(name, len(self.slots), info, register, nbytes)
        self.slots.append(root)
        return root

    def is_entered(self, *exprs: PrimExpr | None) -> bool:
        """Say whether the sizes of the parameters give values."""
        return all(
            var in self.entry_sizes
            for expr in exprs
            if expr is not None
            for var in collect_vars(expr)
        )

    def define_sizes(self, infos: Iterable[si.StructInfo]) -> None:
        """Name the sizes that values define by having them as extents, wherever they are used."""
        for info in infos:
            for _, part in fields_of(info):
                for extent in si.defining_extents(part):
                    if isinstance(extent, Var) and extent not in self.sizes:
                        self._name_size(extent)

    def _name_size(self, var: Var) -> None:
        names = set(self.sizes.values())
        name, k = var.name, 0
        while name in names:
            k += 1
            name = f"{var.name}_{k}"
        self.sizes[var] = name
        if self._is_entered:
            self.slots.append(var)

    def dim(self, extent: PrimExpr) -> Dim:
        """Return an extent as data; CodegenError for a size that nothing defines."""
        for var in collect_vars(extent):
            if var not in self.sizes:
                raise CodegenError(
                    f"cannot compile graph function {self.name}: the size {var.name} is not the "
                    f"extent of a parameter or match_cast"
                )
        return dim_of(extent, self.sizes, self.name)

    def dims(self, info: si.TensorStructInfo) -> tuple[Dim, ...]:
        """Return the extents of a tensor as data."""
        assert info.shape is not None
        return self._dims(info.shape)

    def _dims(self, extents: Sequence[PrimExpr]) -> tuple[Dim, ...]:
        return tuple(self.dim(n) for n in extents)

    def is_known(self, info: si.TensorStructInfo, sizes: Iterable[Var]) -> bool:
        """Say whether dtype and extents follow from these sizes."""
        if info.shape is None or info.dtype is None:
            return False
        given = set(sizes)
        return all(var in given for extent in info.shape for var in collect_vars(extent))

    def expect(self, name: str, info: si.StructInfo) -> tuple[p.Pattern, Value]:
        """Return the pattern for a value of struct info `info`, and the value.

        Sizes that `info` mentions for the first time are defined by it.
        """
        self.define_sizes([info])
        if isinstance(info, si.TensorStructInfo):
            return self._expect_tensor(name, info)
        if isinstance(info, si.TupleStructInfo):
            parts = [self.expect(f"{name}[{k}]", part) for k, part in enumerate(info.elements)]
            return p.TuplePattern(name, tuple(x for x, _ in parts)), tuple(v for _, v in parts)
        register = self.register()
        held = Held(register, info)
        if isinstance(info, si.ShapeStructInfo):
            extents = None if info.values is None else self._dims(info.values)
            pattern = p.ShapePattern(name, extents, info.ndim, register)
            if info.values is None:
                return pattern, held
            assert extents is not None
            return pattern, Known(p.Register(register), None, info.values)
        if isinstance(info, si.PrimStructInfo):
            value = None if info.value is None else self.dim(info.value)
            known = Known(p.Register(register), info.value)
            return p.ScalarPattern(name, str(info.dtype), value, register), known
        return p.AnyPattern(name, register), held

    def _expect_tensor(self, name: str, info: si.TensorStructInfo) -> tuple[p.Pattern, Value]:
        shape = None if info.shape is None else self._dims(info.shape)
        dtype = None if info.dtype is None else str(info.dtype)
        if shape is None or dtype is None:
            register = self.register()
            return p.TensorPattern(name, shape, info.ndim, dtype, register), Held(register, info)
        root = self.root(name, info)
        pattern = p.TensorPattern(name, shape, info.ndim, dtype, root.register, root.slot)
        return pattern, Place(Address(root), info)

    def result_roots(self, info: si.StructInfo) -> dict[Path, Root]:
        """Return memory for those tensors of the result whose extents the parameters give."""
        roots: dict[Path, Root] = {}
        for path, part in fields_of(info):
            known = isinstance(part, si.TensorStructInfo) and self.is_known(part, self.sizes)
            if known and isinstance(part, si.TensorStructInfo):
                name = "result" + "".join(f"_{k}" for k in path)
                roots[path] = self.root(name, part)
        return roots
