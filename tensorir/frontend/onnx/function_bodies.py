"""The functions that define operators: functions of the model, and ONNX's definitions.

ONNX defines many operators by a function over other operators. An operator without a converter is
replaced by that function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.limits import ImportLimits
from tensorir.frontend.onnx.model_file import Model, opset_versions
from tensorir.frontend.onnx.registry import converter_of, shown_name
from tensorir.frontend.onnx.schemas import check_texts, domain_of, onnx_package, schema_of


class FunctionBodies:
    """Looks up the functions that define operators."""

    def __init__(self, model: Model, limits: ImportLimits) -> None:
        self._local = {(domain_of(f), f.name): f for f in model.proto.functions}
        self._limits = limits
        self._nodes_of: dict[tuple[str, str], int | None] = {}
        """The number of nodes of each function of the model, including the functions that it calls.

        None while they are being counted.
        """

    def local(self, proto: Any) -> Any:
        """Return the function of the model that a node calls.

        Return None if the node calls an operator.
        """
        return self._local.get((domain_of(proto), proto.op_type))

    def of_schema(
        self, proto: Any, attributes: Mapping[str, Any], opset: int, types: Sequence[bytes]
    ) -> Any:
        """Return ONNX's function that defines the operator of a node; None if ONNX has none.

        `attributes` are the node's attributes as messages, and `types` the types of its inputs as
        serialised messages; some definitions depend on them.
        """
        schema = schema_of(proto, opset)
        if schema is None:
            return None
        function = onnx_package().FunctionProto()
        if schema.has_function:
            version = _newest_definition(schema.function_opset_versions, opset)
            function.ParseFromString(schema.get_function_with_opset_version(version))
            return function
        if schema.has_context_dependent_function:
            version = _newest_definition(schema.context_dependent_function_opset_versions, opset)
            node = _self_contained_node(proto, attributes).SerializeToString()
            try:
                text = schema.get_context_dependent_function_with_opset_version(
                    version, node, list(types)
                )
            except (RuntimeError, UnicodeDecodeError) as error:  # names that ONNX cannot read
                reason = " ".join(str(error).split())
                raise IRValueError(f"ONNX cannot define the operator: {reason}") from error
            function.ParseFromString(text)
            return function if function.node else None
        return None

    def survey(self, graph: Any, opsets: Mapping[str, int]) -> list[Any]:
        """Check the nodes of a graph and of all functions that it calls; return unsupported nodes.

        Raises ImportLimitError for too many nodes; each call counts the nodes of its function.
        """
        found: list[Any] = []
        self._survey(graph.node, opsets, found, 1)
        return found

    def _survey(
        self, nodes: Any, opsets: Mapping[str, int], unsupported: list[Any], depth: int
    ) -> int:
        """Return the number of nodes, including those of functions and subgraphs."""
        self._limits.check("max_depth", depth - 1, "functions or graphs are nested too deeply")
        count = 0
        for proto in nodes:
            check_texts(proto.op_type, proto.domain, proto.name, *proto.input, *proto.output)
            check_texts(*(name for a in proto.attribute for name in (a.name, a.ref_attr_name)))
            count += 1
            key = (domain_of(proto), proto.op_type)
            function = self._local.get(key)
            if function is not None:
                count += self._nodes_of_function(key, function, unsupported, depth + 1)
            elif converter_of(proto.op_type, key[0]) is None and not self._is_defined(
                proto, opsets.get(key[0], 1)
            ):
                unsupported.append(proto)
            for attribute in proto.attribute:
                for graph in [attribute.g, *attribute.graphs]:
                    if graph.node:
                        count += self._survey(graph.node, opsets, unsupported, depth + 1)
            self._limits.check(
                "max_nodes",
                count,
                f"node {node_name(proto)} ({shown_name(proto.op_type, proto.domain)}): the model "
                "has too many nodes, those of functions counted for each call",
            )
        return count

    def _nodes_of_function(
        self, key: tuple[str, str], function: Any, unsupported: list[Any], depth: int
    ) -> int:
        if key not in self._nodes_of:
            self._nodes_of[key] = None
            opsets = opset_versions(function.opset_import)
            self._nodes_of[key] = self._survey(function.node, opsets, unsupported, depth)
        count = self._nodes_of[key]
        if count is None:
            raise IRValueError(f"the function {shown_name(key[1], key[0])} calls itself")
        return count

    def _is_defined(self, proto: Any, opset: int) -> bool:
        schema = schema_of(proto, opset)
        return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def node_name(proto: Any) -> str:
    """Return the name of a node for messages.

    A node without a name gets that of its first output.
    """
    outputs = [name for name in proto.output if name]
    return repr(proto.name or (outputs[0] if outputs else proto.op_type))


def _self_contained_node(proto: Any, attributes: Mapping[str, Any]) -> Any:
    """Return an equivalent node that does not refer to the enclosing function.

    ONNX generates the function as text with the names of the node, and its parser rejects a slash
    or a dot, which exporters write. An attribute that refers to an attribute of the enclosing
    function gets the value 0: ONNX only asks if it is present.
    """
    result = onnx_package().NodeProto()
    result.op_type, result.domain = proto.op_type, proto.domain
    result.input.extend(f"x{k}" if name else "" for k, name in enumerate(proto.input))
    result.output.extend(f"y{k}" if name else "" for k, name in enumerate(proto.output))
    for name, message in attributes.items():
        result.attribute.add().CopyFrom(message)
        result.attribute[-1].name = name
    return result


def _newest_definition(versions: Sequence[int], opset: int) -> int:
    """Return the newest version of a definition that is not newer than the model's opset."""
    known = [version for version in versions if version <= opset]
    if known:
        return max(known)
    if versions:
        return min(versions)
    raise IRValueError(f"the operator is not defined in opset {opset}")
