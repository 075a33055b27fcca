"""Graph functions, which call tensor functions, library functions and one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import BaseFunc, IRModule
from tensorir.nodes.expr import IntImm
from tensorir.nodes.node import body, parts, value
from tensorir.nodes.stmt import normalize_annotations
from tensorir.relax.expr import Constant, GraphVar, SeqExpr, Tuple
from tensorir.relax.struct_info import FuncStructInfo, StructInfo
from tensorir.rewriting.visit import walk


class Function(BaseFunc):
    """A function over tensors, shapes and tuples.

    `params` are variables with struct info; `body` computes the result. `is_pure` is True if a call
    has no effects. Standard attributes: `global_symbol` (absent for a private function),
    `num_input` (parameters from this index on are weights), `updates` and `state`.

    `updates` are names of parameters that a call overwrites, for a function without callers in the
    module. As a value, such a function returns a pair: its result, and a tuple of the new contents
    of these parameters. Compiled, it returns the result and writes the new contents to the arrays
    of the caller. `state` is a tuple of constants, the initial contents of the last parameters, one
    for each: a virtual machine keeps their arrays from call to call, and callers do not pass them.
    """

    fields = (
        parts("params", defines=True, walked=False),
        body("body"),
        body("ret_struct_info", walked=False),
        "is_pure",
        value("attrs"),
    )
    __slots__ = fields[:-1]

    def __init__(
        self,
        params: Sequence[GraphVar],
        body: SeqExpr,
        ret_struct_info: StructInfo | None = None,
        is_pure: bool = True,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        for param in params:
            if not isinstance(param, GraphVar):
                raise IRTypeError(
                    "a parameter of a graph function must be a relax.Var, "
                    f"got {type(param).__name__}"
                )
        if not isinstance(body, SeqExpr):
            raise IRTypeError(
                f"the body of a graph function must be a relax.SeqExpr, got {type(body).__name__}"
            )
        self.params = tuple(params)
        self.body = body
        self.ret_struct_info = body.struct_info if ret_struct_info is None else ret_struct_info
        self.is_pure = is_pure
        self.attrs = normalize_annotations(attrs)

    @property
    def struct_info(self) -> FuncStructInfo:
        """The struct info of the function as a value."""
        return FuncStructInfo(
            [p.struct_info for p in self.params], self.ret_struct_info, self.is_pure
        )

    @property
    def inputs(self) -> tuple[GraphVar, ...]:
        """The parameters before the weights."""
        return self.params[: self._num_input()]

    @property
    def weights(self) -> tuple[GraphVar, ...]:
        """The arguments from `num_input` on; empty without `num_input`.

        Raises IRValueError for a bad index.
        """
        return self.arguments[self._num_input() :]

    @property
    def arguments(self) -> tuple[GraphVar, ...]:
        """The parameters that a caller passes: all except the state."""
        return self.params[: len(self.params) - len(self.state)]

    @property
    def state(self) -> tuple[Constant, ...]:
        """The initial contents of the last parameters, whose arrays a virtual machine keeps."""
        state_values = self.attrs.get("state", ())
        return tuple(state_values.elements if isinstance(state_values, Tuple) else state_values)

    @property
    def updates(self) -> tuple[GraphVar, ...]:
        """The parameters that a call overwrites. Raises IRValueError for an unknown name."""
        named = {param.name: param for param in self.params}
        names = [str(name) for name in self.attrs.get("updates", ())]
        unknown = [name for name in names if name not in named]
        if unknown or len(set(names)) != len(names):
            raise IRValueError(
                f"updates must be different names of parameters, {', '.join(named)}, got {names}"
            )
        return tuple(named[name] for name in names)

    def _num_input(self) -> int:
        stated = self.attrs.get("num_input", len(self.params))
        count = stated.value if isinstance(stated, IntImm) else stated
        if not isinstance(count, int) or not 0 <= count <= len(self.params):
            raise IRValueError(
                f"num_input must be the number of parameters before the weights, 0 to "
                f"{len(self.params)} here, got {stated!r}"
            )
        return count


def constant_bytes(mod: IRModule) -> int:
    """Return the bytes of all different constants in the graph functions of a module."""
    nodes = (node for func in graph_functions(mod).values() for node in walk(func.body))
    sources = {id(x.source): x.source for x in nodes if isinstance(x, Constant)}
    return sum(source.nbytes for source in sources.values())


def graph_functions(mod: IRModule) -> dict[str, Function]:
    """Return the graph functions of a module by name."""
    return {name: func for name, func in mod.functions.items() if isinstance(func, Function)}
