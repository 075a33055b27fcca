"""What the printer carries along: lines so far, names in scope, active loops.

A name is made from the hint of its object, is unique among the names that are live, and is free
again when the scope that defined it ends. Objects that are used but defined nowhere (free
variables and buffers) are noted with the scopes that use them; a second pass defines each in the
innermost scope that holds all its uses.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from tensorir.buffer import Buffer
from tensorir.dtype import DataType
from tensorir.expr import Var
from tensorir.node import Node
from tensorir.script.metadata import Metadata
from tensorir.stmt import For

ExprPrinter = Callable[["Printer", Any, int], str]
"""Returns an expression as text, in parentheses if it binds looser than the given precedence."""
StmtPrinter = Callable[["Printer", Any, bool], None]
"""Appends the lines of a statement; the flag allows the form that needs no `with`."""

_KEYWORDS: Final = frozenset({*keyword.kwlist, "range", "metadata"})
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]")


class Options:
    """How to print; the fields are those of `print_script`."""

    __slots__ = (
        "buffer_dtype",
        "float_dtype",
        "indent",
        "int_dtype",
        "ir_prefix",
        "name",
        "old_style",
        "show_address",
        "show_meta",
        "sugar",
        "tir_prefix",
        "verbose_expr",
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        syntax_sugar: bool = True,
        show_meta: bool = False,
        style: str = "0.19",
        buffer_dtype: str = "float32",
        int_dtype: str = "int32",
        float_dtype: str = "void",
        indent_spaces: int = 4,
        ir_prefix: str = "I",
        tir_prefix: str = "T",
        show_object_address: bool = False,
        verbose_expr: bool = False,
    ) -> None:
        for prefix in (ir_prefix, tir_prefix):
            if not prefix.isidentifier():
                raise ValueError(f"a namespace prefix must be an identifier, got {prefix!r}")
        if style not in ("0.19", "0.10"):
            raise ValueError(f"style is '0.19' or '0.10', got {style!r}")
        self.name = name
        self.sugar = syntax_sugar
        self.show_meta = show_meta
        self.old_style = style == "0.10"
        self.buffer_dtype = DataType(buffer_dtype)
        self.int_dtype = DataType(int_dtype)
        self.float_dtype = DataType(float_dtype)
        self.indent = " " * indent_spaces
        self.ir_prefix = ir_prefix
        self.tir_prefix = tir_prefix
        self.show_address = show_object_address
        self.verbose_expr = verbose_expr


class Scope:
    """A stretch of text in which names live; `number` counts scopes in the order of opening."""

    __slots__ = ("named", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.named: list[Var | Buffer] = []


class Printer:
    """The state of printing one program once.

    `exprs` and `stmts` say how to print each class of node. `forbidden_inline` holds parameters
    that cannot be printed as `T.Buffer` annotations, `free` the objects to define when the scope
    of a number opens; both come from the uses that an earlier pass noted in `misses`.
    """

    __slots__ = (
        "T",
        "class_name",
        "exprs",
        "forbidden_inline",
        "free",
        "inlined",
        "int_dtype",
        "lines",
        "loops",
        "marked",
        "meta",
        "misses",
        "names",
        "old_style",
        "options",
        "pad",
        "return_dtypes",
        "scopes",
        "scopes_opened",
        "stmts",
        "sugar",
        "taken",
    )

    def __init__(
        self,
        options: Options,
        exprs: dict[type, ExprPrinter],
        stmts: dict[type, StmtPrinter],
        forbidden_inline: frozenset[Var] = frozenset(),
        free: dict[int, list[Var | Buffer]] | None = None,
    ) -> None:
        self.options = options
        self.T = options.tir_prefix
        self.sugar = options.sugar
        self.old_style = options.old_style
        self.int_dtype = options.int_dtype
        self.exprs = exprs
        self.stmts = stmts
        self.forbidden_inline = forbidden_inline
        self.free = free or {}
        self.lines: list[str] = []
        self.pad = ""
        self.names: dict[Var | Buffer, str] = {}
        self.taken: set[str] = {"I", "T", "R", "cls", options.ir_prefix, options.tir_prefix}
        self.taken |= _KEYWORDS
        self.scopes: list[Scope] = [Scope(0)]
        self.scopes_opened = 1
        self.loops: dict[Var, For] = {}
        self.inlined: set[Var] = set()
        self.misses: dict[Var | Buffer, list[tuple[int, ...]]] = {}
        self.meta = Metadata()
        self.marked: frozenset[int] = frozenset()
        """`id` of every node that the caller wants to see marked."""
        self.class_name: str | None = None
        self.return_dtypes: dict[str, DataType] = {}
        """What a call of each function of the module gives."""

    def line(self, text: str) -> None:
        """Append one line at the current indentation."""
        self.lines.append(self.pad + text)

    def expr(self, node: Node, precedence: int = 0) -> str:
        """Return an expression as text."""
        return self.exprs[type(node)](self, node, precedence)

    def stmt(self, node: Node, concise: bool = True) -> None:
        """Append the lines of a statement."""
        self.stmts[type(node)](self, node, concise)

    # ------------------------------------------------------------------------------ scopes, names

    def open(self) -> None:
        """Start a scope: names defined from here on end with it."""
        self.scopes.append(Scope(self.scopes_opened))
        self.scopes_opened += 1

    def close(self) -> None:
        """End the innermost scope and release its names."""
        names, taken = self.names, self.taken
        for obj in self.scopes.pop().named:
            taken.discard(names.pop(obj))

    def free_objects(self) -> Sequence[Var | Buffer]:
        """Return the free variables and buffers to define in the scope that was just opened."""
        return self.free.get(self.scopes[-1].number, ())

    def define(self, obj: Var | Buffer, hint: str | None = None) -> str:
        """Give `obj` a name in the innermost scope; the name it has if it has one."""
        known = self.names.get(obj)
        if known is not None:
            return known
        name = self.fresh(obj.name if hint is None else hint, type(obj) is Buffer)
        if self.options.show_address:
            name = f"{name}_{id(obj):#x}"
        self.names[obj] = name
        self.scopes[-1].named.append(obj)
        return name

    def refer(self, obj: Var | Buffer, text: str) -> None:
        """Let `obj` print as `text`, an access path such as `A.data`, while this scope lasts."""
        if obj not in self.names:
            self.names[obj] = text
            self.scopes[-1].named.append(obj)

    def fresh(self, hint: str, is_buffer: bool = False) -> str:
        """Return and reserve a name that is not live, made from `hint`."""
        base = identifier(hint) or ("buffer" if is_buffer else "v")
        name, count, taken = base, 0, self.taken
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        return name

    def miss(self, obj: Var | Buffer) -> str:
        """Note the use of something that has no name here; return a stand-in for this pass."""
        self.note_use(obj)
        if type(obj) is Buffer:
            for part in (*obj.shape, *obj.strides, obj.elem_offset):
                if not (isinstance(part, Var) and part not in self.names):
                    self.expr(part)
                else:
                    self.note_use(part)
            if obj.data not in self.names:
                self.note_use(obj.data)
        return identifier(obj.name) or "v"

    def note_use(self, obj: Var | Buffer) -> None:
        """Note that the current scope uses `obj`, which is defined nowhere."""
        trail = tuple(scope.number for scope in self.scopes)
        self.misses.setdefault(obj, []).append(trail)


@lru_cache(maxsize=4096)
def identifier(hint: str) -> str:
    """Return `hint` with every character that a name cannot have replaced by `_`."""
    name = _FOREIGN.sub("_", hint)
    return f"_{name}" if name[:1].isdigit() else name


def place_free_objects(
    misses: dict[Var | Buffer, list[tuple[int, ...]]],
) -> dict[int, list[Var | Buffer]]:
    """Return, by number of scope, the objects to define there.

    An object goes to the innermost scope that contains every use of it. Variables come before the
    buffers that may use them; the pointer of a buffer that is defined in the same scope comes
    after that buffer, which then defines it.
    """
    home = {obj: _common(trails) for obj, trails in misses.items()}
    buffers = [obj for obj in misses if isinstance(obj, Buffer)]
    pointers = {(b.data, home[b]) for b in buffers}
    placed: dict[int, list[Var | Buffer]] = {}
    rest = [v for v in misses if isinstance(v, Var)]
    late = [v for v in rest if (v, home[v]) in pointers]
    early = [v for v in rest if (v, home[v]) not in pointers]
    for obj in (*early, *buffers, *late):
        placed.setdefault(home[obj], []).append(obj)
    return placed


def _common(trails: list[tuple[int, ...]]) -> int:
    shortest = min(trails, key=len)
    for depth, number in enumerate(shortest):
        if any(trail[depth] != number for trail in trails):
            return shortest[depth - 1]
    return shortest[-1]
