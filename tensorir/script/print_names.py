"""The names of variables and buffers in a printed program, and their scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.quoting import RESERVED, identifier
from tensorir.relax.expr import GraphVar

Named: TypeAlias = Var | Buffer | GraphVar


@dataclass(slots=True, eq=False)
class Scope:
    """A part of the text with its own names; `number` counts scopes in the order of the text."""

    number: int
    parent: Scope | None
    things: list[Named] = field(default_factory=list)


class Names:
    """The names in scope.

    A free variable, which no statement defines, is defined at its first use; but the definition
    must be in a scope that contains all uses. Printing a program once finds these scopes: `strays`
    maps each variable whose first use is in a deeper scope to the number of the scope that it
    needs. A second printing, with these as `homes`, puts the definitions there.
    """

    def __init__(self, show_address: bool, homes: Mapping[Named, int]) -> None:
        self.texts: dict[Named, str] = {}
        self.strays: dict[Named, int] = {}
        self._show_address = show_address
        self._pending: dict[int, list[Named]] = {}
        for thing, number in homes.items():
            self._pending.setdefault(number, []).append(thing)
        self._taken: set[str] = set(RESERVED)
        self._first_defined: dict[Named, Scope] = {}
        self._scope = Scope(0, None)
        self._count = 1

    def reserve(self, name: str) -> None:
        """Reserve a name."""
        self._taken.add(name)

    def define(self, thing: Named, hint: str | None = None) -> str:
        """Give a variable or buffer a name that is unused in this and the enclosing scopes."""
        base = identifier(thing.name if hint is None else hint)
        if not base:
            base = "buffer" if isinstance(thing, Buffer) else "v"
        if base[0].isdigit():
            base = f"_{base}"
        if self._show_address:
            base = f"{base}_{id(thing):#x}"
        name = base
        taken = self._taken
        if name in taken:
            count = 1
            while f"{base}_{count}" in taken:
                count += 1
            name = f"{base}_{count}"
        taken.add(name)
        self.alias(thing, name)
        return name

    def note_free(self, thing: Named) -> None:
        """Record that a free variable or buffer is defined in the current scope."""
        first = self._first_defined.setdefault(thing, self._scope)
        if first is not self._scope:
            home = _innermost_around(first, self._scope)
            self._first_defined[thing] = home
            self.strays[thing] = home.number

    def alias(self, thing: Named, text: str) -> None:
        """Use `text` as the name of a thing in the current scope, such as `A.data` of a pointer."""
        self.texts[thing] = text
        self._scope.things.append(thing)

    def open(self) -> None:
        """Begin a scope inside the current one."""
        self._scope = Scope(self._count, self._scope)
        self._count += 1

    def close(self, kept: str = "") -> None:
        """End the current scope, and free its names except `kept`."""
        scope = self._scope
        for thing in scope.things:
            name = self.texts.pop(thing, None)
            if name is not None and name != kept:
                self._taken.discard(name)
        assert scope.parent is not None
        self._scope = scope.parent

    def end_function(self) -> None:
        """Close the scope of a function; another function defines its own free variables."""
        self.close()
        self._first_defined.clear()

    def pending_definitions(self) -> list[Named]:
        """Return the free variables and buffers to define in the current scope."""
        if not self._pending:
            return []
        return [t for t in self._pending.get(self._scope.number, ()) if t not in self.texts]


def _innermost_around(a: Scope, b: Scope) -> Scope:
    while a is not b:
        # A scope has a larger number than the scopes that enclose it.
        if a.number < b.number:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a
