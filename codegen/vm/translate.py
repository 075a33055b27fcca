"""From a graph function with explicit memory to its program.

Bindings are translated in order. A binding that needs no Python joins the open run of machine code;
any other binding closes the run and becomes a step. A function without other steps is one run
of machine code, which other functions call without Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from codegen.vm import program as p
from codegen.vm import segments as seg
from codegen.vm.body_writer import (
    Body,
    BodyWriter,
    Held,
    Known,
    Place,
    Storage,
    Value,
    places_of,
    tensor_text,
)
from codegen.vm.constants import ConstantPool
from codegen.vm.segments import Address, Root
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.alignment import align
from tensorir.nodes import ops
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.call_graph import written_values
from tensorir.relax.function import Function
from tensorir.relax.relations import Fits, fits
from tensorir.rewriting.visit import collect_vars
from tensorir.transform.aliases import Aliases, Escapes, memories


class Translation(BodyWriter):
    """The translation of one graph function.

    `programs` has the graph functions that were translated already; any other function is called
    through Python. `one_by_one` and `on_device` are those of `BodyWriter`.
    """

    def __init__(
        self,
        name: str,
        func: Function,
        mod: IRModule,
        programs: Mapping[str, p.Program],
        constants: ConstantPool,
        one_by_one: bool = False,
        on_device: bool = False,
    ) -> None:
        super().__init__(name, one_by_one, on_device)
        self._func = func
        self._mod = mod
        self._programs = programs
        self._constants = constants
        self._values: dict[g.GraphVar, Value] = {}
        self._results: dict[g.GraphExpr, Root] = {}
        """The memory of results by their allocations."""
        self._callee_bytes = 0
        self._written_variable = written_values(func, mod)

    # ------------------------------------------------------------------------------------ function

    def translate(self) -> p.Program:
        """Return the program; `functions` then gives its segments."""
        func = self._func
        self._layout.define_sizes(param.struct_info for param in func.params)
        parameters = tuple(self._parameter(param) for param in func.params)
        results = self._layout.result_roots(func.ret_struct_info)
        self._layout.enter()
        self._results = _computed_results(func, results)
        self._bindings(func.body)
        self._binding = "the result"
        result = self._returned(self._value(func.body.body), (), results)
        self._close()
        parts = p.parts_of(result)
        given = [x.number for x in parts if isinstance(x, p.Register)]
        fresh = tuple(
            self._layout.fresh(root, root.name)
            for root in results.values()
            if root.register in given
        )
        if self._on_device:
            changed = [x.register for x in p.leaves(parameters) if _is_written(x)]
            last = p.ToHost((*given, *p.copied_registers(result), *changed), ends=True)
            self._body.steps.append(last)
        runs = [step for step in self._body.steps if isinstance(step, p.Run)]
        single = len(runs) == len(self._body.steps) <= 1
        tensors = all(
            isinstance(x, p.TensorPattern) and x.slot != p.NONE for x in p.leaves(parameters)
        )
        is_native = (
            single
            and tensors
            and not self._layout.sizes
            and len(fresh) == len(results) == len(given) == len(parts)
            and not self._temporaries
        )
        if single:
            self._segments = {self._name: next(iter(self._segments.values()), ())}
            self._body.steps = [replace(run, symbol=self._name) for run in runs or [p.Run("")]]
        return p.Program(
            self._name,
            parameters,
            fresh,
            tuple(self._temporaries),
            tuple(self._prepared),
            (*self._checks, *self._body.steps),
            result,
            tuple(
                (text, self._layout.slots.index(var)) for var, text in self._layout.sizes.items()
            ),
            len(self._layout.slots),
            self._layout.registers,
            self._layout.arena.slot,
            self._arena_bytes + self._callee_bytes,
            self._layout.constants.slot,
            is_native,
            _bfloat16(func.ret_struct_info),
            tuple(self._view_of(self._place(constant)) for constant in func.state),
        )

    def functions(self, constant_bytes: int) -> dict[str, PrimFunc]:
        """Return the segments as tensor functions, by symbol."""
        writer = seg.SegmentWriter(
            self._layout.slots,
            self._layout.arena,
            self._arena_bytes,
            self._arena_bytes + self._callee_bytes,
            self._layout.constants,
            constant_bytes,
        )
        return {name: writer.function(name, part) for name, part in self._segments.items()}

    # ------------------------------------------------------------------------- parameters, results

    def _parameter(self, param: g.GraphVar) -> p.Pattern:
        pattern, value = self._layout.expect(param.name, param.struct_info)
        self._values[param] = value
        return p.as_written(pattern) if param in self._written_variable else pattern

    def _returned(self, value: Value, path: si.Path, roots: Mapping[si.Path, Root]) -> p.Operand:
        if isinstance(value, tuple):
            return p.Pack(tuple(self._returned(v, (*path, k), roots) for k, v in enumerate(value)))
        if isinstance(value, Place):
            source, root = value.address.root, roots.get(path)
            if source in self._own and self._is_whole(value):
                self._own.discard(source)
                return p.Register(source.register)
            if root is not None and root.info is not None:
                self._copy(value, Place(Address(root), root.info))
                return p.Register(root.register)
            return p.CopyOf(self._hold(value))
        if isinstance(value, Held):
            return p.CopyOf(value.register)
        return self._operand(value)

    # ------------------------------------------------------------------------------------ bindings

    def _bindings(self, body: g.SeqExpr) -> None:
        for binding in body.bindings:
            self._binding = _written_variable(binding).name
            var, value = binding.var, binding.value
            if isinstance(binding, g.MatchCast):
                self._values[var] = self._match(binding)
            elif isinstance(value, g.If):
                self._values[var] = self._if(value)
            elif isinstance(value, g.GraphCall):
                self._values[var] = self._call(var, value)
            else:
                self._values[var] = self._value(value)

    def _value(self, expr: g.GraphExpr) -> Value:
        if isinstance(expr, g.GraphVar):
            found = self._values.get(expr)
            if found is None:
                self._fail(f"variable {expr.name} is undefined here")
            return found
        if isinstance(expr, g.Constant):
            info = g.tensor_info(expr)
            offset, is_far = self._constants.place(expr)
            at = ops.const(offset, INT64)
            return Place(Address(self._layout.constants, at, is_far), info)
        if isinstance(expr, g.Tuple):
            return tuple(self._value(part) for part in expr.elements)
        if isinstance(expr, g.TupleGetItem):
            whole = self._value(expr.tuple_value)
            assert isinstance(whole, tuple)
            return whole[expr.index]
        if isinstance(expr, g.ShapeExpr):
            return Known(
                p.Shape(tuple(self._layout.dim(n) for n in expr.values)), None, expr.values
            )
        if isinstance(expr, g.PrimValue):
            return Known(self._scalar_operand(expr.value), expr.value)
        if isinstance(expr, (g.StringValue, g.DataTypeValue)):
            return Known(p.Literal(str(expr.value)))
        self._fail(f"a {type(expr).__name__} has no compiled form")

    def _match(self, binding: g.MatchCast) -> Value:
        value = self._value(binding.value)
        known = binding.value.struct_info
        if fits(binding.struct_info, known) is Fits.YES and self._defines_nothing(
            binding.struct_info
        ):
            return value
        register = self._hold(value)
        pattern, result = self._layout.expect(binding.var.name, binding.struct_info)
        self._step(p.Match(register, pattern, f"{self._name}: {self._binding}"))
        return result

    def _defines_nothing(self, info: si.StructInfo) -> bool:
        return all(var in self._layout.sizes for var in collect_vars(info))

    # --------------------------------------------------------------------------------------- calls

    def _call(self, var: g.GraphVar, call: g.GraphCall) -> Value:
        if call.op is calls.ALLOC_STORAGE:
            return self._storage(call)
        if call.op is calls.PLACE_TENSOR:
            return self._placed(call)
        if call.op is calls.ALLOC_TENSOR:
            info = g.tensor_info(call)
            root = self._results.get(call)
            return self._memory(var.name, info) if root is None else Place(Address(root), info)
        if call.op is calls.VIEW:
            return self._viewed(call)
        if call.op is calls.COPY_INTO:
            source, destination = (self._place(a) for a in call.args)
            self._copy(source, destination)
            return ()
        if call.op is calls.CALL_PURE_PACKED:
            return self._library(call.args[0], call.args[1:], call)  # type: ignore[arg-type]
        if isinstance(call.op, g.ExternFunc):
            return self._library(call.op, call.args, call)
        called = calls.called_graph(call)
        if called is not None:
            name = called.callee.name
            callee = self._mod.functions.get(name)
            if isinstance(callee, PrimFunc):
                return self._kernel(name, callee, call)
            if isinstance(callee, Function):
                if called.outputs is not None:
                    return self._graph_call_into(name, callee, called.args, called.outputs)
                return self._graph_call(name, call)
            self._fail(f"it calls {name}, which the module does not have")
        self._fail(
            f"a call of {call.op.name if hasattr(call.op, 'name') else call.op} has no compiled "
            f"form; it is left over by lowering"
        )

    def _storage(self, call: g.GraphCall) -> Value:
        shape, layout = call.args[0], self._layout
        assert isinstance(shape, g.ShapeExpr)
        (nbytes,) = shape.values
        if isinstance(nbytes, IntImm):
            offset = self._arena_bytes
            self._arena_bytes += align(nbytes.value)
            return Storage(Address.at(layout.arena, offset))
        root = layout.root("storage", None, nbytes)
        array = p.Fresh(root.slot, root.register, (layout.dim(nbytes),), "uint8", self._binding)
        if layout.is_entered(nbytes):
            self._temporaries.append(array)
        else:
            self._step(p.Allocate(array))
        return Storage(Address(root))

    def _placed(self, call: g.GraphCall) -> Value:
        storage, offset = self._value(call.args[0]), call.args[1]  # type: ignore[arg-type]
        info = g.tensor_info(call)
        if not isinstance(storage, Storage) or not isinstance(offset, g.PrimValue):
            self._fail("a tensor is at a number of bytes, R.prim_value(...), in its storage")
        start = storage.start
        return Place(Address(start.root, ops.add(start.offset, offset.value)), info)

    def _viewed(self, call: g.GraphCall) -> Value:
        source, info = self._place(call.args[0]), call.struct_info
        assert isinstance(info, si.TensorStructInfo)
        if not calls.same_elements(source.info, info):
            before, after = (_elements(part) for part in (source.info, info))
            self._require(
                Place(source.address, before), after, f"the view of {tensor_text(source.info)}"
            )
        return Place(source.address, info)

    def _place(self, expr: g.GraphExpr | GlobalVar) -> Place:
        assert not isinstance(expr, GlobalVar)
        value = self._value(expr)
        if not isinstance(value, Place):
            self._fail(
                f"{expr} is given to machine code, which needs its shape and dtype; state them "
                f"with R.match_cast"
            )
        return value

    def _kernel(self, name: str, callee: PrimFunc, call: g.GraphCall) -> Value:
        arguments: list[seg.Argument] = []
        places: dict[int, tuple[str, Place]] = {}
        shapes: list[Sequence[PrimExpr] | None] = []
        described: list[str] = []
        given: dict[Var, PrimExpr] = {}
        for arg in call.args:
            value = self._value(arg)  # type: ignore[arg-type]
            if isinstance(value, Place):
                places[len(arguments)] = (arg.name if isinstance(arg, g.GraphVar) else "", value)
                arguments.append(value.address)
                shapes.append(value.info.shape)
                described.append(tensor_text(value.info))
                continue
            scalars = value.extents if isinstance(value, Known) and value.extents else None
            if scalars is None and isinstance(value, Known) and value.scalar is not None:
                scalars = (value.scalar,)
            if scalars is None:
                self._place(arg)
            for scalar in scalars or ():
                position = len(arguments)
                if position < len(callee.params):
                    scalar = ops.cast(callee.params[position].dtype, scalar)
                    given[callee.params[position]] = scalar
                arguments.append(scalar)
                shapes.append(None)
        if len(arguments) != len(callee.params):
            self._fail(
                f"it calls {name} with {len(arguments)} arguments, which takes {len(callee.params)}"
            )
        sizes = seg.infer_symbolic_sizes(callee, shapes)
        if isinstance(sizes, list):
            self._fail(
                f"its arguments do not determine the extents {sizes} of {name}; declare each of "
                f"them as a separate dimension"
            )
        for k, (arg_name, place) in places.items():
            buffer = callee.buffer_map.get(callee.params[k])
            if buffer is not None:
                what = f"{arg_name or 'a constant'} for {buffer.name} of {name}"
                self._require(place, seg.expected_struct_info(buffer, {**given, **sizes}), what)
        arguments += sizes.values()
        self._operation(seg.CallKernel(name, tuple(arguments)), name, ", ".join(described))
        return ()

    def _library(
        self, function: g.ExternFunc, args: Sequence[g.GraphExpr | GlobalVar], call: g.GraphCall
    ) -> Value:
        graphs = tuple((k, a.name) for k, a in enumerate(args) if isinstance(a, GlobalVar))
        values = (arg for arg in args if not isinstance(arg, GlobalVar))
        registers = tuple(self._hold(self._value(arg)) for arg in values)
        pattern: p.Pattern | None = None
        value: Value = ()
        place = f"{self._name}: {self._binding} = {function.symbol}"
        self._close()
        if not si.is_void(call.struct_info):
            pattern, value = self._layout.expect(self._binding, call.struct_info)
            self._own.update(v.address.root for v in places_of(value))
        self._step(p.CallLibrary(function.symbol, registers, pattern, place, graphs))
        return value

    def _graph_call(self, name: str, call: g.GraphCall) -> Value:
        registers = tuple(self._hold(self._value(arg)) for arg in call.args)  # type: ignore[arg-type]
        self._close()
        pattern, value = self._layout.expect(self._binding, call.struct_info)
        self._own.update(v.address.root for v in places_of(value))
        self._step(p.CallGraph(name, registers, pattern, f"{self._name}: {self._binding}"))
        return value

    def _graph_call_into(
        self,
        name: str,
        callee: Function,
        args: Sequence[g.GraphExpr],
        outputs: Sequence[g.GraphExpr],
    ) -> Value:
        program = self._programs.get(name)
        arguments = [self._value(arg) for arg in args]
        results = [self._place(output) for output in outputs]
        if program is None or not program.is_native:
            registers = tuple(self._hold(value) for value in arguments)
            written = tuple(self._hold(place) for place in results)
            self._step(
                p.CallGraph(name, registers, None, f"{self._name}: {self._binding}", written)
            )
            return ()
        places = [v for arg in arguments for v in places_of(arg)]
        for what, found, infos in (
            ("an argument", places, [param.struct_info for param in callee.params]),
            ("a result", results, [callee.ret_struct_info]),
        ):
            expected = [leaf for info in infos for leaf in si.leaves(info)]
            for place, info in zip(found, expected, strict=True):
                assert isinstance(info, si.TensorStructInfo)
                self._require(place, info, f"{what} of {name}")
        self._callee_bytes = max(self._callee_bytes, program.arena_bytes)
        inner: list[seg.Argument] = [v.address for v in (*places, *results)]
        inner += [seg.CalleeArena(), Address(self._layout.constants)]
        described = ", ".join(tensor_text(v.info) for v in places)
        self._operation(seg.CallKernel(name, tuple(inner)), name, described)
        return ()

    # ------------------------------------------------------------------------------------ branches

    def _if(self, node: g.If) -> Value:
        condition = self._value(node.cond)
        outer, name = self._body, self._binding
        self._branches += 1
        branches = [self._branch(body) for body in (node.true_branch, node.false_branch)]
        parts = {
            path: self._value_of_if(path, info, branches)
            for path, info in si.fields_of(node.struct_info)
        }
        self._branches -= 1
        self._body, self._binding = outer, name
        then, otherwise = (inner for inner, _ in branches)
        native = not then.steps and not otherwise.steps and not self._on_device
        if native and isinstance(condition, Place):
            assert condition.info.dtype is not None
            self._operation(
                seg.NativeIf(
                    condition.address,
                    condition.info.dtype.nbytes,
                    tuple(then.operations),
                    tuple(otherwise.operations),
                ),
                "if",
            )
        else:
            register = self._hold(condition)
            self._close()
            for branch in (then, otherwise):
                self._body = branch
                self._close()
            self._body = outer
            self._step(p.Branch(register, tuple(then.steps), tuple(otherwise.steps)))
        value: Value = si.assemble(node.struct_info, parts)
        return value

    def _branch(self, body: g.SeqExpr) -> tuple[Body, Value]:
        self._body = Body()
        self._bindings(body)
        return self._body, self._value(body.body)

    def _value_of_if(
        self, path: si.Path, info: si.StructInfo, branches: Sequence[tuple[Body, Value]]
    ) -> Value:
        """Return a part of the value of an `if`: a tensor in one place, else a register."""
        found = []
        for _, value in branches:
            for k in path:
                assert isinstance(value, tuple)
                value = value[k]
            found.append(value)
        first, second = found
        if (
            isinstance(first, Place)
            and isinstance(second, Place)
            and isinstance(info, si.TensorStructInfo)
            and first.address.is_same(second.address)
        ):
            return Place(first.address, info)
        register = self._layout.register()
        for (inner, _), value in zip(branches, found, strict=True):
            self._body = inner
            self._step(p.Assemble(register, p.CopyOf(self._hold(value))))
        return Held(register, info)


def _is_written(pattern: p.Leaf) -> bool:
    return isinstance(pattern, p.TensorPattern) and pattern.written


def _bfloat16(info: si.StructInfo) -> p.Kinds:
    """Return for each part of a value True if it is of bfloat16."""
    if isinstance(info, si.TupleStructInfo):
        parts = tuple(map(_bfloat16, info.elements))
        return parts if any(parts) else False
    return isinstance(info, si.TensorStructInfo) and info.dtype == "bfloat16"


def _computed_results(func: Function, roots: Mapping[si.Path, Root]) -> dict[g.GraphExpr, Root]:
    """Return the memory of results by their allocations."""
    aliases = Aliases(func, lambda _: Escapes(False, False))
    aliases.add_sequence(func.body)
    found: dict[g.GraphExpr, Root] = {}
    for path, root in roots.items():
        places = aliases.of(func.body.body)
        for k in path:
            places = places[k] if isinstance(places, tuple) else places
        made = [memory.call for memory in memories(places)]
        if len(made) == 1 and isinstance(made[0], g.GraphCall) and made[0].op is calls.ALLOC_TENSOR:
            assert root.info is not None
            info = g.tensor_info(made[0])
            if calls.same_elements(root.info, info):
                found.setdefault(made[0], root)
    return found


def _elements(info: si.TensorStructInfo) -> si.TensorStructInfo:
    """Return a tensor of one dimension for the elements of a tensor."""
    assert info.shape is not None
    return si.TensorStructInfo([calls.product(info.shape)], info.dtype)


def _written_variable(binding: g.Binding) -> g.GraphVar:
    """Return the variable of a binding; of a call without a result, its last output."""
    call = binding.value
    if isinstance(call, g.GraphCall) and si.is_void(call.struct_info):
        outputs = [arg for arg in call.args if isinstance(arg, g.GraphVar)]
        return outputs[-1] if outputs else binding.var
    return binding.var
