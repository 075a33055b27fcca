"""Operator fusion: groups of calls of tensor functions become graph functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.op_pattern import OP_PATTERN, OpPattern, op_pattern
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes.expr import BufferLoad, GlobalVar, IntImm, Var
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.calls import CALL_TIR, FRESH, VIEW, DestinationPassing, destination_passing
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from tensorir.relax.visit import GraphRewriter, used_vars
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.transform.fusion_groups import MAX_GROUP_SIZE, Node, fusion_groups
from tensorir.transform.pass_context import ModulePass, PassContext, PrimFuncPass
from tensorir.transform.rebuild_graph import PRIMITIVE, rewritten_graphs


class AnnotateTIROpPattern(PrimFuncPass):
    """Adds the kind of each tensor function (`OpPattern`) as its attribute `op_pattern`.

    Before: @T.prim_func(private=True)
            def relu(...): ...
    After:  the same, with T.func_attr({"op_pattern": 0})

    An existing attribute is kept.
    """

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """Return the function with its kind."""
        if OP_PATTERN in func.attrs:
            return func
        return func.with_attr(OP_PATTERN, int(op_pattern(func)))


FUSED_OPERATORS: Final = "fused_operators"
"""An attribute of a tensor function: the names of the operators that it computes, in order."""


def operators_of(func: PrimFunc, name: str, mod: IRModule) -> Sequence[str]:
    """Return the operators that a function computes, from its attribute or else from its name.

    A number that only makes a function's name unique is removed: `gelu1` is `gelu`, but `log2` is
    an operator.
    """
    stated = func.attrs.get(FUSED_OPERATORS)
    if stated is not None:
        return [str(operator) for operator in stated]
    plain = name.rstrip("0123456789")
    if plain == name:
        return [name]
    for end in range(len(name), len(plain) - 1, -1):
        if name[:end] in _operator_names():
            return [name[:end]]
    return [plain if plain in mod else name]


@cache
def _operator_names() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in Operator.names())


NAMED: Final = 8
"""The maximum number of operators in the name of a group."""


class FuseOps(ModulePass):
    """Groups calls into graph functions; `FuseTIR` turns each of these into one tensor function.

    Before: lv = R.call_tir(matmul, (x, w), ...); lv1 = R.call_tir(relu, (lv,), ...)
    After:  lv1 = fused_matmul_relu(x, w)
            and fused_matmul_relu, which is private and has the attribute Primitive

    A call is fused with the calls that use its result, up to its post-dominator (`fusion_groups`).
    The kinds of tensor functions (`OpPattern`) decide; a kind is the attribute that
    `AnnotateTIROpPattern` adds, or else it is detected. Views between fused calls become part of
    the function; views at its ends remain views. Constants are passed as arguments; equal functions
    are merged. `fuse_opt_level=0` disables fusion; the default is the level of the `PassContext`.
    """

    def __init__(self, fuse_opt_level: int = -1, max_group_size: int = MAX_GROUP_SIZE) -> None:
        if max_group_size < 1:
            raise IRValueError(f"max_group_size must be at least 1, got {max_group_size}")
        self.fuse_opt_level = fuse_opt_level
        self.max_group_size = max_group_size

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with grouped calls; `mod` itself if there are none."""
        level = ctx.opt_level if self.fuse_opt_level < 0 else self.fuse_opt_level
        if level == 0:
            return mod
        kinds = _Kinds(mod)
        return rewritten_graphs(
            mod,
            lambda builder: lambda func: _Fusing(func, kinds, builder, self.max_group_size)(func),
        )


