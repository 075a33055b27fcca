"""Copies of programs that can be used together with the original: all definitions are new."""

from __future__ import annotations

from typing import Any, TypeVar

from tensorir.function import BaseFunc, PrimFunc
from tensorir.nodes.buffer import Buffer, MatchBufferRegion
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, DeclBuffer, For, Stmt
from tensorir.recursion import any_depth
from tensorir.rewriting.visit import Substitution, collect_vars

F = TypeVar("F", bound=BaseFunc)


@any_depth
def renew_defs(func: F) -> F:
    """Return a copy of a function with new definitions.

    The copy has its own parameters, loop variables, axes, bound names, pointers and buffers (for a
    graph function: variables and symbolic sizes), so both functions may be parts of one program.
    """
    return FreshCopy()(func)


class FreshCopy(Substitution):
    """Copies a program, with new loop variables, axes, buffers and bound names.

    `values` replaces variables that are defined outside of the program, `buffers` replaces such
    buffers. Subclasses may rename blocks and change the domains of axes.
    """

    def block_name(self, block: Block) -> str:
        """Return the name of the copy of a block."""
        return block.name_hint

    def define(self, var: Any) -> Any:
        """Return the new variable that replaces `var` in its scope."""
        if isinstance(var, Var):
            new: Any = var.with_name(var.name)
        else:
            self._define_sizes(var.struct_info)
            new = var.with_struct_info(self(var.struct_info))
        self._values[var] = new
        return new

    def _define_sizes(self, node: Node) -> None:
        for var in collect_vars(node):
            if var not in self._values:
                self.define(var)

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return the new buffer, with a new pointer, that replaces `buffer` in its scope.

        Buffers that share a pointer share the new pointer.
        """
        if buffer.data not in self._values:
            self.define(buffer.data)
        new = self._buffers[buffer] = self._with_layout(buffer)
        return new

    def define_parameter(self, buffer: Buffer) -> Buffer:
        """Return the new buffer of a parameter, which binds the variables in its layout."""
        for size in buffer.layout:
            self._define_sizes(size)
        return self.define_buffer(buffer)

    def rewrite_PrimFunc(self, node: PrimFunc) -> PrimFunc:  # noqa: N802
        """Copy a function with new parameters."""
        params = [self.define(param) for param in node.params]
        buffer_map = {
            new: self.define_parameter(node.buffer_map[old])
            for old, new in zip(node.params, params, strict=True)
            if old in node.buffer_map
        }
        body, attrs = self(node.body), self.value(node.attrs)
        return node.with_(params=params, buffer_map=buffer_map, body=body, attrs=attrs)

    def rewrite_Function(self, node: Any) -> Any:  # noqa: N802
        """Copy a graph function with new parameters."""
        for param in node.params:
            self.define(param)
        return self.generic(node)

    def rewrite_GraphVar(self, node: Any) -> Any:  # noqa: N802
        """Return the variable of the copy."""
        return self._values.get(node, node)

    def rewrite_MatchCast(self, node: Any) -> Any:  # noqa: N802
        """Copy a `match_cast`, which defines the new sizes in its struct info."""
        self._define_sizes(node.struct_info)
        return self.generic(node)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Copy a block; the copy is a new object even if the block defines nothing."""
        return self.generic(node).with_(name_hint=self.block_name(node))

    def rewrite_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:  # noqa: N802
        """Copy a view, which may bind variables in its layout."""
        view, source = node.buffer, node.source
        known = {v for size in (*source.region, *source.buffer.layout) for v in collect_vars(size)}
        for size in view.layout:
            if isinstance(size, Var) and size not in self._values and size not in known:
                self.define(size)
        return MatchBufferRegion(self.define_buffer(view), self(source))

    def rewrite_DeclBuffer(self, node: DeclBuffer) -> Stmt:  # noqa: N802
        """Copy a view of a pointer; the view is new, the pointer is replaced."""
        new = self._with_layout(node.buffer)
        self._buffers[node.buffer] = new = new if new is not node.buffer else new.with_()
        return DeclBuffer(new, self(node.body))


def fresh_thread(loop: For) -> IterVar | None:
    """Return the thread axis for a copy of a loop: the same axis with a new variable."""
    old = loop.thread_binding
    if old is None:
        return None
    return IterVar(old.dom, old.var.with_name(old.var.name), old.iter_type, old.thread_tag)
