"""Parallel loops, run by an OpenMP runtime.

The body becomes a function over a range of iterations. The runtime calls a second function once per
thread, which runs that thread's even share of the range. If the body begins with a heap allocation,
the memory is allocated once per share. `GOMP_parallel` is a weak symbol: without a runtime, the
calling thread runs the whole range. A parallel loop inside another is a serial one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from codegen.abi import OPENMP_SYMBOLS, local_symbol
from codegen.emit.context import FunctionEmitter
from codegen.emit.index import extend_index, resize
from codegen.emit.llvm_text import global_name, register_type
from codegen.emit.memory import allocate_on_heap
from codegen.lower.hoist_allocations import constant_bytes, stack_bytes
from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import Allocate, BufferStore, For, Stmt
from tensorir.rewriting.visit import walk

_DECLARATIONS: Final = {
    "GOMP_parallel": "declare extern_weak void @GOMP_parallel(ptr, ptr, i32, i32)",
    "omp_get_thread_num": "declare extern_weak i32 @omp_get_thread_num()",
    "omp_get_num_threads": "declare extern_weak i32 @omp_get_num_threads()",
}
_STATUS: Final = 0
_LOW: Final = 1
_END: Final = 2
_FIRST_CAPTURE: Final = 3


def emit_parallel_loop(
    f: FunctionEmitter, node: For, low: str, end: str, interval: Interval | None
) -> None:
    """Write a loop whose iterations [low, end) are divided among threads."""
    f.parallel_bodies += 1
    name = global_name(local_symbol(f"parallel{f.parallel_bodies}"))
    captured = _captures(f, node.body)
    types = [register_type(var.dtype) for var in captured]
    for symbol in OPENMP_SYMBOLS:
        f.module.text.declare(symbol, _DECLARATIONS[symbol])
    _write_body(f, node, name, captured, interval)
    struct = "{ " + ", ".join(["i32", "i64", "i64", *types]) + " }"
    _write_share(f, name, struct, types)
    _write_launch(f, name, struct, types, [low, end, *(f.values[v] for v in captured)])


def _captures(f: FunctionEmitter, body: Stmt) -> list[Var]:
    used: dict[Var, None] = {}
    for part in walk(body):
        if isinstance(part, Var):
            used[part] = None
        elif isinstance(part, (BufferLoad, BufferStore)):
            used[part.buffer.data] = None
    return [var for var in used if var in f.values and f.values[var][0] == "%"]


def _write_body(
    f: FunctionEmitter, node: For, name: str, captured: list[Var], interval: Interval | None
) -> None:
    body = FunctionEmitter(f.module, f"{f.name}.parallel{f.parallel_bodies}")
    body.in_parallel = True
    body.contracts = f.contracts
    body.ranges = dict(f.ranges)
    body.value_variables = set(f.value_variables)
    body.values = {var: text for var, text in f.values.items() if text[0] != "%"}
    unaliased = all(var in f.local_pointers for var in captured if var.dtype.is_handle)
    parameters = []
    for k, var in enumerate(captured):
        kind = register_type(var.dtype)
        if var.dtype.is_handle and unaliased:
            kind += " noalias"
            body.local_pointers.add(var)
        parameters.append(f"{kind} noundef %c{k}")
        body.values[var] = f"%c{k}"
    for k, var in enumerate(captured):
        if var.dtype.is_integral and var.dtype.lanes == 1 and var in f.wide:
            body.wide[var] = extend_index(body, f"%c{k}", var.dtype)

    def write(stmt: Stmt) -> None:
        """Write the loop over a statement, inside the heap allocations at the start of it."""
        if isinstance(stmt, Allocate) and _is_large(stmt):
            allocate_on_heap(body, stmt, lambda: write(stmt.body))
        else:
            counted_loop(
                body, node.loop_var, "%low", "%end", interval, True, lambda: body.stmt(stmt)
            )

    write(node.body)
    body.return_status("0")
    f.written |= body.written
    f.vector_ops += body.vector_ops
    f.loops += body.loops
    header = ", ".join([*parameters, "i64 noundef %low", "i64 noundef %end"])
    # Not inlined, because pointers keep `noalias` only as parameters of a separate function.
    f.module.text.functions.append(
        body.finish(f"define internal i32 {name}.body({header}) noinline #0")
    )


def _is_large(node: Allocate) -> bool:
    """Return True if an allocation is always on the heap, with the same size in all iterations."""
    return constant_bytes(node) is not None and stack_bytes(node, 0) is None


def _write_share(f: FunctionEmitter, name: str, struct: str, types: list[str]) -> None:
    """Write the function of a thread: it runs an even share of the range and reports its status."""
    lines = [
        f"define internal void {name}.share(ptr noundef %closure) #0 {{",
        "entry:",
        "  %thread32 = call i32 @omp_get_thread_num()",
        "  %threads32 = call i32 @omp_get_num_threads()",
        "  %thread = sext i32 %thread32 to i64",
        "  %threads = sext i32 %threads32 to i64",
    ]
    for k, kind in enumerate(["i64", "i64", *types], start=_LOW):
        lines.append(f"  %p{k} = getelementptr inbounds {struct}, ptr %closure, i32 0, i32 {k}")
        lines.append(f"  %a{k} = load {kind}, ptr %p{k}")
    arguments = [
        *(f"{kind} %a{k}" for k, kind in enumerate(types, start=_FIRST_CAPTURE)),
        "i64 %first",
        "i64 %last",
    ]
    lines += [
        f"  %count = sub nsw i64 %a{_END}, %a{_LOW}",
        "  %done_before = mul nsw i64 %count, %thread",
        "  %offset = sdiv i64 %done_before, %threads",
        f"  %first = add nsw i64 %a{_LOW}, %offset",
        "  %next = add nsw i64 %thread, 1",
        "  %done_after = mul nsw i64 %count, %next",
        "  %offset_end = sdiv i64 %done_after, %threads",
        f"  %last = add nsw i64 %a{_LOW}, %offset_end",
        f"  %status = call i32 {name}.body({', '.join(arguments)})",
        "  %ok = icmp eq i32 %status, 0",
        "  br i1 %ok, label %end, label %report",
        "report:",
        "  store atomic i32 %status, ptr %closure monotonic, align 4",
        "  br label %end",
        "end:",
        "  ret void",
        "}",
    ]
    f.module.text.functions.append("\n".join(lines))


def _write_launch(
    f: FunctionEmitter, name: str, struct: str, types: list[str], values: list[str]
) -> None:
    closure = f.stack(struct, 16)
    f.do(f"store i32 0, ptr {closure}")
    for k, (kind, value) in enumerate(zip(["i64", "i64", *types], values, strict=True), start=_LOW):
        slot = f.op(f"getelementptr inbounds {struct}, ptr {closure}, i32 0, i32 {k}")
        f.do(f"store {kind} {value}, ptr {slot}")
    threads = f.module.target.num_cores or 0
    arguments = [f"{kind} {value}" for kind, value in zip(types, values[2:], strict=True)]
    arguments += [f"i64 {values[0]}", f"i64 {values[1]}"]

    def fork() -> str:
        f.do(f"call void @GOMP_parallel(ptr {name}.share, ptr {closure}, i32 {threads}, i32 0)")
        return f.op(f"load atomic i32, ptr {closure} monotonic, align 4")

    def alone() -> str:
        return f.op(f"call i32 {name}.body({', '.join(arguments)})")

    status = f.emit_select(f.op("icmp ne ptr @GOMP_parallel, null"), "i32", fork, alone)
    f.leave_unless(f.op(f"icmp eq i32 {status}, 0"), status)


# ------------------------------------------------------------------------------------- serial loops
#
# The form of a counted loop.
#
# A loop counts in the index type for every dtype of its variable and tests at its end (after a
# guard if the extent is not constant). LLVM's loop passes would first convert it to this form.


def loop_bounds(
    f: FunctionEmitter, low: PrimExpr, extent: PrimExpr
) -> tuple[str, str, Interval | None]:
    """Write first value and end of a loop; return them with the variable's interval."""
    start, count = f.index(low), f.index(extent)
    if type(low) is IntImm and type(extent) is IntImm:
        end = str(low.value + extent.value)
    elif start == "0":
        end = count
    else:
        end = f.op(f"add nsw {f.index_type} {start}, {count}")
    lows, counts = exact_interval(low, f.ranges), exact_interval(extent, f.ranges)
    interval = None
    if lows is not None and counts is not None:
        interval = (lows[0], max(lows[0], lows[1] + counts[1] - 1))
        if not f.fits_index(interval):
            interval = None
    return start, end, interval


