"""Merging of grouped calls into tensor functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, noting
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.op_pattern import OP_PATTERN, root_computes
from tensorir.memory.reshaping import flatten_indices, unravel_index
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range, decl_buffer
from tensorir.nodes.dtype import HANDLE, INT64
from tensorir.nodes.expr import Cast, GlobalVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, cast
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.call_graph import names_of_callees, remove_unreferenced
from tensorir.relax.calls import CALL_TIR, VIEW, DestinationPassing, call_tir, destination_passing
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import FreshCopy
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.script.parts import complete_block
from tensorir.simplify import simplify
from tensorir.te.index_dtype import with_index_dtype
from tensorir.transform.fuse_ops import FUSED_OPERATORS, operators_of
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions
from tensorir.transform.rebuild_graph import PRIMITIVE

_Place: TypeAlias = "Buffer | tuple[_Place, ...]"
"""The buffer of a value of a group; for a tuple, of each of its fields."""


class FuseTIR(ModulePass):
    """Turns each graph function with the attribute `Primitive` into one tensor function.

    Before: lv1 = fused_matmul_relu(x, w)
    After:  lv1 = R.call_tir(fused_matmul_relu, (x, w), out_sinfo=...)

    The function has the loops of all called functions, one after the other, with buffers for
    intermediate values; a schedule merges them. Views between them become loops. Indices are int64.
    The attribute `fused_operators` names the operators of the function. Private functions without
    callers are removed, and so is the attribute `op_pattern`.

    Raises IRTypeError for a `Primitive` function that does more than call tensor functions.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with each group of fused calls as one tensor function."""
        groups = {n: f for n, f in graph_functions(mod).items() if PRIMITIVE in f.attrs}
        result = IRModule(
            {name: _without_pattern(func) for name, func in mod.functions.items()}, mod.attrs
        )
        created: dict[str, _Fused] = {}
        for name, func in groups.items():
            with noting(f"in the function {name}"):
                created[name] = _Fused(mod, func)
            result[name] = created[name].build()
        if not created:
            return result
        result = map_functions(result, lambda func: _Calls(created)(func))
        remove_unreferenced(result, names_of_callees(groups))
        return result


def _without_pattern(func: Any) -> Any:
    if isinstance(func, PrimFunc) and OP_PATTERN in func.attrs:
        return func.without_attr(OP_PATTERN)
    return func


class _Calls(GraphRewriter):
    """Replaces calls of graph functions by calls of tensor functions."""

    def __init__(self, created: dict[str, _Fused]) -> None:
        super().__init__()
        self._made = created

    def rewrite_GraphCall(self, node: g.GraphCall) -> g.GraphExpr:  # noqa: N802
        """Return the call of the tensor function that replaces a call of a group."""
        new: g.GraphCall = self.generic(node)
        fused = self._made.get(new.op.name) if isinstance(new.op, GlobalVar) else None
        return new if fused is None else fused.called(new)


class _Fused:
    """The tensor function that a graph function becomes."""

    def __init__(self, mod: IRModule, func: Function) -> None:
        self._mod = mod
        self._func = func
        self._params: list[Var] = []
        self._buffer_map: dict[Var, Buffer] = {}
        self._sizes: list[Var] = []
        self._places: dict[g.GraphVar, _Place] = {}
        self._buffer_names = UniqueNames()
        self._block_names = UniqueNames(separator="_")
        self._allocated: list[Buffer] = []
        self._body: list[s.Stmt] = []
        self._operators: list[str] = []
        for param in func.params:
            self._add_param(param)

    def build(self) -> PrimFunc:
        """Return the tensor function."""
        for binding in self._func.body.bindings:
            if not isinstance(binding, g.VarBinding):
                raise _conversion_error(f"it checks {binding.var.name} by match_cast")
            self._places[binding.var] = self._value(binding.value)
        inputs = set(self._buffer_map.values())
        outputs = _buffers(self._place(self._func.body.body))
        if len(set(outputs)) != len(outputs) or not inputs.isdisjoint(outputs):
            raise _conversion_error("each of its results must be the output of another call")
        for k, buffer in enumerate(outputs):
            handle = Var(f"p_output{k}", HANDLE)
            self._params.append(handle)
            self._buffer_map[handle] = buffer
        local = [buffer for buffer in self._allocated if buffer not in outputs]
        root = s.Block((), (), (), "root", s.sequence(self._body), alloc_buffers=local)
        return PrimFunc(
            [*self._params, *self._sizes],
            s.BlockRealize((), TRUE, root),
            buffer_map=self._buffer_map,
            attrs={"tir.noalias": True, FUSED_OPERATORS: self._operators},
        )

    def called(self, call: g.GraphCall) -> g.GraphCall:
        """Return the call of the tensor function that replaces a call of the graph function."""
        assert isinstance(call.op, GlobalVar)
        tensors: list[g.GraphExpr] = []
        sizes: list[PrimExpr] = []
        for param, arg in zip(self._func.params, call.args, strict=True):
            assert isinstance(arg, g.GraphExpr)
            if isinstance(param.struct_info, TensorStructInfo):
                tensors.append(arg)
            else:
                sizes += _size_arguments(arg)
        info = call.struct_info
        outputs = info.elements if isinstance(info, TupleStructInfo) else info
        return call_tir(call.op, tensors, outputs, sizes or None)

    # --------------------------------------------------------------------------------------- values

    def _add_param(self, param: g.GraphVar) -> None:
        info = param.struct_info
        if isinstance(info, TensorStructInfo):
            handle = Var(f"p_{param.name}", HANDLE)
            self._params.append(handle)
            self._buffer_map[handle] = buffer = self._buffer(info, param.name)
            self._places[param] = buffer
            return
        known: Sequence[PrimExpr] | None = None
        if isinstance(info, ShapeStructInfo):
            known = info.values
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            known = (info.value,)
        sizes = [n for n in known or () if isinstance(n, Var)]
        if known is None or len(sizes) != len(known):
            raise _conversion_error(
                f"its parameter {param.name} is {info}, expected a tensor or symbolic sizes"
            )
        self._sizes += sizes

    def _buffer(self, info: StructInfo, name: str) -> Buffer:
        if not isinstance(info, TensorStructInfo) or info.shape is None or info.dtype is None:
            raise _conversion_error(f"{name} is {info}, not a tensor of known shape and dtype")
        return decl_buffer(info.shape, info.dtype, self._buffer_names.unique(name))

    def _value(self, value: g.GraphExpr) -> _Place:
        call = destination_passing(value)
        if call is not None and isinstance(value, g.GraphCall) and value.op is CALL_TIR:
            assert isinstance(call.callee, GlobalVar)
            callee = self._mod.prim_func(call.callee.name)
            self._operators += operators_of(callee, call.callee.name, self._mod)
            outputs = self._inline_function(callee, call)
            return tuple(outputs) if call.gives_tuple else outputs[0]
        if isinstance(value, g.GraphCall) and value.op is VIEW:
            return self._fill_view(value)
        if isinstance(value, g.GraphCall):
            raise _conversion_error(f"it calls {value.op}, not a tensor function")
        return self._place(value)

    def _place(self, value: g.GraphExpr) -> _Place:
        """Return the buffers of a computed value."""
        if isinstance(value, g.GraphVar) and value in self._places:
            return self._places[value]
        if isinstance(value, g.Tuple):
            return tuple(map(self._place, value.elements))
        if isinstance(value, g.TupleGetItem):
            whole = self._place(value.tuple_value)
            assert isinstance(whole, tuple)
            return whole[value.index]
        raise _conversion_error(
            f"it uses {value}, which is not one of its tensors; pass it as a parameter"
        )

    def _fill_view(self, view: g.GraphCall) -> Buffer:
        """Return the buffer of a view, after appending the loops that fill it."""
        source, info = view.args[0], view.struct_info
        assert isinstance(source, g.GraphExpr)
        whole = self._place(source)
        assert isinstance(whole, Buffer)
        assert isinstance(info, TensorStructInfo)
        assert info.shape is not None
        callee, sizes = reshape_function(whole.shape, info.shape, whole.dtype)
        call = call_tir(GlobalVar("reshape"), [source], info, sizes)
        parts = destination_passing(call)
        assert parts is not None
        return self._inline_function(callee, parts)[0]

    # ----------------------------------------------------------------------------- the called loops

    def _inline_function(self, callee: PrimFunc, call: DestinationPassing) -> list[Buffer]:
        """Append the loops of a function; return its outputs."""
        callee = _with_wide_indices(callee)
        tensors = [param for param in callee.params if param in callee.buffer_map]
        scalars = [param for param in callee.params if param not in callee.buffer_map]
        given = [_one_buffer(self._place(arg)) for arg in call.args]
        names = [callee.buffer_map[param].name for param in tensors[len(given) :]]
        outputs = [
            self._buffer(info, f"{name}_intermediate")
            for name, info in zip(names, call.outputs, strict=True)
        ]
        self._allocated += outputs
        buffers = {
            callee.buffer_map[param]: new
            for param, new in zip(tensors, [*given, *outputs], strict=True)
        }
        values = dict(zip(scalars, call.scalars, strict=True))
        copy = _Inlining(_sizes(buffers, values), buffers, self._buffer_names, self._block_names)
        body = self._copied_body(callee, copy)
        if any(not buffer.has_constant_layout for buffer in buffers):
            body = simplify(body)
        self._body.append(body)
        return outputs

    def _copied_body(self, callee: PrimFunc, copy: _Inlining) -> s.Stmt:
        assert isinstance(callee.body, s.BlockRealize)
        root = callee.body.block
        if root_computes(root):
            return s.BlockRealize((), TRUE, copy.with_regions(copy(root)))
        inner = copy.generic(root)
        self._allocated += inner.alloc_buffers
        return inner.body


class _Inlining(FreshCopy):
    """Copies the loops of a called function, with its parameters replaced by buffers."""

    def __init__(
        self,
        values: Mapping[Var, PrimExpr],
        buffers: Mapping[Buffer, Buffer],
        buffer_names: UniqueNames,
        block_names: UniqueNames,
    ) -> None:
        super().__init__(values, buffers)
        self._buffer_names = buffer_names
        self._block_names = block_names
        self._are_distinct = len(set(buffers.values())) == len(buffers)

    def block_name(self, block: s.Block) -> str:
        """Return a name that no other block of the new function has."""
        return self._block_names.unique(block.name_hint)

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return the new buffer that replaces a buffer of the called function."""
        name = self._buffer_names.unique(buffer.name)
        self._values[buffer.data] = buffer.data.with_name(name)
        new = self._buffers[buffer] = self._with_layout(buffer).with_(name=name)
        return new

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        """Copy a block; if two parameters are the same buffer, their regions are united."""
        new = super().rewrite_Block(node)
        return new if self._are_distinct else self.with_regions(new)

    def with_regions(self, block: s.Block) -> s.Block:
        """Return a block with its read and write regions declared."""
        visible = {buffer.data: buffer for buffer in self._buffers.values()}
        return complete_block(block, (True, True), visible)


