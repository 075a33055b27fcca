"""Other orders of dimensions for convolutions and the operators between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from tensorir.errors import IRValueError
from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax import op
from tensorir.relax.declaration import FormulaOperator
from tensorir.relax.function import graph_functions
from tensorir.relax.struct_info import PrimStructInfo, TensorStructInfo, is_void
from tensorir.relax.visit import leaves_of
from tensorir.rewriting.visit import walk
from tensorir.transform.pass_context import ModulePass, PassContext
from tensorir.transform.rebuild_graph import GraphRebuilder

Order: TypeAlias = "tuple[int, ...]"
"""The dimensions of a tensor, in memory order."""

CHANNELS_LAST: Final = {
    "nn.conv1d": ("NWC", "WIO"),
    "nn.conv2d": ("NHWC", "HWIO"),
    "nn.conv3d": ("NDHWC", "DHWIO"),
    "nn.conv1d_transpose": ("NWC", "WIO"),
    "nn.conv2d_transpose": ("NHWC", "HWIO"),
    "nn.conv3d_transpose": ("NDHWC", "DHWIO"),
}
"""Layouts of data and kernel with the lanes of a vector contiguous in memory."""


class ConvertLayout(ModulePass):
    """Converts convolutions, and the operators after them, to other layouts.

    Before: y = R.nn.conv2d(x, w)
            z = R.nn.relu(y)
    After:  x1 = R.permute_dims(x, axes=(0, 2, 3, 1))
            y = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="HWIO")
            z = R.nn.relu(y)
            z1 = R.permute_dims(z, axes=(0, 3, 1, 2))     # where another operator needs it

    `desired_layouts` has the layouts of data and kernel by operator, `CHANNELS_LAST` by default.
    Element-wise operators, and operators with a `dimension_order`, use the order of their operands;
    any other operator gets its operands in their original order. Constants are permuted by the
    pass.
    """

    def __init__(self, desired_layouts: Mapping[str, Sequence[str]] = CHANNELS_LAST) -> None:
        self.desired = {
            name.removeprefix("relax."): (layouts[0], layouts[1])
            for name, layouts in desired_layouts.items()
        }

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with converted functions; `mod` if no operator is to be converted."""
        functions = graph_functions(mod).values()
        calls = (node for func in functions for node in walk(func.body))
        wanted = any(
            isinstance(node, g.GraphCall)
            and isinstance(node.op, FormulaOperator)
            and node.op.short_name in self.desired
            for node in calls
        )
        return _Converting(mod, self.desired).rebuilt() if wanted else mod


