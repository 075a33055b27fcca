"""Import of a model's graphs, node by node, into a graph function."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.dtypes import dtype_number, dtype_of, held_dtype
from tensorir.frontend.onnx.function_bodies import FunctionBodies, node_name
from tensorir.frontend.onnx.known_values import KnownValues, constant_contents, identifier
from tensorir.frontend.onnx.limits import DEFAULT_LIMITS, ImportLimits, Repeats
from tensorir.frontend.onnx.model_file import Model, opset_versions, read_model
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import Result, converter_of, shown_name
from tensorir.frontend.onnx.schemas import (
    check_node,
    check_texts,
    domain_of,
    onnx_package,
    schema_of,
)
from tensorir.frontend.onnx.scope import Scope, stated_ranks
from tensorir.function import IRModule
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.recursion import any_depth
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.expr import Constant, GraphExpr, GraphVar
from tensorir.relax.struct_info import (
    UNKNOWN_NDIM,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
)
from tensorir.transform import ConvertToDataflow, DeadCodeElimination
from tensorir.verify import verify_well_formed


class GraphImport:
    """Imports one model; `builder` holds the graph function under construction."""

    def __init__(
        self, model: Model, opset: int | None = None, limits: ImportLimits = DEFAULT_LIMITS
    ) -> None:
        self.model = model
        self.limits = limits
        self.builder = BlockBuilder()
        self._functions = FunctionBodies(model, limits)
        self._opsets = {**model.opsets, **({} if opset is None else {"": opset})}
        self.known = KnownValues(self.builder, limits)
        self._depth = 0
        self.repeats = Repeats(limits)

    # ------------------------------------------------------------------------------------ the model

    def module(
        self,
        shapes: Mapping[str, Sequence[int | str | PrimExpr]],
        dtypes: str | Mapping[str, str],
        keep_params: bool,
    ) -> IRModule:
        """Return the module of the model; see `from_onnx`."""
        graph = self.model.proto.graph
        self._check_supported(graph)
        check_texts(*(info.name for info in [*graph.input, *graph.output, *graph.initializer]))
        check_texts(*(d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim))
        scope = Scope(self._opsets)
        scope.ranks = stated_ranks(graph)
        weights = {}
        for tensor, constant in self.model.weights():
            weights[tensor.name] = constant
            self.limits.check_tensor(constant.struct_info, f"the tensor {tensor.name!r}")
            self.known.remember_kind(weights[tensor.name], tensor.data_type)
        inputs = [info for info in graph.input if info.name not in weights]
        for name in shapes:
            if name not in {info.name for info in inputs}:
                raise IRValueError(
                    f"a shape is given for the unknown input {name!r}; the inputs are "
                    + (", ".join(info.name for info in inputs) or "none")
                )
        params = [self._parameter(info, shapes.get(info.name), dtypes) for info in inputs]
        for info, param in zip(inputs, params, strict=True):
            scope.define(info.name, param)
        attrs: dict[str, Any] = {}
        kept: dict[str, NDArray[Any]] = {}
        if keep_params:
            attrs["num_input"] = len(params)
        for name, value in weights.items():
            if keep_params:
                kept[identifier(name)] = value.data
                param = GraphVar(identifier(name), value.struct_info)
                params.append(param)
                known = constant_contents(value)
                if known is not None and known.dtype.kind in "iub":
                    self.known.remember(param, known)  # shapes are part of the program
                scope.define(name, param)
            else:
                scope.define(name, value)
        for sparse in graph.sparse_initializer:
            raise IRValueError(f"the sparse tensor {sparse.values.name!r} is not supported")
        with self.builder.function("main", params, attrs):
            outputs = self._graph(graph, scope)
            self.builder.emit_func_output(outputs[0] if len(outputs) == 1 else outputs)
        mod = DeadCodeElimination()(ConvertToDataflow()(self.builder.finalize()))
        verify_well_formed(mod)
        return mod.with_attr("params", kept) if keep_params else mod

    def _check_supported(self, graph: Any) -> None:
        """Raise one IRValueError for all unsupported nodes."""
        found: dict[str, list[str]] = defaultdict(list)
        for proto in self._functions.survey(graph, self._opsets):
            found[shown_name(proto.op_type, proto.domain)].append(node_name(proto))
        if not found:
            return
        lines = [
            f"  {name}: {len(nodes)} node(s), {', '.join(nodes[:5])}"
            + (", ..." if len(nodes) > 5 else "")
            for name, nodes in sorted(found.items())
        ]
        raise IRValueError(
            f"the model has {len(found)} operator(s) that are not supported:\n" + "\n".join(lines)
        )

    def _parameter(
        self,
        info: Any,
        shape: Sequence[int | str | PrimExpr] | None,
        dtypes: str | Mapping[str, str],
    ) -> GraphVar:
        """Return the variable of an input."""
        place = f"the input {info.name!r}"
        kind = info.type.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            return self._object(info, place)
        if kind != "tensor_type":
            raise IRValueError(
                f"{place} is a {(kind or 'value').removesuffix('_type')}, but only tensors and "
                "sequences of tensors are supported"
            )
        tensor = info.type.tensor_type
        if tensor.elem_type:
            dtype = str(held_dtype(tensor.elem_type))
        else:
            dtype = dtypes if isinstance(dtypes, str) else dtypes.get(info.name, "float32")
        stated = None
        if tensor.HasField("shape"):
            stated = [_stated_extent(d, f"{info.name}_{k}") for k, d in enumerate(tensor.shape.dim)]
        if shape is None:
            if stated is None:
                raise IRValueError(
                    f"{place} has an unknown shape; state it: shape_dict={{{info.name!r}: (1, 3)}}"
                )
            shape = stated
        elif stated is not None and len(shape) != len(stated):
            raise IRValueError(
                f"the given shape has {len(shape)} dimensions for {place}; the model has "
                f"{len(stated)}: ({', '.join(map(str, stated))})"
            )
        extents = [self.known.size(n) if isinstance(n, str) else n for n in shape]
        param = GraphVar(identifier(info.name), TensorStructInfo(extents, dtype))
        self.limits.check_tensor(param.struct_info, place)
        self.known.remember_kind(param, tensor.elem_type)
        return param

    def _object(self, info: Any, place: str) -> GraphVar:
        """Return the variable of an input that is a sequence or an optional value."""
        var = GraphVar(identifier(info.name), ObjectStructInfo())
        kind = info.type
        if kind.WhichOneof("value") == "optional_type":
            kind = kind.optional_type.elem_type
            if kind.WhichOneof("value") == "tensor_type":
                self.known.remember_optional_tensor(var)
        if kind.WhichOneof("value") == "sequence_type":
            kind = kind.sequence_type.elem_type
        if kind.WhichOneof("value") != "tensor_type":
            raise IRValueError(f"{place} must be a sequence of tensors or an optional tensor")
        tensor = kind.tensor_type
        rank = len(tensor.shape.dim) if tensor.HasField("shape") else UNKNOWN_NDIM
        dtype = dtype_of(tensor.elem_type)
        self.known.remember_elements(var, TensorStructInfo(None, dtype, rank))
        return var

    # ------------------------------------------------------------------------------------ graphs

    def _graph(self, graph: Any, scope: Scope) -> list[GraphExpr]:
        """Emit the nodes of a graph whose inputs are defined; return its outputs."""
        for proto in graph.node:
            self._node(proto, scope)
        outputs = []
        for info in graph.output:
            value = scope.value(info.name)
            if value is None:
                raise IRValueError(f"the output {info.name!r} is not computed")
            outputs.append(value)
        return outputs

    def subgraph(self, graph: Any, inputs: Sequence[GraphExpr], parent: Scope) -> list[GraphExpr]:
        """Emit a subgraph from an attribute; it may use the values of the enclosing graph."""
        scope = Scope(parent.opsets, parent, parent.attributes)
        scope.ranks = stated_ranks(graph)
        if len(inputs) != len(graph.input):
            raise IRValueError(
                f"a graph of {len(graph.input)} input(s) is given {len(inputs)} value(s)"
            )
        for info, value in zip(graph.input, inputs, strict=True):
            scope.define(info.name, value)
        for tensor in graph.initializer:
            if tensor.name not in scope.values:
                scope.define(tensor.name, self.model.tensor(tensor))
        self.repeats.enter(graph)
        with self._nesting():
            return self._graph(graph, scope)

    def _node(self, proto: Any, scope: Scope) -> None:
        """Convert a node and define its outputs."""
        place = f"node {node_name(proto)} ({shown_name(proto.op_type, proto.domain)})"
        try:
            function = self._functions.local(proto)
            schema = schema_of(proto, scope.opset(domain_of(proto)))
            if function is None and schema is not None:
                check_node(proto, schema)
            inputs = [scope.value(name) for name in proto.input]
            attributes = attribute_values(proto.attribute, scope.attributes, self.model)
            domain = domain_of(proto)
            node = OnnxNode(
                self, scope, proto.op_type, domain, proto.name, proto.output, attributes
            )
            defaults = []
            with self.repeats.node(proto):
                results = None
                if function is None and converter_of(proto.op_type, domain) is not None:
                    results = self.convert(node, inputs)
                if results is None:
                    if function is None:
                        function = self._convert_by_function(proto, scope, node, inputs)
                        stated = [a.default_value for a in schema.attributes.values()]
                        defaults = [value for value in stated if value.type]
                    results = self._call_function(function, proto, inputs, scope, defaults)
            if len(results) < len([name for name in proto.output if name]):
                raise IRValueError(
                    f"{len(proto.output)} outputs are used, but the operator has {len(results)}"
                )
            for name, value in zip(proto.output, results, strict=False):
                if name:
                    scope.define(name, self._bind_output(value, name, scope))
        except (IRTypeError, IRValueError) as error:
            if str(error).startswith("node "):
                raise
            raise type(error)(f"{place}: {error}") from error

    def convert(
        self, node: OnnxNode, inputs: Sequence[GraphExpr | None]
    ) -> tuple[GraphExpr | None, ...] | None:
        """Return the outputs of a node that has a converter, None if that leaves it to ONNX."""
        converter = converter_of(node.op_type, node.domain)
        if converter is None:
            raise IRValueError(f"there is no converter of {shown_name(node.op_type, node.domain)}")
        result: Result = converter(node, inputs, node.attributes)
        if result is None or isinstance(result, GraphExpr):
            return None if result is None else (result,)
        return tuple(result)

    def _convert_by_function(
        self, proto: Any, scope: Scope, node: OnnxNode, inputs: Sequence[GraphExpr | None]
    ) -> Any:
        types = [b"" if value is None else _type_message(value.struct_info) for value in inputs]
        attributes = present_attributes(proto.attribute, scope.attributes)
        function = self._functions.of_schema(proto, dict(attributes), node.opset, types)
        if function is None:
            raise IRValueError(
                f"there is no converter of {shown_name(proto.op_type, proto.domain)}"
            )
        return function

    def _call_function(
        self,
        function: Any,
        proto: Any,
        inputs: Sequence[GraphExpr | None],
        caller: Scope,
        defaults: Sequence[Any],
    ) -> tuple[GraphExpr | None, ...]:
        """Emit the nodes of a function; return its outputs."""
        if len(inputs) > len(function.input):
            raise IRValueError(
                f"the function takes {len(function.input)} input(s), got {len(inputs)}"
            )
        given = {attribute.name: attribute for attribute in [*defaults, *function.attribute_proto]}
        given.update(present_attributes(proto.attribute, caller.attributes))
        opsets = {**self._opsets, **opset_versions(function.opset_import)}
        scope = Scope(opsets, None, given)
        for k, name in enumerate(function.input):
            scope.define(name, inputs[k] if k < len(inputs) else None)
        with self._nesting():
            for inner in function.node:
                self._node(inner, scope)
        # A function that ONNX defines may omit unused outputs.
        return tuple(
            scope.value(name) if k < len(proto.output) and proto.output[k] else None
            for k, name in enumerate(function.output)
        )

    @contextmanager
    def _nesting(self) -> Iterator[None]:
        """Increase the nesting depth of functions and graphs, in a `with` statement."""
        self._depth += 1
        self.limits.check("max_depth", self._depth, "functions or graphs are nested too deeply")
        try:
            yield
        finally:
            self._depth -= 1

    # ------------------------------------------------------------------------------------ values

    def _bind_output(self, value: GraphExpr | None, name: str, scope: Scope) -> GraphExpr:
        """Return the value of an output, bound to a variable of its name."""
        if value is None:
            raise IRValueError(f"the output {name!r} is not computed by the converter")
        return self.emitted(value, name, scope.ranks.get(name, UNKNOWN_NDIM))

    def emitted(self, expr: GraphExpr, name: str = "", rank: int = UNKNOWN_NDIM) -> GraphExpr:
        """Bind an expression to a variable, and return the variable.

        Extents that are unknown, or whose expressions are too long, become symbolic sizes.
        """
        if isinstance(expr, (Constant, GraphVar)):
            return expr
        self.limits.check_tensor(expr.struct_info, f"the value {name!r}" if name else "a value")
        hint = identifier(name) if name else ""
        var = self.builder.emit(expr, hint)
        self.known.bind(var, expr)
        info = var.struct_info
        if not isinstance(info, TensorStructInfo):
            return var
        shape: Sequence[PrimExpr | None] | None = info.shape
        if shape is None:
            ndim = rank if info.ndim == UNKNOWN_NDIM else info.ndim
            if ndim == UNKNOWN_NDIM:
                return var
            shape = [None] * ndim
        elif self.limits.has_few_terms(shape):
            return var
        sizes = [
            n if isinstance(n, IntImm) else self.known.fresh_size(f"{hint or 'n'}_{k}")
            for k, n in enumerate(shape)
        ]
        cast = self.builder.match_cast(var, TensorStructInfo(sizes, info.dtype), hint)
        self.known.bind(cast, var)
        return cast


def _stated_extent(dim: Any, otherwise: str) -> int | str:
    """Return an extent that a model states: a number, a shared name, or a new name.

    Negative numbers and names such as "?" mean any extent.
    """
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    name = str(dim.dim_param)
    return name if re.search(r"\w", name) and not name.startswith("-") else otherwise


def _type_message(info: StructInfo) -> bytes:
    """Return the type of a value as a serialised ONNX type."""
    message = onnx_package().TypeProto()
    if isinstance(info, TensorStructInfo) and info.dtype is not None:
        message.tensor_type.elem_type = dtype_number(info.dtype)
        if info.shape is not None:
            for extent in info.shape:
                dim = message.tensor_type.shape.dim.add()
                if isinstance(extent, IntImm):
                    dim.dim_value = extent.value
                else:
                    dim.dim_param = str(extent)
    return bytes(message.SerializeToString())


def attribute_values(
    attributes: Iterable[Any], given: Mapping[str, Any], model: Model
) -> dict[str, Any]:
    """Return attributes by name: numbers, strings, `Constant`s, messages, or tuples of these.

    `given` is as in `present_attributes`. Raises IRValueError for a repeated attribute.
    """
    result = {}
    for name, message in present_attributes(attributes, given):
        if name in result:
            raise IRValueError(f"the attribute {name} is given twice")
        result[name] = _value(message, model)
    return result


def present_attributes(
    attributes: Iterable[Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the names of a node's attributes and the messages that have their values.

    In the body of a function of the model, an attribute may refer to an attribute of the function;
    `given` has the protos of those that the caller passed, by name. A reference to another one is
    left out.
    """
    for attribute in attributes:
        message = attribute
        if attribute.ref_attr_name:
            message = given.get(attribute.ref_attr_name)
        if message is not None:
            yield attribute.name, message


