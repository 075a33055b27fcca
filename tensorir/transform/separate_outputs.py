"""Splitting of a function: separate functions for its results, for its first and for its last
stage.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import HANDLE
from tensorir.nodes.expr import BufferLoad, GlobalVar, Var
from tensorir.nodes.ops import TRUE
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.calls import CALL_TIR, DestinationPassing, call_tir, destination_passing
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.transform.fuse_ops import FUSED_OPERATORS, operators_of
from tensorir.transform.pass_context import ModulePass, PassContext
from tensorir.transform.rebuild_graph import rewritten_graphs

Stages: TypeAlias = Sequence[s.Stmt]
"""Loop nests of a function, each of which stores to one buffer."""


class SeparateOutputs(ModulePass):
    """Computes parts of a function by separate functions, which later passes can fuse or remove.

    Before: lv = R.call_tir(split, (x,), [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
            a = lv[0]; b = lv[1]
    After:  a = R.call_tir(split_0, (x,), R.Tensor((2,), "float32"))
            b = R.call_tir(split_1, (x,), R.Tensor((2,), "float32"))

    If a function moves or transforms single elements (`OpPattern.INJECTIVE` at most), each result
    gets its own function, which can be fused with its user; no output may depend on another one. In
    other functions, a first stage that depends only on constants gets its own function, which can
    be folded, and so does a last stage that moves elements, which can become a view or be fused.
    Their shapes must be constant.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with a call for each part."""
        return rewritten_graphs(mod, lambda builder: _Separating(mod, builder))


class Part(NamedTuple):
    """The function of some stages, with the buffers of its arguments and of its result, and its
    sizes.
    """

    func: PrimFunc
    stages: Stages
    inputs: Sequence[Buffer]
    output: Buffer
    scalars: Sequence[int]


class _Separating(GraphRewriter):
    def __init__(self, mod: IRModule, builder: BlockBuilder) -> None:
        super().__init__()
        self._mod = mod
        self._builder = builder
        self._parts: dict[tuple[str, tuple[int, ...]], Sequence[tuple[GlobalVar, Part]]] = {}

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the calls of each part, or the binding itself."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        value = new.value
        call = destination_passing(value)
        if call is None or not isinstance(new, g.VarBinding) or value.op is not CALL_TIR:  # type: ignore[attr-defined]
            return rebuilt
        func = self._mod.functions.get(call.callee.name)  # type: ignore[union-attr]
        if not isinstance(func, PrimFunc):
            return rebuilt
        parts = self._parts_of(call.callee.name, func, call)  # type: ignore[union-attr]
        if not parts:
            return rebuilt
        tensors = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
        values = dict(zip(tensors, call.args, strict=False))
        results = dict(zip(tensors[len(call.args) :], call.outputs, strict=True))
        is_local = isinstance(new.var, g.DataflowVar) or not call.gives_tuple
        kind = self.inner if is_local else type(new.var)
        bindings: list[g.VarBinding] = []
        for k, (gvar, part) in enumerate(parts):
            info = results.get(part.output) or TensorStructInfo(
                part.output.shape, part.output.dtype
            )
            sizes = [call.scalars[j] for j in part.scalars]
            one = call_tir(gvar, [values[b] for b in part.inputs], info, sizes or None)
            bindings.append(g.VarBinding(kind(f"{new.var.name}_{k}", info), one))
            values[part.output] = bindings[-1].var
        if not call.gives_tuple:
            return [*bindings[:-1], new.with_(value=bindings[-1].value)]
        return [*bindings, new.with_(value=g.Tuple(values[buffer] for buffer in results))]

    def _parts_of(
        self, name: str, func: PrimFunc, call: DestinationPassing
    ) -> Sequence[tuple[GlobalVar, Part]]:
        """Return the functions of the parts of a function.

        The list is empty if it cannot be separated.
        """
        constant = tuple(k for k, arg in enumerate(call.args) if isinstance(arg, g.Constant))
        if (name, constant) not in self._parts:
            tensors = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
            count, operators = len(call.args), operators_of(func, name, self._mod)
            parts = (
                _each_result(func, tensors[:count], tensors[count:])
                if call.gives_tuple
                else _with_separate_ends(func, {tensors[k] for k in constant})
            )
            self._parts[name, constant] = [
                (
                    self._builder.add_func(
                        renew_defs(part.func.with_attr(FUSED_OPERATORS, operators)), f"{name}_{k}"
                    ),
                    part,
                )
                for k, part in enumerate(parts)
            ]
        return self._parts[name, constant]


def _each_result(func: PrimFunc, given: Sequence[Buffer], results: Sequence[Buffer]) -> list[Part]:
    """Return the part of each result; an empty list if the results depend on each other."""
    if op_pattern(func) > OpPattern.INJECTIVE:
        return []
    stages = {stored(stage): stage for stage in stages_of(func)}
    if stages.keys() != {*results} or len(stages_of(func)) != len(results):
        return []
    if not all(loaded(stage) <= {*given} for stage in stages.values()):
        return []
    return [part_of(func, [stages[buffer]]) for buffer in results]


def _with_separate_ends(func: PrimFunc, constant: Collection[Buffer]) -> list[Part]:
    """Return a constant first stage, the middle stages, and a last stage that moves elements."""
    if not OpPattern.INJECTIVE < op_pattern(func) < OpPattern.TUPLE:
        return []
    *stages, last = stages_of(func)
    result = {stored(stage) for stage in stages}
    if result & {*func.buffer_map.values()} or not all(b.has_constant_layout for b in result):
        return []
    first = [stage for stage in stages if loaded(stage) and loaded(stage) <= {*constant}][:1]
    middle = [stage for stage in stages if stage not in first]
    if middle and loaded(last) == {stored(middle[-1])} and _moves_elements(last):
        groups = [first, middle, [last]]
    else:
        groups = [first, [*middle, last]]
    parts = [part_of(func, group) for group in groups if group]
    return parts if len(parts) > 1 else []


def _moves_elements(stage: s.Stmt) -> bool:
    """Return True if a stage only moves elements, as a reshape or a slice does."""
    stores = [node for node in walk(stage) if isinstance(node, s.BufferStore)]
    return all(isinstance(store.value, BufferLoad) for store in stores)


def stages_of(func: PrimFunc) -> Stages:
    """Return the loop nests of a function that is not opaque."""
    assert isinstance(func.body, s.BlockRealize)
    body = func.body.block.body
    return body.seq if isinstance(body, s.SeqStmt) else (body,)


def stored(stage: s.Stmt) -> Buffer:
    """Return the buffer of a stage of a function that is not opaque."""
    return next(node.buffer for node in walk(stage) if isinstance(node, s.BufferStore))


def loaded(stage: s.Stmt) -> set[Buffer]:
    """Return the other buffers that a stage loads."""
    own = stored(stage)
    found = {node.buffer for node in walk(stage) if isinstance(node, BufferLoad)}
    return found - {own}


def part_of(func: PrimFunc, stages: Stages) -> Part:
    """Return the function of some stages; its result is the buffer that the last one stores."""
    result = [stored(stage) for stage in stages]
    read = {b: None for stage in stages for b in loaded(stage) if b not in result}
    order = [*func.buffer_map.values()]
    inputs = sorted(read, key=lambda b: order.index(b) if b in order else len(order))
    params = {buffer: param for param, buffer in func.buffer_map.items()}
    tensors = {params.get(b, Var(b.name, HANDLE)): b for b in (*inputs, result[-1])}
    shapes = [extent for buffer in tensors.values() for extent in buffer.shape]
    used = {var for node in (*stages, *shapes) for var in collect_vars(node)}
    scalars = [param for param in func.params if param not in func.buffer_map]
    sizes = [k for k, param in enumerate(scalars) if param in used]
    assert isinstance(func.body, s.BlockRealize)
    root = func.body.block.with_(body=s.sequence(stages), alloc_buffers=result[:-1])
    alone = PrimFunc(
        [*tensors, *(scalars[k] for k in sizes)],
        s.BlockRealize((), TRUE, root),
        buffer_map=tensors,
        attrs=func.attrs.without("global_symbol"),
    )
    return Part(alone, stages, inputs, result[-1], sizes)
