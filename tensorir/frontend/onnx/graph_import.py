"""Graphs of a model, node by node, become a graph function."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.attributes import attribute_values
from tensorir.frontend.onnx.contents import Fold, as_array, fold
from tensorir.frontend.onnx.dtypes import dtype_number, dtype_of, held_dtype, narrow_integer
from tensorir.frontend.onnx.elements import common_element
from tensorir.frontend.onnx.function_bodies import FunctionBodies
from tensorir.frontend.onnx.model_file import Model, opset_versions
from tensorir.frontend.onnx.node import OnnxNode, constant_contents
from tensorir.frontend.onnx.optional_package import onnx_package
from tensorir.frontend.onnx.registry import Result, converter_of, shown_name
from tensorir.frontend.onnx.schemas import check_node, check_texts, domain_of, schema_of
from tensorir.function import IRModule
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import op
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.expr import Constant, GraphExpr, GraphVar, ShapeExpr
from tensorir.relax.struct_info import (
    UNKNOWN_NDIM,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.transform import ConvertToDataflow, DeadCodeElimination
from tensorir.verify import verify_well_formed

_MOST_SIZE: Final = 1 << 40
"""What a symbolic size is taken to be below, when integers are compared."""
_DEEPEST: Final = 100
"""Functions and graphs inside of one another."""


class Scope:
    """The names of a graph or function that is being read, and where others are looked up."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        parent: Scope | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.opsets = opsets
        self.parent = parent
        self.attributes = attributes or {}
        """The attributes of the function, as messages."""
        self.values: dict[str, GraphExpr | None] = {}
        self.ranks: dict[str, int] = {}
        """The numbers of dimensions that the model states of its values."""

    def opset(self, domain: str) -> int:
        """Return the version of a domain's operators; 1 where the model states none."""
        return self.opsets.get(domain, 1)

    def value(self, name: str) -> GraphExpr | None:
        """Return the value of a name, None for ""; IRValueError for one that is not defined."""
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if self.parent is None:
            raise IRValueError(f"the value {name!r} is used before it is computed, or not at all")
        return self.parent.value(name)

    def bounded(self, taken: Callable[[GraphExpr], GraphExpr]) -> Scope:
        """Return a scope around a function's graphs, where values of this one are `taken`."""
        return _Boundary(self, taken)

    def define(self, name: str, value: GraphExpr | None) -> None:
        """Give a name its value; IRValueError if it has one."""
        if name in self.values:
            raise IRValueError(f"the value {name!r} is computed twice")
        self.values[name] = value


class _Boundary(Scope):
    """The names around a graph that becomes a function of its own."""

    def __init__(self, around: Scope, taken: Callable[[GraphExpr], GraphExpr]) -> None:
        super().__init__(around.opsets, around, around.attributes)
        self._taken = taken

    def value(self, name: str) -> GraphExpr | None:
        """Return what the value of a name is in the function."""
        value = super().value(name)
        return None if value is None else self._taken(value)


