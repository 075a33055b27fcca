"""Functions with symbolic parameters and shapes fixed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.indices.placed_values import mark_as_value, never_wraps
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PrimExpr, Var, smart
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.ops import as_expr, cast, const, fold_binary, is_const_int
from tensorir.nodes.stmt import DeclBuffer, LetStmt, Stmt
from tensorir.recursion import any_depth
from tensorir.rewriting.visit import Substitution, collect_vars

_ARITHMETIC: Final = frozenset(e.ARITHMETIC)
_DIVISIONS: Final = frozenset({e.Div, e.Mod, e.FloorDiv, e.FloorMod})


@any_depth
def specialize(func: PrimFunc, values: Mapping[Var, PrimExpr | int | Buffer]) -> PrimFunc:
    """Return a function whose parameters are replaced by scalars and buffers.

    Before: f(a: handle, n: int32):  A = match_buffer(a, (n * 8,)); T = alloc_buffer((n + 1,))
    After {n: 4}:  f(A: Buffer((32,))):  T = alloc_buffer((5,))

    A scalar that no layout contains is a run-time value, and arithmetic on it wraps around. Where

    folding could change the result, the scalar is replaced by `T.reinterpret` of the number.
    `PrimFunc.specialize` documents `values`.
    """
    known = _Known(func)
    for key in values:
        if not isinstance(key, Var):
            raise IRTypeError(
                f"specialize takes variables of the function and their values, got the key "
                f"{key!r}; parameters are in func.params, sizes in func.buffer_map[param].shape"
            )
    for var, value in values.items():
        if not isinstance(value, Buffer):
            known.scalar(var, value)
    for var, value in values.items():
        if isinstance(value, Buffer):
            known.buffer(var, value)
    for var, value in values.items():
        if isinstance(value, Buffer):
            known.check_layout(var, value)
    special = _Specialize(known.scalars, known.buffers, known.values)
    body = special(func.body)
    if not never_wraps(body, special.placed):
        marked = {var: mark_as_value(known.scalars[var]) for var in known.values}
        special = _Specialize({**known.scalars, **marked}, known.buffers)
        body = special(func.body)
    return func.with_(
        params=[param for param in func.params if param not in known.scalars],
        buffer_map={param: special.buffer(buffer) for param, buffer in func.buffer_map.items()},
        body=body,
        attrs=special.value(func.attrs),
    )


smart["specialize"] = specialize


class _Known:
    """The given values of the variables and buffers of a function."""

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._in_layouts = {
            var
            for buffer in func.buffer_map.values()
            for size in buffer.layout
            for var in collect_vars(size)
        }
        self.scalars: dict[Var, PrimExpr] = {}
        self.values: list[Var] = []
        """Scalars that were run-time values and are replaced by numbers."""
        self.buffers: dict[Buffer, Buffer] = {}

    def scalar(self, var: Var, value: PrimExpr | int) -> None:
        """Record the value of a scalar parameter or a variable of a layout."""
        func = self._func
        if var in func.buffer_map or (var not in func.params and var not in self._in_layouts):
            raise IRValueError(f"{var.name} is not a parameter that {value!r} can specialize")
        self._bind(var, const(value, var.dtype) if isinstance(value, int) else as_expr(value))
        if var not in self._in_layouts and is_index_arithmetic(self.scalars[var]):
            self.values.append(var)

    def buffer(self, var: Var, new: Buffer) -> None:
        """Record the buffer for a parameter, and the values that it determines for variables in the
        layout.
        """
        old = self._func.buffer_map.get(var)
        if old is None:
            raise IRValueError(f"{var.name} is not a parameter that {new!r} can specialize")
        where = f"{new.name} cannot replace {old.name}"
        if new.dtype is not old.dtype or new.scope() != old.scope():
            raise IRTypeError(
                f"{where}: it is {new.dtype} in scope {new.scope()}, "
                f"not {old.dtype} in scope {old.scope()}"
            )
        if len(new.shape) != len(old.shape) or len(new.strides) != len(old.strides):
            raise IRValueError(
                f"{where}: it has {len(new.shape)} dimension(s) and {len(new.strides)} stride(s), "
                f"not {len(old.shape)} and {len(old.strides)}"
            )
        for part, given in zip(old.layout, new.layout, strict=True):
            if isinstance(part, Var) and part is not given:
                self._bind(part, given)
        self.buffers[old] = new

    def check_layout(self, var: Var, new: Buffer) -> None:
        """Raise unless the layout of a buffer equals the current layout of the parameter."""
        old = self._func.buffer_map[var]
        special, analyzer = _Specialize(self.scalars), Analyzer()
        for part, given in zip(old.layout, new.layout, strict=True):
            wanted = special(part)
            if not analyzer.can_prove_equal(wanted, cast(wanted.dtype, given)):
                raise IRValueError(
                    f"{new.name} cannot replace {old.name}: it has {given}, "
                    f"expected {part}; pass values for the variables of {part} that make them equal"
                )

    def _bind(self, var: Var, value: PrimExpr) -> None:
        if isinstance(value, e.IntImm) and var.dtype.is_integral:
            value = const(value.value, var.dtype)
        if value.dtype is not var.dtype:
            raise IRTypeError(f"{var.name} is {var.dtype}, but its value {value} is {value.dtype}")
        before = self.scalars.setdefault(var, value)
        if before is not value and not Analyzer().can_prove_equal(before, value):
            raise IRValueError(f"{var.name} cannot be both {before} and {value}")


class _Specialize(Substitution):
    """Substitutes values, and folds expressions that become constant."""

    def __init__(
        self,
        scalars: Mapping[Var, PrimExpr],
        buffers: Mapping[Buffer, Buffer] | None = None,
        values: Collection[Var] = (),
    ) -> None:
        super().__init__(scalars, buffers)
        self._value_variables = values
        self.placed: set[PrimExpr] = set()
        """The expressions that replace `values`, and the folded expressions that contain them."""

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        new = super().rewrite_Var(node)
        if node in self._value_variables:
            if isinstance(new, e.IntImm):
                new = e.IntImm(new.dtype, new.value)
            self.placed.add(new)
        return new

    def rewrite_DeclBuffer(self, node: DeclBuffer) -> Stmt:  # noqa: N802
        """Rewrite a buffer declaration; a constant address is bound to a variable."""
        pointer = node.buffer.data
        address = self._values.get(pointer, pointer)
        if isinstance(address, Var) or node.buffer in self._buffers:
            return self.generic(node)
        self._values[pointer] = address_var = pointer.with_name(pointer.name)
        buffer = self.buffer(node.buffer)
        self._values[pointer] = address
        return LetStmt(address_var, address, DeclBuffer(buffer, self(node.body)))

    def rewrite_BinaryOp(self, node: e.BinaryOp) -> PrimExpr:  # noqa: N802
        new = self.generic(node)
        kind = type(new)
        if new is node or kind not in _ARITHMETIC:
            return new
        # A division by 0 is not folded, because it may never run.
        if kind in _DIVISIONS and is_const_int(new.b, 0):
            return new
        folded = fold_binary(kind, new.a, new.b)
        if folded is None:
            return new
        if new.a in self.placed or new.b in self.placed:
            self.placed.add(folded)
        return folded

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        value = self(node.value)
        if value is node.value:
            return node
        result = cast(node.dtype, value)
        if value in self.placed and isinstance(result, e.IntImm):
            self.placed.add(result)
        return result
