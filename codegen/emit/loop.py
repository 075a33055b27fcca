"""The form of a counted loop.

A loop counts in 64 bits whatever the dtype of its variable and tests at its end (behind a guard
where the extent is not constant), which is the form LLVM's loop passes would first have to make.
"""

from __future__ import annotations

from collections.abc import Callable

from codegen.emit.context import FunctionEmitter
from codegen.emit.llvm_types import register_type
from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.nodes.expr import IntImm, PrimExpr, Var


def loop_bounds(
    f: FunctionEmitter, low: PrimExpr, extent: PrimExpr
) -> tuple[str, str, Interval | None]:
    """Write first value and end of a loop in 64 bits; return them with the variable's interval."""
    start, count = f.index(low), f.index(extent)
    if type(low) is IntImm and type(extent) is IntImm:
        end = str(low.value + extent.value)
    elif start == "0":
        end = count
    else:
        end = f.op(f"add nsw i64 {start}, {count}")
    lows, counts = exact_interval(low, f.ranges), exact_interval(extent, f.ranges)
    interval = None
    if lows is not None and counts is not None:
        interval = (lows[0], max(lows[0], lows[1] + counts[1] - 1))
        if interval[1] >= 1 << 63:
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
    """Write `for var in [low, end): body`; the bounds are 64-bit values."""
    done = f.new_label("done")
    if may_be_empty:
        enter = f.new_label("enter")
        f.branch_if(f.op(f"icmp slt i64 {low}, {end}"), enter, done)
        f.start(enter)
    body, origin = f.new_label("loop"), f.block
    f.branch(body)
    f.start(body)
    counter = f.op("phi i64")
    phi = len(f.lines) - 1
    define_counter(f, var, counter, interval)
    outside, f.in_loop = f.in_loop, True
    f.loops += 1
    write_body()
    f.in_loop = outside
    following = f.op(f"add nsw i64 {counter}, 1")
    f.lines[phi] += f" [{low}, %{origin}], [{following}, %{f.block}]"
    again = f.op(f"icmp slt i64 {following}, {end}")
    metadata = f", !llvm.loop {f.module.text.loop_metadata(*hints)}" if hints else ""
    f.do(f"br i1 {again}, label %{body}, label %{done}{metadata}")
    f.start(done)


def define_counter(f: FunctionEmitter, var: Var, counter: str, interval: Interval | None) -> None:
    """Use the 64-bit `counter` for `var`."""
    f.wide[var] = counter
    if interval is not None:
        f.ranges[var] = interval
    dtype = var.dtype
    narrow = counter if dtype.bits == 64 else f.op(f"trunc i64 {counter} to {register_type(dtype)}")
    f.values[var] = narrow
