"""Statements as Python closures, and calls of functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tensorir.function import IRModule, PrimFunc
from tensorir.interp.accesses import Eval
from tensorir.interp.arguments import Env
from tensorir.interp.expressions import ExpressionCompiler, store
from tensorir.interp.launch import compile_launch, is_launch
from tensorir.interp.library_call import library_call
from tensorir.interp.memory import InterpreterError, Memory, fresh, unwritten
from tensorir.memory.empty_reductions import initialise_empty_reductions
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.packed_call import CALL_PACKED
from tensorir.rewriting.visit import collect_vars

Run: TypeAlias = Callable[[Env], None]

_RETURN: Final = Op.get("ret")


class _Returned(Exception):  # noqa: N818 - it is no error
    """An exception that leaves the function with its return value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class FunctionCompiler(ExpressionCompiler):
    """Turns the statements of one function into closures."""

    def __init__(self, func: PrimFunc, functions: Functions) -> None:
        super().__init__(set(value_variables(func)))
        self._functions = functions
        self.fresh: Final = unwritten if functions.refuses_undefined else fresh
        """Allocates the memory of the function."""

    def stmt(self, node: s.Stmt) -> Run:
        """Return a closure that runs a statement."""
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise InterpreterError(f"unknown to the interpreter: {type(node).__name__}")
        run = handler(self, node)
        return run if self.ledger is None else self.ledger.running(node, run)

    def call_function(self, name: str, args: Sequence[PrimExpr]) -> Eval:
        """Return a closure that calls a function of the module."""
        func = self._functions.named(name)
        if len(args) != len(func.params):
            raise InterpreterError(f"{name} takes {len(func.params)} arguments, got {len(args)}")
        values = [self.stored(arg) for arg in args]
        functions = self._functions

        def call(env: Env) -> Any:
            inner: Env = {}
            for param, value in zip(func.params, values, strict=True):
                buffer = func.buffer_map.get(param)
                inner[param if buffer is None else buffer.data] = value(env)
            return functions.run(func, inner)

        return call


class Functions:
    """The functions of a program, compiled on their first call."""

    def __init__(self, module: IRModule | None, refuses_undefined: bool = False) -> None:
        self._module = module
        self.refuses_undefined = refuses_undefined
        """True if it is an error to read memory before it is written."""
        self._bodies: dict[PrimFunc, Run] = {}

    def named(self, name: str) -> PrimFunc:
        """Return the callee of a call.

        Raises InterpreterError if a call cannot pass its parameters.
        """
        if self._module is None or name not in self._module:
            raise InterpreterError(f"{name} is called, but the module has no function {name}")
        func = self._module.prim_func(name)
        for buffer in func.buffer_map.values():
            dims = buffer.layout
            if any(v not in func.params for dim in dims for v in collect_vars(dim)):
                raise InterpreterError(
                    f"{name} is called, but a pointer does not give the shape of {buffer.name}; "
                    f"specialize it first"
                )
        return func

    def run(self, func: PrimFunc, env: Env) -> Any:
        """Run a function whose parameters are bound; return the value of `T.ret`."""
        body = self._bodies.get(func)
        if body is None:
            written_out = initialise_empty_reductions(func)
            body = self._bodies[func] = FunctionCompiler(func, self).stmt(written_out.body)
        try:
            body(env)
        except _Returned as returned:
            return returned.value
        return None


# ------------------------------------------------------------------------------------- statements


def _compile_sequence(c: FunctionCompiler, node: s.SeqStmt) -> Run:
    parts = [c.stmt(child) for child in node.seq]

    def run_all(env: Env) -> None:
        for part in parts:
            part(env)

    return run_all


def _compile_for(c: FunctionCompiler, node: s.For) -> Run:
    if node.kind is s.ForKind.THREAD_BINDING and is_launch(node):
        return compile_launch(c, node)
    var, body = node.loop_var, c.stmt(node.body)
    low, extent = c.expr(node.min), c.expr(node.extent)

    def loop(env: Env) -> None:
        start = low(env)
        for value in range(start, start + extent(env)):
            env[var] = value
            body(env)

    return loop


def _compile_if(c: FunctionCompiler, node: s.IfThenElse) -> Run:
    condition, yes = c.expr(node.condition), c.stmt(node.then_case)
    no = None if node.else_case is None else c.stmt(node.else_case)

    def branch(env: Env) -> None:
        if condition(env):
            yes(env)
        elif no is not None:
            no(env)

    return branch