def reshape_function(
    source: Sequence[PrimExpr], target: Sequence[PrimExpr], dtype: str
) -> tuple[PrimFunc, Sequence[Var]]:
    """Return the function that copies a tensor to a tensor of another shape, in row-major order.

    Symbolic sizes that are not a dimension of either shape are its last parameters.
    """
    tensor = te.placeholder(source, dtype, "A")

    def element(*indices: Var) -> PrimExpr:
        analyzer = Analyzer()
        for index, extent in zip(indices, target, strict=True):
            analyzer.bind(index, Range(extent))
        position = analyzer.simplify(flatten_indices(indices, target))
        found: PrimExpr = tensor[tuple(map(analyzer.simplify, unravel_index(position, source)))]
        return found

    result = te.compute(target, element, "T_reshape")
    sizes = dict.fromkeys(v for n in (*source, *target) for v in collect_vars(n))
    free = [v for v in sizes if not any(v is n for n in (*source, *target))]
    return te.create_prim_func([tensor, result, *free], "int64"), free


def _sizes(
    buffers: Mapping[Buffer, Buffer], scalars: Mapping[Var, PrimExpr]
) -> dict[Var, PrimExpr]:
    """Return the symbolic sizes of a function for its arguments."""
    values = dict(scalars)
    for old, new in buffers.items():
        for extent, actual in zip(old.shape, new.shape, strict=True):
            var = extent.value if isinstance(extent, Cast) else extent
            if isinstance(var, Var):
                values.setdefault(var, cast(var.dtype, actual))
    return values


