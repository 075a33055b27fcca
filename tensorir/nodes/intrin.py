"""The table of intrinsics that a `Call` may refer to: number of operands, result type and effect.

A new intrinsic is a new row. The interpreter and the emission of LLVM IR implement intrinsics in
tables of their own, with the same names as keys.
"""

from __future__ import annotations

import difflib
from enum import Enum
from typing import Any, ClassVar, Self

from tensorir.errors import IRValueError


class Effect(Enum):
    """The effect of a call, in addition to its result."""

    PURE = "pure"
    READ = "read"
    OPAQUE = "opaque"
    ANNOTATION = "annotation"
    """Identity with a hint for the compiler."""
    ARGUMENT = "argument"
    """Valid only as an argument of another call."""
    INFO = "info"
    JUMP = "jump"


class Named:
    """An object that is unique by its name; its class has the table of all objects."""

    __slots__ = ("name",)
    name: str
    prefix: ClassVar[str]
    """The prefix of full names; it may be omitted."""
    what: ClassVar[str]
    table: ClassVar[dict[str, Any]]

    @classmethod
    def get(cls, name: str) -> Self:
        """Return the object called `name`, with or without the prefix.

        Raises IRValueError if unknown.
        """
        found = cls.table.get(name) or cls.table.get(cls.prefix + name)
        if found is None:
            full = cls.prefix + name.removeprefix(cls.prefix)
            close = difflib.get_close_matches(full, cls.table, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise IRValueError(f"there is no {cls.what} {full}{hint}")
        return found  # type: ignore[no-any-return]

    @classmethod
    def exists(cls, name: str) -> bool:
        """Return True if there is an object with this name, given without the prefix."""
        return cls.prefix + name in cls.table

    @classmethod
    def names(cls) -> list[str]:
        """Return all names, without the prefix."""
        return [name.removeprefix(cls.prefix) for name in cls.table]

    @property
    def short_name(self) -> str:
        """The name without the prefix."""
        return self.name.removeprefix(self.prefix)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle by name, because each process has one object for a name."""
        return (type(self).get, (self.name,))


class Op(Named):
    """An intrinsic. `name` starts with `tir.`; each name has one object."""

    __slots__ = ("arity", "effect", "result", "vectorizable")
    prefix, what, table = "tir.", "intrinsic", {}

    def __init__(
        self, name: str, arity: int | None, result: str, effect: Effect, vectorizable: bool
    ) -> None:
        self.name = name
        self.arity = arity
        """The number of operands; None if it varies."""
        self.result = result
        """The result type: `same` as the first operand, `matched` type of all operands, `given` by
        the call, or a dtype.
        """
        self.effect = effect
        self.vectorizable = vectorizable
        """True if widening every operand widens the result."""


def _rows(names: str, arity: int | None, result: str, effect: Effect, wide: str = "") -> None:
    widening = set(wide.split())
    for name in names.split():
        full = "tir." + name
        Op.table[full] = Op(full, arity, result, effect, wide == "*" or name in widening)


_rows(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt erf sigmoid tanh sin cos tan sinh cosh "
    "asin acos atan asinh acosh atanh floor ceil trunc round nearbyint fabs bitwise_not",
    1, "same", Effect.PURE, "*",
)  # fmt: skip
_rows("popcount", 1, "same", Effect.PURE, "*")
_rows("clz", 1, "int32", Effect.PURE)
_rows("isnan isnullptr", 1, "bool", Effect.PURE)
_rows("pow atan2 fmod hypot copysign nextafter ldexp", 2, "same", Effect.PURE, "*")
_rows("fma", 3, "same", Effect.PURE, "*")
_rows("bitwise_and bitwise_or bitwise_xor shift_left shift_right", 2, "matched", Effect.PURE, "*")
_rows("reinterpret", 1, "given", Effect.PURE)
_rows("if_then_else", 3, "matched", Effect.PURE)
_rows("likely", 1, "same", Effect.ANNOTATION, "*")
_rows("assume", 1, "bool", Effect.INFO)
_rows("undef", 0, "int32", Effect.READ)
_rows("ret", 1, "same", Effect.JUMP)
_rows("tvm_storage_sync", 1, "int32", Effect.OPAQUE)
_rows("tensor_core", None, "int32", Effect.OPAQUE)
_rows("call_extern", None, "given", Effect.OPAQUE)
_rows("call_pure_extern", None, "given", Effect.PURE)
_rows("call_llvm_intrin", None, "given", Effect.OPAQUE)
_rows("call_llvm_pure_intrin", None, "given", Effect.PURE, "*")
_rows("tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down", 5, "given", Effect.OPAQUE)
_rows("tvm_call_packed tvm_call_cpacked", None, "int32", Effect.OPAQUE)
_rows("tvm_access_ptr", 5, "handle", Effect.ARGUMENT)
_rows("tvm_stack_make_array tvm_stack_make_shape", None, "handle", Effect.ARGUMENT)
_rows("tvm_tuple", None, "handle", Effect.ARGUMENT)
_rows("tvm_stack_alloca", 2, "handle", Effect.OPAQUE)
_rows("tvm_struct_get tvm_struct_set", None, "given", Effect.OPAQUE)
_rows("tvm_throw_last_error", 0, "handle", Effect.OPAQUE)
_rows("TVMBackendAllocWorkspace", 5, "handle", Effect.OPAQUE)
_rows("TVMBackendFreeWorkspace", 3, "int32", Effect.OPAQUE)
_rows("type_annotation", 0, "given", Effect.PURE)
_rows("address_of", 1, "handle", Effect.PURE)
_rows("vectorlow vectorhigh vectorcombine", None, "given", Effect.PURE)
_rows("large_uint_imm", 2, "given", Effect.PURE)
_rows("q_multiply_shift", 4, "int32", Effect.PURE)
_rows("q_multiply_shift_per_axis", 7, "int32", Effect.PURE)
