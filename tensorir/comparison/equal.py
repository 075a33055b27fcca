"""Structural equality, up to the names and identities of bound variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import FloatImm, IntImm, PointerType, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.recursion import any_depth


@any_depth
def structural_equal(
    a: Any,
    b: Any,
    map_free_vars: bool = False,
    ignore_ndarray: bool = False,
    ignore_integers: bool = False,
) -> bool:
    """Return True if two programs are equal except for names.

    Two variables correspond if both programs define them at the same position. The layout of a
    buffer defines the variables in it, such as `n` in the dimension `n * 8`. Free variables must be
    identical, unless `map_free_vars`. Names of blocks and buffers are ignored. Floats are compared
    by value; 0.0 differs from -0.0, and NaNs are equal. In attributes, 1, 1.0 and True differ, and
    a list equals a tuple of the same items. Constant arrays are equal if dtype, shape and bits are
    equal; `ignore_ndarray` ignores the bits. `ignore_integers` ignores the values of integers, but
    not their types. Equal programs have the same `structural_hash`.
    """
    return Comparison(map_free_vars, ignore_ndarray, ignore_integers).same(a, b, map_free_vars)


def assert_structural_equal(
    a: Any, b: Any, map_free_vars: bool = False, ignore_ndarray: bool = False
) -> None:
    """Raise IRValueError if two programs differ.

    The text underlines the first difference in both scripts.
    """
    found = get_first_structural_mismatch(a, b, map_free_vars, ignore_ndarray)
    if found is not None:
        raise IRValueError(
            f"StructuralEqual check failed, caused by lhs at {found[0]}:\n"
            f"{_marked_text(a, found[0])}\nand rhs at {found[1]}:\n{_marked_text(b, found[1])}"
        )


def _marked_text(value: Any, path: str) -> str:
    return value.script(path_to_underline=[path]) if isinstance(value, Node) else str(value)


@any_depth
def get_first_structural_mismatch(
    a: Any, b: Any, map_free_vars: bool = False, ignore_ndarray: bool = False
) -> tuple[str, str] | None:
    """Return the paths of the first difference in both programs; None if they are equal.

    A path such as `<root>.body.extent` can be passed as `path_to_underline` to `script`.
    """
    comparison = Comparison(map_free_vars, ignore_ndarray)
    if comparison.same(a, b, map_free_vars):
        return None
    path = "<root>" + "".join(reversed(comparison.path))
    other = "<root>" + "".join(reversed(comparison.other_path))
    return path, other


class Comparison:
    """Walks two programs side by side.

    On failure `path` and `other_path` hold the steps to the difference, innermost first.
    """

    def __init__(
        self, map_free: bool, ignore_ndarray: bool = False, ignore_integers: bool = False
    ) -> None:
        self._map_free = map_free
        self._ignore_ndarray = ignore_ndarray
        self._ignore_integers = ignore_integers
        self._forward: dict[Node, Node] = {}
        self._backward: dict[Node, Node] = {}
        self.path: list[str] = []
        self.other_path: list[str] = []

    def same(self, a: Any, b: Any, defining: bool) -> bool:
        """Compare two values.

        With `defining`, variables in them are definitions and are mapped to each other.
        """
        kind = type(a)
        if kind is IntImm and type(b) is IntImm:
            return a.dtype is b.dtype and (
                a.value == b.value or self._ignore_integers or self._add_step(".value")
            )
        if isinstance(a, Node):
            if kind is not type(b):
                return False
            if a.is_variable:
                return self._variable(a, b, defining)
            of_kind = _COMPARISONS.get(kind)
            return self._fields(a, b, defining) if of_kind is None else of_kind(self, a, b)
        if isinstance(a, (tuple, list)):
            return isinstance(b, (tuple, list)) and self._sequence(a, b, defining)
        if isinstance(a, dict):
            return isinstance(b, dict) and self._mapping(a, b, "")
        return self._plain(a, b)

    def _add_step(self, step: str, other: str = "") -> bool:
        """Add a step to both paths (`other` to the second one, if it differs), and return False."""
        self.path.append(step)
        self.other_path.append(other or step)
        return False

    def _plain(self, a: Any, b: Any) -> bool:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            same_kind = a.dtype == b.dtype and a.shape == b.shape
            return same_kind and (self._ignore_ndarray or np.array_equal(_bits(a), _bits(b)))
        return same_plain(a, b)

    def float_imm(self, a: FloatImm, b: FloatImm) -> bool:
        """Compare floats."""
        if a.dtype is not b.dtype:
            return self._add_step(".dtype")
        return same_plain(a.value, b.value) or self._add_step(".value")

    def _variable(self, a: Node, b: Node, defining: bool) -> bool:
        """Compare variables: they must be mapped to each other, or be the same free variable."""
        mapped = self._forward.get(a)
        back = self._backward.get(b)
        if mapped is not None or back is not None:
            return mapped is b
        if not self._fields(a, b, defining):
            return False
        if a is not b and not defining and not self._map_free:
            return False
        self._forward[a] = b
        self._backward[b] = a
        return True

    def _fields(self, a: Node, b: Node, defining: bool) -> bool:
        # A dimension `n * 8` defines its variable, as a dimension `n` does.
        everywhere = self._map_free or (defining and a.describes)
        for field, defines in a.counted:
            x, y = getattr(a, field), getattr(b, field)
            if x is y and not isinstance(x, (Node, tuple, dict)):
                continue
            if not self.same(x, y, everywhere or defines):
                return self._add_step(f".{field}")
        return True

    def _sequence(self, a: Sequence[Any], b: Sequence[Any], defining: bool) -> bool:
        for k, (x, y) in enumerate(zip(a, b, strict=False)):
            if not self.same(x, y, defining):
                return self._add_step(f"[{k}]")
        if len(a) == len(b):
            return True
        first = min(len(a), len(b))
        sides = (f"[{first}]", f"[<missing element #{first}>]")
        return self._add_step(*sides if len(a) > len(b) else reversed(sides))

    def _mapping(self, a: Mapping[str, Any], b: Mapping[str, Any], step: str) -> bool:
        for key in sorted(a):
            if key not in b:
                return self._add_step(f"{step}[{key!r}]", f"{step}[<missing entry>]")
            if not self.same(a[key], b[key], self._map_free):
                return self._add_step(f"{step}[{key!r}]")
        missing = sorted(set(b) - set(a))
        if missing:
            return self._add_step(f"{step}[<missing entry>]", f"{step}[{missing[0]!r}]")
        return True

    def module(self, a: IRModule, b: IRModule) -> bool:
        """Compare the functions of two modules by name."""
        return self._mapping(a.functions, b.functions, ".functions") and self._mapping(
            a.attrs, b.attrs, ".attrs"
        )

    def pointer(self, a: PointerType, b: PointerType) -> bool:
        """Compare types of pointers; an empty scope means "global"."""
        if (a.storage_scope or "global") != (b.storage_scope or "global"):
            return self._add_step(".storage_scope")
        return self.same(a.element_type, b.element_type, False) or self._add_step(".element_type")

    def prim_func(self, a: PrimFunc, b: PrimFunc) -> bool:
        """Compare tensor functions parameter by parameter."""
        if not self.same(a.params, b.params, True):
            return self._add_step(".params")
        for k, (p, q) in enumerate(zip(a.params, b.params, strict=True)):
            x, y = a.buffer_map.get(p), b.buffer_map.get(q)
            if (x is None) != (y is None) or (x is not None and not self.same(x, y, True)):
                return self._add_step(f".buffer_map[{k}]")
        for field in ("ret_type", "body"):
            if not self.same(getattr(a, field), getattr(b, field), self._map_free):
                return self._add_step(f".{field}")
        return self._mapping(a.attrs, b.attrs, ".attrs")


_OfKind: TypeAlias = Callable[[Comparison, Any, Any], bool]
_COMPARISONS: Final[dict[type, _OfKind]] = {
    FloatImm: Comparison.float_imm,
    PrimFunc: Comparison.prim_func,
    IRModule: Comparison.module,
    PointerType: Comparison.pointer,
}
"""Comparison functions of some node classes; other nodes are compared field by field."""


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def same_plain(a: Any, b: Any) -> bool:
    """Compare two values other than nodes; numbers of different types are not equal."""
    if isinstance(a, str):
        return isinstance(b, str) and a == b
    if a is b or type(a) is not type(b) or isinstance(a, Node):
        return a is b
    if isinstance(a, float) and a != a:
        return b != b  # type: ignore[no-any-return]
    if isinstance(a, float) and a == 0 == b:
        return math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


def plain_text(value: Any) -> str:
    """Return a text of a value that is not a node; values are equal if their texts are."""
    return str.__repr__(value) if isinstance(value, str) else repr(value)


@any_depth
def expr_deep_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Return True if two expressions are equal; variables are compared by identity."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype is not b.dtype:
        return False
    if isinstance(a, Var):
        return False
    return all(
        _deep_equal(getattr(a, field), getattr(b, field)) for field in a.fields if field != "dtype"
    )


def _deep_equal(a: Any, b: Any) -> bool:
    if isinstance(a, PrimExpr) and isinstance(b, PrimExpr):
        return expr_deep_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_deep_equal(x, y) for x, y in zip(a, b, strict=True))
    return same_plain(a, b)