def counted_loop(
    f: FunctionEmitter,
    var: Var,
    low: str,
    end: str,
    interval: Interval | None,
    may_be_empty: bool,
    write_body: Callable[[], None],
    hints: tuple[str, ...] = (),
) -> None:
    """Write `for var in [low, end): body`; the bounds have the index type."""
    done = f.new_label("done")
    if may_be_empty:
        enter = f.new_label("enter")
        f.branch_if(f.op(f"icmp slt {f.index_type} {low}, {end}"), enter, done)
        f.start(enter)
    body, origin = f.new_label("loop"), f.block
    f.branch(body)
    f.start(body)
    counter = f.op(f"phi {f.index_type}")
    phi = len(f.lines) - 1
    define_counter(f, var, counter, interval)
    outside, f.in_loop = f.in_loop, True
    f.loops += 1
    write_body()
    f.in_loop = outside
    following = f.op(f"add nsw {f.index_type} {counter}, 1")
    f.lines[phi] += f" [{low}, %{origin}], [{following}, %{f.block}]"
    again = f.op(f"icmp slt {f.index_type} {following}, {end}")
    metadata = f", !llvm.loop {f.module.text.loop_metadata(*hints)}" if hints else ""
    f.do(f"br i1 {again}, label %{body}, label %{done}{metadata}")
    f.start(done)


def define_counter(f: FunctionEmitter, var: Var, counter: str, interval: Interval | None) -> None:
    """Use `counter`, of the index type, for `var`."""
    f.wide[var] = counter
    if interval is not None:
        f.ranges[var] = interval
    f.values[var] = resize(f, counter, f.index_dtype, var.dtype)
