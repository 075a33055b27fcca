"""The walk over a graph of ATen operators: its nodes become bindings of the graph function `main`.

Branches (`torch.cond`) become an `If`. Loops (`while_loop`) become functions of the module that a
library function calls (`tensorir.relax.library.loop`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.torch import operators
from tensorir.frontend.torch.dtypes import as_tensor, dtype_name, tensor_info
from tensorir.frontend.torch.sizes import Sizes, size_of
from tensorir.frontend.torch.table import TABLE
from tensorir.function import IRModule
from tensorir.nodes import ops
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.relax import op
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.expr import Constant, GraphExpr, GraphVar, PrimValue, ShapeExpr, Tuple
from tensorir.relax.function import Function
from tensorir.relax.library.loop import call_loop, with_sizes
from tensorir.relax.relations import Fits, fits
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.transform.convert_to_dataflow import ConvertToDataflow

__all__ = ["GraphImport", "Signature", "operator_names", "operators"]

_INLINED: Final = {"wrap_with_set_grad_enabled": 1}
"""Operators that call a graph with gradients enabled or disabled, and the position of the graph in
their arguments; the inputs of the graph follow it.
"""
_BRANCH: Final = "cond"
_LOOP: Final = "while_loop"
_WITH_GRAPHS: Final = {*_INLINED, _BRANCH, _LOOP}
_STRIDED: Final = torch.ops.aten.as_strided.default
_OF_MEMORY: Final = (_STRIDED, torch.ops.aten.as_strided_scatter.default)
_OFFSET: Final = "aten.sym_storage_offset.default"
_SIZES: Final = {"aten.sym_size.int", "aten.sym_numel.default", _OFFSET}
_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LEAST: Final = 2
"""The smallest minimum that torch states for a dynamic size; it also accepts 0 and 1."""
_UNLIMITED: Final = 2**62
"""A larger upper limit means that the size is unlimited."""


@dataclass(frozen=True)
class Signature:
    """The roles of a graph's inputs and outputs; other inputs are parameters of the function."""

    constants: Mapping[torch.fx.Node, Constant] = field(default_factory=dict)
    """Inputs with known contents."""
    weights: Mapping[torch.fx.Node, Constant] = field(default_factory=dict)
    """Inputs with known contents that are parameters after the others."""
    state: Mapping[torch.fx.Node, Constant] = field(default_factory=dict)
    """Inputs that are kept from call to call, with their initial contents.

    They are the last parameters.
    """
    updates: Mapping[torch.fx.Node, int] = field(default_factory=dict)
    """Inputs that a call changes, with the positions of their new contents among the outputs."""


def operator_names(module: torch.fx.GraphModule) -> Iterator[tuple[str, str]]:
    """Yield the names of operators and of the nodes that call them, including submodules."""
    for node in module.graph.nodes:
        is_operator = node.op == "call_function" and not _is_python(node)
        if is_operator and not _keeps_strides(node) and str(node.target) not in _WITH_GRAPHS:
            yield _name_of(node.target), node.name
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            yield from operator_names(child)


def _keeps_strides(node: torch.fx.Node) -> bool:
    """Return True if a node is an `as_strided` that returns its operand as it is.

    torch's own functions contain such calls: adaptive pooling to one element marks its result as
    channels-last.
    """
    if node.target is not _STRIDED:
        return False
    source, size, stride, *offset = node.args
    before = source.meta["val"]
    return (
        list(before.shape) == list(size)
        and offset in ([], [None], [before.storage_offset()])
        and all(
            extent == 1 or old == new
            for extent, old, new in zip(size, before.stride(), stride, strict=True)
        )
    )


def _is_whole(example: torch.Tensor) -> bool:
    """Return True if a tensor has the elements of its memory in order, from the first one on."""
    return bool(example.is_contiguous() and example.storage_offset() == 0)