class GraphImport:
    """Reads one model; `builder` has the graph function that is being built."""

    def __init__(self, model: Model, opset: int | None = None) -> None:
        self.model = model
        self.builder = BlockBuilder()
        self._functions = FunctionBodies(model)
        self._opsets = {**model.opsets, **({} if opset is None else {"": opset})}
        self._sizes: dict[str, Var] = {}
        self._taken: set[str] = set()
        self._analyzer = Analyzer()
        self._contents: dict[GraphExpr, NDArray[Any]] = {}
        self._elements: dict[GraphExpr, TensorStructInfo] = {}
        """What is known of the elements of sequences, or of an optional tensor."""
        self._optional_tensors: set[GraphExpr] = set()
        self._depth = 0
        self.narrow: dict[GraphExpr, int] = {}
        """Tensors of integers of fewer than 8 bits, and how ONNX numbers their dtype."""

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
        scope.ranks = _stated_ranks(graph)
        weights = {}
        for tensor, array, dtype in self.model.weights():
            weights[tensor.name] = Constant(array, dtype)
            self.remember_kind(weights[tensor.name], tensor.data_type)
        inputs = [info for info in graph.input if info.name not in weights]
        for name in shapes:
            if name not in {info.name for info in inputs}:
                raise IRValueError(
                    f"shape_dict names {name!r}, which is no input; the inputs are "
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
                kept[_identifier(name)] = value.data
                param = GraphVar(_identifier(name), value.struct_info)
                params.append(param)
                known = constant_contents(value)
                if known is not None and known.dtype.kind in "iub":
                    self._contents[param] = known  # shapes are part of the program
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
        """Raise one IRValueError for all nodes that nothing converts."""
        found: dict[str, list[str]] = defaultdict(list)
        for proto in self._functions.unsupported(graph, self._opsets):
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
        if shape is None:
            if not tensor.HasField("shape"):
                raise IRValueError(
                    f"{place} has no shape in the model; state it: "
                    f"shape_dict={{{info.name!r}: (1, 3)}}"
                )
            shape = [_stated_extent(d, f"{info.name}_{k}") for k, d in enumerate(tensor.shape.dim)]
        extents = [self._size(n) if isinstance(n, str) else n for n in shape]
        param = GraphVar(_identifier(info.name), TensorStructInfo(extents, dtype))
        self.remember_kind(param, tensor.elem_type)
        return param

    def remember_kind(self, value: GraphExpr, number: int) -> None:
        """Remember that a tensor is of narrow integers, if ONNX numbers them so."""
        if narrow_integer(number) is not None:
            self.narrow[value] = number

    def _object(self, info: Any, place: str) -> GraphVar:
        """Return the variable of an input that is a sequence or an optional value."""
        var = GraphVar(_identifier(info.name), ObjectStructInfo())
        kind = info.type
        if kind.WhichOneof("value") == "optional_type":
            kind = kind.optional_type.elem_type
            if kind.WhichOneof("value") == "tensor_type":
                self._optional_tensors.add(var)
        if kind.WhichOneof("value") == "sequence_type":
            kind = kind.sequence_type.elem_type
        if kind.WhichOneof("value") != "tensor_type":
            raise IRValueError(f"{place} is no sequence of tensors, and no optional tensor")
        tensor = kind.tensor_type
        rank = len(tensor.shape.dim) if tensor.HasField("shape") else UNKNOWN_NDIM
        dtype = dtype_of(tensor.elem_type)
        self.remember_elements(var, TensorStructInfo(None, dtype, rank))
        return var

    def _size(self, name: str) -> Var:
        """Return the symbolic size of a name."""
        if name not in self._sizes:
            self._sizes[name] = self.fresh_size(name)
        return self._sizes[name]

    def fresh_size(self, name: str) -> Var:
        """Return a new symbolic size, which is not negative."""
        var = self._fresh(name)
        self._analyzer.bind(var, Range(0, _MOST_SIZE))
        return var

    def _fresh(self, name: str) -> Var:
        base = chosen = _identifier(name)
        number = 0
        while chosen in self._taken:
            number += 1
            chosen = f"{base}_{number}"
        self._taken.add(chosen)
        return Var(chosen, "int64")

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
        """Emit a graph that is an attribute; it sees the values of the graph around it."""
        scope = Scope(parent.opsets, parent, parent.attributes)
        scope.ranks = _stated_ranks(graph)
        if len(inputs) != len(graph.input):
            raise IRValueError(
                f"a graph of {len(graph.input)} input(s) is given {len(inputs)} value(s)"
            )
        for info, value in zip(graph.input, inputs, strict=True):
            scope.define(info.name, value)
        for tensor in graph.initializer:
            if tensor.name not in scope.values:
                scope.define(tensor.name, Constant(*self.model.array(tensor)))
        with self._deeper():
            return self._graph(graph, scope)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Emit a suite that may not run: what is looked at in it is not known behind it."""
        kept = dict(self._contents)
        try:
            yield
        finally:
            self._contents = kept

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
            if function is None and converter_of(proto.op_type, domain) is None:
                function = self._defined_by(proto, node, inputs)
                stated = [a.default_value for a in schema.attributes.values()]
                defaults = [value for value in stated if value.type]
            if function is not None:
                results = self._called(function, proto, inputs, scope, defaults)
            else:
                results = self.convert(node, inputs)
            if len(results) < len([name for name in proto.output if name]):
                raise IRValueError(
                    f"{len(proto.output)} outputs are asked for, but there are {len(results)}"
                )
            for name, value in zip(proto.output, results, strict=False):
                if name:
                    scope.define(name, self._named(value, name, scope))
        except (IRTypeError, IRValueError) as error:
            if str(error).startswith("node "):
                raise
            raise type(error)(f"{place}: {error}") from error

    def convert(
        self, node: OnnxNode, inputs: Sequence[GraphExpr | None]
    ) -> tuple[GraphExpr | None, ...]:
        """Return the outputs of a node with a converter."""
        known = self._folded(node, inputs)
        if known is not None:
            return known
        converter = converter_of(node.op_type, node.domain)
        if converter is None:
            raise IRValueError(f"there is no converter of {shown_name(node.op_type, node.domain)}")
        result: Result = converter(node, inputs, node.attributes)
        return (result,) if isinstance(result, GraphExpr) else tuple(result)

    def _defined_by(self, proto: Any, node: OnnxNode, inputs: Sequence[GraphExpr | None]) -> Any:
        types = [b"" if value is None else _type_message(value.struct_info) for value in inputs]
        function = self._functions.of_schema(proto, node.opset, types)
        if function is None:
            raise IRValueError(
                f"there is no converter of {shown_name(proto.op_type, proto.domain)}"
            )
        return function

    def _called(
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
        for attribute in proto.attribute:
            source = attribute
            if attribute.ref_attr_name:
                source = caller.attributes.get(attribute.ref_attr_name)
            if source is not None:
                given[attribute.name] = source
        opsets = {**self._opsets, **opset_versions(function.opset_import)}
        scope = Scope(opsets, None, given)
        for k, name in enumerate(function.input):
            scope.define(name, inputs[k] if k < len(inputs) else None)
        with self._deeper():
            for inner in function.node:
                self._node(inner, scope)
        # What nobody asks for may be left out by a function that ONNX defines.
        return tuple(
            scope.value(name) if k < len(proto.output) and proto.output[k] else None
            for k, name in enumerate(function.output)
        )

    def _deeper(self) -> _Depth:
        return _Depth(self)

    # ------------------------------------------------------------------------------------ values

    def _named(self, value: GraphExpr | None, name: str, scope: Scope) -> GraphExpr:
        """Return the value of an output, bound to a variable of its name."""
        if value is None:
            raise IRValueError(f"the output {name!r} is not computed by the converter")
        if isinstance(value, (Constant, GraphVar)) or value in self._contents:
            return value
        return self.emitted(value, name, scope.ranks.get(name, UNKNOWN_NDIM))

    def emitted(self, expr: GraphExpr, name: str = "", rank: int = UNKNOWN_NDIM) -> GraphExpr:
        """Bind an expression to a variable; dimensions that are not known become sizes."""
        if isinstance(expr, (Constant, GraphVar)):
            return expr
        hint = _identifier(name) if name else ""
        var = self.builder.emit(expr, hint)
        info = var.struct_info
        if not isinstance(info, TensorStructInfo) or info.shape is not None:
            return var
        ndim = rank if info.ndim == UNKNOWN_NDIM else info.ndim
        if ndim == UNKNOWN_NDIM:
            return var
        sizes = [self.fresh_size(f"{hint or 'n'}_{k}") for k in range(ndim)]
        return self.builder.match_cast(var, TensorStructInfo(sizes, info.dtype), hint)

    def contents(self, value: GraphExpr) -> NDArray[Any] | None:
        """Return what is known of a tensor's elements, None if it is not known."""
        if value in self._contents:
            return self._contents[value]
        return constant_contents(value) if isinstance(value, Constant) else None

    def remember(self, value: GraphExpr, array: NDArray[Any] | None) -> None:
        """Note what the elements of a tensor are; nothing for None."""
        if array is not None:
            self._contents[value] = array

    def remember_like(self, value: GraphExpr, source: GraphExpr) -> None:
        """Note of a value what is known of another one."""
        self.remember(value, self.contents(source))
        self.remember_elements(value, self.known_elements(source))
        if source in self._optional_tensors:
            self._optional_tensors.add(value)

    def remember_elements(self, value: GraphExpr, info: TensorStructInfo | None) -> None:
        """Note what the elements of a sequence are; nothing for None."""
        if info is not None:
            self._elements[value] = info

    def known_elements(self, value: GraphExpr) -> TensorStructInfo | None:
        """Return what is known of the elements of a sequence or of an optional tensor, if any."""
        if value in self._elements:
            return self._elements[value]
        info = value.struct_info
        if not isinstance(info, TupleStructInfo) or not info.elements:
            return None
        return common_element(info.elements)

    def is_optional_tensor(self, value: GraphExpr) -> bool:
        """Say whether an object is a tensor or absent."""
        return value in self._optional_tensors

    def _folded(
        self, node: OnnxNode, inputs: Sequence[GraphExpr | None]
    ) -> tuple[GraphExpr, ...] | None:
        """Return the outputs of a node whose contents follow from those of its inputs."""
        if node.domain:
            return None
        if node.op_type in ("Shape", "Size"):
            return self._shape_of(node, inputs)
        if not inputs:
            return None
        arrays = [self.contents(value) for value in inputs if value is not None]
        if any(array is None for array in arrays):
            return None
        known = iter(arrays)
        aligned = [None if value is None else next(known) for value in inputs]
        attributes = {key: _plain_attribute(key, v) for key, v in node.attributes.items()}
        results = fold(node.op_type, Fold(node.opset, attributes, self._analyzer), aligned)
        if results is None:
            return None
        dtype = _folded_dtype(node, inputs)
        return tuple(self._of_contents(array, dtype) for array in results)

    def _shape_of(
        self, node: OnnxNode, inputs: Sequence[GraphExpr | None]
    ) -> tuple[GraphExpr, ...] | None:
        info = inputs[0].struct_info if inputs and inputs[0] is not None else None
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            return None
        if node.op_type == "Size":
            total: PrimExpr | int = 1
            for extent in info.shape:
                total = total * extent
            return (
                self._of_contents(as_array([self._analyzer.simplify(total)]).reshape(()), None),
            )
        part = slice(node.attributes.get("start", 0), node.attributes.get("end"))
        return (self._of_contents(as_array(info.shape[part]), None),)

    def _of_contents(self, array: NDArray[Any], dtype: str | None) -> GraphExpr:
        """Return a tensor with contents: a constant, or an expression that gives sizes as one."""
        if array.dtype != object:
            converted = dtype is not None and array.dtype.kind in "iu"
            return Constant(array.astype(dtype) if converted else array)
        flat = self.integer_tensor(list(array.reshape(-1)), dtype or "int64")
        if array.ndim == 1:
            return flat
        shaped: GraphExpr = op.reshape(flat, array.shape)
        self._contents[shaped] = array
        return shaped

    def integer_tensor(self, values: Sequence[int | PrimExpr], dtype: str = "int64") -> GraphExpr:
        """Return a tensor of integers, which are remembered; it is emitted where it is used."""
        array = as_array(values)
        if array.dtype != object:
            return Constant(array.astype(dtype))
        # A shape has no negative numbers.
        least = min((n for n in array.flat if isinstance(n, int)), default=0)
        result: GraphExpr = op.shape_to_tensor(ShapeExpr([n - min(least, 0) for n in array.flat]))
        if least < 0:
            result = op.add(result, least)
        if dtype != "int64":
            result = op.astype(result, dtype)
        self._contents[result] = array
        return result

    def looked_at(self, value: GraphExpr, what: str) -> list[PrimExpr]:
        """Return variables for the elements of a tensor of integers; the model defines them."""
        info = value.struct_info
        shape = info.static_shape if isinstance(info, TensorStructInfo) else None
        if shape is None or len(shape) > 1:
            raise IRValueError(
                f"the number of integers in {what} must be known while the model is read, got "
                f"{info}"
            )
        count = int(np.prod(shape))
        numbers = self.builder.emit(op.tensor_to_scalars(value, count=count))
        result: list[PrimExpr] = [self._fresh("value") for _ in range(count)]
        self.builder.match_cast(
            numbers, TupleStructInfo(PrimStructInfo("int64", var) for var in result)
        )
        array = np.empty(shape, object)
        array.reshape(-1)[:] = result
        self._contents[value] = array
        return result

    def agreed_sizes(
        self, operands: Sequence[GraphExpr], places: Sequence[Sequence[tuple[int, int]]]
    ) -> list[GraphExpr]:
        """Return operands with sizes that are taken to be equal; see `OnnxNode.agreed_sizes`."""
        shapes = []
        for value in operands:
            info = value.struct_info
            if not isinstance(info, TensorStructInfo) or info.shape is None:
                return list(operands)  # the operator says what it lacks
            shapes.append(list(info.shape))
        changed = set()
        for group in places:
            extents = [shapes[k][axis] for k, axis in group]
            for (k, axis), extent in zip(group, extents, strict=True):
                common = next((n for n in extents if isinstance(n, IntImm)), extents[0])
                if isinstance(extent, IntImm) or self._analyzer.can_prove_equal(extent, common):
                    continue
                shapes[k][axis] = common
                changed.add(k)
        result = []
        for k, value in enumerate(operands):
            info = value.struct_info
            assert isinstance(info, TensorStructInfo)
            checked = TensorStructInfo(shapes[k], info.dtype)
            result.append(self.builder.match_cast(value, checked) if k in changed else value)
        return result


class _Depth:
    """Counts how deep functions and graphs are inside of one another."""

    def __init__(self, importing: GraphImport) -> None:
        self._importing = importing

    def __enter__(self) -> None:
        self._importing._depth += 1
        if self._importing._depth > _DEEPEST:
            raise IRValueError(f"functions or graphs are nested more than {_DEEPEST} deep")

    def __exit__(self, *_: object) -> None:
        self._importing._depth -= 1


def node_name(proto: Any) -> str:
    """Return what messages call a node: its name, else that of its first output."""
    outputs = [name for name in proto.output if name]
    return repr(proto.name or (outputs[0] if outputs else proto.op_type))


def _identifier(name: str) -> str:
    """Return a name of a variable."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() else word


def _stated_extent(dim: Any, otherwise: str) -> int | str:
    """Return an extent that a model states: a number, a name that equal ones share, or a new name.

    Negative numbers and names such as "?" stand for any extent.
    """
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    name = str(dim.dim_param)
    return name if re.search(r"\w", name) and not name.startswith("-") else otherwise


def _stated_ranks(graph: Any) -> dict[str, int]:
    return {
        info.name: len(info.type.tensor_type.shape.dim)
        for info in [*graph.value_info, *graph.output]
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape")
    }


def _type_message(info: StructInfo) -> bytes:
    """Return the type of a value as ONNX has it."""
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


def _plain_attribute(name: str, value: Any) -> Any:
    """Return an attribute as contents are computed with it."""
    if name == "to":  # narrow integers are not computed with here
        return None if narrow_integer(value) else str(dtype_of(value))
    return value.data if isinstance(value, Constant) else value


def _folded_dtype(node: OnnxNode, inputs: Sequence[GraphExpr | None]) -> str | None:
    """Return the dtype of integer results, None where the computed array has it."""
    if node.op_type == "Cast":
        return str(held_dtype(node.attributes["to"])) if "to" in node.attributes else None
    values = inputs[1:] if node.op_type == "Where" else inputs[:1]
    for value in values:
        info = value.struct_info if value is not None else None
        if isinstance(info, TensorStructInfo) and info.dtype in ("int32", "int64"):
            return str(info.dtype)
    return None
