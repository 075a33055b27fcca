"""Lowering: from blocks to flat loops over flat memory, one small pass after another.

Every pass is a function `PrimFunc -> PrimFunc` whose result can be printed, verified (`forms` lists
the properties after each pass) and interpreted. `PASSES` has those of a CPU in order; a target
names its list (`passes_for`). `forms` also lists the annotations by which passes communicate. The
instruments of a `PassContext` run between passes, as they do for passes over modules:

    with PassContext(instruments=[PrintAfter("vectorize")]):
        codegen.lower(func)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from codegen.errors import LoweringError
from codegen.lower.blocks import drop_partial_strides, lower_init, open_blocks, remove_blocks
from codegen.lower.check_overflow import check_overflow
from codegen.lower.check_supported import check_supported
from codegen.lower.compact_buffers import compact_buffers
from codegen.lower.contiguous_accesses import contiguous_accesses
from codegen.lower.divide_at_choices import divide_at_choices
from codegen.lower.flatten_buffers import flatten_buffers
from codegen.lower.forms import verify_form
from codegen.lower.hoist_allocations import hoist_allocations
from codegen.lower.hoist_conditions import hoist_conditions
from codegen.lower.lower_match_buffers import lower_match_buffers
from codegen.lower.mark_unrolled import mark_unrolled
from codegen.lower.pipeline_loops import pipeline_loops
from codegen.lower.place_allocations import place_allocations
from codegen.lower.promote_accumulators import promote_accumulators
from codegen.lower.repeat_loads import repeat_loads
from codegen.lower.simplify_control import simplify_control
from codegen.lower.split_tails import split_tails
from codegen.lower.transpose_tiles import transpose_tiles
from codegen.lower.unmask_tiles import unmask_tiles
from codegen.lower.unroll import unroll
from codegen.lower.vectorize import vectorize
from codegen.lower.vectorize_innermost import vectorize_innermost
from codegen.target import Target, as_target
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.recursion import any_depth
from tensorir.transform import Pass, PassContext, PrimFuncPass
from tensorir.transform.pass_context import VERIFY
from tensorir.verify import verify_well_formed

__all__ = ["ADD_LOWER_PASS", "PASSES", "LoweringError", "lower"]

Step = Callable[[PrimFunc], PrimFunc]

PASSES: Final[tuple[tuple[str, Step], ...]] = tuple(
    (step.__name__, step)
    for step in (
        check_supported,
        check_overflow,
        drop_partial_strides,
        lower_init,
        open_blocks,
        place_allocations,
        compact_buffers,
        lower_match_buffers,
        pipeline_loops,
        remove_blocks,
        flatten_buffers,
        simplify_control,
        hoist_allocations,
        hoist_conditions,
        divide_at_choices,
        vectorize_innermost,
        vectorize,
        mark_unrolled,
        split_tails,
        unroll,
        unmask_tiles,
        promote_accumulators,
        transpose_tiles,
        contiguous_accesses,
        repeat_loads,
    )
)
"""The passes of lowering for a CPU by name, in order."""


def passes_for(target: str | Target | None = None) -> tuple[tuple[str, Step], ...]:
    """Return the passes of lowering for a target by name, in order."""
    if as_target(target).gpu is None:
        return PASSES
    # Programs for a CPU do without them.
    return import_module("codegen.lower.gpu").PASSES  # type: ignore[no-any-return]


ADD_LOWER_PASS: Final = "tir.add_lower_pass"
"""The option of a `PassContext` that inserts passes: pairs of a place and a pass.

A place is the name of the previous pass, or a number as in TVM: 0 before all passes, 1 after
buffers are flattened, 2 after vectors and unrolled loops are written out, 3 after all passes.
"""
_PHASES: Final[dict[int | str, str]] = {1: "flatten_buffers", 2: "unroll"}


@any_depth
def lower(
    func: PrimFunc,
    target: str | Target | None = None,
    *,
    until: str | None = None,
    verify: bool | None = None,
) -> PrimFunc:
    """Lower `func` to the form that the emission of LLVM IR expects.

    `until` names the last pass to run, to look at an intermediate form. The program is checked to
    be well-formed, with `verify` also after each pass; the default is True if the environment
    variable `TENSORIR_VERIFY` is 1 when this package is imported, as in the tests. The current
    `PassContext` runs the passes, and those in its option `ADD_LOWER_PASS`. Raises LoweringError
    for a program that the target cannot run, IRTypeError if `func` is not a function, IRValueError
    for an unknown pass, and WellFormedError for an ill-formed program; for a wrong result of a
    pass, the error names the pass.
    """
    if not isinstance(func, PrimFunc):
        raise IRTypeError(
            f"lower takes a PrimFunc, got {type(func).__name__}; pass one function of a module, as "
            'in mod["main"]'
        )
    context = PassContext.current()
    added = context.config.get(ADD_LOWER_PASS)
    target = as_target(target)
    passes: Sequence[tuple[str, Any]] = passes_for(target)
    if added:
        passes = _with_added(passes, added)
    names = [name for name, _ in passes]
    if until is not None and until not in names:
        raise IRValueError(f"unknown pass {until!r}; the passes are {', '.join(names)}")
    verify = VERIFY if verify is None else verify
    verify_well_formed(func)
    looks_on = context.looks_on
    with target:
        for k, (name, step) in enumerate(passes):
            before = func
            func = _run(name, step, func, context) if looks_on or added else step(func)
            if verify and func is not before:
                verify_form(func, names[: k + 1])
            if name == until:
                break
    return func


class _Lowering(PrimFuncPass):
    """A pass of lowering, as instruments see it."""

    def __init__(self, name: str, step: Step) -> None:
        self.name = name
        self._step = step

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """Return the function after the pass."""
        return self._step(func)

    def verify(self, before: IRModule, after: IRModule) -> None:
        """Do nothing: `lower` checks the result, because it has the list of earlier passes."""


def _run(name: str, step: Step | Pass, func: PrimFunc, context: PassContext) -> PrimFunc:
    """Return a function after a pass that runs in a context."""
    known = step if isinstance(step, Pass) else _Lowering(name, step)
    functions = list(context.run(known, IRModule.from_expr(func)).prim_funcs().values())
    if len(functions) != 1:
        raise IRValueError(f"{name} returned {len(functions)} functions instead of one")
    return functions[0]


def _with_added(
    passes: Sequence[tuple[str, Step]], added: Sequence[tuple[int | str, Pass]]
) -> Sequence[tuple[str, Any]]:
    """Return the passes with added passes; passes for the same place keep their order."""
    behind: dict[int | str, list[tuple[str, Any]]] = {0: []}
    behind |= {name: [(name, step)] for name, step in passes}
    phases = {**_PHASES, 3: passes[-1][0]}
    for place, step in added:
        if not isinstance(step, Pass):
            raise IRTypeError(f"{ADD_LOWER_PASS} needs pairs of a place and a pass, got {step!r}")
        known = behind.get(phases.get(place, place))
        if known is None:
            places = ", ".join(map(str, behind))
            raise IRValueError(f"{step.name} has the unknown place {place!r}; places are {places}")
        known.append((step.name, step))
    return [step for steps in behind.values() for step in steps]
