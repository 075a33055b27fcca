"""Concatenations and slices without copies: functions access slices of the whole tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, decl_buffer
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import BufferLoad, GlobalVar, IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.call_graph import names_of_callees, remove_unreferenced
from tensorir.relax.calls import (
    CALL_TIR,
    VIEW,
    call_tir,
    call_tir_inplace,
    destination_passing,
)
from tensorir.relax.struct_info import StructInfo
from tensorir.relax.visit import GraphRewriter, used_vars
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import walk
from tensorir.script.parts import complete_block
from tensorir.transform.pass_context import ModulePass, PassContext
from tensorir.transform.rebuild_graph import rewritten_graphs
from tensorir.transform.separate_outputs import Part, Stages, loaded, part_of, stages_of, stored

SHORTEST_RUN: Final = 32
"""The minimum length in bytes of the contiguous pieces of a slice: shorter ones cannot use vectors.
"""


class ConcatInPlace(ModulePass):
    """Computes the parts of concatenations in the result, and reads slices from the original
    tensor.

    Before: a = R.call_tir(f, (x,), R.Tensor((4, 16), "float32"))
            b = R.call_tir(h, (a,), R.Tensor((4, 16), "float32"))
            c = R.call_tir(concat, (x, b), R.Tensor((4, 32), "float32"))
    After:  a = R.call_tir(f, (x,), R.Tensor((4, 16), "float32"))
            b = R.call_tir(h1, (a,), R.Tensor((4, 32), "float32"))    # writes to [:, 16:]
            c = R.call_tir_inplace(copy, (x, b), R.Tensor((4, 32), "float32"), [1])

    Functions that compute or read a part or a slice get the whole tensor instead. A part is copied
    into the result if no tensor function computes it, if it has other uses than tensor functions,
    or if it is in another concatenation already. Tensors of fewer than `smallest` bytes are not
    changed, nor is a concatenation if none of its parts can be in place. Shapes must be constant.
    """

    def __init__(self, smallest: int = 1 << 14) -> None:
        """Set the minimum size in bytes of concatenations and slices that are changed."""
        self.smallest = smallest

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with parts in place, and without functions that lost their callers."""
        functions = _Functions(mod)
        after = rewritten_graphs(mod, lambda builder: _Placing(builder, functions, self.smallest))
        remove_unreferenced(after, names_of_callees(mod.functions))
        return after


# -------------------------------------------------------------------------------- functions


class _Piece(NamedTuple):
    """A part of a concatenation along an axis: an argument, or the stages that compute it."""

    begin: int
    extent: int
    value: int | Part


class _Concat(NamedTuple):
    axis: int
    pieces: Sequence[_Piece]


class _Call(NamedTuple):
    """A call with one result of a function that only loads and stores elements."""

    name: str
    func: PrimFunc
    args: Sequence[g.GraphExpr]
    scalars: Sequence[PrimExpr]
    concat: _Concat | None
    """The concatenation in its last stage, if there is one."""
    begins: Sequence[int] | None
    """The first indices of the slice of its argument, if the function only copies a slice."""

    def inputs(self, piece: _Piece) -> Sequence[g.GraphExpr]:
        """Return the arguments that a part of the concatenation copies or depends on."""
        if isinstance(piece.value, int):
            return [self.args[piece.value]]
        buffers = [self.func.buffer_map.get(param) for param in self.func.params]
        return [self.args[buffers.index(buffer)] for buffer in piece.value.inputs]