class _Kinds:
    """The kinds of the tensor functions of a module."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._known: dict[str, tuple[OpPattern, frozenset[int]]] = {}
        self._counts: dict[str, Sequence[int]] = {}

    def of(self, call: DestinationPassing) -> OpPattern:
        """Return the kind of the function of a call."""
        if not isinstance(call.callee, GlobalVar) or not all(map(_is_known_tensor, call.args)):
            return OpPattern.OPAQUE
        pattern, written = self._of_function(call.callee.name)
        return OpPattern.OPAQUE if any(k < len(call.args) for k in written) else pattern

    def reads(self, value: g.GraphExpr) -> list[g.GraphVar]:
        """Return the variables that a value uses, each repeated for every load of it in the called
        function.
        """
        call = destination_passing(value)
        if call is None or not isinstance(call.callee, GlobalVar):
            return list(used_vars(value))
        counts = self._read_counts(call.callee.name)
        found: list[g.GraphVar] = []
        for k, arg in enumerate(call.args):
            times = max(1, counts[k] if k < len(counts) else 0)
            found += [var for var in used_vars(arg) for _ in range(times)]
        return found

    def _read_counts(self, name: str) -> Sequence[int]:
        """Return the number of loads of each parameter in a function."""
        if name not in self._counts:
            func = self._mod.functions.get(name)
            self._counts[name] = []
            if isinstance(func, PrimFunc):
                loads = Counter(n.buffer for n in walk(func.body) if isinstance(n, BufferLoad))
                buffers = (func.buffer_map.get(param) for param in func.params)
                self._counts[name] = [0 if b is None else loads[b] for b in buffers]
        return self._counts[name]

    def name(self, bindings: Sequence[g.VarBinding]) -> str:
        """Return a name for the function of a group: its operators."""
        names: list[str] = []
        for binding in bindings:
            call = destination_passing(binding.value)
            if call is not None and isinstance(call.callee, GlobalVar):
                callee = call.callee.name
                names += operators_of(self._mod.prim_func(callee), callee, self._mod)
        if len(names) > NAMED:
            names[NAMED:] = [f"and_{len(names) - NAMED}_more"]
        return "_".join(["fused", *names]).replace(".", "_")

    def _of_function(self, name: str) -> tuple[OpPattern, frozenset[int]]:
        """Return the kind of a function, and the positions of parameters that it writes."""
        if name not in self._known:
            func = self._mod.functions.get(name)
            if isinstance(func, PrimFunc):
                written = set(written_parameters(func))
                positions = frozenset(k for k, p in enumerate(func.params) if p in written)
                self._known[name] = _stated_pattern(func, name), positions
            else:
                self._known[name] = OpPattern.OPAQUE, frozenset()
        return self._known[name]


def _stated_pattern(func: PrimFunc, name: str) -> OpPattern:
    stated = func.attrs.get(OP_PATTERN)
    found = op_pattern(func)
    if stated is None or found is OpPattern.OPAQUE:
        return found
    value = stated.value if isinstance(stated, IntImm) else stated
    if value not in {int(kind) for kind in OpPattern}:
        raise IRTypeError(
            f"the attribute {OP_PATTERN} of {name} must be one of "
            f"{', '.join(f'{k.value} ({k.name.lower()})' for k in OpPattern)}, got {value!r}"
        )
    return OpPattern(value)


def _is_known_tensor(value: g.GraphExpr) -> bool:
    info = value.struct_info
    return isinstance(info, TensorStructInfo) and None not in (info.shape, info.dtype)


class _Fusing(GraphRewriter):
    """Rewrites one function."""

    def __init__(self, func: Function, kinds: _Kinds, builder: BlockBuilder, limit: int) -> None:
        super().__init__()
        self._kinds = kinds
        self._builder = builder
        self._limit = limit
        self._uses = Counter(used_vars(func.body))

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block: each run of bindings without effects and branches is a graph."""
        created: list[g.Binding] = []
        run: list[g.VarBinding] = []
        for binding in node.bindings:
            if isinstance(binding, g.VarBinding) and self._is_value(binding.value):
                run.append(binding)
                continue
            created += self._fuse_run(run)
            run = []
            created += self.binding(binding)
        created += self._fuse_run(run)
        same = len(created) == len(node.bindings) and all(
            a is b for a, b in zip(created, node.bindings, strict=True)
        )
        return node if same else node.with_(bindings=created)

    def _is_value(self, value: g.GraphExpr) -> bool:
        """Return True if a value may be computed later."""
        if isinstance(value, g.GraphCall):
            return destination_passing(value) is not None or value.op is VIEW
        return isinstance(value, (g.GraphVar, g.Tuple, g.TupleGetItem, g.Constant))

    def _fuse_run(self, run: Sequence[g.VarBinding]) -> list[g.Binding]:
        """Return the bindings that replace a run."""
        if len(run) < 2:
            return list(run)
        position = {binding.var: k for k, binding in enumerate(run)}
        used = [list(used_vars(binding.value)) for binding in run]
        read = [self._kinds.reads(binding.value) for binding in run]
        inside = Counter(var for variables in used for var in variables)
        nodes = [
            Node(
                self._pattern(binding.value),
                [position[var] for var in variables if var in position],
                self._uses[binding.var] != inside[binding.var],
            )
            for binding, variables in zip(run, read, strict=True)
        ]
        members: dict[int, list[int]] = {}
        for k, number in enumerate(fusion_groups(nodes, self._limit)):
            members.setdefault(number, []).append(k)
        result: list[g.Binding | None] = list(run)
        for group in members.values():
            inner = _trim_free_ends(group, nodes, [_is_free(run[k].value) for k in group])
            calls = [k for k in inner if not _is_free(run[k].value)]
            if len(calls) < 2:
                continue
            for k in inner:
                result[k] = None
            result[inner[-1]] = self._call([run[k] for k in inner])
        return [binding for binding in result if binding is not None]

    def _pattern(self, value: g.GraphExpr) -> OpPattern:
        if isinstance(value, g.TupleGetItem):
            return OpPattern.INJECTIVE
        if not isinstance(value, g.GraphCall):
            return OpPattern.OPAQUE
        if value.op is VIEW:
            return OpPattern.INJECTIVE
        call = destination_passing(value)
        if call is None or value.op is not CALL_TIR or any(k != FRESH for k in call.inplace):
            return OpPattern.OPAQUE
        return self._kinds.of(call)

    def _call(self, bindings: Sequence[g.VarBinding]) -> g.VarBinding:
        """Return the binding of the result of a group, a call of its function."""
        func, args = _group_function(bindings)
        gvar = self._builder.add_func(func, self._kinds.name(bindings))
        last = bindings[-1]
        call = g.GraphCall(gvar, args, struct_info=last.value.struct_info)
        return last.with_(value=call)


