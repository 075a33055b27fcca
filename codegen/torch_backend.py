"""The package as a backend of torch: `torch.compile(model, backend="tensorir")`.

torch captures graphs, guards them, and calls this backend for each graph (by its entry point in the
group `torch_dynamo_backends`). AOTAutograd turns a graph into functional operators of ATen; it
handles outputs that are inputs, or views of inputs, itself. A graph is built at its first call,
when the contents of weights are known:

- A weight is a constant, so it is folded and packed for the kernels once. Each call checks that the
weight is unchanged, by its address and torch's version counter. After a change the graph is built
again, with its weights as inputs.
- Sizes that torch made dynamic are symbolic. Inputs that the graph changes are changed in place.
- Kernels get the schedules of the option `database`, or else of a database that was entered by
`with`.

Options, as in `torch.compile(model, backend="tensorir", options={"target": "llvm -num-cores=4"})`:
`target` and `database` are arguments of `vm_build`; `on_module` is called with the module of each
graph before it is built, for example to tune it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from codegen.errors import CodegenError
from codegen.vm.build import vm_build
from codegen.vm.graph_function import GraphFunction
from codegen.vm.machine import VirtualMachine
from tensorir.frontend.torch.graph_import import (
    GraphImport,
    Signature,
    constant_of,
    operator_names,
)
from tensorir.frontend.torch.table import TABLE, unsupported

logger = logging.getLogger("tensorir.codegen")

OPTIONS: Final = ("target", "database", "on_module")


def compile_graph(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a function that runs a graph of `torch.compile`.

    A graph whose gradient is needed runs in torch. Raises CodegenError for an unknown option and
    for tensors on other devices, IRValueError for operators without a converter (all of them in one
    error), and the errors of `from_exported_program` and `vm_build`.
    """
    chosen = dict(options or {})
    unknown = sorted(set(chosen) - set(OPTIONS))
    if unknown:
        raise CodegenError(f"unknown option {unknown[0]!r}; the options are {', '.join(OPTIONS)}")
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    others = sorted({str(tensor.device) for tensor in tensors if tensor.device.type != "cpu"})
    if others:
        raise CodegenError(f"a graph has tensors on {', '.join(others)}; move them to the CPU")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        _warn_of_training()
        return graph.forward  # type: ignore[no-any-return]

    def compiled(module: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return _CompiledGraph(module, chosen)

    compile_with_aot = aot_autograd(
        fw_compiler=compiled,
        inference_compiler=compiled,
        decompositions=_decompositions(),
        keep_inference_input_mutations=True,
    )
    return compile_with_aot(graph, inputs)  # type: ignore[no-any-return]


@cache
def _warn_of_training() -> None:
    """Warn once."""
    logger.warning(
        "torch.compile: a graph whose gradient is needed runs in torch, because this backend only "
        "does inference; call the model under torch.inference_mode() or torch.no_grad()"
    )


@cache
def _decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return torch's decompositions of operators without a converter."""
    table = torch._decomp.core_aten_decompositions()
    return {overload: f for overload, f in table.items() if str(overload) not in TABLE}


class _CompiledGraph:
    """A graph of ATen operators, which is built when it is called."""

    _boxed_call = True
    """The mark of a function that receives its arguments in a list."""

    def __init__(self, module: torch.fx.GraphModule, options: Mapping[str, Any]) -> None:
        self._module = module
        self._options = dict(options)
        self._on_module = self._options.pop("on_module", None)
        updates = _moved_updates(module)
        self._views, self._updates = _without_views(module, updates)
        error = unsupported(operator_names(module))
        if error is not None:
            raise error
        self._holders = [node for node in module.graph.nodes if node.op == "placeholder"]
        context = TracingContext.try_get()
        found = None if context is None else context.fw_metadata
        fixed = () if found is None else found.static_input_indices
        self._weights = {k: _NEVER for k in fixed if self._holders[k] not in self._updates}
        """The inputs that are constants, and their identities when the graph was built."""
        self._alive: list[torch.Tensor] = []
        """The weights of the build, kept alive so that no other tensor gets their addresses."""
        orders = {k: _order(node) for k, node in enumerate(self._holders) if k not in self._weights}
        self._orders = {k: order for k, order in orders.items() if order is not None}
        """For each input that is not contiguous: the order of axes that makes it contiguous."""
        self._result_orders = _in_memory_order(module, self._holders, self._orders, self._updates)
        self._function: GraphFunction | None = None

    def __call__(self, args: list[Any]) -> list[Any]:
        """Return the results for arguments; inputs that the graph changes are written."""
        function = self._function or self._built(args)
        changed = [k for k, seen in self._weights.items() if seen != _contents(args[k])]
        if changed:
            logger.warning(
                "torch.compile: %d weight(s) of a graph were changed after its first call; from "
                "now on they are inputs, and the graph is built again",
                len(changed),
            )
            for k in changed:
                del self._weights[k]
            function = self._built(args)
        given, late = [], []
        for k, value in enumerate(args):
            if k in self._weights or not isinstance(value, (torch.Tensor, int)):
                continue
            if isinstance(value, torch.Tensor):
                order = self._orders.get(k)
                tensor = value.detach() if order is None else value.detach().permute(order)
                if self._holders[k] in self._updates:
                    plain = tensor.contiguous()
                    late.append((value, tensor, plain))
                    tensor = plain
                value = _argument(tensor)
            given.append(value)
        results = function(*given)
        for value, tensor, plain in late:
            if plain is not tensor:
                tensor.copy_(plain)
            elif not value.is_inference():
                torch.autograd.graph.increment_version(value)
        made = [_result(v, order) for v, order in zip(results, self._result_orders, strict=True)]
        return made if self._views is None else list(self._views(*args, *made))

    def _built(self, args: Sequence[Any]) -> GraphFunction:
        """Build the graph with the current contents of its weights."""
        # Tensors of inference mode lack a version counter.
        self._weights = {k: _contents(args[k]) for k in self._weights if not args[k].is_inference()}
        self._alive = [args[k].detach() for k in self._weights]
        constants = {
            self._holders[k]: constant_of(args[k], self._holders[k].name) for k in self._weights
        }
        signature = Signature(constants=constants, updates=self._updates)
        mod = GraphImport(self._module, signature).module()
        if self._on_module is not None:
            self._on_module(mod)
        self._function = VirtualMachine(vm_build(mod, **self._options)).function("main")
        return self._function


_NEVER: Final = (0, 0)
_Order: TypeAlias = "list[int] | None"


def _contents(weight: torch.Tensor) -> tuple[int, int]:
    """Return the identity of a weight's contents: its address and torch's version counter."""
    return weight.data_ptr(), weight._version


def _argument(tensor: torch.Tensor) -> Any:
    """Return a tensor as an argument: a NumPy array if its dtype has one."""
    return tensor if tensor.dtype is torch.bfloat16 or tensor.is_neg() else tensor.numpy()


def _result(value: Any, order: _Order) -> Any:
    """Return a result of a graph function as torch expects it."""
    if isinstance(value, tuple):  # the empty tuple represents None
        return None
    if isinstance(value, int):
        return value
    tensor = torch.from_dlpack(value)
    return tensor if order is None else tensor.permute(_inverse(order))


# ----------------------------------------------------------------------------------- changed graphs


def _moved_updates(module: torch.fx.GraphModule) -> dict[torch.fx.Node, int]:
    """Turn the copies to inputs at the end of a graph into outputs.

    Returns the positions of these outputs, by the input that they are copied to.
    """
    contents: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder":
            target, value = node.args[:2]
            contents[target] = value
            node.replace_all_uses_with(value)
            module.graph.erase_node(node)
    output = module.graph.output_node()
    (results,) = output.args
    output.args = ((*results, *contents.values()),)
    return {node: len(results) + k for k, node in enumerate(contents)}


def _without_views(
    module: torch.fx.GraphModule, updates: Mapping[torch.fx.Node, int]
) -> tuple[torch.fx.GraphModule | None, dict[torch.fx.Node, int]]:
    """Remove the results of a graph that are inputs, views, or given twice.

    AOTAutograd and its callers rely on the memory of such results: they are views of the same
    elements, by offset and strides. Returns the graph of these views: its arguments are those of
    `module` and then the results that `module` has left, its results are the original ones. None if
    all results have separate memory. Also returns the new positions of the updates.
    """
    graph = module.graph
    (values,) = graph.output_node().args
    count = len(values) - len(updates)
    results, contents = values[:count], values[count:]
    owners: dict[int, torch.fx.Node] = {}
    for node in graph.nodes:
        memory = _memory(node)
        if memory is not None:
            owners.setdefault(memory, node)
    given = [node for node in graph.nodes if node.op == "placeholder"]
    made: dict[torch.fx.Node, None] = {}
    """The tensors and numbers that the graph still computes."""
    viewing: dict[torch.fx.Node, None] = {}
    """The nodes of the views, and of the sizes that these need, in order."""

    def visit(node: torch.fx.Node, is_result: bool) -> None:
        if node.op == "placeholder" or node in viewing:
            return
        memory = _memory(node)
        if is_result if memory is None else owners[memory] is node:
            made[node] = None
            return
        for source in node.all_input_nodes:
            visit(source, False)
        viewing[node] = None

    nodes = [node for node in results if isinstance(node, torch.fx.Node)]
    for node in nodes:
        visit(node, True)
    if list(made) == nodes:
        return None, dict(updates)
    views = torch.fx.Graph()
    copies = {node: views.placeholder(node.name) for node in (*given, *made)}
    for node in viewing:
        copies[node] = views.node_copy(node, copies.__getitem__)
    views.output(torch.fx.node.map_arg(tuple(results), copies.__getitem__))
    graph.output_node().args = ((*made, *contents),)
    for node in reversed(viewing):
        if not node.users:
            graph.erase_node(node)
    moved = {node: place - count + len(made) for node, place in updates.items()}
    return torch.fx.GraphModule(module, views), moved


def _memory(node: torch.fx.Node) -> int | None:
    """Return the identity of the memory of a tensor; None for other values."""
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _order(node: torch.fx.Node) -> _Order:
    """Return the order of axes that makes a tensor contiguous.

    None for a contiguous tensor, for one with gaps or repeated elements, and for other values.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    order = sorted(range(value.ndim), key=lambda k: (-value.stride(k), k))
    return order if value.permute(order).is_contiguous() else None


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _in_memory_order(
    module: torch.fx.GraphModule,
    holders: Sequence[torch.fx.Node],
    orders: Mapping[int, list[int]],
    updates: Mapping[torch.fx.Node, int],
) -> list[_Order]:
    """Permute the axes of a graph's inputs and outputs into the order of their memory.

    Then tensors in other formats, such as `torch.channels_last`, need no copies. Returns the orders
    of the results.
    """
    graph = module.graph
    last = holders[-1] if holders else None
    for k, order in orders.items():
        node, value = holders[k], holders[k].meta["val"]
        with graph.inserting_after(last):
            logical = _permuted(graph, node, _inverse(order), value)
        node.replace_all_uses_with(
            logical, delete_user_cb=lambda user, own=logical: user is not own
        )
        node.meta["val"] = value.permute(order)
    (values,) = graph.output_node().args
    wanted: list[_Order] = [
        _order(value) if isinstance(value, torch.fx.Node) else None for value in values
    ]
    for node, place in updates.items():
        wanted[place] = orders.get(holders.index(node))
    with graph.inserting_before(graph.output_node()):
        turned = [
            value
            if order is None
            else _permuted(graph, value, order, value.meta["val"].permute(order))
            for value, order in zip(values, wanted, strict=True)
        ]
    graph.output_node().args = (tuple(turned),)
    return wanted[: len(wanted) - len(updates)]


def _permuted(
    graph: torch.fx.Graph, node: torch.fx.Node, order: Sequence[int], value: torch.Tensor
) -> torch.fx.Node:
    made = graph.call_function(torch.ops.aten.permute.default, (node, list(order)))
    made.meta["val"] = value
    return made
