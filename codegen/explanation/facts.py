"""The facts that an explanation consists of, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fate = Literal["serial", "parallel", "vectors", "unrolled", "once", "removed"]
Pattern = Literal["element", "broadcast", "contiguous", "reversed", "strided", "irregular"]
Home = Literal["registers", "memory", "left to LLVM"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the scheduled program, and its form in machine code."""

    function: str
    name: str
    depth: int
    """The number of loops around it."""
    extent: int | None
    """Its number of iterations; None if it depends on the arguments."""
    mark: str
    """The kind in the schedule: "serial", "parallel", "vectorized" or "unrolled"."""
    blocks: tuple[str, ...]
    """The blocks directly inside it."""
    becomes: Fate
    """Its form in machine code. "vectors": all iterations at once; "unrolled": a copy of the body
    for each; "once": no loop, its extent is 1; "removed": nothing in it has to run."""
    lanes: tuple[int, ...] = ()
    """The lanes of each vector that its iterations were made into, for the statement of the loop
    with the most vectors."""
    by: str = ""
    """The pass that decided the form, if the schedule did not."""
    note: str = ""
    """A remark, such as the reason why a mark was not followed."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The elements that an update (`C[i] = C[i] + ...`) sums into while a loop runs."""

    function: str
    buffer: str
    dtype: str
    """The element type."""
    lanes: int
    """Lanes of one vector of them; 1 for scalars."""
    count: int
    """The number of vectors or scalars that are updated in one iteration of `loop`."""
    home: Home
    """Their place. "registers": separate values, in registers as far as the target has enough;
    "memory": loaded and stored by each update; "left to LLVM": lowering did not decide or found
    only unrolled loops, and LLVM decides whether they stay in registers.
    """
    loop: str
    """The outermost loop across which they are kept; if they are not, the innermost over which
    they are summed; "" if all such loops are unrolled."""
    note: str = ""
    """The reason why they are not in registers, or a possible problem."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store in the lowered program; copies that unrolling makes are counted in one."""

    function: str
    kind: Literal["load", "store"]
    buffer: str
    statement: str
    """The purpose of the access, such as "C" or "update of C"."""
    loop: str
    """The innermost loop around it that remains; "" outside all loops."""
    times: int
    """The number of different accesses in one iteration of `loop`, including unrolled copies."""
    lanes: int
    """Elements of one access."""
    pattern: Pattern
    """The places of the lanes of a vector access: "contiguous", "reversed", "strided" or
    "irregular" (a gather or scatter). "broadcast": one element for all lanes of a vector statement;
    "element": one for a scalar statement."""
    stride: int | str | None
    """Elements from lane to lane, an expression if they depend on the arguments; None for scalars
    and irregular vectors."""
    step: int | str | None
    """Elements from one iteration of `loop` to the next, an expression if they depend on the
    arguments; 0 where the access does not depend on it, None where the distance changes."""
    masked: bool
    """True if some lanes may be switched off."""
    guarded: bool
    """True if it is under an `if` or `T.if_then_else` inside `loop`."""
    in_register: bool
    """True if it accesses an accumulator in registers instead of memory."""


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """An innermost loop with updates: how much arithmetic there is for each access to memory."""

    function: str
    loop: str
    buffers: tuple[str, ...]
    """The buffers that its updates sum into."""
    updates: int
    """Updates (multiply-adds in a matmul), scalar or vector, in one iteration."""
    loads: int
    """Loads from memory in one iteration, without loop-invariant loads."""
    stores: int
    """Stores to memory in one iteration."""