def _compile_while(c: FunctionCompiler, node: s.While) -> Run:
    condition, body = c.expr(node.condition), c.stmt(node.body)

    def repeat(env: Env) -> None:
        while condition(env):
            body(env)

    return repeat


def _compile_let(c: FunctionCompiler, node: s.LetStmt) -> Run:
    var, value = node.var, c.expr(node.value)
    body = c.stmt(node.body)

    def bound(env: Env) -> None:
        env[var] = value(env)
        body(env)

    return bound


def _compile_assert(c: FunctionCompiler, node: s.AssertStmt) -> Run:
    condition, body = c.expr(node.condition), c.stmt(node.body)
    message = node.message.value if isinstance(node.message, e.StringImm) else str(node.message)

    def check(env: Env) -> None:
        if not condition(env):
            raise InterpreterError(f"assertion failed: {message}")
        body(env)

    return check


def _compile_evaluate(c: FunctionCompiler, node: s.Evaluate) -> Run:
    value = node.value
    if isinstance(value, IntImm):
        return lambda env: None
    if isinstance(value, e.Call) and value.op is _RETURN:
        result = c.stored(value.args[0])

        def leave(env: Env) -> None:
            raise _Returned(result(env))

        return leave
    if isinstance(value, e.Call) and value.op is CALL_PACKED:
        run = library_call(c, value, wants_result=False)
    else:
        run = c.expr(value)

    def evaluate(env: Env) -> None:
        run(env)

    return evaluate


def _compile_body(c: FunctionCompiler, node: s.DeclBuffer) -> Run:
    return c.stmt(node.body)


def _compile_attribute(c: FunctionCompiler, node: s.AttrStmt) -> Run:
    body = c.stmt(node.body)
    return body if c.ledger is None else c.ledger.attribute(node, body)


def _compile_allocate(c: FunctionCompiler, node: s.Allocate) -> Run:
    var, dtype, body = node.buffer_var, node.dtype, c.stmt(node.body)
    extents = [c.expr(n) for n in node.extents]
    allocate = c.fresh if c.ledger is None else unwritten

    def run(env: Env) -> None:
        env[var] = allocate(math.prod(n(env) for n in extents), dtype)
        body(env)

    return run


def _compile_allocate_const(c: FunctionCompiler, node: s.AllocateConst) -> Run:
    var, body = node.buffer_var, c.stmt(node.body)
    memory = Memory(node.data.reshape(-1))

    def run(env: Env) -> None:
        env[var] = memory
        body(env)

    return run


def _compile_allocation(c: FunctionCompiler, buffer: Buffer) -> Run:
    data, dtype, layout = buffer.data, buffer.dtype, c.layout(buffer)

    def allocate(env: Env) -> None:
        env[data] = c.fresh(layout(env).span(), dtype)

    return allocate


def _compile_block(c: FunctionCompiler, node: s.BlockRealize) -> Run:
    block = node.block
    axes = [
        (axis.var, c.expr(value))
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
    ]
    predicate = None if is_const_int(node.predicate, 1) else c.expr(node.predicate)
    opening = [_compile_allocation(c, buffer) for buffer in block.alloc_buffers]
    opening += [c.view(match) for match in block.match_buffers]
    init = None if block.init is None else c.stmt(block.init)
    firsts = [
        (axis.var, c.expr(axis.dom.min))
        for axis in block.iter_vars
        if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
    ]
    body = c.stmt(block.body)

    def run(env: Env) -> None:
        if predicate is not None and not predicate(env):
            return
        env.update([(var, value(env)) for var, value in axes])
        for step in opening:
            step(env)
        if init is not None and all(env[var] == first(env) for var, first in firsts):
            init(env)
        body(env)

    return run


_HANDLERS: Final[dict[type, Callable[[FunctionCompiler, Any], Run]]] = {
    s.BufferStore: store,
    s.SeqStmt: _compile_sequence,
    s.For: _compile_for,
    s.IfThenElse: _compile_if,
    s.While: _compile_while,
    s.LetStmt: _compile_let,
    s.AssertStmt: _compile_assert,
    s.Evaluate: _compile_evaluate,
    s.AttrStmt: _compile_attribute,
    s.DeclBuffer: _compile_body,
    s.Allocate: _compile_allocate,
    s.AllocateConst: _compile_allocate_const,
    s.BlockRealize: _compile_block,
}
