"""Building tensor functions from syntax trees."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import HANDLE, INT32
from tensorir.nodes.expr import PrimExpr, Type, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import as_expr
from tensorir.nodes.stmt import Stmt, is_no_op, sequence
from tensorir.script.declarations import declare_sizes, fresh_var, type_of
from tensorir.script.definitions import Definitions, Enclose, spread
from tensorir.script.evaluate import Evaluator
from tensorir.script.frames import assert_, make_loop
from tensorir.script.macro import MacroCall
from tensorir.script.parts import BlockParts, complete_block, with_root_block
from tensorir.script.records import (
    ArmFrame,
    BlockFrame,
    BlockRecord,
    BufferRecord,
    FuncAttrRecord,
    IfFrame,
    InitFrame,
    LoopFrame,
    ScopeFrame,
)
from tensorir.script.syntax import Tree


class FunctionBuilder(Definitions):
    """Builds one function from its tree."""

    refused: ClassVar = {
        "decorated": "functions and classes cannot be defined inside a function; define a macro, "
        "or a function of the module, before it"
    }

    def __init__(self, evaluate: Evaluator, *, private: bool = False) -> None:
        super().__init__(evaluate, private=private)
        self._returned: e.Type = e.TupleType()
        """The type of the values that the function returns; void until a return is read."""
        self._filled: dict[s.Block, tuple[bool, bool]] = {}
        """Outermost blocks whose reads, or writes, are not declared."""
        self._arms: list[dict[bool, Stmt]] = []

    def build(self, tree: Tree) -> PrimFunc:
        """Return the function whose `def` is `tree`."""
        _, _, name, parameters, result, body, sizes = tree
        self._scope.push()
        declare_sizes(self._scope, [size for _, size in sizes])
        for parameter in parameters:
            self._evaluate.guarded(parameter[1], self._parameter, parameter)
        stmt = self._body(body)
        ret_type = self._returned if result is None else self.declared_result(tree)
        self._scope.pop()
        completed = with_root_block(stmt, self._alloc_buffers, self._filled)
        attrs = self._named_attrs(name)
        return PrimFunc(self._params, completed, ret_type, self._buffer_map, attrs)

    # ------------------------------------------------------------------------------------ signature

    def _parameter(self, tree: Tree) -> None:
        name, annotation = self._annotated_name(
            tree, "Type annotation required for function parameters."
        )
        value = self._evaluate(annotation)
        if isinstance(value, BufferRecord):
            shape = value.options["shape"]
            if isinstance(shape, (list, tuple)):
                value.options["shape"] = [
                    self._size(size, INT32) if isinstance(size, str) else size for size in shape
                ]
            defined = self._evaluate.guarded(annotation[1], value.build, name)
            var = Var(f"{name}_handle", HANDLE)
            self._buffer_map[var] = defined
        elif isinstance(value, Buffer):
            data = Var(name, value.data.type_annotation or HANDLE)
            defined = value.with_(name=name, data=data)
            var = Var(f"{name}_handle", HANDLE)
            self._buffer_map[var] = defined
        else:
            defined = var = self._evaluate.guarded(annotation[1], fresh_var, value, name)
        self._params.append(var)
        self._define(name, defined)

    def declared_result(self, tree: Tree) -> Type:
        """Return the declared type of the result, void without a declaration."""
        annotation = tree[4]
        if annotation is None:
            return e.TupleType()
        value = self._evaluate(annotation)
        found: Type = self._evaluate.guarded(annotation[1], type_of, value)
        return found

    # --------------------------------------------------------------------------------------- bodies

    def _body(self, trees: list[Tree]) -> Stmt:
        """Return the statements of a body as one statement.

        A scope encloses the statements after it.
        """
        stmts: list[Stmt] = []
        for k, tree in enumerate(trees):
            result = self._statement(tree)
            if callable(result):
                self._scopes += 1
                rest = self._body(trees[k + 1 :])
                self._scopes -= 1
                stmts.append(self._evaluate.guarded(tree[1], result, rest))
                break
            if type(result) is list:
                stmts.append(self._body([*result, *trees[k + 1 :]]))
                break
            if result is not None:
                stmts.append(result)
        return sequence(stmts)

    def _nest(self, trees: list[Tree]) -> Stmt:
        self._scope.push()
        self._depth += 1
        try:
            return self._body(trees)
        finally:
            self._depth -= 1
            self._scope.pop()

    # ----------------------------------------------------------------------------------- statements

    def read_expression_statement(self, tree: Tree) -> Any:
        """Read a call: a declaration of the block or function, a scope, or a statement."""
        value_tree = tree[2]
        if value_tree[0] == "constant" and isinstance(value_tree[2], str):
            return None
        value = self._evaluate(value_tree)
        if isinstance(value, BlockRecord):
            self._block(value.what).declare(value)
            return None
        if isinstance(value, FuncAttrRecord):
            if self._depth:
                raise IRValueError("T.func_attr must be called at the top of a function")
            self._add_attrs(value.attrs)
            return None
        if isinstance(value, s.Evaluate):
            return self._evaluated(value)
        if isinstance(value, s.Stmt):
            return value
        if isinstance(value, MacroCall):
            with value.opened(self._evaluate) as statements:
                return self._body(statements)
        if isinstance(value, ScopeFrame):
            return self._open_scope(None, value)
        if isinstance(value, (PrimExpr, int)):
            return self._evaluated(s.Evaluate(as_expr(value)))
        if value is None:
            return None
        raise IRTypeError(
            f"Parsing resulted in unexpected type {type(value).__name__}: "
            "this expression cannot be a statement"
        )

    def _evaluated(self, stmt: s.Evaluate) -> Stmt:
        value = stmt.value
        if isinstance(value, e.Call) and value.op is Op.get("ret"):
            returned = e.PrimType(value.args[0].dtype)
            before = self._returned
            if isinstance(before, e.PrimType) and before.dtype is not returned.dtype:
                raise IRTypeError(
                    f"the function returns {before.dtype} and {returned.dtype}; cast one of them"
                )
            self._returned = returned
        return stmt

    def read_assign(self, tree: Tree) -> Any:
        """Read a store to a buffer, or a definition."""
        targets, value_tree = tree[2:]
        if len(targets) > 1:
            raise IRTypeError(
                "Consequential assignments a = b = c are not supported; write one per line"
            )
        target, value = targets[0], self._evaluate(value_tree)
        if target[0] == "index":
            return self._store(target, value)
        if target[0] == "name" and isinstance(value, (PrimExpr, int, float)):
            store = self._store_scalar(target[2], value)
            if store is not None:
                return store
        return self._bind(target, value)

    def read_augmented(self, tree: Tree) -> Any:
        """`B[i] += v` stores `B[i] + v`."""
        _, place, target, operator, value = tree
        combined = ("binary", place, operator, target, value)
        return self.read_assign(("assign", place, (target,), combined))

    def read_annotated(self, tree: Tree) -> Enclose:
        """`x: T.int32 = v` binds a variable of that type, `x: T.int32` is memory for one value."""
        _, place, target, annotation, value = tree
        if target[0] != "name":
            raise self._fail("an annotated assignment must be `name: type = value`", place)
        kind = self._evaluate(annotation)
        bound = None if value is None else self._evaluate(value)
        return self._annotated(target[2], kind, bound)

    # ------------------------------------------------------------------------------------ compounds

    def read_for(self, tree: Tree) -> Stmt:
        """Read a loop, or the nest of a `T.grid`."""
        _, _, target, iterable, body = tree
        frame = self._evaluate(iterable)
        if not isinstance(frame, LoopFrame):
            raise self._fail(
                "Expect the for loop to be one of the following: range, T.serial, T.grid, "
                "T.parallel, T.vectorized, T.unroll, T.thread_binding",
                iterable[1],
            )
        self._scope.push()
        self._depth += 1
        loop_vars = self._loop_vars(target, frame)
        for var, bounds in zip(loop_vars, frame.ranges, strict=True):
            self._loops[var] = bounds
        stmt = self._body(body)
        self._depth -= 1
        self._scope.pop()
        for var in reversed(loop_vars):
            low, extent = self._loops.pop(var)
            stmt = make_loop(var, low, extent, frame.kind, frame.thread, frame.annotations, stmt)
        return stmt

    def _loop_vars(self, target: Tree, frame: LoopFrame) -> list[Var]:
        """Define the variables of a loop, and return them.

        A starred name, or the only name of several loops, is a tuple of variables.
        """
        if target[0] == "parenthesized":
            target = target[2]
        targets = target[2] if target[0] in ("tuple", "list") else [target]
        if target[0] == "name" and len(frame.ranges) > 1:
            targets = [("starred", target[1], target)]
        types = [
            low.dtype.with_bits(max(low.dtype.bits, extent.dtype.bits))
            for low, extent in frame.ranges
        ]
        loop_vars: list[Var] = []
        values = spread(targets, types, f"the loop has {len(types)} variable(s)")
        for part, dtype in zip(targets, values, strict=True):
            name = part[2][2] if part[0] == "starred" else part[2]
            if part[0] == "name":
                created: Any = Var(name, dtype)
                loop_vars.append(created)
            elif part[0] == "starred" and part[2][0] == "name":
                created = tuple(Var(f"{name}_{k}", kind) for k, kind in enumerate(dtype))
                loop_vars.extend(created)
            else:
                raise self._fail("a loop variable must be a plain name", part[1])
            if name in self._scope.levels[-1]:
                raise self._fail("Duplicate vars assigned.", part[1])
            self._scope.define(name, created)
        return loop_vars

    def read_while(self, tree: Tree) -> Stmt:
        """Read a while loop."""
        return s.While(self._expr(tree[2]), self._nest(tree[3]))

    def read_if(self, tree: Tree) -> Stmt | list[Tree]:
        """Read an if; for a Python bool, return the statements of the chosen branch."""
        _, _, condition_tree, body, otherwise = tree
        condition = self._evaluate(condition_tree)
        if isinstance(condition, (bool, np.bool_)):
            return (body if condition else otherwise) or []
        if isinstance(condition, e.EqualOp):
            condition = condition.as_expr()
        if not isinstance(condition, PrimExpr):
            raise self._fail(
                f"If condition must be a boolean expression, but got {type(condition).__name__}",
                condition_tree[1],
            )
        then_case = self._nest(body)
        else_case = None if otherwise is None else self._nest(otherwise)
        return s.IfThenElse(condition, then_case, else_case)

    def read_with(self, tree: Tree) -> Stmt | None:
        """Read a `with` of one frame or several."""
        return self._open(list(tree[2]), tree[3])

    def _open(self, items: list[Tree], body: list[Tree]) -> Stmt | None:
        if not items:
            return self._body(body)
        _, place, frame_tree, target = items[0]
        frame = self._evaluate(frame_tree)
        if target is not None and (not isinstance(frame, ScopeFrame) or target[0] != "name"):
            raise self._fail(f"Do not know how to bind type {type(frame).__name__}", place)
        self._scope.push()
        try:
            if isinstance(frame, BlockFrame):
                return self._read_block(frame, items[1:], body)
            if isinstance(frame, InitFrame):
                block = self._block("init")
                if block.init is not None:
                    raise self._fail("Duplicate block init declaration", place)
                block.init = self._open(items[1:], body)
                return None
            if isinstance(frame, IfFrame):
                return self._read_if(frame, items[1:], body)
            if isinstance(frame, ArmFrame):
                self._read_arm(frame, items[1:], body)
                return None
            if isinstance(frame, ScopeFrame):
                enclose = self._open_scope(None if target is None else target[2], frame)
                self._depth += 1
                inner = self._open(items[1:], body)
                self._depth -= 1
                return enclose(sequence([inner]))
            raise self._fail(
                f"`with` needs a frame such as T.block(...), not a {type(frame).__name__}", place
            )
        finally:
            self._scope.pop()

    def _read_if(self, frame: IfFrame, items: list[Tree], body: list[Tree]) -> Stmt:
        """Read `T.If`; its body consists of `T.Then` and optionally `T.Else`."""
        arms: dict[bool, Stmt] = {}
        self._arms.append(arms)
        other = self._open(items, body)
        self._arms.pop()
        if True not in arms:
            raise IRValueError("T.If needs a T.Then() inside")
        if other is not None and not is_no_op(other):
            raise IRValueError("the body of T.If must consist of T.Then() and T.Else()")
        return s.IfThenElse(frame.condition, arms[True], arms.get(False))

    def _read_arm(self, frame: ArmFrame, items: list[Tree], body: list[Tree]) -> None:
        name = "T.Then()" if frame.is_then else "T.Else()"
        if not self._arms:
            raise IRValueError(f"{name} must be inside the body of T.If")
        if frame.is_then in self._arms[-1]:
            raise IRValueError(f"Duplicate {name}")
        self._depth += 1
        stmt = self._open(items, body)
        self._depth -= 1
        self._arms[-1][frame.is_then] = sequence([stmt])

    def _read_block(self, frame: BlockFrame, items: list[Tree], body: list[Tree]) -> Stmt:
        self._depth += 1
        parts = BlockParts(frame, self._depth + self._scopes)
        outer_buffers = dict(self._visible)
        self._blocks.append(parts)
        stmt = self._open(items, body)
        self._depth -= 1
        self._blocks.pop()
        block = complete_block(parts.block(stmt), parts.missing, outer_buffers)
        if not self._blocks and not self._loops and not parts.axes:
            self._filled[block] = parts.missing
        self._visible = outer_buffers
        return parts.realize(block)

    def read_return(self, tree: Tree) -> Stmt:
        """Read a return."""
        if tree[2] is None:
            raise self._fail("Expression to be returned must be a PrimExpr", tree[1])
        return self._evaluated(s.Evaluate(ops.intrinsic("ret", self._expr(tree[2]))))

    def read_assert(self, tree: Tree) -> Enclose:
        """Read an assert, which encloses the rest of the body."""
        _, place, condition, message = tree
        if message is None:
            raise self._fail("assert needs a message", place)
        frame = assert_(self._expr(condition), self._evaluate(message))
        return lambda body: frame.make(None, body)
