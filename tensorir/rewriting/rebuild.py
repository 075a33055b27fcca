"""Functions generated from the fields of node classes: they return the parts of nodes, or rebuild
nodes.

The source of each function is generated for every class on first use, because walking and
rebuilding dominate the run time: a loop over fields takes three to four times as long. The source
is run by `exec`, so an editor cannot go to the definition of such a function; `inspect.getsource`
returns its text, also for tracebacks: `inspect.getsource(PARTS[Add])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tensorir.nodes.node import BUILT_BY, ByKind, Field, Node, compiled, same_or_new

Parts: TypeAlias = Callable[[Any], Sequence[Node]]
Row: TypeAlias = Callable[[Any, Any], Any]
"""A function of a rewriter and a node."""


def _no_parts(_: Node) -> tuple[Node, ...]:
    return ()


def _return_node(_: Any, node: Any) -> Any:
    """Return a node unchanged: the function for classes without parts."""
    return node


def _parts_of(kind: type[Node], chosen: Callable[[Field], bool]) -> Parts:
    """Generate the function that returns the nodes in the chosen fields of a node, in program
    order.
    """
    order = kind.walk_order or kind.fields
    fields = sorted((f for f in kind.roles if chosen(f)), key=order.index)
    if not fields:
        return _no_parts
    missing = [f for f in fields if f.optional and not f.many]
    lines = ["def made(n):"]
    if len(missing) == 1:
        rest = _tuple_of([f for f in fields if f is not missing[0]])
        lines += [f"    if n.{missing[0]} is None:", f"        return {rest}"]
        missing = []
    lines.append(f"    return {_tuple_of(fields, missing)}")
    return compiled(lines, {"Node": Node})


def _tuple_of(fields: list[Field], missing: Sequence[Field] = ()) -> str:
    if len(fields) == 1 and fields[0].many:
        return f"n.{fields[0]}" + (" or ()" if fields[0].optional else "")
    items = []
    for f in fields:
        if f.rewritten == "value":
            items.append(f"*((n.{f},) if isinstance(n.{f}, Node) else ())")
        elif f.many:
            items.append(f"*(n.{f} or ())" if f.optional else f"*n.{f}")
        else:
            items.append(f"*(() if n.{f} is None else (n.{f},))" if f in missing else f"n.{f}")
    return f"({', '.join(items)},)" if items else "()"


def _rebuild_function(kind: type[Node], scoped: bool = False) -> Row:
    """Generate the function that rebuilds nodes of a class; it returns an unchanged node itself.

    It first rewrites the fields outside of bodies, then creates definitions, then rewrites bodies.
    For a `scoped` rewriter, bodies are rewritten inside its `within(node, field)`.
    """
    fields = [f for f in kind.roles if f.rewritten]
    if not fields:
        return _return_node
    order = kind.walk_order or kind.fields
    first = [f for f in fields if f.rewritten == "node" and not f.is_body and not f.defines]
    last = sorted((f for f in fields if f.is_body), key=order.index)
    if kind.walk_order:
        first = []
    middle = [f for f in fields if f not in first and f not in last]
    lines = ["def made(r, n):", "    rows = r._part_rows"]
    for f in (*first, *middle, *last):
        lines.append(f"    {f} = n.{f}")
        new = _rewritten_source(f)
        if f.is_body and scoped:
            lines += [f"    with r.within(n, {str(f)!r}):", f"        new_{f} = {new}"]
        else:
            lines.append(f"    new_{f} = {new}")
    make, parameters = BUILT_BY[kind]
    same = " and ".join(f"new_{f} is {f}" for f in fields)
    names = [f"new_{p}" if p in fields else f"n.{p}" for p in parameters]
    lines += [f"    if {same}:", "        return n", f"    return make({', '.join(names)})"]
    return compiled(lines, {"make": make, "mapped": _mapped})


def _rewritten_source(f: Field) -> str:
    """Return source for the new value of a field; in it, the field's name is the old value."""
    if f.rewritten == "node":
        new = f"r.each({f})" if f.many else f"rows[type({f})](r, {f})"
        empty = f" if {f} else {f}" if f.many else ""
    elif f.rewritten == "value":
        new, empty = f"r.value({f})", ""
    else:
        new = f"mapped(r.{f.rewritten}, {f})" if f.many else f"r.{f.rewritten}({f})"
        empty = f" if {f} else {f}" if f.many else ""
    if f.optional and not f.many:
        empty = f" if {f} is not None else None"
    return new + empty


def _mapped(change: Callable[[Any], Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return same_or_new(values, [change(value) for value in values])


def _parts(chosen: Callable[[Field], bool]) -> Mapping[type, Parts]:
    return ByKind(lambda kind: _parts_of(kind, chosen))


PARTS: Final = _parts(lambda f: f.walked)
OUTSIDE: Final = _parts(lambda f: f.walked and not f.is_body)
INSIDE: Final = _parts(lambda f: f.walked and f.is_body)
DEFINED: Final = _parts(lambda f: f.rewritten == "define")
USED_BUFFERS: Final = _parts(lambda f: f.rewritten == "buffer")
REBUILD: Final[Mapping[type, Row]] = ByKind(_rebuild_function)
SCOPED: Final[Mapping[type, Row]] = ByKind(lambda kind: _rebuild_function(kind, scoped=True))
