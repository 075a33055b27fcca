"""Exported programs of torch as modules with one graph function, `main`."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.export.graph_signature import InputKind, OutputKind

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.torch import operators
from tensorir.frontend.torch.dtypes import as_tensor, dtype_name
from tensorir.frontend.torch.sizes import Sizes
from tensorir.frontend.torch.table import TABLE, unsupported
from tensorir.function import IRModule
from tensorir.nodes import ops
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.expr import Constant, GraphExpr, GraphVar, PrimValue, ShapeExpr, Tuple
from tensorir.relax.relations import Fits, fits
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["from_exported_program", "operators"]


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Return the module of a `torch.export.ExportedProgram`, with the graph function `main`.

    Parameters of `main` are the inputs of the model, in order, as flat tensors. A model that
    returns one tensor gives one, as an ONNX model with one output does; any other result is a tuple
    of flat tensors. `unwrap_unit_return_tuple` returns the only element of a tuple of one;
    `no_bind_return_tuple` returns a tuple without binding it to a variable first.

    Weights, buffers and constants are read when the module is built: do not change them between the
    import and the end of the build; later changes do not affect the module. With
    `keep_params_as_input`, weights are parameters after the inputs: the attribute `num_input` of
    `main` is the number of inputs, and its attribute `params` has the weights as constants.

    Dynamic dimensions are symbolic sizes. The constraints that the export found (equal sizes,
    multiples of a number, ranges) are checked when the function is called. (As in torch, a minimum
    of 2 also accepts 0 and 1.)

    Operators without a converter are decomposed by torch's default table. Raises IRTypeError for
    another argument, and for unsupported dtypes and arguments of operators; IRValueError for
    operators without a converter (all of them in one error), and for a model that changes its
    buffers or its inputs.
    """
    if not isinstance(exported_program, torch.export.ExportedProgram):
        raise IRTypeError(
            f"expected a torch.export.ExportedProgram, got {type(exported_program).__name__}; "
            "call torch.export.export(model.eval(), arguments)"
        )
    program = _decompose(exported_program)
    return _Import(program, keep_params_as_input).module(
        unwrap_unit_return_tuple or program.call_spec.out_spec.is_leaf(), no_bind_return_tuple
    )


