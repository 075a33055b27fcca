"""LLVM's remarks about the loops that are left to it: vectorised or not, and why."""

from __future__ import annotations

import re
from typing import Final

from codegen.compile import Source
from codegen.emit.stmt import LEFT_TO_LLVM
from codegen.lower.remarks import Remarks, done, missed

_LOOP: Final = re.compile(r"!llvm\.loop (!\d+)")
_NODE: Final = re.compile(r"^(!\d+) = (?:distinct )?!\{(.*)\}$", re.MULTILINE)
_NAME: Final = re.compile(r'!"([^"]*)"')
_REFERENCE: Final = re.compile(r"!\d+")


def remark_on_scalar_loops(source: Source, remarks: Remarks) -> None:
    """Make a remark on each loop that emission left to LLVM: whether LLVM makes vectors of it.

    Emission has named the loops in their `!llvm.loop` metadata. LLVM keeps names it does not know
    as long as there is a loop, and adds `llvm.loop.isvectorized` where its vectoriser was at work;
    a name that is nowhere left is of a loop that was written out.
    """
    if source.target.opt_level == 0:
        return
    units = [unit for unit in source.units if unit.has_scalar_loop]
    hints = [names for unit in units for names in _hints(unit.optimized())]
    for name, loop in remarks.names.items():
        if not any(r.text == LEFT_TO_LLVM for r in remarks.about(loop, "emit")):
            continue
        of_loop = [others for others in hints if name in others]
        if any("llvm.loop.isvectorized" in others for others in of_loop):
            done("llvm", "LLVM makes vectors of it", loop)
        elif of_loop:
            missed("llvm", "LLVM leaves it scalar", loop)
        else:
            done("llvm", "LLVM writes it out", loop)


def _hints(text: str) -> list[set[str]]:
    """Return the names in the metadata of each loop of a module."""
    nodes = dict(_NODE.findall(text))
    loops = []
    for node in _LOOP.findall(text):
        parts = [nodes.get(part, "") for part in _REFERENCE.findall(nodes.get(node, ""))]
        loops.append({name for part in parts for name in _NAME.findall(part)})
    return loops