def _value(attribute: Any, model: Model) -> Any:
    try:
        value = onnx_package().helper.get_attribute_value(attribute)
    except ValueError as error:
        raise IRValueError(
            f"attribute {attribute.name!r} has the unknown type {attribute.type}"
        ) from error
    return tuple(_plain(v, model) for v in value) if _is_list(value) else _plain(value, model)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _plain(value: Any, model: Model) -> Any:
    if isinstance(value, bytes):
        return _text(value)
    return model.tensor(value) if isinstance(value, onnx_package().TensorProto) else value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise IRValueError(f"{value!r} is not UTF-8 text") from error


@any_depth
def from_onnx(
    model: Any,
    shape_dict: Mapping[str, Sequence[int | str | PrimExpr]] | None = None,
    dtype_dict: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    limits: ImportLimits = DEFAULT_LIMITS,
) -> IRModule:
    """Return a module whose graph function `main` computes an ONNX model.

    `model` is the path of a model file, or an `onnx.ModelProto`. Its inputs are the parameters of
    `main`, under their names; characters other than letters, digits and underscores become
    underscores. A single output is the result; several outputs are returned as a tuple. Weights are
    constants of the program. With `keep_params_in_input` they are parameters after the inputs (the
    attribute `num_input` is the number of inputs), and the attribute `params` of the module holds
    them by name.

    `shape_dict` gives shapes of inputs; a string in a shape names a symbolic size. Other inputs
    have the shapes that the model states. A dimension that the model leaves open is a symbolic
    size, one for each name in the whole model, so that dimensions of the same name are equal.
    `dtype_dict` gives dtypes of inputs without a dtype in the model. `opset` overrides the version
    of the standard operators that the model states.

    Integers that are used only to compute shapes are evaluated while the model is read. If a node
    needs a number that is not known then, the compiled model reads it at run time. If two sizes
    must be equal and are not provably equal, the compiled model checks them at run time.

    `limits` bounds how large a program a small file may produce.

    Raises IRValueError or IRTypeError, which name the node: for an invalid model, an opset that is
    newer than the package `onnx`, operands that do not match, and for operators without a converter
    (all of them in one error). Raises ImportLimitError, an IRValueError, for a model that exceeds a
    limit. NaN and infinite weights are kept.
    """
    source: Model = read_model(model)
    importing = GraphImport(source, opset, limits)
    return importing.module(shape_dict or {}, dtype_dict, keep_params_in_input)
