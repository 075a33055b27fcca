"""Explicit memory: outputs of calls are allocated and passed to the functions that write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorir.function import IRModule
from tensorir.nodes.expr import Var
from tensorir.nodes.node import same_or_new
from tensorir.relax import expr as g
from tensorir.relax.calls import (
    FRESH,
    DestinationPassing,
    alloc_tensor,
    call_graph_into,
    call_into,
    called_graph,
    copy_into,
    destination_passing,
    view,
)
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.relax.struct_info import (
    VOID,
    Path,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.relax.visit import GraphRewriter
from tensorir.transform.aliases import Memory, Owner, Places, memories
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions
from tensorir.transform.value_memory import ValueMemory, find_escapes, tensors_of


class CallTIRRewrite(ModulePass):
    """Makes the memory of graph functions explicit.

    Before: y = R.call_tir(f, (a, b), out_sinfo=R.Tensor((4,), "float32"))
            if flag:
                z = cls.layer(y)
            else:
                z = R.call_tir(g, (y,), out_sinfo=R.Tensor((4,), "float32"))
    After:  y = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), ...)
            f(a, b, y)
            z = R.builtin.alloc_tensor(...)
            if flag:
                R.memory.call_into(layer, (y,), (z,))
                z_1 = z
            else:
                g(y, z)
                z_1 = z

    Dataflow blocks become plain blocks. `call_tir_inplace` overwrites its argument if that is a
    dead tensor of the function, otherwise a copy. Each result of a function is in separate memory:
    an argument, a constant, or a tensor that is returned twice is copied, and so is a value of an
    `if` that its branch did not compute (see `ValueMemory`). The new contents of a parameter that
    the function updates are copied to it at the end, unless they were computed in its memory. They
    are removed from the result, and the attribute `updates` is removed.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with explicit memory."""
        escapes = find_escapes(mod)
        return map_functions(mod, lambda func: _Lowering(ValueMemory(func, escapes))(func))


class _Lowering(GraphRewriter):
    def __init__(self, decided: ValueMemory) -> None:
        super().__init__()
        self._decided = decided
        self._tensors: dict[Memory, g.GraphVar] = {}
        """The variables of allocated memories."""

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Lower a function: its bindings, then its result."""
        body = self(node.body)
        extra: list[g.Binding] = []
        if not node.updates:
            result = self._separate_result(node.body.body, body.body, extra, set())
            if extra:
                body = g.SeqExpr.rebuilt([*body.blocks, g.BindingBlock(extra)], result)
            return node.changed(body=body)
        old, contents = (_element(node.body.body, k) for k in range(2))
        new, updates = (_element(body.body, k, extra) for k in range(2))
        result = self._separate_result(old, new, extra, set())  # before parameters are overwritten
        self._update(node.updates, contents, updates, extra)
        body = g.SeqExpr.rebuilt([*body.blocks, g.BindingBlock(extra)], result)
        attrs = node.attrs.without("updates")
        return node.with_(body=body, ret_struct_info=old.struct_info, attrs=attrs)

    def _update(
        self,
        params: Sequence[g.GraphVar],
        old: g.GraphExpr,
        new: g.GraphExpr,
        extra: list[g.Binding],
    ) -> None:
        """Copy new contents to parameters, unless they were computed there.

        Contents in the memory of another updated parameter are copied to new memory first. `old`
        and `new` are the tuple of contents before and after lowering.
        """
        updated, copies = self._decided.updated, []
        for k, param in enumerate(params):
            places = set(memories(self._decided.aliases.of(_element(old, k))))
            if {updated.get(memory) for memory in places} == {param}:
                continue
            source = _element(new, k, extra)
            if not places.isdisjoint(updated):
                source = _copy(source, g.tensor_info(source), extra)
            copies.append(_step(copy_into(source, param)))
        extra += copies

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Lower a block to a plain block."""
        lowered = super().rewrite_BindingBlock(node)
        if type(lowered) is g.BindingBlock:
            return lowered
        return g.BindingBlock(lowered.bindings)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding."""
        value = node.value
        if isinstance(value, g.GraphCall) and value in self._decided.outputs:
            if isinstance(node, g.VarBinding):
                return self._call(node.var, value)
            called = g.GraphVar(node.var.name, value.struct_info)
            lowered = self._call(called, value)
            var, given = self._plain(node.var), self(called)
            return [*lowered, g.MatchCast(var, given, self(node.struct_info))]
        wanted: list[g.Binding] = []
        if isinstance(value, g.If):
            for memory, info in self._decided.wanted[value].values():
                self._tensor(memory, g.GraphVar(node.var.name, info), wanted)
        rebuilt = self.generic(node)
        return (*wanted, rebuilt.changed(var=self._plain(node.var)))

    def _plain(self, var: g.GraphVar) -> g.GraphVar:
        """Return the variable of a plain block for a variable."""
        if not isinstance(var, g.DataflowVar):
            return var
        plain = g.GraphVar(var.name, var.struct_info)
        self.replaced[var] = plain
        return plain

    def _tensor(self, memory: Memory, var: g.GraphVar, bindings: list[g.Binding]) -> g.GraphVar:
        """Return the variable of a memory: `var`, after allocating it, or an existing variable.

        An existing variable may have other extents; `var` is then a view of it.
        """
        place = self._decided.place(memory)
        found = self._tensors.get(place)
        info = g.tensor_info(var)
        if found is None:
            self._tensors[place] = var
            bindings.append(_allocation(var, info))
            return var
        if is_base_of(found.struct_info, info):
            return found
        assert info.shape is not None
        bindings.append(g.VarBinding(var, view(found, info.shape)))
        return var

    # ---------------------------------------------------------------------------------------- calls

    def _call(self, var: g.GraphVar, value: g.GraphCall) -> Sequence[g.Binding]:
        outputs = self._decided.outputs[value]
        call = destination_passing(value)
        bindings: list[g.Binding] = []
        if call is not None:
            tensors = self._destination_passing(var, call, outputs, bindings)
        else:
            tensors = self._graph_call(var, value, outputs, bindings)
        info = var.struct_info
        if isinstance(info, TupleStructInfo):
            bindings.append(g.VarBinding(self._plain(var), _assemble(info, iter(tensors))))
        elif tensors[0] is not var:
            self.replaced[var] = tensors[0]
        return bindings

    def _destination_passing(
        self,
        var: g.GraphVar,
        call: DestinationPassing,
        decided: Sequence[Memory | None],
        bindings: list[g.Binding],
    ) -> list[g.GraphExpr]:
        args = [self(arg) for arg in call.args]
        outputs: list[g.GraphExpr] = []
        own: list[g.GraphExpr] = []
        for k, (info, index) in enumerate(zip(call.outputs, call.inplace, strict=True)):
            memory = decided[k]
            if memory is None:
                outputs.append(args[index])
                continue
            name = g.GraphVar(f"{var.name}_{k}", info) if call.gives_tuple else self._plain(var)
            output = self._tensor(memory, name, bindings)
            if index == FRESH:
                own.append(output)
            else:
                bindings.append(_step(copy_into(args[index], output)))
                args[index] = output
            outputs.append(output)
        scalars = [self(n) for n in call.scalars]
        bindings.append(_step(call_into(call.callee, args, own, scalars)))
        return outputs

    def _graph_call(
        self,
        var: g.GraphVar,
        value: g.GraphCall,
        decided: Sequence[Memory | None],
        bindings: list[g.Binding],
    ) -> list[g.GraphExpr]:
        called = called_graph(value)
        assert called is not None
        infos = [*tensors_of(value.struct_info)]
        outputs: list[g.GraphExpr] = []
        for memory, (path, info) in zip(decided, infos, strict=True):
            assert memory is not None
            name = "_".join([var.name, *map(str, path)])
            own = g.GraphVar(name, info) if path else self._plain(var)
            outputs.append(self._tensor(memory, own, bindings))
        args = [self(arg) for arg in called.args]
        bindings.append(_step(call_graph_into(called.callee, args, outputs)))
        return outputs

    # ------------------------------------------------------------------------------------- branches

    def rewrite_If(self, node: g.If) -> g.If:  # noqa: N802
        """Lower branches so that their values are in the memory of the `if`."""
        wanted = self._decided.wanted[node]
        places = {path: self._tensors[self._decided.place(m)] for path, (m, _) in wanted.items()}
        branches = [self._branch(b, places) for b in (node.true_branch, node.false_branch)]
        return node.changed(cond=self(node.cond), true_branch=branches[0], false_branch=branches[1])

    def _branch(self, node: g.SeqExpr, places: dict[Path, g.GraphVar]) -> g.SeqExpr:
        body = self(node)
        if not places:
            return body
        extra: list[g.Binding] = []
        result = self._branch_value(node, body.body, (), places, extra)
        return g.SeqExpr.rebuilt([*body.blocks, g.BindingBlock(extra)], result)

    def _branch_value(
        self,
        branch: g.SeqExpr,
        value: g.GraphExpr,
        path: Path,
        places: dict[Path, g.GraphVar],
        extra: list[g.Binding],
    ) -> g.GraphExpr:
        """Return the value of a branch, or of a part of it, in the memory of the `if`."""
        place = places.get(path)
        if place is not None:
            if (branch, path) in self._decided.copied:
                extra.append(_step(copy_into(value, place)))
            return place
        info = value.struct_info
        if not isinstance(info, TupleStructInfo):
            return value
        fields = []
        for k in range(len(info)):
            part = _element(value, k, extra)
            fields.append(self._branch_value(branch, part, (*path, k), places, extra))
        return g.Tuple(fields)

    # --------------------------------------------------------------------------------------- result

    def _separate_result(
        self,
        old: g.GraphExpr,
        new: g.GraphExpr,
        extra: list[g.Binding],
        returned: set[Memory],
    ) -> g.GraphExpr:
        """Return a result in separate memory: `new`, or copies that `extra` makes.

        `old` is the result before lowering, `returned` has the memories of other results.
        """
        if isinstance(old, g.Tuple) and isinstance(new, g.Tuple):
            pairs = zip(old.elements, new.elements, strict=True)
            fields = [self._separate_result(a, b, extra, returned) for a, b in pairs]
            return new.changed(elements=same_or_new(new.elements, fields))
        places = self._decided.aliases.of(old)
        if _are_separate(places, set(returned)):
            returned.update(memories(places))
            return new
        info = old.struct_info
        if isinstance(info, TupleStructInfo):
            fields = []
            for k in range(len(info)):
                after = _field(new, k, extra)
                fields.append(self._separate_result(g.TupleGetItem(old, k), after, extra, returned))
            return g.Tuple(fields)
        return _copy(new, info, extra) if isinstance(info, TensorStructInfo) else new


