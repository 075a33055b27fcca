"""The properties of a program after each pass, their check, and annotations between passes.

Types and lanes agree in every form, because the constructors of nodes check them. Every program
also satisfies `tensorir.verify`: each variable and buffer is defined once, before its use and in
scope. In addition, a pass that lowers a kind of node guarantees that no later form contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from codegen.lower.thread_axes import VIRTUAL, kind_of
from tensorir.errors import WellFormedError
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad
from tensorir.nodes.stmt import ForKind
from tensorir.rewriting.visit import walk
from tensorir.verify import verify_well_formed

Test = Callable[[Any], bool]


def _access(node: Any) -> bool:
    return len(node.indices) != 1 or bool(node.buffer.strides)


GONE: Final[dict[str, tuple[tuple[tuple[type, ...], str, Test], ...]]] = {
    "check_supported": (
        ((s.For,), "a loop bound to a thread", lambda n: n.kind is ForKind.THREAD_BINDING),
    ),
    "check_bound": (((s.For,), "a parallel loop", lambda n: n.kind is ForKind.PARALLEL),),
    "inject_virtual_threads": (
        ((s.For,), "a loop over virtual threads", lambda n: kind_of(n) == VIRTUAL),
    ),
    "lower_init": (((s.Block,), "a block with an init", lambda n: n.init is not None),),
    "open_blocks": (((s.Block,), "a block with axes", lambda n: bool(n.iter_vars)),),
    "lower_match_buffers": (
        ((s.Block,), "a block with match_buffers", lambda n: bool(n.match_buffers)),
    ),
    "remove_blocks": (((s.Block, s.BlockRealize), "a block", lambda n: True),),
    "flatten_buffers": (
        ((s.DeclBuffer,), "a declared buffer", lambda n: True),
        ((BufferLoad, s.BufferStore), "an access through more than an offset", _access),
        ((s.Allocate,), "an allocation in several dimensions", lambda n: len(n.extents) != 1),
    ),
    "vectorize": (((s.For,), "a vectorized loop", lambda n: n.kind is ForKind.VECTORIZED),),
}
"""By pass: the nodes that do not occur after it, in words, and the test that finds them."""


def verify_form(func: PrimFunc, passes: Sequence[str]) -> None:
    """Check the result of the last of the passes that have run; WellFormedError names that pass."""
    after = f"after {passes[-1]}"
    try:
        verify_well_formed(func)
    except WellFormedError as error:
        raise WellFormedError(f"{after}: {error}\n{func.script()}") from error
    rules: dict[type, list[tuple[str, Test]]] = {}
    for name in passes:
        for kinds, what, test in GONE.get(name, ()):
            for kind in kinds:
                rules.setdefault(kind, []).append((what, test))
    for node in walk(func.body):
        for what, test in rules.get(type(node), ()):
            if test(node):
                raise WellFormedError(
                    f"{after}: the program has {what}, {_place(node)}\n{func.script()}"
                )


def _place(node: Any) -> str:
    if isinstance(node, s.For):
        return f"loop {node.loop_var.name}"
    if isinstance(node, (s.Block, s.BlockRealize)):
        block = node if isinstance(node, s.Block) else node.block
        return f"block {block.name_hint!r}"
    return f"buffer {(node.buffer_var if isinstance(node, s.Allocate) else node.buffer).name}"


# -------------------------------------------------------------------------------------- annotations
#
# The annotations by which passes communicate with later passes.
#
# | annotation | written by | read by |
# | --- | --- | --- |
# | `EXPLICIT_REGIONS` of a block | the program | `open_blocks` keeps regions, `compact_buffers` |
# | `DIM_ALIGN` of a block | the program (`storage_align`) | `open_blocks`, `compact_buffers` |
# | `MAX_STEP`, `EXPLICIT` of a loop | the program (pragmas) | `mark_unrolled` |
# | `PIECES` of a loop | `vectorize` | `mark_unrolled` counts the pieces as one statement |
# | `LEFT_TO_BACKEND` of a loop | `mark_unrolled` | `unroll` |
# | `PIPELINE_*` of a loop | the program | `pipeline_loops` |
# | `ASYNC_COMMIT`, `ASYNC_WAIT` around statements | `pipeline_loops` | `place_barriers`, emission |
# | `REPEATED_LOADS` of a loop | `repeat_loads` | emission |
#
# Passes share no other information: no pass relies on two nodes being the same object. `unroll`
# drops the annotations that earlier passes have consumed.


EXPLICIT_REGIONS: Final = ("explicit_read_region", "explicit_write_region")
"""Positions of a block's declared regions that count instead of its accesses."""
DIM_ALIGN: Final = "buffer_dim_align"
"""The factors and offsets to which strides of a block's written buffers are rounded up."""
MAX_STEP: Final = "pragma_auto_unroll_max_step"
"""The maximum number of statements to which loops inside may be unrolled."""
EXPLICIT: Final = "pragma_unroll_explicit"
"""1 if `unroll` writes these loops out instead of LLVM."""
PIPELINE_STAGE: Final = "software_pipeline_stage"
"""By how many iterations each statement of a loop runs late."""
PIPELINE_ORDER: Final = "software_pipeline_order"
"""The position of each statement of a pipelined loop."""
PIPELINE_ASYNC: Final = "software_pipeline_async_stages"
"""The stages whose copies to shared memory need not be complete until others use them."""
PIECES: Final = "vector_pieces"
"""Marks a loop over the native vectors of one long vector."""
LEFT_TO_BACKEND: Final = "unroll_by_backend"
"""Marks an unrolled loop whose body LLVM copies."""
REPEATED_LOADS: Final = "repeated_loads"
"""The pointers through which a loop loads again in every iteration, even what did not change."""
