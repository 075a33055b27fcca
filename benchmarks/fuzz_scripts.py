"""Read scripts that are almost right, and report what ends otherwise than it should.

    python -m benchmarks.fuzz_scripts --scripts 1000000 --processes 2

Any text must end in a program, which prints as text that reads back to an equal one, or in a
`DiagnosticError` with line, column and caret. The texts are programs of the tests and of
`fuzz_programs`, mutated. They are read in batches, each in a process of its own, so that a crash or
a hang is found like any other fault; one of each kind is made as small as possible and printed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

from benchmarks.forked_runs import Report, Run
from benchmarks.fuzz_programs import program, program_names
from benchmarks.script_mutations import mutated
from tensorir import assert_structural_equal, parse
from tensorir.errors import DiagnosticError

BATCH = 100
"""Scripts that are read in one process."""
TIME_LIMIT = 120.0
"""Seconds after which a batch counts as hanging; it takes about one."""
MEMORY_LIMIT = 4 << 30
"""Bytes of address space of a process: a program must not cost more than its text suggests."""
CHECKED_FORMS = 10
"""One in so many of the programs that come out is printed, and read again."""
FAULT = "\t"
"""Stands between the number of a script, the kind of its fault, and the fault's words."""


class ScriptFault(Exception):
    """A text that ended otherwise than it should; `where` tells kinds of faults apart."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"{where}: {detail}")
        self.where = where
        self.detail = detail


def originals() -> list[str]:
    """Return the programs that are mutated."""
    return [program(name).script() for name in program_names()] + list(FORMS)


def check_text(text: str, *, printed: bool = True) -> bool:
    """Read a text and return whether it is a program; raise ScriptFault where that goes wrong."""
    try:
        result = parse(text)
    except DiagnosticError as error:
        lines = text.count("\n") + text.count("\r") + 2
        if not (1 <= error.line <= lines and error.column >= 1 and "^" in str(error)):
            raise ScriptFault("a diagnostic without a place", error.message) from error
        return False
    except Exception as error:
        raise ScriptFault(*_described(error)) from error
    if printed:
        try:
            assert_structural_equal(parse(result.script()), result)
        except Exception as error:
            where, detail = _described(error)
            raise ScriptFault(f"printed: {where}", detail) from error
    return True


def _described(error: BaseException) -> tuple[str, str]:
    """Return the type and the innermost place of an error, and its words."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = os.path.basename(frame.filename)
    return f"{type(error).__name__} in {file}, {frame.name}", str(error)[:300].replace("\t", " ")


def batch_task(seed: int, texts: list[str]) -> Callable[[Report], None]:
    """Return the task of reading the batch of scripts of a seed."""

    def task(report: Report) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        counts: Counter[str] = Counter()
        for number, text in enumerate(batch(seed, texts)):
            report(line=str(number))
            start = time.process_time()
            try:
                accepted = check_text(text, printed=number % CHECKED_FORMS == 0)
                counts["programs" if accepted else "diagnostics"] += 1
            except ScriptFault as fault:
                report(line=FAULT.join((str(number), fault.where, fault.detail)))
            if time.process_time() - start > 0.5:
                counts["slower than 0.5 s"] += 1
        report(counts=counts)

    return task


def shrink_task(text: str, where: str) -> Callable[[Report], None]:
    """Return the task of making a text with a fault smaller; the last line it reports is best."""

    def same_fault(tried: str) -> bool:
        try:
            check_text(tried)
        except ScriptFault as fault:
            return fault.where == where
        return False

    def task(report: Report) -> None:
        for better in smaller(text, same_fault):
            report(line=better)
        report(counts={})

    return task


def batch(seed: int, texts: list[str]) -> Iterator[str]:
    """Yield the scripts of a seed."""
    rng = random.Random(seed)
    for _ in range(BATCH):
        yield mutated(rng.choice(texts), texts, rng)


