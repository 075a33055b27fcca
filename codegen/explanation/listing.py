"""The machine code of a function, and the statement that each of its instructions belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from codegen.compile import emit_lowered
from codegen.emit.context import collect_statements
from codegen.errors import CodegenError
from codegen.lower import lower
from codegen.lower.remarks import Remarks, collect_remarks
from codegen.target import Target, as_target
from tensorir.function import PrimFunc
from tensorir.indices.accesses import placed_statements
from tensorir.nodes.expr import Var
from tensorir.nodes.stmt import BufferStore, For, Stmt
from tensorir.recursion import any_depth

_LOCATION: Final = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_LABEL: Final = re.compile(r"[.\w$]+:")


@dataclass(frozen=True, slots=True)
class AssemblyLine:
    """A line of assembly text: an instruction or a label."""

    text: str
    loops: tuple[Var, ...]
    """The variables of the loops around it, of the program before lowering, outermost first."""
    stored: Var | None
    """The data pointer of the buffer that its statement stores to; None for other statements."""


@any_depth
def assembly_listing(
    func: PrimFunc, target: str | Mapping[str, Any] | Target | None = None
) -> list[AssemblyLine]:
    """Return the instructions of a function, each with the loops and the store that it is part of.

    The code is that for one core, in which parallel loops are part of the function. LLVM moves and
    merges instructions; a merged one belongs to one of its statements.
    Raises LoweringError or CodegenError for a function that `build` cannot compile, and for a GPU.
    """
    if as_target(target).gpu is not None:
        raise CodegenError("the listing is of code for CPUs; inspect_device() shows that for a GPU")
    options = {**as_target(target).to_dict(), "num-cores": 1}
    chosen = Target(options)
    with collect_remarks() as remarks, collect_statements() as statements:
        lowered = lower(func, chosen)
        source = emit_lowered({"main": lowered}, chosen)
        text = source.kernels[0].code.assembly()
    owners = _owners(lowered, remarks)
    nothing: tuple[tuple[Var, ...], Var | None] = ((), None)
    lines: list[AssemblyLine] = []
    current = nothing
    for line in text.splitlines():
        location = _LOCATION.match(line)
        if location is not None:
            number = int(location[1])
            current = owners.get(statements[number - 1], nothing) if number else nothing
        elif _LABEL.match(line) and not line.startswith((".Lfunc", ".Ltmp", ".Lsec")):
            lines.append(AssemblyLine(line.split("#")[0].rstrip(), *current))
        elif line.startswith("\t") and not line.lstrip().startswith((".", "#")):
            lines.append(AssemblyLine("  " + " ".join(line.split("#")[0].split()), *current))
    return lines


def _owners(lowered: PrimFunc, remarks: Remarks) -> dict[Stmt, tuple[tuple[Var, ...], Var | None]]:
    """Return for each statement the loops around it, itself included, and what it stores to."""
    found: dict[Stmt, tuple[tuple[Var, ...], Var | None]] = {}
    for stmt, around in placed_statements(lowered.body):
        nest = [*around, stmt]
        loops = tuple(remarks.origin(node.loop_var) for node in nest if isinstance(node, For))
        stored = remarks.origin(stmt.buffer.data) if isinstance(stmt, BufferStore) else None
        found[stmt] = (loops, stored)
    return found
