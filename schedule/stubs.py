"""Writes `methods.pyi`, the signatures of the primitives as `Schedule` methods.

Run `python -m schedule.stubs` after adding a primitive.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from schedule.instruction import InstructionKind, Parameter

_HEADER = """\
# Generated from the registry of primitives by `python -m schedule.stubs`.
from collections.abc import Callable, Sequence
from typing import Any

from schedule.handles import BlockRV, ExprRV, LoopRV
from schedule.instruction import InstructionKind
from tensorir.buffer import Buffer
from tensorir.index_map import IndexMap

class PrimitiveMethods:
    def _call(self, kind: InstructionKind, args: Sequence[Any], kwargs: dict[str, Any]) -> Any: ...
"""
_ARGUMENT = {
    "block": "BlockRV | str",
    "loop": "LoopRV",
    "block_or_loop": "BlockRV | LoopRV",
    "block_list_or_loop": "LoopRV | Sequence[BlockRV]",
    "annotation": "Any",
    "ints": "Sequence[int]",
    "index_map": "IndexMap | Callable[..., Any] | None",
    "pad_value": "ExprRV | float | IndexMap | Callable[..., Any] | None",
    "ranges": "IndexMap | Callable[..., Any]",
    "buffer_side": "str",
    "buffer": "tuple[str, int] | int | str | Buffer",
    "buffer_index": "int | str | Buffer",
}
_RESULT = {
    "": "None",
    "block": "BlockRV",
    "blocks": "list[BlockRV]",
    "loop": "LoopRV",
    "loops": "list[LoopRV]",
    "expr": "ExprRV",
    "exprs": "list[ExprRV]",
}


def stub_text() -> str:
    """Return what `methods.pyi` should contain."""
    methods = sorted(InstructionKind.all(), key=lambda kind: kind.method)
    return _HEADER + "".join(_method(kind) for kind in methods)


def _method(kind: InstructionKind) -> str:
    parameters = ["self"]
    keyword_only = any(p.variadic for p in kind.params)
    for param in kind.params:
        if param.keyword_only and not keyword_only:
            parameters.append("*")
            keyword_only = True
        parameters.append(_parameter(param))
    if kind.has_decision:
        parameters.append("decision: Any = None")
    signature = ", ".join(parameters)
    return f"    def {kind.method}({signature}) -> {_RESULT[kind.result]}: ...\n"


def _parameter(param: Parameter) -> str:
    if param.variadic:
        return f"*{param.name}: {_ARGUMENT[param.operand.kind]}"
    text = f"{param.name}: {_type(param)}"
    return text if param.required else f"{text} = {param.default!r}"


def _type(param: Parameter) -> str:
    kind = param.operand.kind
    if kind == "expr":
        return "Sequence[int | ExprRV | None]"
    if kind == "plain":
        return inspect.formatannotation(param.annotation).replace("collections.abc.", "")
    if param.operand.many:
        return f"Sequence[{_ARGUMENT[kind]}] | None"
    return _ARGUMENT[kind]


def main() -> None:
    """Write the file, or fail with `--check` if it is stale."""
    path = Path(__file__).with_name("methods.pyi")
    text = stub_text()
    if "--check" in sys.argv and path.read_text() != text:
        raise SystemExit("schedule/methods.pyi is stale: run python -m schedule.stubs")
    path.write_text(text)


if __name__ == "__main__":
    main()
