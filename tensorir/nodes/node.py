"""The base of all IR nodes, and what a node class says about its fields.

Nodes are plain classes with `__slots__` and a hand-written `__init__`: children are nodes or
tuples, and nothing assigns to a node once it is built (type checkers see the fields as read-only
because every rewrite in this package goes through constructors). On CPython 3.11, building a
binary expression takes about 0.25 us this way, against 0.3 us for `dataclass(slots=True)` and
1.2 us for a frozen one, and the search builds hundreds of thousands of nodes a second.

A class names its fields once, each with its meaning:

    class For(Stmt):
        fields = (definition("loop_var"), part("min"), part("extent"), "kind", body("body"), ...)
        __slots__ = fields

Walking, rebuilding, copying, comparing and hashing follow from that
(`tensorir.rewriting`, `tensorir.comparison`), for the nodes of a user's own, too. The functions
that do it are written once for every class: one rebuilds a sum of two variables in 0.4 us, where a
loop over the fields takes 1.3 us. A metaclass could write `__slots__` as well, but `isinstance`
would take twice as long.

Identity is meaningful for `Var` and `Buffer` only; `==` never compares structure, that is
`structural_equal`'s job.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar

V = TypeVar("V")

_printer: Callable[..., str] | None = None
_to_html: Callable[[str], str] | None = None
_display: Callable[[str, str | None], None] | None = None


def set_printer(
    printer: Callable[..., str],
    to_html: Callable[[str], str],
    display: Callable[[str, str | None], None],
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


def show_text(text: str, style: str | None = None) -> None:
    """Show script text, highlighted on a terminal and in a notebook, or in a style."""
    assert _display is not None
    _display(text, style)


class Field(str):
    """The name of a field, and what it means; a bare name is that of a plain value.

    Plain values count for equality. The functions below give names every other meaning.
    """

    __slots__ = ("counts", "defines", "is_body", "many", "optional", "rewritten", "walked")
    rewritten: str
    """The method of a `Rewriter` for the new value, "node" for the call; empty: unchanged."""
    walked: bool
    many: bool
    """True for a tuple of what the meaning says."""
    optional: bool
    """True if None may stand there."""
    defines: bool
    """True if variables are defined here."""
    is_body: bool
    """True if definitions and facts of the node hold there."""
    counts: bool
    """True if equality and hashes look at it."""

    def __new__(
        cls,
        name: str,
        rewritten: str = "",
        *,
        walked: bool = False,
        many: bool = False,
        optional: bool = False,
        defines: bool = False,
        is_body: bool = False,
        counts: bool = True,
    ) -> Field:
        """Name a field."""
        made = super().__new__(cls, name)
        made.rewritten, made.walked, made.many, made.optional = rewritten, walked, many, optional
        made.defines, made.is_body, made.counts = defines, is_body, counts
        return made


def part(name: str, *, optional: bool = False, walked: bool = True, defines: bool = False) -> Field:
    """Declare a child; without `walked` it is rebuilt, but not part of the computation."""
    return Field(name, "node", walked=walked, optional=optional, defines=defines)


def parts(
    name: str, *, optional: bool = False, walked: bool = True, defines: bool = False
) -> Field:
    """Name a tuple of children."""
    return Field(name, "node", many=True, walked=walked, optional=optional, defines=defines)


def body(name: str, *, optional: bool = False, walked: bool = True) -> Field:
    """Name a child in which the definitions of the node, or facts that it states, hold."""
    return Field(name, "node", walked=walked, optional=optional, is_body=True)


def buffer(name: str) -> Field:
    """Name a buffer that is used."""
    return Field(name, "buffer")


def definition(name: str) -> Field:
    """Name a variable that is defined by the node."""
    return Field(name, "define", defines=True)


def definitions(name: str) -> Field:
    """Name a tuple of variables that are defined by the node."""
    return Field(name, "define", many=True, defines=True)


def buffer_definition(name: str, *, many: bool = False) -> Field:
    """Name a buffer (or a tuple of `many`) that is defined by the node."""
    return Field(name, "define_buffer", many=many)


def value(name: str, *, walked: bool = False) -> Field:
    """Name an attribute: any value, with nodes in it or not."""
    return Field(name, "value", walked=walked)


def label(name: str) -> Field:
    """Declare a field that structural equality and hashes ignore, such as a name."""
    return Field(name, counts=False)


class Node:
    """Something with a place in a program.

    `fields` names the children and plain values that make up the node, in the order in which
    structural comparison visits them; `roles` are the names with their meanings. `walk_order` names
    the children in program order where that is another one. The parameters of `__init__` are
    fields; a class whose nodes are rebuilt in another way has a static method `rebuilt` with the
    same parameters.
    """

    __slots__ = ("__weakref__",)
    fields: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[tuple[Field, ...]] = ()
    walk_order: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[tuple[tuple[str, bool], ...]] = ()
    """The fields that count for equality, and whether variables are defined there."""
    is_variable: ClassVar[bool] = False
    """True for nodes that are what they are by identity, and are mapped to one another."""
    describes: ClassVar[bool] = False
    """True if variables anywhere in the node are defined where it is used as a definition."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "fields" in cls.__dict__:
            cls.roles = tuple(f if isinstance(f, Field) else Field(f) for f in cls.fields)
            cls.counted = tuple((sys.intern(str(f)), f.defines) for f in cls.roles if f.counts)
            cls.fields = tuple(sys.intern(str(f)) for f in cls.fields)

    def with_(self, **changes: Any) -> Self:
        """Return a node that differs in the named fields."""
        make, names = BUILT_BY[type(self)]
        values = {name: getattr(self, name) for name in names}
        values.update(changes)
        return make(**values)  # type: ignore[no-any-return]

    def changed(self, **changes: Any) -> Self:
        """Return a node that differs in the named fields, itself if it differs in none of them."""
        same = all(getattr(self, name) is value for name, value in changes.items())
        return self if same else self.with_(**changes)

    def script(self, **options: Any) -> str:
        """Return the node as script text; for the options see `tensorir.script.print_script`."""
        assert _printer is not None
        return _printer(self, **options)

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print the script, highlighted on a terminal and in a notebook.

        `style` names the colours: `"light"`, `"dark"`, `"ansi"` or a style of Pygments. The other
        options are those of `script`. Raises IRValueError for an unknown style.
        """
        show_text(self.script(**options), style)

    def _repr_html_(self) -> str:
        return text_to_html(self.script())

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return self.script()


class ByKind(dict[type, V]):
    """A value for every class of nodes, made at first use."""

    def __init__(self, make: Callable[[type[Node]], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: type[Node]) -> V:
        made = self[kind] = self._make(kind)
        return made


def compiled(lines: Sequence[str], known: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function `made` that lines of source define; they see what is `known`.

    `inspect.getsource` and tracebacks have the source.
    """
    source, names = "\n".join(lines) + "\n", dict(known)
    place = f"<generated {len(linecache.cache)}>"
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    exec(compile(source, place, "exec"), names)  # the lines are ours, but for names of fields
    return names["made"]  # type: ignore[no-any-return]


def _built_by(kind: type[Node]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    make = getattr(kind, "rebuilt", kind)
    names = tuple(inspect.signature(make).parameters)
    strange = [name for name in names if name not in kind.fields]
    if strange:
        raise TypeError(
            f"{kind.__name__} is built from {strange[0]}, which is none of its fields {kind.fields}"
        )
    return make, names


BUILT_BY: Final = ByKind(_built_by)
"""The constructor of nodes of a class, and the names of the fields that it takes, in order.

TypeError for a class whose `__init__` has a parameter that is not a field.
"""


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


def same_or_new(old: tuple[V, ...], new: Sequence[V]) -> tuple[V, ...]:
    """Return `new` as a tuple, `old` itself where it holds the same objects."""
    return old if len(old) == len(new) and all(map(is_, old, new)) else tuple(new)


def as_attrs(mapping: Mapping[str, Any] | None) -> Attrs:
    """Return `mapping` as `Attrs`, without copying where it is one already."""
    if not mapping:
        return EMPTY_ATTRS
    return mapping if isinstance(mapping, Attrs) else Attrs(mapping)