def smaller(text: str, fails: Callable[[str], bool], seconds: float = 10.0) -> Iterator[str]:
    """Yield ever smaller texts that still fail, with lines and then characters left out."""
    end = time.monotonic() + seconds
    for separator in ("\n", ""):
        parts = text.split(separator) if separator else list(text)
        size = max(1, len(parts) // 2)
        while size and time.monotonic() < end:
            place = 0
            while place < len(parts) and time.monotonic() < end:
                tried = parts[:place] + parts[place + size :]
                if fails(separator.join(tried)):
                    parts = tried
                    yield separator.join(parts)
                else:
                    place += size
            size //= 2
        text = separator.join(parts)


class Fuzzer:
    """Reads batches side by side, and counts."""

    def __init__(self, processes: int, seed: int) -> None:
        self._processes = processes
        self._rng = random.Random(seed)
        self._texts = originals()
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def run(self, scripts: int) -> None:
        """Read so many scripts; a failure ends its batch, and is printed the first time."""
        running: list[Run] = []
        while running or self.counts["scripts"] < scripts:
            while len(running) < self._processes and self.counts["scripts"] < scripts:
                seed = self._rng.randrange(1 << 30)
                running.append(Run(batch_task(seed, self._texts), seed, TIME_LIMIT))
            wait([run.connection for run in running], timeout=1)
            for run in [run for run in running if run.poll()]:
                running.remove(run)
                self._ended(run)

    def _ended(self, run: Run) -> None:
        outcome = run.outcome
        assert outcome is not None
        self.counts.update(outcome.counts)
        faults = [line.split(FAULT, 2) for line in run.lines if FAULT in line]
        self.counts["scripts"] += len(run.lines) - len(faults)
        if outcome.what:
            last = int(run.lines[-1].split(FAULT)[0])
            self._failed(run.key, last, outcome.what, outcome.detail)
        for number, where, detail in faults:
            self._failed(run.key, int(number), where, detail)

    def _failed(self, seed: int, number: int, where: str, detail: str) -> None:
        self.failures[where] += 1
        if self.failures[where] > 1:
            return
        text = list(batch(seed, self._texts))[number]
        shrinking = Run(shrink_task(text, where), time_limit=30)
        shrinking.finish()
        small = shrinking.lines[-1] if shrinking.lines else text
        print(f"# {where}: {detail}\nparse({small!r})\n", flush=True)

    def summary(self) -> str:
        """Return the counts in one line, and the kinds of failures below it."""
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        failures = [f"  {n} x {what}" for what, n in self.failures.most_common()]
        head = f"{counts}; {sum(self.failures.values())} failures of {len(failures)} kinds"
        return "\n".join([head, *failures])


FORMS = (
    """
@T.prim_func
def f(a: T.handle, b: T.handle, n: T.int32):
    T.func_attr({"global_symbol": "f", "tir.noalias": T.bool(True)})
    m = T.int64()
    A = T.match_buffer(a, (m, 16), strides=(16, 1), align=64)
    B = T.match_buffer(b, (m,), "int8", offset_factor=1)
    assert m < T.int64(100), "too long"
    x: T.int32 = n * 2
    with T.LetStmt(T.exp(T.float32(0.5))) as y:
        while B[0] < T.int8(3):
            B[0] = B[0] + T.int8(1)
        for i in T.vectorized(16):
            A[0, i] = T.if_then_else(i < x, y, A[0, i] * T.float32(2))
    if n > 3:
        T.evaluate(T.call_extern("int32", "g", n, A.data))
    else:
        A[0, 0:4] = T.Broadcast(T.float32(1), 4) + A[0, T.Ramp(4, 1, 4)]
""",
    """
@I.ir_module
class Module:
    I.module_attrs({"runtime": 1})

    @T.prim_func(private=True)
    def add(x: T.int32) -> T.int32:
        return x + 1

    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        C = T.alloc_buffer((8,), scope="local")
        D = T.decl_buffer((64,), data=A.data)
        for i0, j0 in T.grid(8, T.int32(8)):
            with T.block("sum"):
                T.where(i0 * 8 + j0 < 60)
                i = T.axis.spatial(8, i0)
                j = T.axis.reduce(8, j0)
                T.reads(A[i, j])
                T.writes(C[i])
                T.block_attr({"pragma": [1, "two", {"k": 0.5}]})
                with T.init():
                    C[i] = T.float32("-inf")
                C[i] = T.max(C[i], A[i, j])
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block(""):
                v = T.axis.remap("S", [k])
                A0 = T.match_buffer(C[v:v + 1], (1,), offset_factor=1, scope="local")
                B[v] = A0[0] + D[v] + T.Cast("float32", Module.add(v))
""",
    """
@T.macro
def double(buffer, index):
    buffer[index] = buffer[index] * 2.0

@T.prim_func
def g(A: T.Buffer(16, "float16"), out: T.Buffer((2, 2), "bool")):
    T.attr(0, "pragma", 1)
    a: T.let[T.int64] = T.int64(3)
    p = T.allocate([16], "uint8", "global", annotations={"k": 1})
    q = T.allocate_const([1, 2, 3], "int32", [3])
    buf = T.Buffer((16,), "uint8", data=p)
    for i in range(4):
        for j in T.unroll(0, 4, annotations={"u": True}):
            double(A, i * 4 + j)
            buf[i] = T.uint8(255) >> T.uint8(j)
    out[0, 1] = not (a > 2 and buf[3] == T.uint8(0)) or T.isnan(A[0])
    T.evaluate(T.Select(a == 1, a // 3, a % -2))
""",
)
"""Spellings of the dialect that the programs of `fuzz_programs` do not have."""


def main() -> int:
    """Fuzz from the command line; the exit code says whether there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", type=int, default=20_000, help="how many to read")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    print(f"# seed {given.seed}", flush=True)
    fuzzer = Fuzzer(given.processes, given.seed)
    fuzzer.run(given.scripts)
    print("\n".join(f"# {line}" for line in fuzzer.summary().splitlines()))
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
