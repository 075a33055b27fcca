"""Where in a program something is: `<root>.body.block.reads[0]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tensorir.expr import GlobalVar, StringImm, Var
from tensorir.node import Node


class ObjectPath:
    """The steps from a root object to a part of it; immutable, printed from the root.

    A step is the name of a field (`str`), a position in a list (`int`), or one of the special
    steps below.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...] = ()) -> None:
        self.steps = steps

    def attr(self, name: str) -> ObjectPath:
        """Return the path to the field `name`."""
        return ObjectPath((*self.steps, name))

    def index(self, position: int) -> ObjectPath:
        """Return the path to an element of a list."""
        return ObjectPath((*self.steps, position))

    def key(self, key: object) -> ObjectPath:
        """Return the path to a value of a map."""
        return ObjectPath((*self.steps, MapKey(key)))

    def missing_element(self, position: int) -> ObjectPath:
        """Return the path to where a list has no element that another list has."""
        return ObjectPath((*self.steps, Missing(position)))

    def missing_entry(self) -> ObjectPath:
        """Return the path to where a map lacks a key that another map has."""
        return ObjectPath((*self.steps, Missing(None)))

    def objects(self, root: object) -> Iterator[object]:
        """Yield `root` and what lies at each step from it, as far as the path can be followed."""
        current: Any = root
        yield current
        for step in self.steps:
            if isinstance(step, Missing):
                return
            if isinstance(step, str):
                current = getattr(current, step)
            else:
                current = current[step.key if isinstance(step, MapKey) else step]
            yield current

    def __str__(self) -> str:
        return "<root>" + "".join(_spell(step) for step in self.steps)

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class MapKey:
    """The step to the value that a map has for `key`."""

    __slots__ = ("key",)

    def __init__(self, key: object) -> None:
        self.key = key


class Missing:
    """The step to a list element (`position`) or a map entry (None) that does not exist."""

    __slots__ = ("position",)

    def __init__(self, position: int | None) -> None:
        self.position = position


Step = str | int | MapKey | Missing
ROOT: Final = ObjectPath()


def _spell(step: Step) -> str:
    if isinstance(step, str):
        return f".{step}"
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, Missing):
        return (
            "[<missing entry>]"
            if step.position is None
            else f"[<missing element #{step.position}>]"
        )
    return f"[{_spell_key(step.key)}]"


def _spell_key(key: object) -> str:
    if isinstance(key, GlobalVar):
        return f'I.GlobalVar("{key.name}")'
    if isinstance(key, Var):
        return key.name
    if isinstance(key, StringImm):
        key = key.value
    return f'"{key}"' if isinstance(key, str) else str(key)


def path_of(root: Node | Mapping[Any, Any] | tuple[Any, ...], wanted: Node) -> ObjectPath | None:
    """Return the path of the first place (in field order) where `wanted` itself occurs."""
    stack: list[tuple[Any, tuple[Step, ...]]] = [(root, ())]
    while stack:
        current, steps = stack.pop()
        if current is wanted:
            return ObjectPath(steps)
        if isinstance(current, Node):
            parts: list[tuple[Any, Step]] = [
                (getattr(current, name), name) for name in type(current).fields
            ]
        elif isinstance(current, tuple):
            parts = [(item, position) for position, item in enumerate(current)]
        elif isinstance(current, Mapping):
            parts = [(item, MapKey(key)) for key, item in current.items()]
        else:
            continue
        stack.extend((part, (*steps, step)) for part, step in reversed(parts))
    return None