def _with_wide_indices(func: PrimFunc) -> PrimFunc:
    """Return a function whose indices are int64, as extents of graph functions are."""
    extents = [extent for buffer in func.buffer_map.values() for extent in buffer.shape]
    scalars = [param for param in func.params if param not in func.buffer_map]
    loops = [node.loop_var for node in walk(func.body) if isinstance(node, s.For)]
    is_wide = all(node.dtype is INT64 for node in (*extents, *scalars, *loops))
    return func if is_wide else with_index_dtype(func, "int64")


def _buffers(place: _Place) -> list[Buffer]:
    if isinstance(place, Buffer):
        return [place]
    return [buffer for field in place for buffer in _buffers(field)]


def _one_buffer(place: _Place) -> Buffer:
    if not isinstance(place, Buffer):
        raise _conversion_error("an argument of a tensor function is a tuple")
    return place


def _size_arguments(value: g.GraphExpr) -> Sequence[PrimExpr]:
    """Return the integers in an argument that is a shape or a scalar."""
    if isinstance(value, g.ShapeExpr):
        return value.values
    if isinstance(value, g.PrimValue):
        return (value.value,)
    raise _conversion_error(f"a call passes {value} for symbolic sizes; write R.shape([...])")


def _conversion_error(reason: str) -> IRTypeError:
    return IRTypeError(f"a Primitive function cannot become a tensor function: {reason}")