class _Converting(GraphRebuilder):
    """Emits functions again; some tensors are stored with their dimensions in another order.

    Such a tensor is represented by an unbound variable of its natural shape, which occurs in values
    that are not emitted yet. An emitted value has the variable of the stored tensor instead, or a
    variable of the tensor in its natural order.
    """

    def __init__(self, mod: IRModule, desired: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(mod)
        self._desired = desired
        self._orders: dict[g.GraphExpr, Order] = {}
        """The dimension orders of values that are emitted in another order."""
        self._held: dict[g.GraphVar, tuple[g.GraphVar, Order]] = {}
        """For each unbound variable, the variable of the stored tensor and the order of its
        dimensions.
        """
        self._natural: dict[g.GraphVar, g.GraphExpr] = {}

    def bound(self, binding: g.Binding) -> g.GraphVar:
        """Emit a binding again; return the variable that replaces its own."""
        var = super().bound(binding)
        value = self.builder.lookup_binding(var)
        if value is None or value not in self._orders:
            return var
        known = binding.var.with_struct_info(binding.var.struct_info)
        self._held[known] = (var, self._orders[value])
        return known

    def value(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the replacement of a value whose variables may be in another order."""
        if isinstance(value, g.TupleGetItem) and value.tuple_value in self._held:
            stored_var, order = self._held[value.tuple_value]
            return self._record_order(order, g.TupleGetItem(stored_var, value.index))
        if not isinstance(value, g.GraphCall) or not isinstance(value.op, FormulaOperator):
            return self.plain(value)
        if value.op.short_name in self._desired:
            return self._in_desired_layout(value, value.op)
        leaves = [leaf for arg in value.args for leaf in leaves_of(arg)]
        orders = [self._held[x][1] for x in leaves if isinstance(x, g.GraphVar) and x in self._held]
        followed = self._in_operand_order(value, value.op, orders[0]) if orders else None
        return self.plain(value) if followed is None else followed

    def plain(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value with all parts in their natural order."""
        if isinstance(value, g.GraphVar):
            if value not in self._held:
                return value
            known = self._natural.get(value)
            if known is None or not self.builder.is_visible(known):
                stored_var, order = self._held[value]
                known = self._natural[value] = self.builder.emit(
                    _permuted(stored_var, _inverse(order))
                )
            return known
        if isinstance(value, g.Tuple):
            return value.changed(elements=tuple(map(self.plain, value.elements)))
        if isinstance(value, g.TupleGetItem):
            return value.changed(tuple_value=self.plain(value.tuple_value))
        if isinstance(value, g.GraphCall):
            return value.changed(
                args=tuple(self.plain(a) if isinstance(a, g.GraphExpr) else a for a in value.args)
            )
        return value

    # -------------------------------------------------------------------------------------- holding

    def _record_order(self, order: Order, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value, remembering the order of its dimensions."""
        if order != tuple(range(len(order))):
            self._orders[value] = order
        return value

    def _operand_in_order(self, value: g.GraphExpr, order: Order) -> g.GraphExpr | None:
        """Return an operand in the order of the tensors to which it is broadcast.

        Return None if impossible. Other values are returned unchanged.
        """
        if isinstance(value, g.GraphVar) and value in self._held:
            stored_var, found = self._held[value]
            if found == order:
                return stored_var
        info = value.struct_info
        if isinstance(info, PrimStructInfo) or is_void(info):
            return value
        if not isinstance(info, TensorStructInfo) or not 0 <= info.ndim <= len(order):
            return None
        if info.ndim == 0:
            return value
        return self._permuted(self._of_rank(self.plain(value), len(order)), order)

    def _of_rank(self, value: g.GraphExpr, rank: int) -> g.GraphExpr:
        info = g.tensor_info(value)
        missing = rank - info.ndim
        if missing == 0:
            return value
        if isinstance(value, g.Constant):
            return value.reshaped((1,) * missing + value.source.shape)
        return self.builder.emit(op.expand_dims(value, axis=list(range(missing))))

    def _permuted(self, value: g.GraphExpr, order: Order) -> g.GraphExpr:
        if order == tuple(range(len(order))):
            return value
        permuted = _permuted(value, order)
        return permuted if isinstance(permuted, g.Constant) else self.builder.emit(permuted)

    # ------------------------------------------------------------------------------------ operators

    def _in_desired_layout(self, call: g.GraphCall, operator: FormulaOperator) -> g.GraphExpr:
        """Return an operator in its desired layout."""
        data, kernel = self._desired[operator.short_name]
        attrs = dict(call.attrs)
        if attrs.get("out_layout") not in (None, attrs["data_layout"]):
            return self.plain(call)
        order = _order_between(attrs["data_layout"], data)
        x = self._operand_in_order(call.args[0], order)  # type: ignore[arg-type]
        assert x is not None
        weight = self.plain(call.args[1])  # type: ignore[arg-type]
        weight = self._permuted(weight, _order_between(attrs["kernel_layout"], kernel))
        attrs |= {"data_layout": data, "kernel_layout": kernel, "out_layout": None}
        return self._record_order(order, g.GraphCall(operator, [x, weight, *call.args[2:]], attrs))

    def _in_operand_order(
        self, call: g.GraphCall, operator: FormulaOperator, order: Order
    ) -> g.GraphExpr | None:
        """Return an operator of operands in an order; None if it needs the natural one."""
        info = call.struct_info
        if operator.dimension_order is not None:
            first = call.args[0]
            assert isinstance(first, g.GraphExpr)
            attrs = operator.dimension_order(call, order)
            if attrs is None:
                return None
            new = _with_first(call, self._in_common_order(first, order), attrs)
            if new is None:
                return None
            is_whole = not isinstance(info, TensorStructInfo) or info.ndim == len(order)
            return self._record_order(order, new) if is_whole else new
        if not isinstance(info, TensorStructInfo) or info.ndim != len(order):
            return None
        if not operator.is_elementwise(call):
            return None
        args = [self._operand_in_order(arg, order) for arg in call.args]  # type: ignore[arg-type]
        if any(arg is None for arg in args):
            return None
        return self._record_order(order, g.GraphCall(operator, args, call.attrs))  # type: ignore[arg-type]

    def _in_common_order(self, value: g.GraphExpr, order: Order) -> g.GraphExpr | None:
        """Return a tensor, or a tuple of tensors of one rank, in an order."""
        if not isinstance(value, g.Tuple):
            return self._operand_in_order(value, order)
        fields = [self._operand_in_order(field, order) for field in value.elements]
        known = [field for field in fields if field is not None]
        return g.Tuple(known) if len(known) == len(fields) else None


def _with_first(
    call: g.GraphCall, first: g.GraphExpr | None, attrs: Mapping[str, Any]
) -> g.GraphCall | None:
    if first is None:
        return None
    return g.GraphCall(call.op, [first, *call.args[1:]], {**call.attrs, **attrs})


def _order_between(source: str, destination: str) -> Order:
    """Return for each dimension of `destination` its position in `source`."""
    if sorted(source) != sorted(destination):
        raise IRValueError(f"layout {source} cannot become {destination}: it has other dimensions")
    return tuple(source.index(letter) for letter in destination)


def _inverse(order: Order) -> Order:
    return tuple(order.index(k) for k in range(len(order)))


def _permuted(value: g.GraphExpr, order: Order) -> g.GraphExpr:
    if isinstance(value, g.Constant):
        return value.transposed(order)
    return op.permute_dims(value, axes=order)
