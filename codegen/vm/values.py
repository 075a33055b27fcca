"""The places of values in the translation of a graph function: in memory, in a register, known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from codegen.vm import program as p
from codegen.vm.destinations import Path
from codegen.vm.segments import Address
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import struct_info as si


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor at an address that machine code knows."""

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
    """Memory that tensors share: where in the arena it starts."""

    offset: int


Value: TypeAlias = "Place | Held | Known | Storage | tuple[Value, ...]"


def places_of(value: Value) -> list[Place]:
    """Return the tensors of a value that machine code knows."""
    if isinstance(value, tuple):
        return [place for part in value for place in places_of(part)]
    return [value] if isinstance(value, Place) else []


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
