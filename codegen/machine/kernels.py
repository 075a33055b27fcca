"""Small loops as LLVM IR, each of which measures one figure of a processor.

Each is a C function `void (ptr data, i64 count, i64 limit)`, For `fork`, data is the entry point of
an OpenMP runtime and limit the number of threads. Results are stored, or loaded as volatile, so
that LLVM keeps all operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.target import Target

CHAIN: Final = 16
"""Dependent operations in one iteration of `clock` and `latency`."""
SUMS: Final = 4
"""Updates in one iteration of `forward`."""
STREAM: Final = 16
"""Vectors that an iteration of `stream` loads."""
PAGE: Final = 4096
PAGE_STEP: Final = PAGE + 64
"""Bytes between loads of `pages`: they are in different pages and different sets of a cache."""
_PAGES: Final = 4
"""Loads in one iteration of `pages`."""
NAMES: Final = ("clock", "latency", "peak", "forward", "stream", "pages", "fork")


def symbol(name: str) -> str:
    """Return the symbol of a loop."""
    return f"tensorir_machine_{name}"


def multiply_adds(target: Target) -> int:
    """Return the number of multiply-adds in one iteration of the loop `peak`."""
    count = _accumulators(target)
    return count if "fma" in target.features else count // 2


def _accumulators(target: Target) -> int:
    """Return the number of accumulators that fit into registers together with the factors."""
    return target.vector_registers - 4


def kernels(target: Target) -> str:
    """Return the loops, with the vectors of a target."""
    update = _Update.of(target)
    in_order = _loads(STREAM, update.vector, 1, update.vector, update.lanes * 4)
    parts = [
        update.declaration,
        _loop("clock", _clock()),
        _loop("latency", _latency(update), update.factors),
        _loop("peak", _peak(update, _accumulators(target)), update.factors),
        _loop("forward", _sum_in_memory(update), update.factors),
        _pass_through_memory("stream", target.vector_bits // 8 * STREAM, in_order),
        _pass_through_memory(
            "pages", PAGE_STEP * _PAGES, _loads(_PAGES, "i8", PAGE_STEP, "i64", 8)
        ),
        f"define internal void @{symbol('nothing')}(ptr %closure) {{\n  ret void\n}}",
        _loop("fork", _empty_parallel_loop(), "  %threads = trunc i64 %limit to i32"),
    ]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Update:
    """The multiply-add of a target, of its widest vectors."""

    vector: str
    lanes: int
    has_fma: bool

    @staticmethod
    def of(target: Target) -> _Update:
        lanes = target.vector_lanes(32)
        return _Update(f"<{lanes} x float>", lanes, "fma" in target.features)

    @property
    def declaration(self) -> str:
        kind = self.vector
        return f"declare {kind} @llvm.fma.v{self.lanes}f32({kind}, {kind}, {kind})"

    @property
    def factors(self) -> str:
        return "".join(
            f"  %{name} = load volatile {self.vector}, ptr %data, align 4\n" for name in "ab"
        )

    def line(self, result: str, accumulator: str) -> str:
        """Return the update of an accumulator; without multiply-adds, an addition."""
        kind = self.vector
        if not self.has_fma:
            return f"  {result} = fadd {kind} {accumulator}, %a"
        values = f"{kind} %a, {kind} %b, {kind} {accumulator}"
        return f"  {result} = call {kind} @llvm.fma.v{self.lanes}f32({values})"


@dataclass(frozen=True, slots=True)
class _Body:
    """One iteration: its lines, and its loop-carried values, as (type, name, first, last)."""

    lines: list[str]
    carried: list[tuple[str, str, str, str]]


def _clock() -> _Body:
    """A chain of dependent operations with a latency of one cycle on every processor."""
    lines = []
    last = "%x"
    for k in range(CHAIN):
        operation = "add i64 {}, %count" if k % 2 else "xor i64 {}, %limit"
        lines.append(f"  %x{k} = {operation.format(last)}")
        last = f"%x{k}"
    return _Body(lines, [("i64", "%x", "1", last)])


def _latency(update: _Update) -> _Body:
    names = ["%x", *(f"%x{k}" for k in range(CHAIN))]
    lines = [update.line(names[k + 1], names[k]) for k in range(CHAIN)]
    return _Body(lines, [(update.vector, "%x", "%a", names[-1])])


def _peak(update: _Update, count: int) -> _Body:
    """Independent updates; without multiply-adds, half of them are products."""
    lines = []
    for k in range(count):
        if k % 2 and not update.has_fma:
            lines.append(f"  %y{k} = fmul {update.vector} %x{k}, %b")
        else:
            lines.append(update.line(f"%y{k}", f"%x{k}"))
    return _Body(lines, [(update.vector, f"%x{k}", "%a", f"%y{k}") for k in range(count)])


def _sum_in_memory(update: _Update) -> _Body:
    """A sum in memory: each addition loads the value that the previous one stored."""
    lines = []
    for k in range(SUMS):
        lines.append(f"  %l{k} = load volatile {update.vector}, ptr %data, align 4")
        lines.append(f"  %s{k} = fadd {update.vector} %l{k}, %a")
        lines.append(f"  store volatile {update.vector} %s{k}, ptr %data, align 4")
    return _Body(lines, [])


def _empty_parallel_loop() -> _Body:
    """A parallel loop that does nothing."""
    line = f"  call void %data(ptr @{symbol('nothing')}, ptr null, i32 %threads, i32 0)"
    return _Body([line], [])


def _loads(count: int, element: str, step: int, kind: str, align: int) -> list[str]:
    """Loads from places that are `step` elements apart."""
    lines = []
    for k in range(count):
        lines.append(f"  %p{k} = getelementptr {element}, ptr %from, i64 {k * step}")
        lines.append(f"  %l{k} = load volatile {kind}, ptr %p{k}, align {align}")
    return lines


def _loop(name: str, body: _Body, before: str = "") -> str:
    """Return a function that runs a body `count` times and stores its carried values."""
    phis = [f"  {x} = phi {t} [{a}, %entry], [{z}, %loop]\n" for t, x, a, z in body.carried]
    stores = [f"  store volatile {t} {z}, ptr %data, align 4\n" for t, _, _, z in body.carried]
    return f"""
define void @{symbol(name)}(ptr %data, i64 %count, i64 %limit) {{
entry:
{before}
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%n.next, %loop]
{"".join(phis)}
{chr(10).join(body.lines)}
  %n.next = add i64 %n, 1
  %again = icmp slt i64 %n.next, %count
  br i1 %again, label %loop, label %done
done:
{"".join(stores)}
  ret void
}}
"""


def _pass_through_memory(name: str, step: int, lines: list[str]) -> str:
    """Return a function that goes through the first `limit` bytes in steps, `count` times."""
    return f"""
define void @{symbol(name)}(ptr %data, i64 %count, i64 %limit) {{
entry:
  br label %pass
pass:
  %n = phi i64 [0, %entry], [%n.next, %end]
  br label %loop
loop:
  %at = phi i64 [0, %pass], [%at.next, %loop]
  %from = getelementptr i8, ptr %data, i64 %at
{chr(10).join(lines)}
  %at.next = add i64 %at, {step}
  %again = icmp slt i64 %at.next, %limit
  br i1 %again, label %loop, label %end
end:
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %count
  br i1 %more, label %pass, label %done
done:
  ret void
}}
"""
