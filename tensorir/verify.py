"""Checking that a program is well-formed: every name defined once, before use, in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tensorir.errors import WellFormedError
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, IterVar, Let, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.recursion import any_depth
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.verify import verify_graph_function
from tensorir.rewriting.visit import defined, inside, outside, used_buffers


@any_depth
def verify_well_formed(program: BaseFunc | IRModule, assert_mode: bool = True) -> bool:
    """Return True if every variable is defined exactly once, before its use and in scope.

    Two exceptions: several expressions may have a `Let` of the same variable, and threads may share
    the variable of their axis. A buffer that is allocated, matched or declared may be used only in
    the scope of its declaration; any other buffer is a view of a pointer, which must be in scope. A
    loop variable from outside a block with axes may not be used inside the block. Graph functions
    must satisfy the rules of `tensorir.relax.verify`; in a module their calls are checked, too, and
    unbounded recursion is an error. With `assert_mode` the first violation raises WellFormedError;
    without it the result is False.
    """
    try:
        if isinstance(program, IRModule):
            _verify_module(program)
        elif isinstance(program, PrimFunc):
            _Verifier(set(), "").function(program)
        else:
            assert isinstance(program, Function)
            verify_graph_function(program)
    except WellFormedError:
        if assert_mode:
            raise
        return False
    return True


def _verify_module(mod: IRModule) -> None:
    defined: set[Var] = set()
    for name, func in mod.prim_funcs().items():
        _Verifier(defined, name).function(func)
    graphs = graph_functions(mod)
    owners: dict[Node, str] = dict.fromkeys(defined, "a tensor function") if graphs else {}
    for name, graph in graphs.items():
        verify_graph_function(graph, mod, name, owners)


class _Verifier:
    def __init__(self, defined: set[Var], name: str) -> None:
        self._everywhere = defined
        self._live: set[Var] = set()
        self._live_buffers: set[Buffer] = set()
        self._scopes: dict[Buffer, str] = {}
        """Declared buffers, each with a description of its declaration."""
        self._undeclared: set[Buffer] = set()
        """Buffers that were used before a declaration."""
        self._loop_depth: dict[Var, int] = {}
        self._where = f' in function "{name}"' if name else ""
        self._blocks: list[str] = []

    def function(self, func: PrimFunc) -> None:
        """Verify a function."""
        for param in func.params:
            self._define(param)
        buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
        for buffer in buffers:
            self._define_layout(buffer)
        for buffer in buffers:
            self._use_buffer(buffer)
        self._visit(func.body)

    def _define_layout(self, buffer: Buffer) -> None:
        """Define the variables of a buffer's layout that are not defined yet."""
        for part in (buffer.data, *buffer.layout):
            if isinstance(part, Var) and part not in self._live:
                self._define(part)

    def _declare(self, buffer: Buffer, by: str) -> None:
        """Declare a buffer until its scope ends."""
        if buffer in self._undeclared:
            raise WellFormedError(
                f"buffer {buffer.name} is used outside of the {by} that declares it{self._place()}"
            )
        self._scopes[buffer] = by
        self._live_buffers.add(buffer)

    def _place(self) -> str:
        """Return the place that is being verified, for messages."""
        return (f' in block "{self._blocks[-1]}"' if self._blocks else "") + self._where

    def _define(self, var: Var) -> None:
        if var in self._live:
            raise WellFormedError(
                f"TIR is ill-formed, due to multiple nested definitions of variable {var.name}"
                f"{self._place()}"
            )
        if var in self._everywhere:
            raise WellFormedError(
                f"TIR is ill-formed, due to multiple definitions of variable {var.name}"
                f"{self._place()}; if a function is used twice, give the copy new variables by "
                f"tensorir.renew_defs(func)"
            )
        self._live.add(var)
        self._everywhere.add(var)

    def _use(self, var: Var) -> None:
        if var not in self._live:
            hint = " this definition is no longer in-scope." if var in self._everywhere else ""
            raise WellFormedError(
                f"Invalid use of undefined variable {var.name}{self._place()}.{hint}"
            )
        depth = self._loop_depth.get(var)
        if depth is not None and depth < len(self._blocks):
            outside = f'block "{self._blocks[depth - 1]}"' if depth else "outside any block"
            raise WellFormedError(
                f"Well-formedness check failed: loop variable {var.name}, defined {outside}, is "
                f'used inside block "{self._blocks[-1]}"; bind an axis to it instead'
            )

    def _use_buffer(self, buffer: Buffer) -> None:
        if buffer not in self._live_buffers:
            scope = self._scopes.get(buffer)
            if scope is not None:
                raise WellFormedError(
                    f"buffer {buffer.name} is used outside of the {scope} that declares it"
                    f"{self._place()}"
                )
            self._undeclared.add(buffer)
        self._use_layout(buffer)

    def _use_layout(self, buffer: Buffer) -> None:
        self._use(buffer.data)
        if not buffer.has_constant_layout:
            for size in buffer.layout:
                self._visit(size)

    def _visit(self, node: Node) -> None:
        special = _SPECIAL.get(type(node))
        if special is not None:
            special(self, node)
        elif isinstance(node, Var):
            self._use(node)
        else:
            self._fields(node)

    def _fields(self, node: Node) -> None:
        """Verify the parts of a node; its bodies may use the variables that it defines."""
        for buffer in used_buffers(node):
            self._use_buffer(buffer)
        self._visit_each(outside(node))
        variables = defined(node)
        for var in variables:
            self._define(var)
        self._visit_each(inside(node))
        self._live.difference_update(variables)

    def _visit_each(self, parts: Iterable[Node]) -> None:
        for part in parts:
            self._visit(part)

    def _constant(self, node: IntImm) -> None:
        pass

    def _let(self, node: Let) -> None:
        # Copies of an expression may bind the same variable.
        if node.var not in self._live:
            self._everywhere.discard(node.var)
        self._fields(node)

    def _decl_buffer(self, node: s.DeclBuffer) -> None:
        self._use_layout(node.buffer)
        self._declare(node.buffer, "T.decl_buffer")
        self._visit(node.body)
        self._live_buffers.discard(node.buffer)

    def _attribute(self, node: s.AttrStmt) -> None:
        of = node.node
        self._visit(node.value)
        if isinstance(of, IterVar):
            # All axes of one thread may have one variable.
            if of.var not in self._live:
                self._everywhere.discard(of.var)
                self._define(of.var)
                self._visit(node.body)
                self._live.discard(of.var)
                return
        elif isinstance(of, Buffer):
            self._use_buffer(of)
        elif isinstance(of, PrimExpr):
            self._visit(of)
        self._visit(node.body)

    def _loop(self, node: s.For) -> None:
        self._loop_depth[node.loop_var] = len(self._blocks)
        self._fields(node)

    def _block(self, node: s.Block) -> None:
        before, buffers_before = set(self._live), set(self._live_buffers)
        for axis in node.iter_vars:
            self._visit_each(outside(axis))
            self._define(axis.var)
        if node.iter_vars:
            self._blocks.append(node.name_hint)
        self._visit_each((*node.reads, *node.writes))
        for buffer in node.alloc_buffers:
            self._define(buffer.data)
            self._use_layout(buffer)
            self._declare(buffer, "T.alloc_buffer")
        self._visit_each(view.source for view in node.match_buffers)
        for view in node.match_buffers:
            self._define_layout(view.buffer)
            self._declare(view.buffer, "T.match_buffer")
        self._visit_each(inside(node))
        if node.iter_vars:
            self._blocks.pop()
        self._live, self._live_buffers = before, buffers_before


_SPECIAL: Final[dict[type, Callable[[_Verifier, Any], None]]] = {
    IntImm: _Verifier._constant,
    Let: _Verifier._let,
    s.For: _Verifier._loop,
    s.Block: _Verifier._block,
    s.DeclBuffer: _Verifier._decl_buffer,
    s.AttrStmt: _Verifier._attribute,
}
"""Extra checks of node classes: views, threads, and the nesting of loops in blocks."""


def verify_ssa(func: PrimFunc) -> bool:
    """Return True if no variable is bound twice; scopes are not checked."""
    try:
        _DefinitionsOnly(set(), "").function(func)
    except WellFormedError:
        return False
    return True


class _DefinitionsOnly(_Verifier):
    def _use(self, var: Var) -> None:
        pass

    def _use_buffer(self, buffer: Buffer) -> None:
        pass

    def _declare(self, buffer: Buffer, by: str) -> None:
        pass
