"""From syntax trees to programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.dtype import HANDLE, DataType
from tensorir.errors import IRTypeError, IRValueError
from tensorir.expr import IterVar, PrimExpr, StringImm, TupleType, Type, Var
from tensorir.function import IRModule, PrimFunc
from tensorir.intrin import Op
from tensorir.ops import TRUE, as_expr, cast, const
from tensorir.script.completion import complete_block, with_root_block
from tensorir.script.evaluate import Evaluator, Scope, Source
from tensorir.script.macro import Default, MacroCall
from tensorir.script.namespace import as_region
from tensorir.script.records import (
    ArmFrame,
    AxisRecord,
    BlockFrame,
    BlockRecord,
    BufferRecord,
    EvaluateRecord,
    FreshVar,
    FuncAttrRecord,
    IfFrame,
    InitFrame,
    LoopFrame,
    MetaVar,
    RemapRecord,
    ScopeFrame,
)
from tensorir.script.syntax import Place, Tree
from tensorir.stmt import ForKind, Stmt, sequence

_MAX_MACRO_DEPTH: Final = 64


class BlockParts:
    """A block while its suite is being read."""

    def __init__(self, name: str, realize: bool) -> None:
        self.name = name
        self.realize = realize
        self.axes: list[IterVar] = []
        self.bindings: list[PrimExpr] = []
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.predicate: PrimExpr | None = None
        self.attrs: dict[str, Any] | None = None
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []


class FunctionParts:
    """A function while its suite is being read."""

    def __init__(self) -> None:
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.alloc_buffers: list[Buffer] = []
        self.private = False


class FunctionBuilder:
    """Builds one function from its tree."""

    def __init__(self, evaluate: Evaluator, *, private: bool = False) -> None:
        self._evaluate = evaluate
        self._scope = evaluate.scope
        self._function = FunctionParts()
        self._function.private = private
        self._blocks: list[BlockParts] = []
        self._loops: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self._visible: dict[Var, Buffer] = {}
        self._filled: dict[s.Block, tuple[bool, bool]] = {}
        self._depth = 0
        self._depth_of_macros = 0
        self._arms: list[dict[bool, Stmt]] = []

    def build(self, tree: Tree) -> PrimFunc:
        """Return the function whose `def` is `tree`."""
        _, place, name, parameters, result, body = tree
        self._scope.push()
        for parameter in parameters:
            self._parameter(parameter)
        stmt = self._suite(body)
        self._scope.pop()
        function = self._function
        attrs = dict(function.attrs)
        if not function.private:
            attrs = {"global_symbol": name, **attrs}
        elif "global_symbol" in attrs:
            raise self._fail("a private function has no global_symbol", place)
        ret_type = self._return_type(result)
        completed = with_root_block(stmt, function.alloc_buffers, self._filled)
        return PrimFunc(function.params, completed, ret_type, function.buffer_map, attrs)

    # ------------------------------------------------------------------------------------ signature

    def _parameter(self, tree: Tree) -> None:
        _, place, star, name, annotation, default = tree
        if star or default is not None:
            raise self._fail("only plain parameters without defaults are supported", place)
        if annotation is None:
            raise self._fail("Type annotation required for function parameters.", place)
        value = self._evaluate(annotation)
        if isinstance(value, BufferRecord):
            buffer = self._guard(annotation[1], value.build, name)
            var = Var(f"{name}_handle", HANDLE)
            self._function.params.append(var)
            self._function.buffer_map[var] = buffer
            self._see(buffer)
            self._define(name, buffer, place)
            return
        var = self._fresh(value, name, annotation[1])
        self._function.params.append(var)
        self._define(name, var, place)

    def _fresh(self, annotation: Any, name: str, place: Place) -> Var:
        """Return a variable of an annotated type: `T.int32`, `T.handle(...)`, ..."""
        if isinstance(annotation, FreshVar):
            return annotation.build(name)
        dtype = getattr(annotation, "dtype", None)
        if callable(annotation) and isinstance(dtype, str):
            return Var(name, dtype)
        if getattr(annotation, "__name__", "") == "handle":
            return Var(name, HANDLE)
        raise self._fail("Annotation should be Var: a type such as T.int32 or T.handle", place)

    def _return_type(self, tree: Any) -> Type:
        if tree is None:
            return TupleType()
        value = self._evaluate(tree)
        if value is None:
            return TupleType()
        return e.PrimType(self._fresh(value, "ret", tree[1]).dtype)

    # --------------------------------------------------------------------------------------- suites

    def _suite(self, trees: list[Tree]) -> Stmt:
        """Return the statements of a suite as one; concise scopes enclose what follows them."""
        stmts: list[Stmt] = []
        for k, tree in enumerate(trees):
            result = _STATEMENTS[tree[0]](self, tree)
            if isinstance(result, ScopeFrame):
                raise AssertionError("a frame must be opened by its statement")
            if callable(result):
                stmts.append(result(self._suite(trees[k + 1 :])))
                return _join(stmts)
            if result is not None:
                stmts.append(result)
        return _join(stmts)

    def _nested(self, trees: list[Tree]) -> Stmt:
        self._scope.push()
        try:
            return self._suite(trees)
        finally:
            self._scope.pop()

    def _fail(self, message: str, place: Place) -> Exception:
        return self._evaluate.fail(message, place)

    def _guard(self, place: Place, function: Callable[..., Any], *args: Any) -> Any:
        return self._evaluate.guarded(place, function, *args)

    def _define(self, name: str, value: Any, place: Place) -> None:
        self._guard(place, self._scope.define, name, value)

    def _see(self, buffer: Buffer) -> None:
        self._visible[buffer.data] = buffer

    def _expr(self, tree: Tree) -> PrimExpr:
        return self._guard(tree[1], as_expr, self._evaluate(tree))  # type: ignore[no-any-return]

    # ----------------------------------------------------------------------------------- statements

    def expression_statement(self, tree: Tree) -> Any:
        """Run a call for its effect on the block, the function, or at run time."""
        value_tree = tree[2]
        if value_tree[0] == "constant" and isinstance(value_tree[2], str):
            return None
        value = self._evaluate(value_tree)
        place = value_tree[1]
        if isinstance(value, BlockRecord):
            self._guard(place, self._block_record, value)
            return None
        if isinstance(value, FuncAttrRecord):
            self._guard(place, self._func_attr, value.attrs)
            return None
        if isinstance(value, EvaluateRecord):
            return s.Evaluate(value.value)
        if isinstance(value, s.Stmt):
            return value
        if isinstance(value, MacroCall):
            return self._expand(value, place)
        if isinstance(value, ScopeFrame):
            defined = value.define("v") if value.define is not None else None
            return lambda body: self._guard(place, value.make, defined, body)
        if isinstance(value, (PrimExpr, int)):
            return s.Evaluate(as_expr(value))
        if value is None:
            return None
        raise self._fail(
            f"Parsing resulted in unexpected type {type(value).__name__}: "
            "this expression is no statement",
            place,
        )

    def _expand(self, call: MacroCall, place: Place) -> Stmt:
        """Read the suite of a macro with its arguments as names."""
        evaluate, macro = self._evaluate, call.macro
        if self._depth_of_macros >= _MAX_MACRO_DEPTH:
            raise self._fail(f"macro {macro.name} calls itself without end", place)
        before = (evaluate.source, evaluate.scope)
        self._depth_of_macros += 1
        evaluate.source = macro.source
        if macro.hygienic:
            evaluate.scope = self._scope = macro.scope()
        self._scope.push()
        try:
            for name, value in call.arguments.items():
                bound = evaluate(value.tree) if isinstance(value, Default) else value
                self._define(name, bound, macro.tree[1])
            return self._suite(macro.tree[5])
        finally:
            self._scope.pop()
            evaluate.source, evaluate.scope = before
            self._scope = before[1]
            self._depth_of_macros -= 1

    def assign(self, tree: Tree) -> Any:
        """Store to a buffer, or give names to what the right-hand side makes."""
        _, place, targets, value_tree = tree
        if len(targets) > 1:
            raise self._fail("Consequential assignments a = b = c are not supported", place)
        target = targets[0]
        if target[0] == "index":
            return self._store(target, self._evaluate(value_tree), place)
        return self._bind(target, self._evaluate(value_tree), place)

    def _store(self, target: Tree, value: Any, place: Place) -> Stmt:
        buffer = self._evaluate(target[2])
        if not isinstance(buffer, Buffer):
            raise self._fail(f"a {type(buffer).__name__} cannot be stored to", target[1])
        indices = self._guard(target[1], self._evaluate.store_indices, buffer, target[3])
        return self._guard(place, _make_store, buffer, value, indices)  # type: ignore[no-any-return]

    def augmented(self, tree: Tree) -> Any:
        """`B[i] += v` stores `B[i] + v`."""
        _, place, target, operator, value = tree
        combined = ("binary", place, operator, target, value)
        return self.assign(("assign", place, (target,), combined))

    def annotated(self, tree: Tree) -> Any:
        """`x: T.int32 = v` binds a variable of that type."""
        _, place, target, annotation, value = tree
        if target[0] != "name" or value is None:
            raise self._fail("an annotated assignment is `name: type = value`", place)
        var = self._fresh(self._evaluate(annotation), target[2], annotation[1])
        bound = self._expr(value)
        if var.dtype is not bound.dtype:
            raise self._fail(
                f"{target[2]} is annotated {var.dtype}, but the value is {bound.dtype}", value[1]
            )
        self._define(target[2], var, place)
        return lambda body: s.LetStmt(var, bound, body)

    def _bind(self, target: Tree, value: Any, place: Place) -> Any:
        """Give a value its name(s); return what must enclose the rest of the suite, if anything."""
        if target[0] == "parenthesized":
            target = target[2]
        if isinstance(value, RemapRecord):
            return self._remap(target, value, place)
        if target[0] in ("tuple", "list"):
            return self._unpack(target, value, place)
        if target[0] != "name":
            raise self._fail("cannot assign to this", target[1])
        name = target[2]
        if isinstance(value, AxisRecord):
            self._guard(place, self._axis, name, value)
            return None
        if isinstance(value, BufferRecord):
            self._guard(place, self._buffer, name, value)
            return None
        if isinstance(value, ScopeFrame):
            defined = value.define(name) if value.define is not None else None
            if isinstance(defined, Buffer):
                self._see(defined)
            self._define(name, defined, place)
            return lambda body: self._guard(place, value.make, defined, body)
        if isinstance(value, FreshVar):
            self._define(name, value.build(name), place)
            return None
        if isinstance(value, MetaVar):
            self._define(name, value.value, place)
            return None
        if isinstance(value, (PrimExpr, int, float, e.EqualOp)) and not self._is_known(value):
            bound = as_expr(value)
            var = Var(name, bound.dtype)
            self._define(name, var, place)
            return lambda body: s.LetStmt(var, bound, body)
        if isinstance(value, BufferRegion):
            return self._bind(target, self._guard(place, value.as_expr), place)
        self._define(name, value, place)
        return None

    def _is_known(self, value: Any) -> bool:
        """Say whether a variable is known under another name, so that naming it binds nothing."""
        return isinstance(value, Var) and any(value in level.values() for level in self._levels())

    def _levels(self) -> list[dict[str, Any]]:
        return self._scope.levels

    def _unpack(self, target: Tree, value: Any, place: Place) -> Any:
        names = target[2]
        values = list(value) if isinstance(value, (tuple, list)) else None
        if values is None or len(values) != len(names):
            count = "no" if values is None else str(len(values))
            raise self._fail(f"cannot unpack {count} value(s) into {len(names)} names", place)
        known = [n[2] for n in names if n[0] == "name"]
        if len(set(known)) != len(known):
            raise self._fail("Duplicate vars assigned.", place)
        enclosing = [self._bind(n, v, place) for n, v in zip(names, values, strict=True)]
        wrappers = [w for w in enclosing if w is not None]
        if not wrappers:
            return None

        def enclose(body: Stmt) -> Stmt:
            for wrap in reversed(wrappers):
                body = wrap(body)
            return body

        return enclose

    # --------------------------------------------------------------------------------------- blocks

    def _block(self, what: str) -> BlockParts:
        if not self._blocks:
            raise IRValueError(
                f"T.{what} must be called at the top of a T.block(), but it occurred outside of "
                "any T.block() frame"
            )
        return self._blocks[-1]

    def _block_record(self, record: BlockRecord) -> None:
        block = self._block(record.what)
        if record.what == "where":
            if block.predicate is not None:
                raise IRValueError("Duplicate block predicate declaration")
            block.predicate = record.value
        elif record.what == "block_attr":
            if block.attrs is not None:
                raise IRValueError("Duplicate block annotations")
            block.attrs = record.value
        elif getattr(block, record.what) is not None:
            raise IRValueError("Duplicate read/write region declaration")
        else:
            setattr(block, record.what, record.value)

    def _func_attr(self, attrs: Mapping[str, Any]) -> None:
        if self._depth:
            raise IRValueError("T.func_attr must be called at the top of a function")
        for key, value in attrs.items():
            if key in self._function.attrs:
                raise IRValueError(f"Duplicate prim func annotation for key {key!r}")
            self._function.attrs[key] = value

    def _axis(self, name: str, record: AxisRecord) -> None:
        if not self._blocks:
            raise IRTypeError("The last frame is not BlockFrame: an axis belongs to a block")
        block = self._blocks[-1]
        bits = max(record.low.dtype.bits, record.extent.dtype.bits, DataType(record.dtype).bits)
        dtype = DataType(f"int{bits}")
        dom = Range.from_min_extent(cast(dtype, record.low), cast(dtype, record.extent))
        var = Var(name, dtype)
        block.axes.append(IterVar(dom, var, record.iter_type))
        if block.realize:
            if record.binding is None:
                raise IRTypeError(f"axis {name} needs a binding")
            if not record.binding.dtype.is_int:
                raise IRTypeError(f"axis {name} is bound to a value of {record.binding.dtype}")
            block.bindings.append(record.binding)
        self._scope.define(name, var)

    def _remap(self, target: Tree, record: RemapRecord, place: Place) -> None:
        names = target[2] if target[0] in ("tuple", "list") else [target]
        if len(names) != len(record.kinds):
            raise self._fail(
                f"T.axis.remap gives {len(record.kinds)} axes to {len(names)} names", place
            )
        for name, kind, binding in zip(names, record.kinds, record.bindings, strict=True):
            if not isinstance(binding, Var):
                raise self._fail("Only Var is supported in T.axis.remap", place)
            loop = self._loops.get(binding)
            if loop is None:
                raise self._fail(f"Variable is not in the loop: {binding.name}", place)
            low, extent = loop
            iter_type = IterVar.DATA_PAR if kind == "S" else IterVar.COMM_REDUCE
            axis = AxisRecord(low, extent, binding, iter_type, binding.dtype)
            self._guard(place, self._axis, name[2], axis)

    def _buffer(self, name: str, record: BufferRecord) -> None:
        if record.what == "match_buffer":
            self._match_buffer(name, record)
            return
        buffer = record.build(name)
        if record.what == "alloc_buffer":
            if self._blocks:
                self._blocks[-1].alloc_buffers.append(buffer)
            elif not self._depth:
                self._function.alloc_buffers.append(buffer)
            else:
                raise IRValueError(
                    "Block frame or PrimFunc frame not find. T.alloc_buffer must stand directly in "
                    "a block or function"
                )
        self._see(buffer)
        self._scope.define(name, buffer)

    def _match_buffer(self, name: str, record: BufferRecord) -> None:
        source = record.source
        if isinstance(source, Var):
            if self._depth:
                raise IRValueError("T.match_buffer must be called at the top of a PrimFunc")
            if source not in self._function.params:
                raise IRValueError("Can not bind non-input param to buffer.")
            buffer = record.build(name)
            self._function.buffer_map[source] = buffer
        elif isinstance(source, (BufferRegion, e.BufferLoad, Buffer)):
            region = as_region(source)
            buffer = record.build(name)
            self._block("match_buffer").match_buffers.append(MatchBufferRegion(buffer, region))
        else:
            raise IRValueError(f"Unexpected type for TIR MatchBuffer: {type(source).__name__}")
        self._see(buffer)
        self._scope.define(name, buffer)

    # ------------------------------------------------------------------------------------ compounds

    def for_loop(self, tree: Tree) -> Stmt:
        """Read a loop, or the nest of a `T.grid`."""
        _, place, target, iterable, body = tree
        frame = self._evaluate(iterable)
        if not isinstance(frame, LoopFrame):
            raise self._fail(
                "Expect the for loop to be one of the following: range, T.serial, T.grid, "
                "T.parallel, T.vectorized, T.unroll, T.thread_binding",
                iterable[1],
            )
        groups = self._loop_names(target, frame, place)
        names = [name for group in groups.values() for name in group]
        self._scope.push()
        self._depth += 1
        loop_vars = []
        for name, (low, extent) in zip(names, frame.ranges, strict=True):
            bits = max(low.dtype.bits, extent.dtype.bits)
            var = Var(name, DataType(f"int{bits}"))
            self._loops[var] = (low, extent)
            loop_vars.append(var)
        unnamed = iter(loop_vars)
        for label, group in groups.items():
            taken = [next(unnamed) for _ in group]
            self._define(label, taken[0] if group == [label] else tuple(taken), place)
        stmt = self._suite(body)
        self._depth -= 1
        self._scope.pop()
        for var in reversed(loop_vars):
            low, extent = self._loops.pop(var)
            stmt = self._guard(place, _make_for, var, low, extent, frame, stmt)
        return stmt

    def _loop_names(self, target: Tree, frame: LoopFrame, place: Place) -> dict[str, list[str]]:
        """Return the names that a target defines, each with those of its loop variables.

        A name alone before several loops, or one with a star, stands for a tuple of variables.
        """
        if target[0] == "parenthesized":
            target = target[2]
        count = len(frame.ranges)
        parts = target[2] if target[0] in ("tuple", "list") else [target]
        stars = [k for k, part in enumerate(parts) if part[0] == "starred"]
        if target[0] == "name" and count > 1:
            stars = [0]
        left = count - len(parts) + len(stars)
        if len(stars) > 1 or left < 0 or (not stars and left):
            raise self._fail(f"the loop has {count} variable(s)", place)
        groups: dict[str, list[str]] = {}
        for k, part in enumerate(parts):
            name = part[2][2] if part[0] == "starred" else part[2]
            if name in groups:
                raise self._fail("Duplicate vars assigned.", place)
            groups[name] = [f"{name}_{n}" for n in range(left)] if k in stars else [name]
        return groups

    def while_loop(self, tree: Tree) -> Stmt:
        """Read a while loop."""
        condition = self._expr(tree[2])
        self._depth += 1
        body = self._nested(tree[3])
        self._depth -= 1
        return self._guard(tree[1], s.While, condition, body)  # type: ignore[no-any-return]

    def if_else(self, tree: Tree) -> Stmt | None:
        """Read an if; a Python bool chooses the code."""
        _, place, condition_tree, body, otherwise = tree
        condition = self._evaluate(condition_tree)
        if isinstance(condition, bool):
            chosen = body if condition else otherwise
            return None if chosen is None else self._suite(chosen)
        if isinstance(condition, e.EqualOp):
            condition = condition.as_expr()
        if not isinstance(condition, PrimExpr):
            raise self._fail(
                f"If condition must be a boolean expression, but got {type(condition).__name__}",
                condition_tree[1],
            )
        self._depth += 1
        then_case = self._nested(body)
        else_case = None if otherwise is None else self._nested(otherwise)
        self._depth -= 1
        return self._guard(place, s.IfThenElse, condition, then_case, else_case)  # type: ignore[no-any-return]

    def with_block(self, tree: Tree) -> Stmt | None:
        """Read the suite of one frame or several."""
        _, place, items, body = tree
        return self._open(list(items), body, place)

    def _open(self, items: list[Tree], body: list[Tree], place: Place) -> Stmt | None:
        if not items:
            return self._suite(body)
        _, item_place, frame_tree, target = items[0]
        frame = self._evaluate(frame_tree)
        self._scope.push()
        try:
            if isinstance(frame, BlockFrame):
                if target is not None:
                    raise self._fail("Do not know how to bind type BlockFrame", item_place)
                return self._read_block(frame, items[1:], body, place)
            if isinstance(frame, InitFrame):
                block = self._guard(item_place, self._block, "init")
                if block.init is not None:
                    raise self._fail("Duplicate block init declaration", item_place)
                block.init = self._open(items[1:], body, place)
                return None
            if isinstance(frame, IfFrame):
                return self._read_if(frame, items[1:], body, place)
            if isinstance(frame, ArmFrame):
                self._read_arm(frame, items[1:], body, place)
                return None
            if isinstance(frame, ScopeFrame):
                name = target[2] if target is not None else "v"
                defined = frame.define(name) if frame.define is not None else None
                if isinstance(defined, Buffer):
                    self._see(defined)
                if target is not None:
                    self._define(name, defined, item_place)
                self._depth += 1
                inner = self._open(items[1:], body, place)
                self._depth -= 1
                return self._guard(item_place, frame.make, defined, inner)  # type: ignore[no-any-return]
            raise self._fail(
                f"`with` takes a frame such as T.block(...), not a {type(frame).__name__}",
                item_place,
            )
        finally:
            self._scope.pop()

    def _read_if(self, frame: IfFrame, items: list[Tree], body: list[Tree], place: Place) -> Stmt:
        """Read `T.If`, whose suite consists of `T.Then` and perhaps `T.Else`."""
        arms: dict[bool, Stmt] = {}
        self._arms.append(arms)
        self._open(items, body, place)
        self._arms.pop()
        if True not in arms:
            raise self._fail("T.If needs a T.Then() inside", place)
        return s.IfThenElse(frame.condition, arms[True], arms.get(False))

    def _read_arm(self, frame: ArmFrame, items: list[Tree], body: list[Tree], place: Place) -> None:
        name = "T.Then()" if frame.is_then else "T.Else()"
        if not self._arms:
            raise self._fail(f"{name} stands in the suite of T.If", place)
        if frame.is_then in self._arms[-1]:
            raise self._fail(f"Duplicate {name}", place)
        self._depth += 1
        stmt = self._open(items, body, place)
        self._depth -= 1
        self._arms[-1][frame.is_then] = s.Evaluate(const(0)) if stmt is None else stmt

    def _read_block(
        self, frame: BlockFrame, items: list[Tree], body: list[Tree], place: Place
    ) -> Stmt:
        parts = BlockParts(frame.name, frame.realize)
        outer_buffers = dict(self._visible)
        self._blocks.append(parts)
        self._depth += 1
        stmt = self._open(items, body, place)
        self._depth -= 1
        self._blocks.pop()
        block = s.Block(
            parts.axes,
            parts.reads or (),
            parts.writes or (),
            parts.name,
            stmt if stmt is not None else s.Evaluate(const(0)),
            parts.init,
            parts.alloc_buffers,
            parts.match_buffers,
            parts.attrs,
        )
        missing = (parts.reads is None, parts.writes is None)
        block = self._guard(place, complete_block, block, missing, outer_buffers)
        if not self._blocks and not self._loops and not parts.axes:
            self._filled[block] = missing
        self._visible = outer_buffers
        if not frame.realize:
            bare: Stmt = block
            return bare
        predicate = TRUE if parts.predicate is None else parts.predicate
        return self._guard(place, s.BlockRealize, parts.bindings, predicate, block)  # type: ignore[no-any-return]

    def return_value(self, tree: Tree) -> Stmt:
        """Read a return."""
        if tree[2] is None:
            raise self._fail("Expression to be returned must be a PrimExpr", tree[1])
        value = self._expr(tree[2])
        return s.Evaluate(e.Call(value.dtype, Op.get("ret"), [value]))

    def assertion(self, tree: Tree) -> Any:
        """Read an assert; it encloses what follows."""
        _, place, condition, message = tree
        if message is None:
            raise self._fail("assert needs a message", place)
        holds, text = self._expr(condition), self._evaluate(message)
        shown = StringImm(text) if isinstance(text, str) else as_expr(text)
        return lambda body: self._guard(place, s.AssertStmt, holds, shown, body)

    def nothing(self, _: Tree) -> None:
        """Read pass, an import or a comment."""

    def unsupported(self, tree: Tree) -> None:
        """Refuse what has no meaning inside a function."""
        raise self._fail(f"a {tree[0]} is not supported inside a function", tree[1])


def _join(stmts: list[Stmt]) -> Stmt:
    return sequence(stmts)


def _make_for(var: Var, low: PrimExpr, extent: PrimExpr, frame: LoopFrame, body: Stmt) -> s.For:
    binding = None
    if frame.kind is ForKind.THREAD_BINDING:
        thread = Var(frame.thread, var.dtype)
        binding = IterVar(None, thread, IterVar.THREAD_INDEX, frame.thread)
    low, extent = cast(var.dtype, low), cast(var.dtype, extent)
    return s.For(var, low, extent, frame.kind, body, binding, frame.annotations)


def _make_store(buffer: Buffer, value: Any, indices: list[PrimExpr]) -> s.BufferStore:
    lanes = indices[-1].dtype.lanes if indices else 1
    dtype = buffer.dtype if lanes == 1 else buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
    stored: PrimExpr = as_expr(value)
    if buffer.dtype.is_bool and isinstance(value, bool):
        stored = const(value, buffer.dtype)
    if stored.dtype is not dtype:
        if stored.dtype.lanes != dtype.lanes:
            raise IRTypeError(
                f"Incompatible types in BufferStore to {buffer.name}: the place has "
                f"{dtype.lanes} lanes, the value {stored.dtype.lanes}"
            )
        # A Python float keeps its digits, whatever type it has by itself.
        stored = cast(dtype, value if type(value) is float else stored)
    return s.BufferStore(buffer, stored, indices)


_STATEMENTS: Final[dict[str, Callable[[FunctionBuilder, Tree], Any]]] = {
    "expression_statement": FunctionBuilder.expression_statement,
    "assign": FunctionBuilder.assign,
    "augmented": FunctionBuilder.augmented,
    "annotated": FunctionBuilder.annotated,
    "for": FunctionBuilder.for_loop,
    "while": FunctionBuilder.while_loop,
    "if": FunctionBuilder.if_else,
    "with": FunctionBuilder.with_block,
    "return": FunctionBuilder.return_value,
    "assert": FunctionBuilder.assertion,
    "pass": FunctionBuilder.nothing,
    "import": FunctionBuilder.nothing,
    "decorated": FunctionBuilder.unsupported,
    "def": FunctionBuilder.unsupported,
    "class": FunctionBuilder.unsupported,
}

__all__ = ["FunctionBuilder", "IRModule", "Scope", "Source"]