def _is_free(value: g.GraphExpr) -> bool:
    """Return True if a value needs no kernel: a view or a field of a tuple."""
    return isinstance(value, g.TupleGetItem) or (
        isinstance(value, g.GraphCall) and value.op is VIEW
    )


def _trim_free_ends(group: Sequence[int], nodes: Sequence[Node], free: Sequence[bool]) -> list[int]:
    """Return the members of a group, without free members at its ends: no producer or user in the
    group.
    """
    kept = dict(zip(group, free, strict=True))
    changed = True
    while changed:
        changed = False
        used = {source for k in kept for source in nodes[k].inputs}
        for k, is_free in list(kept.items()):
            if is_free and (k not in used or not any(s in kept for s in nodes[k].inputs)):
                del kept[k]
                changed = True
    return list(kept)


# --------------------------------------------------------------------------------- the new function


def _group_function(bindings: Sequence[g.VarBinding]) -> tuple[Function, Sequence[g.GraphExpr]]:
    """Return the function of some bindings, which returns the value of the last one, and its
    arguments.
    """
    inside = _Outliner({binding.var for binding in bindings})
    *before, last = [binding for old in bindings for binding in inside.binding(old)]
    result = g.GraphVar(last.var.name, last.value.struct_info)
    block = g.DataflowBlock([*before, g.VarBinding(result, last.value)])
    args = list(inside.params)
    params = list(inside.params.values())
    missing = _undefined_sizes(params, block)
    if missing:
        params.append(g.GraphVar("sizes", ShapeStructInfo(missing)))
        args.append(g.ShapeExpr(missing))
    func = Function(params, g.SeqExpr([block], result), attrs={PRIMITIVE: True})
    return renew_defs(func), args


def _undefined_sizes(params: Sequence[g.GraphVar], block: g.DataflowBlock) -> list[Var]:
    """Return the symbolic sizes in a block that no parameter defines."""
    defined: set[Var] = set()
    for param in params:
        shape = g.tensor_info(param).shape
        defined.update(n for n in shape or () if isinstance(n, Var))
    used: dict[Var, None] = {}
    for info in (
        *(param.struct_info for param in params),
        *(binding.var.struct_info for binding in block.bindings),
    ):
        used.update(dict.fromkeys(collect_vars(info)))
    for node in walk(block):
        if isinstance(node, g.ShapeExpr):
            used.update(dict.fromkeys(collect_vars(node)))
    return [var for var in used if var not in defined]


class _Outliner(GraphRewriter):
    """Rewrites bindings for a separate function; outside values become its parameters."""

    def __init__(self, inside: set[g.GraphVar]) -> None:
        super().__init__()
        self._inside = inside
        self.params: dict[g.GraphExpr, g.GraphVar] = {}
        """The outside values and their parameters, in order of first use."""
        self._constants = 0

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding to a variable that is local to the new function."""
        value = self(node.value)
        var = g.DataflowVar(node.var.name, value.struct_info)
        self.replaced[node.var] = var
        return (g.VarBinding(var, value),)

    def rewrite_GraphVar(self, node: g.GraphVar) -> g.GraphExpr:  # noqa: N802
        """Return the replacement of a variable: a parameter if it is bound outside."""
        if node in self._inside:
            return self.replaced[node]
        return self._param(node, node.name)

    def rewrite_Constant(self, node: g.Constant) -> g.GraphExpr:  # noqa: N802
        """Return the parameter for a constant."""
        if node not in self.params:
            self._constants += 1
        return self._param(node, f"param_{self._constants - 1}")

    def _param(self, node: g.GraphExpr, name: str) -> g.GraphVar:
        if node not in self.params:
            self.params[node] = g.GraphVar(name, node.struct_info)
        return self.params[node]