def _element(value: g.GraphExpr, k: int, extra: list[g.Binding] | None = None) -> g.GraphExpr:
    """Return the field of a tuple: a part of the expression, or a variable that `extra` binds."""
    if isinstance(value, g.Tuple):
        return value.elements[k]
    return g.TupleGetItem(value, k) if extra is None else _field(value, k, extra)


def _field(value: g.GraphExpr, k: int, extra: list[g.Binding]) -> g.GraphVar:
    """Return a variable for the field of a tuple."""
    field = g.TupleGetItem(value, k)
    var = g.GraphVar(f"result_{k}", field.struct_info)
    extra.append(g.VarBinding(var, field))
    return var


def _assemble(info: StructInfo, tensors: Iterator[g.GraphExpr]) -> g.GraphExpr:
    """Return the value that consists of these tensors, in order."""
    if isinstance(info, TupleStructInfo):
        return g.Tuple(_assemble(field, tensors) for field in info.elements)
    return next(tensors)


def _are_separate(places: Places, returned: set[Memory]) -> bool:
    """Return True if each tensor is in separate memory that the function owns and may return."""
    if isinstance(places, tuple):
        return all(_are_separate(field, returned) for field in places)
    own = returned.isdisjoint(places) and all(
        memory.owner in (Owner.FUNCTION, Owner.LIBRARY) for memory in places
    )
    returned |= places
    return own


def _copy(value: g.GraphExpr, info: TensorStructInfo, extra: list[g.Binding]) -> g.GraphExpr:
    """Return a copy of a tensor; the tensor itself if its dtype or rank is unknown."""
    if info.dtype is None or info.ndim < 0:
        return value
    if info.shape is None:
        info = TensorStructInfo([Var(f"n{k}", "int64") for k in range(info.ndim)], info.dtype)
        sized = g.GraphVar("sized", info)
        extra.append(g.MatchCast(sized, value, info))
        value = sized
    result = g.GraphVar("result", info)
    extra.append(_allocation(result, info))
    extra.append(_step(copy_into(value, result)))
    return result


def _allocation(var: g.GraphVar, info: TensorStructInfo) -> g.VarBinding:
    assert info.shape is not None
    assert info.dtype is not None
    return g.VarBinding(var, alloc_tensor(info.shape, info.dtype))


def _step(call: g.GraphCall) -> g.VarBinding:
    return g.VarBinding(g.GraphVar("_", VOID), call)
