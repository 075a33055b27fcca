"""Statements: sequences, branches, bindings, assertions, and loops."""

from __future__ import annotations

from typing import Final

from codegen.emit.context import FunctionEmitter, emits_stmt
from codegen.emit.expr import bind
from codegen.emit.library_call import emit_library_call
from codegen.emit.llvm_text import register_type
from codegen.emit.parallel import (
    counted_loop,
    define_counter,
    emit_parallel_loop,
    loop_bounds,
)
from codegen.lower.forms import REPEATED_LOADS
from codegen.lower.remarks import done, missed, name_in_llvm
from codegen.lower.thread_axes import axis_of, tensor_core_of
from tensorir.arith.const_interval import exact_interval
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Call, IntImm, StringImm
from tensorir.nodes.intrin import Op
from tensorir.nodes.packed_call import CALL_PACKED

MIN_VECTOR_TRIP: Final = 8
"""The minimum number of iterations for which LLVM's vectoriser pays off on a scalar loop."""
LEFT_TO_LLVM: Final = "left to LLVM"
"""The remark on a loop over scalars that is left to LLVM's vectoriser."""
_MOST_THREADS: Final = (1 << 31) - 1
"""The maximum extent of a thread axis of any GPU."""
_LONG_BODY: Final = 32
"""A loop with more statements was unrolled, so LLVM's vectoriser gains nothing."""


@emits_stmt(s.SeqStmt)
def _sequence(f: FunctionEmitter, node: s.SeqStmt) -> None:
    for part in node.seq:
        f.stmt(part)


@emits_stmt(s.LetStmt)
def _let(f: FunctionEmitter, node: s.LetStmt) -> None:
    bind(f, node.var, node.value)
    f.stmt(node.body)


@emits_stmt(s.AttrStmt)
def _attribute(f: FunctionEmitter, node: s.AttrStmt) -> None:
    if node.attr_key in ("thread_extent", "virtual_thread"):
        f.fail(f"attribute {node.attr_key} binds a thread, which CPU targets do not support")
    instruction = tensor_core_of(node)
    if instruction is not None:
        f.module.dialect.tensor_core(f, instruction)
        return
    asynchronous = f.module.dialect.asynchronous
    if node.attr_key == s.ASYNC_WAIT:
        asynchronous(f, "wait.group", [("i32", f.expr(node.value))])
    outer, f.copies = f.copies, f.copies or node.attr_key == s.ASYNC_COMMIT
    f.stmt(node.body)
    f.copies = outer
    if node.attr_key == s.ASYNC_COMMIT:
        asynchronous(f, "commit.group", [])


@emits_stmt(s.Evaluate)
def _evaluate(f: FunctionEmitter, node: s.Evaluate) -> None:
    if type(node.value) is IntImm:
        return
    if type(node.value) is Call and node.value.op is _RETURN:
        _return(f, node.value)
        return
    if type(node.value) is Call and node.value.op is CALL_PACKED:
        emit_library_call(f, node.value, wants_result=False)
        return
    f.expr(node.value)


_RETURN: Final = Op.get("ret")


def _return(f: FunctionEmitter, call: Call) -> None:
    value = f.expr(call.args[0])
    if not f.result:
        f.fail(
            "T.ret returns a value, but the function declares no result type, or the statement "
            "is in a parallel loop"
        )
    f.do(f"store {register_type(call.args[0].dtype)} {value}, ptr {f.result}")
    f.return_status("0")
    f.start(f.new_label("after_ret"))


@emits_stmt(s.AssertStmt)
def _assert(f: FunctionEmitter, node: s.AssertStmt) -> None:
    text = node.message.value if isinstance(node.message, StringImm) else str(node.message)
    f.leave_unless(f.expr(node.condition), str(f.module.message(text)))
    f.stmt(node.body)


@emits_stmt(s.IfThenElse)
def _if(f: FunctionEmitter, node: s.IfThenElse) -> None:
    then, done = f.new_label("then"), f.new_label("endif")
    otherwise = f.new_label("else") if node.else_case is not None else done
    f.branch_if(f.expr(node.condition), then, otherwise)
    f.start(then)
    f.stmt(node.then_case)
    f.branch(done)
    if node.else_case is not None:
        f.start(otherwise)
        f.stmt(node.else_case)
        f.branch(done)
    f.start(done)


@emits_stmt(s.While)
def _while(f: FunctionEmitter, node: s.While) -> None:
    test, body, done = f.new_label("while"), f.new_label("do"), f.new_label("endwhile")
    f.branch(test)
    f.start(test)
    f.branch_if(f.expr(node.condition), body, done)
    f.start(body)
    outside, f.in_loop = f.in_loop, True
    f.loops += 1
    f.stmt(node.body)
    f.in_loop = outside
    f.branch(test)
    f.start(done)


def _is_long(body: s.Stmt) -> bool:
    """Return whether a loop body is too long to gain from LLVM's loop transformations."""
    while isinstance(body, (s.Allocate, s.LetStmt, s.AttrStmt)):
        body = body.body
    return isinstance(body, s.SeqStmt) and len(body.seq) > _LONG_BODY


def _bind_thread(f: FunctionEmitter, node: s.For) -> None:
    counts = exact_interval(node.extent, f.ranges)
    most = _MOST_THREADS if counts is None else max(1, counts[1])
    index = f.module.dialect.thread_index(f, axis_of(node), min(most, _MOST_THREADS))
    define_counter(f, node.loop_var, index, (0, most - 1))
    f.stmt(node.body)


@emits_stmt(s.For)
def _for(f: FunctionEmitter, node: s.For) -> None:
    if node.kind is s.ForKind.THREAD_BINDING:
        _bind_thread(f, node)
        return
    if node.kind is s.ForKind.VECTORIZED:
        f.fail(f"loop {node.loop_var.name} of kind {node.kind.name} should have been lowered")
    extent = int(node.extent) if type(node.extent) is IntImm else None
    if extent is not None and extent <= 0:
        return
    if extent == 1:
        bind(f, node.loop_var, node.min)
        f.stmt(node.body)
        return
    low, end, interval = loop_bounds(f, node.min, node.extent)
    if node.kind is s.ForKind.PARALLEL:
        if not f.in_parallel and f.module.target.num_cores != 1:
            done("emit", "on threads", node.loop_var)
            emit_parallel_loop(f, node, low, end, interval)
            return
        reason = "inside another parallel loop" if f.in_parallel else "the target has one core"
        missed("emit", reason, node.loop_var)
    loops, vector_ops = f.loops, f.vector_ops
    hints: tuple[str, ...] = ()
    if node.kind is s.ForKind.UNROLLED:
        hints = ("llvm.loop.unroll.full",)
        done("emit", "LLVM unrolls it", node.loop_var)
    elif _is_long(node.body):
        # LLVM's analysis before vectorising takes exponential time on long chains of min and max.
        hints = ("llvm.loop.disable_nonforced",)
    name = name_in_llvm(node.loop_var)
    named = hints if name is None else (*hints, name)
    around, f.repeated = f.repeated, node.annotations.get(REPEATED_LOADS, ())
    counted_loop(
        f, node.loop_var, low, end, interval, extent is None, lambda: f.stmt(node.body), named
    )
    f.repeated = around
    is_scalar = loops + 1 == f.loops and vector_ops == f.vector_ops and not hints
    if is_scalar and (extent is None or extent >= MIN_VECTOR_TRIP):
        f.module.has_scalar_loop = True
        done("emit", LEFT_TO_LLVM, node.loop_var)
