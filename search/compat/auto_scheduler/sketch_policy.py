"""The sketches of a program: its design spaces in the words of Ansor.

    for sketch in auto_scheduler.sketches(mod, "llvm -num-cores=4"):
        print(sketch)

A sketch is a program without numbers: loops in order, with holes where lengths would be, and
choices that are open. Here that is a design space of the rules: sketch and annotation are one
trace, and the holes are its sampling instructions.

| Ansor | here |
| --- | --- |
| sketch | design space: a trace whose sampling instructions are not decided |
| Skip | the rule leaves the schedule unchanged |
| Always Inline | `AutoInline`, `InlineConstantScalars` |
| Multi-level Tiling | `MultiLevelTiling`, structure `SSRSRS` on CPUs |
| Multi-level Tiling with Fusion | the same, with the consumer moved in (`reverse_compute_at`) |
| Add Cache Stage | the same, with a write cache (`cache_write`) |
| Reduction Factorization | `AddRFactor`, in Ansor above a number of iterations |
| user rule | `ApplyCustomRule`, annotation `schedule_rule` |
| FillTileSize | `sample_perfect_tile` |
| ChangeComputeLocation | `RandomComputeLocation`, `sample_compute_location` |
| Parallel, Vectorize, Unroll | `ParallelizeVectorizeUnroll`; marks come with postprocessing |
| TileSize, ComputeLocation, AutoUnroll, Parallel mutation | `MutateTileSize`, ... |
| SP, RE, FU, AN, PR, CA, CI, CHW, CHR, RF, SA | `split`, `reorder`, `fuse`, ...: see `STEPS` |
| tiling for an instruction | not in Ansor: `MultiLevelTilingWithIntrin` |
| transposed convolutions without their zeros | not in Ansor: `SkipNeutralTerms` |
| rows of a matrix read side by side | not in Ansor: `StreamRows` |
| sums in the lanes of vectors, register tiles | not in Ansor: `RFactorOverLanes`, ... |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from codegen import Target
from schedule import Instruction, LoopRV, Schedule, ScheduleError
from schedule.errors import ExpiredHandleError
from search.context import design_spaces
from search.space_generator.annotations import (
    PARALLEL,
    REGISTER_TILE,
    TILING_STRUCTURE,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
    VECTORIZE,
)
from search.space_generator.design_space import DesignSpace
from search.space_generator.knobs import LOCATION, TILE, Knob
from search.space_generator.space_generator import SpaceArg
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, IterVar, StringImm, Var
from tensorir.nodes.stmt import Block, BlockRealize, For, IfThenElse, SeqStmt, Stmt
from tensorir.rewriting.visit import walk
from tensorir.script.display import preformatted

STEPS: Final = {
    "Split": "SP",
    "Reorder": "RE",
    "Fuse": "FU",
    "ComputeAt": "CA",
    "ReverseComputeAt": "CA",
    "ComputeInline": "CI",
    "ReverseComputeInline": "CI",
    "CacheWrite": "CHW",
    "CacheRead": "CHR",
    "RFactor": "RF",
    "StorageAlign": "SA",
    "Annotate": "PR",
    "Parallel": "AN",
    "Vectorize": "AN",
    "Unroll": "AN",
    "Bind": "AN",
    "Tensorize": "AN",
}
"""Ansor's step with the effect of an instruction, by the kind of the instruction."""

INFERRED: Final = "inferred"
"""The length of a loop that other lengths determine."""

_SEED: Final = 1
_REPLAYS: Final = 6

_RULES: Final = {
    "ComputeInline": "Always Inline",
    "ReverseComputeInline": "Always Inline",
    "RFactor": "Reduction Factorization",
    "CacheWrite": "Add Cache Stage",
}
"""Ansor's derivation rule that adds an instruction, by the kind of the instruction."""

_ANNOTATIONS: Final = {
    TILE: "FillTileSize",
    LOCATION: "ChangeComputeLocation",
    PARALLEL: "Parallel",
    VECTORIZE: "Vectorize",
    UNROLL_EXPLICIT: "Unroll",
    UNROLL_IMPLICIT: "Unroll",
    REGISTER_TILE: "none, tiles of registers are not in Ansor",
}


@dataclass(frozen=True)
class Hole:
    """A choice that a sketch leaves open."""

    name: str
    """The name of the choice in the loops of the sketch."""
    site: Knob
    rule: str
    """The annotation rule of Ansor that fills such holes."""


