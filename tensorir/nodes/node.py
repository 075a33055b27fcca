"""The base of all IR nodes.

Nodes are plain classes with `__slots__` and a hand-written `__init__`: children are nodes or
tuples, and nothing assigns to a node once it is built (type checkers see the fields as read-only
because every rewrite in this package goes through constructors). On CPython 3.11, building a
binary expression takes about 0.25 us this way, against 0.3 us for `dataclass(slots=True)` and
1.2 us for a frozen one, and the search builds hundreds of thousands of nodes a second;
`benchmarks/bench_nodes.py` prints the comparison.

Identity is meaningful for `Var` and `Buffer` only; `==` never compares structure, that is
`structural_equal`'s job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

_printer: Callable[..., str] | None = None
_to_html: Callable[[str], str] | None = None
_display: Callable[[str], None] | None = None


def set_printer(
    printer: Callable[..., str], to_html: Callable[[str], str], display: Callable[[str], None]
) -> None:
    """Install what turns a node into script text, script text into HTML, and what shows text.

    The printer is built on the nodes, so it hands itself over instead of being imported here.
    """
    global _printer, _to_html, _display
    _printer, _to_html, _display = printer, to_html, display


def text_to_html(text: str) -> str:
    """Return script text as the HTML that a notebook shows."""
    assert _to_html is not None
    return _to_html(text)


def show_text(text: str) -> None:
    """Show script text, highlighted on a terminal and in a notebook."""
    assert _display is not None
    _display(text)


class Node:
    """Something with a place in a program.

    `fields` names the children and plain values that make up the node, in the order in which
    structural comparison visits them.
    """

    __slots__ = ("__weakref__",)
    fields: ClassVar[tuple[str, ...]] = ()

    def script(self, **options: Any) -> str:
        """Return the node as script text; for the options see `tensorir.script.print_script`."""
        assert _printer is not None
        return _printer(self, **options)

    def show(self, **options: Any) -> None:
        """Print the script, highlighted on a terminal and in a notebook."""
        show_text(self.script(**options))

    def _repr_html_(self) -> str:
        return text_to_html(self.script())

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return self.script()


class Attrs(dict[str, Any]):
    """An immutable mapping from strings: annotations of statements, attributes of functions."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("annotations and attributes are immutable; build a new node with new ones")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = _refuse

    def __reduce__(self) -> tuple[type[Attrs], tuple[dict[str, Any]]]:
        """Pickle through the constructor, because item assignment is refused."""
        return (Attrs, (dict(self),))

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def with_item(self, key: str, value: Any) -> Attrs:
        """Return a copy in which `key` has `value`."""
        return Attrs({**self, key: value})

    def without(self, key: str) -> Attrs:
        """Return a copy that lacks `key`."""
        return Attrs({k: v for k, v in self.items() if k != key})


EMPTY_ATTRS = Attrs()


def as_attrs(mapping: Mapping[str, Any] | None) -> Attrs:
    """Return `mapping` as `Attrs`, without copying where it is one already."""
    if not mapping:
        return EMPTY_ATTRS
    return mapping if isinstance(mapping, Attrs) else Attrs(mapping)