class _Functions:
    """The tensor functions of a module."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._known: dict[str, _Call | None] = {}

    def call(self, value: object) -> _Call | None:
        """Return a call of a function that only loads and stores elements, with one result."""
        call = destination_passing(value)
        if call is None or call.gives_tuple or not isinstance(call.callee, GlobalVar):
            return None
        if not isinstance(value, g.GraphCall) or value.op is not CALL_TIR:
            return None
        name = call.callee.name
        if name not in self._known:
            func = self._mod.functions.get(name)
            is_plain = (
                isinstance(func, PrimFunc)
                and op_pattern(func) is not OpPattern.OPAQUE
                and written_parameters(func) == [func.params[len(call.args)]]
            )
            self._known[name] = (
                _Call(name, func, (), (), _concatenated_parts(func), _copied_slice(func))
                if is_plain and isinstance(func, PrimFunc)
                else None
            )
        found = self._known[name]
        return None if found is None else found._replace(args=call.args, scalars=call.scalars)


def _result(func: PrimFunc) -> tuple[Stages, list[Var], s.BufferStore] | None:
    """Return the stages before the last one, and the axes and the store of the last one."""
    *before, last = stages_of(func)
    for node in walk(last):
        if isinstance(node, s.Block) and isinstance(node.body, s.BufferStore):
            axes, store = [axis.var for axis in node.iter_vars], node.body
            if axes and list(store.indices) == axes and store.buffer.has_constant_layout:
                return before, axes, store
    return None


def _distances(value: PrimExpr, axes: Sequence[Var]) -> list[int] | None:
    """Return the offsets of loaded elements from the computed element; None if they differ."""
    if not isinstance(value, BufferLoad) or len(value.indices) != len(axes):
        return None
    analyzer = Analyzer()
    found = [analyzer.simplify(i - axis) for i, axis in zip(value.indices, axes, strict=True)]
    known = [n.value for n in found if isinstance(n, IntImm)]
    return known if len(known) == len(axes) and value.buffer.has_constant_layout else None


def _copied_slice(func: PrimFunc) -> Sequence[int] | None:
    """Return the first indices of the slice that a function copies; None for other functions."""
    found = _result(func)
    if found is None or found[0] or len(func.params) != 2:
        return None
    return _distances(found[2].value, found[1])


def _concatenated_parts(func: PrimFunc) -> _Concat | None:
    """Return the parts of the concatenation in the last stage of a function."""
    found = _result(func)
    if found is None:
        return None
    before, axes, store = found
    starts: list[tuple[int, int, PrimExpr]] = []
    value = store.value
    while isinstance(value, e.Call) and getattr(value.op, "short_name", "") == "if_then_else":
        is_second_part, own, value = value.args
        if not isinstance(is_second_part, e.LE) or not isinstance(is_second_part.a, IntImm):
            return None
        if not isinstance(is_second_part.b, Var) or is_second_part.b not in axes:
            return None
        starts.append((axes.index(is_second_part.b), is_second_part.a.value, own))
    if len({axis for axis, _, _ in starts}) != 1:
        return None
    axis = starts[0][0]
    params = [func.buffer_map.get(param) for param in func.params[:-1]]
    end, pieces = _sizes(store.buffer)[axis], list[_Piece]()
    for _, begin, own in [*starts, (axis, 0, value)]:
        if _distances(own, axes) != [-begin if k == axis else 0 for k in range(len(axes))]:
            return None
        buffer = own.buffer  # type: ignore[attr-defined]
        computed = (
            params.index(buffer) if buffer in params else _computed_part(func, before, buffer)
        )
        pieces.append(_Piece(begin, end - begin, computed))
        end = begin
    created = [len(p.value.stages) for p in pieces if isinstance(p.value, Part)]
    return _Concat(axis, pieces[::-1]) if sum(created) == len(before) else None


def _computed_part(func: PrimFunc, before: Stages, buffer: Buffer) -> Part:
    """Return the part of a function that computes a buffer."""
    needed, found = {buffer}, list[s.Stmt]()
    for stage in reversed(before):
        if stored(stage) in needed:
            needed |= loaded(stage)
            found.append(stage)
    return part_of(func, found[::-1])


# -------------------------------------------------------------------------------- decisions


class _Place(NamedTuple):
    """A slice of a tensor: the place of another tensor, with its shape."""

    root: g.GraphVar
    shape: tuple[int, ...]
    begins: tuple[int, ...]

    @staticmethod
    def whole(tensor: g.GraphVar) -> _Place:
        """Return the slice of the whole tensor."""
        return _Place(tensor, _shape(tensor), (0,) * len(_shape(tensor)))

    def slice(self, shape: Sequence[int], begins: Sequence[int]) -> _Place:
        """Return the place of a slice of the slice."""
        return _Place(
            self.root, (*shape,), tuple(a + b for a, b in zip(self.begins, begins, strict=True))
        )

    def piece(self, concat: _Concat, piece: _Piece) -> _Place:
        """Return the place of a part, if the slice is the place of the concatenation."""
        shape, begins = list(self.shape), [0] * len(self.shape)
        shape[concat.axis], begins[concat.axis] = piece.extent, piece.begin
        return self.slice(shape, begins)


class _Plan:
    """The places of the tensors of a block."""

    def __init__(self, node: g.BindingBlock, functions: _Functions, smallest: int) -> None:
        self.calls: dict[g.GraphVar, _Call] = {}
        self.concats: dict[g.GraphVar, _Concat] = {}
        """The concatenations with some parts in place, by their results."""
        self.slices: set[g.GraphVar] = set()
        """The results of calls that would only copy a slice."""
        self._bases: dict[g.GraphVar, g.GraphVar] = {}
        """The tensors that variables view."""
        self._places: dict[g.GraphVar, _Place] = {}
        self._readers: dict[g.GraphVar, list[tuple[g.GraphVar, g.GraphVar]]] = {}
        """For each tensor, the results of calls that read it, each with the view that the call
        reads.
        """
        self._others: set[g.GraphVar] = set()
        """Tensors with other uses than calls of tensor functions."""
        for binding in node.bindings:
            self._note(binding, functions.call(binding.value))
        large = {v: c for v, c in self.calls.items() if _nbytes(v, _shape(v)) >= smallest}
        for var, call in large.items():
            if call.begins is not None:
                self._place_slice(var, call)
        for var, call in reversed(large.items()):
            if call.concat is not None:
                self._place_parts(var, call, call.concat)

    def _note(self, binding: g.Binding, call: _Call | None) -> None:
        var, value = binding.var, binding.value
        args: Iterable[object] = () if call is None else call.args
        if isinstance(value, g.GraphCall) and value.op is VIEW:
            args = value.args[:1]
        direct = [arg for arg in args if isinstance(arg, g.GraphVar)]
        used = [*used_vars(value)]
        for arg in direct:
            used.remove(arg)
            if call is None:
                self._bases[var] = self.base(arg)
            else:
                self._readers.setdefault(self.base(arg), []).append((var, arg))
        if call is not None:
            self.calls[var] = call
        self._others.update(map(self.base, used))
        if not isinstance(var, g.DataflowVar):
            self._others.add(self.base(var))

    def base(self, var: g.GraphVar) -> g.GraphVar:
        """Return the tensor that a variable views; the variable itself if it is not a view."""
        return self._bases.get(var, var)

    def place(self, value: g.GraphExpr) -> _Place | None:
        """Return the slice of another tensor that holds a value.

        Return None if it is not placed.
        """
        place = self._places.get(self.base(value)) if isinstance(value, g.GraphVar) else None
        around = None if place is None else self.place(place.root)
        return place if place is None or around is None else around.slice(*place[1:])

    def _place_slice(self, var: g.GraphVar, call: _Call) -> None:
        (source,) = call.args
        if isinstance(source, g.GraphVar) and self.base(source) is source and call.begins:
            place = _Place(source, _shape(var), (*call.begins,))
            if self._fits(var, place, var):
                self._places[var] = place
                self.slices.add(var)

    def _place_parts(self, var: g.GraphVar, call: _Call, concat: _Concat) -> None:
        """Place the parts of a concatenation in its result, or the result where its parts are
        already.
        """
        given = [call.args[p.value] if isinstance(p.value, int) else None for p in concat.pieces]
        tensors = [self.base(arg) if isinstance(arg, g.GraphVar) else None for arg in given]
        read = [arg for piece in concat.pieces for arg in call.inputs(piece)]
        used = [self.base(arg) for arg in read if isinstance(arg, g.GraphVar)]
        known = [None if arg is None else self.place(arg) for arg in given]
        first = known[0]
        same_rank = first is not None and len(first.shape) == len(_shape(var))
        if first is not None and same_rank and var not in self._places:
            whole = first._replace(shape=_shape(var))
            is_placed = known == [whole.piece(concat, piece) for piece in concat.pieces]
            if is_placed and self._fits(var, whole, var):
                self._places[var], self.concats[var] = whole, concat
                return
        if self._places.get(var, _Place.whole(var)).shape != _shape(var):
            return
        for tensor, piece in zip(tensors, concat.pieces, strict=True):
            place = _Place.whole(var).piece(concat, piece)
            if tensor is None or tensor in self._places or used.count(tensor) > 1:
                continue
            if self._fits(tensor, place, var):
                self._places[tensor], self.concats[var] = place, concat

    def _fits(self, tensor: g.GraphVar, place: _Place, removed: g.GraphVar | None = None) -> bool:
        """Return True if only tensor functions compute and read a tensor, and may do so in a place.

        A function must not read from a root tensor and write to it. The function of `removed` will
        be deleted: the enclosing concatenation, or the tensor itself if it is a whole other tensor.
        """
        axis = max([k for k, n in enumerate(_shape(place.root)) if n != place.shape[k]] or [0])
        if tensor not in self.calls or tensor in self._others:
            return False
        if _nbytes(tensor, place.shape[axis:]) < SHORTEST_RUN:
            return False
        readers = self._readers.get(tensor, ())
        if place.shape != _shape(tensor) and any(result in self.slices for result, _ in readers):
            return False
        views = [tensor, *(view for _, view in readers)]
        if any(_indices(_shape(view), _shape(view), place.shape) is None for view in views):
            return False
        call, root = self.calls[tensor], (self.place(place.root) or place).root
        read = () if tensor is removed else call.args
        return not any(self._is_in(x, root) for x in (*read, *self._results(tensor, removed)))

    def _results(self, tensor: g.GraphVar, removed: g.GraphVar | None) -> Iterator[g.GraphVar]:
        """Yield the results that functions compute from a tensor or from its slices."""
        for result, _ in self._readers.get(tensor, ()):
            if result in self.slices:
                yield from self._results(result, None)
            elif result is not removed:
                yield result

    def _is_in(self, value: g.GraphExpr, root: g.GraphVar) -> bool:
        place = self.place(value)
        return value is root or (place is not None and place.root is root)


# -------------------------------------------------------------------------------- rewriting


class _Placing(GraphRewriter):
    def __init__(self, builder: BlockBuilder, functions: _Functions, smallest: int) -> None:
        super().__init__()
        self._builder = builder
        self._functions = functions
        self._smallest = smallest

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block, within which tensors are placed."""
        self._plan = _Plan(node, self._functions, self._smallest)
        self._latest: dict[g.GraphVar, g.GraphVar] = {}
        """The latest variables of the tensors that are written slice by slice."""
        return super().rewrite_BindingBlock(node)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding."""
        var, plan = node.var, self._plan
        call, place = plan.calls.get(var), plan.place(var)
        if var in plan.concats:
            assert isinstance(node, g.VarBinding)
            copies = list(self._copy_parts(var, place or _Place.whole(var)))
            return copies if place else [*copies, *self.alias(node, self._latest[var])]
        if place is not None and (call is None or var in plan.slices):
            return ()
        if call is None or not (place or any(map(plan.place, call.args))):
            return super().binding(node)
        if place is not None:
            return [self._write_slice(var, call, place)]
        return [node.with_(value=self._redirect_call(call, None, g.tensor_info(node.value)))]

    def _copy_parts(self, var: g.GraphVar, own: _Place) -> Iterator[g.Binding]:
        """Yield calls that write the parts of a concatenation that are not in place."""
        call, concat = self._plan.calls[var], self._plan.concats[var]
        for piece in concat.pieces:
            place = own.piece(concat, piece)
            args = call.inputs(piece)
            if isinstance(piece.value, Part):
                func = piece.value.func
            elif self._plan.place(args[0]) == place:
                continue
            else:
                func = _copying(args[0])
            yield self._write_slice(var, call._replace(func=func, args=args), place)

    def _write_slice(self, var: g.GraphVar, call: _Call, place: _Place) -> g.VarBinding:
        """Return the binding of a call that writes a slice."""
        info = g.tensor_info(place.root)
        value = self._redirect_call(call, place, info)
        self._latest[place.root] = self.inner(var.name, info)
        return g.VarBinding(self._latest[place.root], value)

    def _redirect_call(self, call: _Call, target: _Place | None, info: StructInfo) -> g.GraphCall:
        """Return a call whose tensors are replaced by the tensors that contain them."""
        places = [self._plan.place(arg) for arg in call.args]
        args: dict[object, g.GraphExpr] = {}
        for k, (arg, place) in enumerate(zip(call.args, places, strict=True)):
            if place is None:
                args[k] = self(arg)
            else:
                written = self._latest.get(place.root)
                args[place.root] = self(place.root) if written is None else written
        gvar = self._function(call, [*places, target])
        before = None if target is None else self._latest.get(target.root)
        sizes = list(call.scalars) or None
        if before is None:
            return call_tir(gvar, args.values(), info, sizes)
        return call_tir_inplace(gvar, [*args.values(), before], len(args), info, sizes)

    def _function(self, call: _Call, places: Sequence[_Place | None]) -> GlobalVar:
        """Return a function whose tensors are slices of larger tensors, at `places`."""
        params: dict[Var, Buffer] = {}
        slices: dict[Buffer, tuple[Buffer, _Place]] = {}
        roots: dict[object, Buffer] = {}
        for k, (param, place) in enumerate(zip(call.func.params, places, strict=False)):
            buffer = call.func.buffer_map[param]
            if place is None:
                params[param] = buffer
                continue
            key = place.root if k < len(call.args) else None
            if key not in roots:
                shape = list(g.tensor_info(place.root).shape or ())
                params[param] = roots[key] = decl_buffer(shape, buffer.dtype, buffer.name)
            slices[buffer] = roots[key], place
        func = call.func.with_(
            params=[*params, *call.func.params[len(places) :]],
            buffer_map=params,
            body=_InSlices(slices, [*params.values()])(call.func.body),
        )
        return self._builder.add_func(renew_defs(func.without_attr("global_symbol")), call.name)


def _copying(value: g.GraphExpr) -> PrimFunc:
    info = g.tensor_info(value)
    assert info.shape is not None
    assert info.dtype is not None
    x = te.placeholder(info.shape, info.dtype, "x")
    y = te.compute(x.shape, lambda *i: x[i], "copy")
    return te.create_prim_func([x, y]).with_attr("tir.noalias", True)


class _InSlices(ElementRewriter):
    """Replaces accesses to buffers by accesses to slices of larger buffers."""

    def __init__(
        self, slices: dict[Buffer, tuple[Buffer, _Place]], params: Sequence[Buffer]
    ) -> None:
        self._slices = slices
        self._visible = {buffer.data: buffer for buffer in params}

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        """Rebuild a block and its regions; the root block has none."""
        self._visible |= {buffer.data: buffer for buffer in node.alloc_buffers}
        created = node.with_(body=self(node.body), init=self.maybe(node.init))
        return complete_block(created, (True, True), self._visible) if node.iter_vars else created

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the larger buffer."""
        return self._slices[buffer][0] if buffer in self._slices else buffer

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the indices of the element of the slice."""
        place = self._slices[buffer][1]
        own = _indices(indices, _sizes(buffer), place.shape)
        assert own is not None
        return [i + n if n else i for i, n in zip(own, place.begins, strict=True)]


def _indices(indices: Sequence[Any], own: Sequence[int], shape: Sequence[int]) -> list[Any] | None:
    """Return the indices of an element in a shape whose dimensions merge several dimensions of
    `own`.

    Return None if a dimension of `own` would have to be divided.
    """
    left = list(zip(indices, own, strict=True))
    result: list[Any] = []
    for more in reversed(range(len(shape))):
        index, size = const(0, INT64), 1
        while left and (size < shape[more] or (left[-1][1] == 1 and len(left) > more)):
            step, count = left.pop()
            index, size = (step if size == 1 else step * size + index), size * count
        if size != shape[more]:
            return None
        result.append(index)
    return result[::-1] if all(count == 1 for _, count in left) else None


def _sizes(buffer: Buffer) -> tuple[int, ...]:
    return tuple(n.value for n in buffer.shape if isinstance(n, IntImm))


def _shape(tensor: g.GraphVar) -> tuple[int, ...]:
    """Return the extents of a tensor; an empty tuple if they are not constant."""
    shape = g.tensor_info(tensor).static_shape
    return () if shape is None else shape


def _nbytes(tensor: g.GraphVar, shape: Sequence[int]) -> int:
    dtype = g.tensor_info(tensor).dtype
    return prod(shape) * dtype.nbytes if shape and dtype is not None else 0