def _decompose(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose operators all have converters; `program` itself if they do already.

    Only operators without a converter are decomposed, because one operator has one good kernel.
    Three constructs have no converter on purpose, so a decomposition removes them: operators that
    change their operands become functional ones, regions of autocast become casts, and calls of
    `torch.vmap` become operators on whole batches.
    """
    error = unsupported(_operators(program.graph_module))
    if error is not None:
        table = torch.export.default_decompositions()
        for overload in list(table):
            if str(overload) in TABLE:
                table.pop(overload)
        try:
            program = program.run_decompositions(table)
        except RuntimeError as problem:  # the result of torch.func.grad cannot be decomposed
            raise error from problem
    error = unsupported(_operators(program.graph_module))
    if error is not None:
        raise error
    return program


def _operators(module: torch.fx.GraphModule) -> Iterator[tuple[str, str]]:
    """Yield the names of operators and of the nodes that call them, including submodules."""
    for node in module.graph.nodes:
        if node.op == "call_function" and not _is_python(node) and str(node.target) not in _INLINED:
            yield _name_of(node.target), node.name
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            yield from _operators(child)


_INLINED: Final = {"wrap_with_set_grad_enabled": 1}
"""Operators that call a graph with gradients on or off, and the position of the graph in the
arguments; the inputs of the graph follow it."""
_SIZES: Final = {"aten.sym_size.int", "aten.sym_numel.default"}
_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


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


_UPDATES: Final = {
    OutputKind.BUFFER_MUTATION: "buffer",
    OutputKind.PARAMETER_MUTATION: "parameter",
    OutputKind.USER_INPUT_MUTATION: "input",
}
_LEAST: Final = 2
"""The smallest size that torch distinguishes; a minimum of 2 accepts 0 and 1, too."""
_UNLIMITED: Final = 2**62
"""A larger upper limit means unlimited."""


class _Import:
    """The import of one program into a module."""

    def __init__(self, program: torch.export.ExportedProgram, keep_params: bool) -> None:
        self._program = program
        self._keep_params = keep_params
        self._builder = BlockBuilder()
        self._sizes = Sizes()
        self._values: dict[torch.fx.Node, Any] = {}
        self._params: dict[GraphVar, Constant] = {}
        """Weights that are parameters of the function."""

    def module(self, unwrap: bool, unbound: bool) -> IRModule:
        """Return the module."""
        self._check_signature()
        inputs = self._inputs()
        attrs: dict[str, Any] = {}
        if self._keep_params:
            attrs = {"num_input": len(inputs), "params": Tuple(self._params.values())}
        builder = self._builder
        with builder.function("main", [*inputs, *self._params], attrs):
            with builder.dataflow():
                self._check_inputs()
                *_, output = self._nodes(self._program.graph_module)
                results = [self._output(value) for value in output]
                if unwrap and len(results) == 1:
                    made: Any = builder.emit_output(results[0])
                elif unbound:
                    made = Tuple([builder.emit_output(value) for value in results])
                else:
                    made = builder.emit_output(Tuple(results))
            builder.emit_func_output(made)
        return builder.get()

    # --------------------------------------------------------------------------------------- inputs

    def _check_signature(self) -> None:
        signature = self._program.graph_signature
        changed = [
            f"the {_UPDATES[spec.kind]} {spec.target}"
            for spec in signature.output_specs
            if spec.kind in _UPDATES
        ]
        if changed:
            raise IRValueError(
                f"the model changes {', '.join(changed)}, and a function only gives a value; "
                "export it with model.eval(), or let it take and return what it changes"
            )

    def _inputs(self) -> list[GraphVar]:
        """Return the parameters for the model's inputs; weights and constants become values."""
        specs = self._program.graph_signature.input_specs
        holders = [n for n in self._program.graph.nodes if n.op == "placeholder"]
        users = [n for n, s in zip(holders, specs, strict=True) if s.kind is InputKind.USER_INPUT]
        self._sizes.define(
            _shape(node.meta["val"]) for node in users if _is_tensor_or_symint(node.meta.get("val"))
        )
        inputs = []
        for node, spec in zip(holders, specs, strict=True):
            if spec.kind is not InputKind.USER_INPUT:
                self._values[node] = self._stored_tensor(spec)
            elif _is_tensor_or_symint(node.meta.get("val")):
                self._values[node] = GraphVar(node.name, self._parameter_info(node.meta["val"]))
                inputs.append(self._values[node])
            else:
                self._values[node] = node.meta.get("val")
        return inputs

    def _parameter_info(self, example: Any) -> StructInfo:
        shape = self._sizes.parameter_shape(_shape(example))
        if isinstance(example, torch.SymInt):
            return PrimStructInfo("int64", ops.as_expr(shape[0]))
        return TensorStructInfo(shape, dtype_name(example.dtype))

    def _stored_tensor(self, spec: Any) -> GraphExpr:
        """Return a weight, a buffer or a constant of the program."""
        program = self._program
        for place in (program.state_dict, program.constants):
            if spec.target in place and isinstance(place[spec.target], torch.Tensor):
                constant = constant_of(place[spec.target], spec.target)
                break
        else:
            raise IRTypeError(
                f"the input {spec.arg.name} of the program is a {spec.kind.name.lower()} "
                f"({spec.target}), and only tensors are supported"
            )
        if spec.kind is not InputKind.PARAMETER or not self._keep_params:
            return constant
        param = GraphVar(spec.arg.name, constant.struct_info)
        self._params[param] = constant
        return param

    def _check_inputs(self) -> None:
        """Emit the checks of the constraints on input sizes."""
        for node, value in self._values.items():
            if isinstance(value, GraphVar) and isinstance(value.struct_info, TensorStructInfo):
                shape = self._sizes.shape(_shape(node.meta["val"]))
                expected = TensorStructInfo(shape, value.struct_info.dtype)
                if fits(expected, value.struct_info) is not Fits.YES:
                    self._values[node] = self._builder.match_cast(value, expected, node.name)
        for symbol, limits in self._program.range_constraints.items():
            if symbol in self._sizes:  # not sizes that depend on data or on other symbols
                self._check_range(self._sizes(symbol), limits.lower, limits.upper)

    def _check_range(self, size: Any, lower: Any, upper: Any) -> None:
        """Emit the check that a size is within torch's limits."""
        within, name = size, "size"
        if lower > _LEAST:
            within, name = ops.max_(within, int(lower)), f"{name}_from_{lower}"
        if upper < _UNLIMITED:
            within, name = ops.min_(within, int(upper)), f"{name}_to_{upper}"
        if within is not size:
            self._builder.match_cast(ShapeExpr([size]), ShapeStructInfo([within]), name)

    # ---------------------------------------------------------------------------------------- nodes

    def _nodes(self, module: torch.fx.GraphModule) -> Iterator[Any]:
        """Convert the nodes of a graph; the last value is its output."""
        for node in module.graph.nodes:
            if node.op == "output":
                yield self._argument(node.args[0])
            elif node.op == "get_attr":
                held = operator.attrgetter(str(node.target))(module)
                is_tensor = isinstance(held, torch.Tensor)
                self._values[node] = constant_of(held, str(node.target)) if is_tensor else held
            elif node.op == "call_function":
                self._values[node] = self._convert_node(node)

    def _convert_node(self, node: torch.fx.Node) -> Any:
        """Return the value of a node."""
        example = node.meta.get("val")
        name = str(node.target)
        try:
            if isinstance(example, _SYMBOLIC) and name not in TABLE:
                is_float = isinstance(example, torch.SymFloat)
                return self._sizes.as_float(example) if is_float else self._sizes(example)
            args, kwargs = self._argument(node.args), self._argument(node.kwargs)
            if node.target is operator.getitem:
                value = args[0][args[1]]
            elif name in _INLINED:
                return self._inline(*args[_INLINED[name] :])
            elif name not in TABLE:
                return node.target(*args, **kwargs)  # Python's arithmetic of sizes
            else:
                value = TABLE[name](
                    node.target._schema,
                    args,
                    kwargs,
                    self._expected_info(example),
                    self._builder.match_cast,
                )
            if isinstance(example, torch.SymInt) and isinstance(value, GraphExpr):
                size = self._sizes.new(example.node.expr)
                self._builder.match_cast(value, PrimStructInfo("int64", size), node.name)
                return size
            if isinstance(value, GraphExpr):
                return self._emit(value, example, node.name)
            return value
        except (IRTypeError, IRValueError) as error:
            raise type(error)(f"node {node.name} ({name}): {error}") from error

    def _inline(self, module: torch.fx.GraphModule, *inputs: Any) -> Any:
        holders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._values.update(zip(holders, inputs, strict=True))
        *_, output = self._nodes(module)
        return output

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
    """Return a tensor as a constant, which shares its memory where it is contiguous.

    A build copies it, because torch owns the memory.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise IRTypeError(f"the tensor {name} is not dense; only dense tensors are supported")
    dtype = dtype_name(tensor.dtype)
    plain = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
    if dtype == "bfloat16":
        return Constant(plain.view(torch.int16).numpy().view(np.uint16), dtype)
    return Constant(plain.numpy(), dtype)