class Sketch:
    """A design space of a program, printed as Ansor prints sketches.

    A loop whose length is open is `for i_0 in ?C.i[0]`: the outermost part of the tile `C.i`.
    """

    def __init__(self, space: DesignSpace, mod: IRModule | PrimFunc) -> None:
        self.space = space
        self._before = Schedule(mod, seed=_SEED)
        self._sch = Schedule(mod, seed=_SEED)
        space.trace.apply_to_schedule(self._sch, remove_postproc=False)
        self._lengths = dict.fromkeys(self._inferred_loops(), INFERRED)
        self.holes = tuple(self._found_holes())

    @property
    def rules(self) -> tuple[str, ...]:
        """The names that Ansor has for the derivation rules that made the sketch, in order."""
        found: dict[str, None] = {}
        insts = self.space.trace.insts
        kinds = [inst.kind.name for inst in insts]
        for inst in insts:
            name = inst.kind.name
            if name in _RULES:
                found[_RULES[name]] = None
            elif name == "Annotate" and inst.value_of("ann_key") == TILING_STRUCTURE:
                fused = "ReverseComputeAt" in kinds
                tiling = f"Multi-level Tiling{' with Fusion' if fused else ''}"
                found[f"{tiling} ({_text(inst.value_of('ann_val'))})"] = None
        return tuple(found) or ("Skip",)

    @property
    def steps(self) -> tuple[str, ...]:
        """The transform steps of the trace, by their codes; see `STEPS`."""
        kinds = [inst.kind.name for inst in self.space.trace.insts]
        return tuple(STEPS[kind] for kind in kinds if kind in STEPS)

    @property
    def loops(self) -> list[str]:
        """The loops and blocks of the sketch, a line for each."""
        funcs = self._sch.mod.prim_funcs().values()
        return [line for func in funcs for line in self._lines(func.body, 0)]

    # ------------------------------------------------------------------------------------- holes

    def _found_holes(self) -> Iterator[Hole]:
        """Yield the holes, and record the loops whose lengths they determine."""
        insts = self._sch.trace.insts
        applied = dict(zip(self.space.trace.insts, insts, strict=True))
        makers = {output: inst for inst in insts for output in inst.outputs}
        names: dict[Instruction, str] = {}
        for site in self.space.knobs:
            inst, name = applied[site.inst], site.name
            loop = next((value for value in inst.inputs if isinstance(value, LoopRV)), None)
            if site.purpose == TILE and loop is not None:
                name = self._loop_name(loop, makers)
                name += "'" * sum(other.rstrip("'") == name for other in names.values())
            names[inst] = name
            yield Hole(name, site, _ANNOTATIONS.get(site.purpose, site.purpose))
        for split in insts:
            factors = split.value_of("factors") if split.kind.name == "Split" else ()
            for part, factor in zip(split.outputs, factors, strict=False):
                maker = makers.get(factor)
                if maker in names and isinstance(part, LoopRV):
                    with suppress(ExpiredHandleError):
                        var = self._sch.get(part).loop_var
                        self._lengths[var] = f"?{names[maker]}[{maker.outputs.index(factor)}]"

    def _loop_name(self, loop: LoopRV, makers: Mapping[Any, Instruction]) -> str:
        """Return the block and the name of the original loop that contains a loop.

        Fused loops are "fused", and loops of blocks that the schedule made are "loop".
        """
        maker = makers[loop]
        while maker.kind.name == "Split":
            loop = maker.value_of("loop")
            maker = makers[loop]
        if maker.kind.name != "GetLoops":
            return "fused"
        block = makers[maker.value_of("block")]
        if block.kind.name != "GetBlock":
            return "loop"
        name, func = (_text(block.value_of(key)) for key in ("name", "func_name"))
        source = self._before.get_loops(self._before.get_block(name, func))
        return f"{name}.{self._before.get(source[maker.outputs.index(loop)]).loop_var.name}"

    def _inferred_loops(self) -> Iterator[Var]:
        """Yield the loops whose lengths depend on the decisions."""
        loops = _all_loops(self._sch)
        for _ in range(_REPLAYS):
            seed = self._before.fork_seed()
            other = Schedule(self._before.mod, seed=seed, error_render_level="none")
            try:
                self.space.trace.apply_to_schedule(other, False, decision_provider=lambda *_: None)
            except ScheduleError:
                continue
            pairs = zip(loops, _all_loops(other), strict=False)
            yield from (loop.loop_var for loop, twin in pairs if _length(loop) != _length(twin))

    # ---------------------------------------------------------------------------------- printing

    def _lines(self, node: Stmt, depth: int) -> Iterator[str]:
        if isinstance(node, For):
            length = self._lengths.get(node.loop_var) or _length(node)
            yield f"{'  ' * depth}for {node.loop_var.name} in {length}"
            yield from self._lines(node.body, depth + 1)
        elif isinstance(node, SeqStmt):
            for part in node.seq:
                yield from self._lines(part, depth)
        elif isinstance(node, IfThenElse):
            yield from self._lines(node.then_case, depth)
        elif isinstance(node, BlockRealize):
            block = node.block
            if block.iter_vars or not isinstance(block.body, (For, SeqStmt, BlockRealize)):
                yield f"{'  ' * depth}{_store_text(block)}"
            else:
                yield from self._lines(block.body, depth)

    def __str__(self) -> str:
        lines = [
            f"sketch #{self.space.index}: {self.space.num_points:.1e} programs",
            f"  rules: {', '.join(self.rules)}",
            f"  steps: {' '.join(self.steps) or 'none'}",
            *(f"  {line}" for line in self.loops),
            "  holes:" if self.holes else "  no holes",
        ]
        width = max((len(hole.name) for hole in self.holes), default=0)
        lines += [
            f"    {hole.name:<{width}}  {hole.site.domain or 'sampled anew'} ({hole.rule})"
            for hole in self.holes
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Sketch #{self.space.index} of {len(self.holes)} holes>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def sketches(
    mod: IRModule | PrimFunc,
    target: str | Target,
    space: SpaceArg = "post-order-apply",
    seed: int = 1,
) -> list[Sketch]:
    """Return the sketches of a program; arguments and errors are those of `design_spaces`."""
    return [Sketch(made, mod) for made in design_spaces(mod, target, space, seed)]


def _all_loops(sch: Schedule) -> list[For]:
    bodies = [func.body for func in sch.mod.prim_funcs().values()]
    return [node for body in bodies for node in walk(body) if isinstance(node, For)]


def _store_text(block: Block) -> str:
    reduces = any(axis.iter_type == IterVar.COMM_REDUCE for axis in block.iter_vars)
    return f"{block.name_hint} {'+=' if reduces else '='} ..."


def _length(loop: For) -> str:
    return str(loop.extent.value) if isinstance(loop.extent, IntImm) else "?"


def _text(value: Any) -> str:
    return value.value if isinstance(value, StringImm) else str(value)