def _is_python(node: torch.fx.Node) -> bool:
    """Return True if a node computes with sizes, or selects a field of a tuple.

    A decomposition removes calls of plain Python functions on tensors, such as the ones around
    `torch.vmap`.
    """
    if isinstance(node.target, torch._ops.OperatorBase):
        return str(node.target) in _SIZES
    is_size = isinstance(node.meta.get("val"), (*_SYMBOLIC, bool, int, float))
    return node.target is operator.getitem or is_size


def _name_of(target: Any) -> str:
    """Return the name of an operator, or the path of a function."""
    if isinstance(target, torch._ops.OperatorBase):
        return str(target)
    return f"{target.__module__}.{target.__qualname__}"


def _has_control_flow(module: torch.fx.GraphModule) -> bool:
    called = {str(node.target) for node in module.graph.nodes if node.op == "call_function"}
    inner = (m for m in module.children() if isinstance(m, torch.fx.GraphModule))
    return not called.isdisjoint((_BRANCH, _LOOP)) or any(map(_has_control_flow, inner))


class GraphImport:
    """The import of one graph into a module."""

    def __init__(self, module: torch.fx.GraphModule, signature: Signature) -> None:
        self._module = module
        self._signature = signature
        self._builder = BlockBuilder()
        self._sizes = Sizes()
        self._limits: Mapping[Any, Any] = {}
        self._values: dict[torch.fx.Node, Any] = {}

    def module(
        self,
        limits: Mapping[Any, Any] | None = None,
        *,
        unwrap: bool = False,
        unbound: bool = False,
    ) -> IRModule:
        """Return the module with the function `main`.

        `limits` are ranges of symbols, which are checked at run time. The result is a tuple of the
        outputs; with `unwrap`, a tuple of one output becomes that output. With `unbound` the tuple
        is not bound to a variable. Raises IRTypeError and IRValueError for unsupported arguments of
        nodes.
        """
        builder, signature = self._builder, self._signature
        self._limits = limits or {}
        inputs = self._inputs()
        known = {**signature.weights, **signature.state}
        for node, constant in known.items():
            self._values[node] = GraphVar(node.name, constant.struct_info)
        attrs: dict[str, Any] = {}
        if signature.weights:
            attrs |= {"num_input": len(inputs), "params": Tuple(signature.weights.values())}
        if signature.state:
            attrs["state"] = Tuple(signature.state.values())
        if signature.updates:
            attrs["updates"] = [self._values[node].name for node in signature.updates]
        # A dataflow block cannot contain branches, so blocks are created at the end, between
        # branches.
        is_plain = not _has_control_flow(self._module)
        emit = builder.emit_output if is_plain else builder.emit
        with builder.function("main", [*inputs, *(self._values[node] for node in known)], attrs):
            with builder.dataflow() if is_plain else nullcontext():
                self._check_inputs()
                *_, output = self._nodes(self._module)
                updated = [emit(self._output(output[k])) for k in signature.updates.values()]
                places = set(signature.updates.values())
                results = [self._output(v) for k, v in enumerate(output) if k not in places]
                result: Any
                if unwrap and len(results) == 1:
                    result = emit(results[0])
                elif unbound:
                    result = Tuple([emit(value) for value in results])
                else:
                    result = emit(Tuple(results))
            builder.emit_func_output(Tuple([result, Tuple(updated)]) if updated else result)
        mod = builder.get()
        return mod if is_plain else ConvertToDataflow()(mod)

    # --------------------------------------------------------------------------------------- inputs

    def _inputs(self) -> list[GraphVar]:
        """Return the parameters for the inputs whose contents are unknown."""
        signature = self._signature
        known = {**signature.weights, **signature.state}
        holders = [n for n in self._module.graph.nodes if n.op == "placeholder"]
        given = [n for n in holders if n not in known and n not in signature.constants]
        self._sizes.define(
            _shape(node.meta["val"]) for node in given if _is_tensor_or_symint(node.meta.get("val"))
        )
        self._values.update(signature.constants)
        inputs = []
        for node in given:
            example = node.meta.get("val")
            if _is_tensor_or_symint(example):
                self._values[node] = GraphVar(node.name, self._parameter_info(example))
                inputs.append(self._values[node])
            else:
                self._values[node] = example
        return inputs

    def _parameter_info(self, example: Any) -> StructInfo:
        shape = self._sizes.parameter_shape(_shape(example))
        if isinstance(example, torch.SymInt):
            return PrimStructInfo("int64", ops.as_expr(shape[0]))
        return TensorStructInfo(shape, dtype_name(example.dtype))

    def _check_inputs(self) -> None:
        """Emit the checks of the constraints on input sizes."""
        for node, value in self._values.items():
            if not isinstance(value, GraphVar):
                continue
            example = node.meta["val"]
            if isinstance(value.struct_info, TensorStructInfo):
                shape = self._sizes.shape(_shape(example))
                expected = TensorStructInfo(shape, value.struct_info.dtype)
                if fits(expected, value.struct_info) is not Fits.YES:
                    self._values[node] = self._builder.match_cast(value, expected, node.name)
            elif isinstance(example, torch.SymInt):
                self._values[node] = ops.as_expr(self._sizes(example))
        for symbol, limit in self._limits.items():
            if symbol in self._sizes:  # other sizes depend on data or on other symbols
                self._check_range(self._sizes(symbol), limit.lower, limit.upper)

    def _check_range(self, size: Any, lower: Any, upper: Any) -> None:
        """Emit the check that a size is within torch's limits."""
        within, name = size, str(getattr(size, "name", "size"))
        if lower > _LEAST:
            within, name = ops.max_(within, int(lower)), f"{name}_at_least_{lower}"
        if upper < _UNLIMITED:
            within, name = ops.min_(within, int(upper)), f"{name}_at_most_{upper}"
        if within is not size:
            self._builder.match_cast(ShapeExpr([size]), ShapeStructInfo([within]), name)

    # ---------------------------------------------------------------------------------------- nodes

    def _nodes(self, module: torch.fx.GraphModule) -> Iterator[Any]:
        """Convert the nodes of a graph; the last value is its output."""
        for node in module.graph.nodes:
            if node.op == "output":
                yield self._argument(node.args[0])
            elif node.op == "get_attr":
                attribute = operator.attrgetter(str(node.target))(module)
                is_tensor = isinstance(attribute, torch.Tensor)
                self._values[node] = (
                    constant_of(attribute, str(node.target)) if is_tensor else attribute
                )
            elif node.op == "call_function":
                self._values[node] = self._convert_node(node)

    def _convert_node(self, node: torch.fx.Node) -> Any:
        """Return the value of a node."""
        if _keeps_strides(node):
            return self._values[node.args[0]]
        example = node.meta.get("val")
        name = str(node.target)
        if name == _OFFSET:
            self._sizes.define_offset(example)
        try:
            is_field = node.target is operator.getitem
            if isinstance(example, _SYMBOLIC) and name not in TABLE and not is_field:
                is_float = isinstance(example, torch.SymFloat)
                return self._sizes.as_float(example) if is_float else self._sizes(example)
            if node.target in _OF_MEMORY and not _is_whole(node.args[0].meta["val"]):
                raise IRTypeError(f"{node.args[0].name} is a view; call clone() before as_strided")
            args, kwargs = self._argument(node.args), self._argument(node.kwargs)
            if is_field:
                value = args[0][args[1]]
            elif name in _WITH_GRAPHS:
                return self._with_graphs(name, args, node)
            elif name not in TABLE:
                return node.target(*args, **kwargs)  # Python's arithmetic of sizes
            else:
                value = TABLE[name](
                    node.target._schema,
                    args,
                    kwargs,
                    self._expected_info(example),
                    self._builder.match_cast,
                    self._sizes.numbers,
                )
            if isinstance(example, torch.SymInt) and isinstance(value, GraphExpr):
                return self._size_from_tensor(value, example, node.name)
            if isinstance(value, GraphExpr):
                return self._emit(value, example, node.name)
            return value
        except (IRTypeError, IRValueError) as error:
            raise type(error)(f"node {node.name} ({name}): {error}") from error

    def _size_from_tensor(self, value: GraphExpr, example: torch.SymInt, name: str) -> PrimExpr:
        """Return the integer in a tensor, or a scalar, as a new symbolic size."""
        if isinstance(value.struct_info, TensorStructInfo):
            value = op.tensor_to_scalars(value, 1)[0]
        symbol = size_of(example)
        limit = self._limits.get(symbol)
        size = self._sizes.new_number(symbol, is_size=limit is not None and limit.lower >= 0)
        self._builder.match_cast(value, PrimStructInfo("int64", size), name)
        return size

    def _argument(self, value: Any) -> Any:
        """Return an argument of a node in the form that converters accept."""
        if isinstance(value, torch.fx.Node):
            return self._values[value]
        if isinstance(value, (list, tuple)):
            return [self._argument(v) for v in value]
        if isinstance(value, dict):
            return {key: self._argument(v) for key, v in value.items()}
        return dtype_name(value) if isinstance(value, torch.dtype) else value

    def _expected_info(self, example: Any) -> StructInfo | None:
        """Return the struct info that torch reports for a node's result."""
        if isinstance(example, torch.Tensor):
            shape = self._sizes.result_shape(example.shape)
            return TensorStructInfo(shape, dtype_name(example.dtype))
        if isinstance(example, (list, tuple)):
            infos = [self._expected_info(e) for e in example]
            return TupleStructInfo([i for i in infos if i is not None])
        return None

    def _emit(self, value: GraphExpr, example: Any, name: str) -> GraphExpr:
        """Return the variable of a value, with the shape and dtype that torch reports."""
        expected = self._expected_info(example)
        var = value if _is_leaf(value) else self._builder.emit(value, name)
        if expected is None:
            return var
        answer = fits(expected, var.struct_info)
        if answer is Fits.NO:
            raise IRTypeError(f"torch reports {expected}, the converter returned {var.struct_info}")
        return var if answer is Fits.YES else self._builder.match_cast(var, expected, name)

    # ---------------------------------------------------------------------- branches and loops

    def _with_graphs(self, name: str, args: Sequence[Any], node: torch.fx.Node) -> Any:
        """Return the value of an operator that calls graphs."""
        if name == _BRANCH:
            condition, then, otherwise, inputs = args
            return self._branches(condition, then, otherwise, inputs, node.name)
        if name == _LOOP:
            return self._loop(args[0], args[1], args[2], args[3], node)
        start = _INLINED[name]
        return self._inline(args[start], args[start + 1 :])

    def _inline(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        holders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._values.update(zip(holders, inputs, strict=True))
        sizes = [
            (node.meta["val"], value)
            for node, value in zip(holders, inputs, strict=True)
            if isinstance(node.meta.get("val"), torch.SymInt)
        ]
        with self._sizes.replaced(sizes):
            *_, output = self._nodes(module)
        return output

    def _tensors(self, values: Sequence[Any]) -> list[GraphExpr]:
        """Return values that leave a graph; numbers become tensors without dimensions."""
        return [
            as_tensor(value, "int64") if isinstance(value, PrimExpr) else self._output(value)
            for value in values
        ]

    def _as_bool(self, value: Any) -> GraphExpr:
        """Return a condition as a bool tensor without dimensions."""
        if isinstance(value, PrimExpr):
            zero = as_tensor(0, "int64")
            return op.not_equal(as_tensor(ops.cast("int64", value), "int64"), zero)
        tensor = as_tensor(value, "bool")
        return op.reshape(tensor, ()) if tensor_info(tensor).ndim else tensor

    def _branches(
        self, condition: Any, then: Any, otherwise: Any, inputs: Sequence[Any], name: str
    ) -> Any:
        """Return the value of one of two graphs."""
        if isinstance(condition, bool):
            return self._inline(then if condition else otherwise, inputs)
        return self._builder.emit_if(
            self._as_bool(condition),
            lambda: self._tensors(self._inline(then, inputs)),
            lambda: self._tensors(self._inline(otherwise, inputs)),
            name,
        )

    def _loop(
        self,
        condition: Any,
        body: Any,
        carried: Sequence[Any],
        captured: Sequence[Any],
        node: torch.fx.Node,
    ) -> Any:
        """Return the last values of a loop that runs `body` while `condition` holds."""
        builder = self._builder
        begins = self._builder.emit(self._as_bool(self._inline(condition, [*carried, *captured])))
        first = [builder.emit(v) if not _is_leaf(v) else v for v in self._tensors(carried)]
        infos = [value.struct_info for value in first]
        for value, example in zip(first, node.meta["val"], strict=True):
            expected = self._expected_info(example)
            if expected is not None and fits(expected, value.struct_info) is Fits.NO:
                raise IRTypeError(f"a loop carries {value.struct_info}, but returns {expected}")
        with builder.aside():
            name = builder.get_unique_name(node.name)
            with builder.function(name, private=True):
                number = GraphVar("k", TensorStructInfo((), "int64"))
                params = [GraphVar(f"x{k}", info) for k, info in enumerate(infos)]
                around = {
                    value: GraphVar(f"y{k}", value.struct_info)
                    for k, value in enumerate(captured)
                    if isinstance(value, GraphVar)
                }
                outer = [around.get(v, v) if isinstance(v, GraphVar) else v for v in captured]
                values = self._carried(body, params)
                outputs = self._inline(body, [*values, *outer])
                go_on = self._as_bool(self._inline(condition, [*outputs, *outer]))
                builder.emit_func_output(
                    [go_on, *self._tensors(outputs)], [number, *params, *around.values()]
                )
        step = builder.get()[name]
        assert isinstance(step, Function)
        closed, sizes = with_sizes(step)
        builder.update_func(name, renew_defs(closed))
        return builder.emit(
            call_loop(GlobalVar(name), first, [*around, *sizes], out_sinfo=infos, go_on=begins)
        )

    def _carried(self, body: torch.fx.GraphModule, params: Sequence[GraphVar]) -> list[Any]:
        """Return the values of a round: parameters, or the numbers that they hold."""
        holders = [node for node in body.graph.nodes if node.op == "placeholder"]
        return [
            self._size_from_tensor(param, node.meta["val"], node.name)
            if isinstance(node.meta.get("val"), torch.SymInt)
            else param
            for node, param in zip(holders, params, strict=False)
        ]

    # -------------------------------------------------------------------------------------- outputs

    def _output(self, value: Any) -> GraphExpr:
        """Return a result as a value of the function: numbers become tensors without dimensions."""
        if value is None:
            return Tuple(())
        if isinstance(value, GraphExpr):
            return value
        if isinstance(value, PrimExpr):
            return PrimValue(value)
        if isinstance(value, (bool, int, float)):
            kind = {bool: "bool", int: "int64", float: "float32"}[type(value)]
            return as_tensor(value, kind)
        raise IRTypeError(f"the model returns a {type(value).__name__}; return tensors and numbers")


def _is_leaf(value: GraphExpr) -> bool:
    return isinstance(value, (GraphVar, Constant))


def _is_tensor_or_symint(example: Any) -> bool:
    return isinstance(example, (torch.Tensor, torch.SymInt))


def _shape(example: Any) -> Sequence[Any]:
    return (example,) if isinstance(example, torch.SymInt) else tuple(example.shape)


def constant_of(tensor: torch.Tensor, name: str) -> Constant:
    """Return a tensor as a constant, which shares the memory of a contiguous tensor.

    A build copies the elements, because torch owns the memory.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise IRTypeError(f"the tensor {name} is not dense; only dense tensors are supported")
    dtype = dtype_name(tensor.dtype)
    plain = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
    if dtype == "bfloat16":
        return Constant(plain.view(torch.int16).numpy().view(np.uint16), dtype)
    return Constant(plain.numpy(), dtype)
