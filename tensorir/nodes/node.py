"""The base class of IR nodes, and the declaration of their fields.

Nodes are plain classes with `__slots__` and a hand-written `__init__`. Children are nodes or
tuples. Nodes are never assigned to after construction, and type checkers treat the fields as
read-only, since every rewrite calls constructors. On CPython 3.11, building a binary expression
takes about 0.25 us in this way, against 0.3 us for `dataclass(slots=True)` and 1.2 us for a frozen
dataclass, and the search builds hundreds of thousands of nodes per second.

A class declares each of its fields once, with its role:

    class For(Stmt):
        fields = (definition("loop_var"), part("min"), part("extent"), "kind", body("body"), ...)
        __slots__ = fields

Walking, rebuilding, copying, comparing and hashing are derived from the declaration
(`tensorir.rewriting`, `tensorir.comparison`), for user-defined nodes, too. Functions for these are
generated for every class: such a function rebuilds a sum of two variables in 0.4 us, a loop over
the fields takes 1.3 us. A metaclass could define `__slots__` as well, but `isinstance` would take
twice as long.

Identity is meaningful only for `Var` and `Buffer`; `structural_equal` compares structure, `==`
never does.
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
    """Set the functions that print a node as script text, convert the text to HTML, and display it.

    The printer imports the nodes, so it registers itself here instead of being imported.
    """
    global _printer, _to_html, _display
    _printer, _to_html, _display = printer, to_html, display


def text_to_html(text: str) -> str:
    """Return script text as HTML for a notebook."""
    assert _to_html is not None
    return _to_html(text)


def show_text(text: str, style: str | None = None) -> None:
    """Display script text, highlighted on terminals and in notebooks.

    `style` selects the colours.
    """
    assert _display is not None
    _display(text, style)


class Field(str):
    """The name of a field, and its role; a plain string names a field with a plain value.

    Plain values are compared by equality. The functions below create fields with other roles.
    """

    __slots__ = ("counts", "defines", "is_body", "many", "optional", "rewritten", "walked")
    rewritten: str
    """The method of a `Rewriter` that returns the new value.

    "node" calls the rewriter itself; an empty name keeps the value.
    """
    walked: bool
    many: bool
    """True for a tuple of such values."""
    optional: bool
    """True if the value may be None."""
    defines: bool
    """True if the field defines variables."""
    is_body: bool
    """True if the definitions and facts of the node hold in this field."""
    counts: bool
    """True if structural equality and hashes use the field."""

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
        """Create a field."""
        made = super().__new__(cls, name)
        made.rewritten, made.walked, made.many, made.optional = rewritten, walked, many, optional
        made.defines, made.is_body, made.counts = defines, is_body, counts
        return made


def part(name: str, *, optional: bool = False, walked: bool = True, defines: bool = False) -> Field:
    """Declare a child.

    Without `walked` it is rebuilt, but not visited as part of the computation.
    """
    return Field(name, "node", walked=walked, optional=optional, defines=defines)


def parts(
    name: str, *, optional: bool = False, walked: bool = True, defines: bool = False
) -> Field:
    """Declare a tuple of children."""
    return Field(name, "node", many=True, walked=walked, optional=optional, defines=defines)


def body(name: str, *, optional: bool = False, walked: bool = True) -> Field:
    """Declare a child in which the definitions and facts of the node hold."""
    return Field(name, "node", walked=walked, optional=optional, is_body=True)


def buffer(name: str) -> Field:
    """Declare a buffer that the node uses."""
    return Field(name, "buffer")


def definition(name: str) -> Field:
    """Declare a variable that the node defines."""
    return Field(name, "define", defines=True)


def definitions(name: str) -> Field:
    """Declare a tuple of variables that the node defines."""
    return Field(name, "define", many=True, defines=True)


def buffer_definition(name: str, *, many: bool = False) -> Field:
    """Declare a buffer (or, with `many`, a tuple of buffers) that the node defines."""
    return Field(name, "define_buffer", many=many)


def value(name: str, *, walked: bool = False) -> Field:
    """Declare an attribute: any value, which may contain nodes."""
    return Field(name, "value", walked=walked)


def label(name: str) -> Field:
    """Declare a field that structural equality and hashes ignore, such as a name."""
    return Field(name, counts=False)


class Node:
    """The base class of the nodes of programs.

    `fields` names the children and plain values of the node, in the order in which structural
    comparison visits them; `roles` are the fields with their roles. `walk_order` names the children
    in program order if that order differs. The parameters of `__init__` are fields; a class whose
    nodes are rebuilt in another way has a static method `rebuilt` with the same parameters.
    """

    __slots__ = ("__weakref__",)
    fields: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[tuple[Field, ...]] = ()
    walk_order: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[tuple[tuple[str, bool], ...]] = ()
    """The fields that structural equality compares, and True for fields that define variables."""
    is_variable: ClassVar[bool] = False
    """True for nodes that are compared by identity (variables, buffers) and mapped to each other.
    """
    describes: ClassVar[bool] = False
    """True if a definition of the node also defines the variables inside of it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "fields" in cls.__dict__:
            cls.roles = tuple(f if isinstance(f, Field) else Field(f) for f in cls.fields)
            cls.counted = tuple((sys.intern(str(f)), f.defines) for f in cls.roles if f.counts)
            cls.fields = tuple(sys.intern(str(f)) for f in cls.fields)

    def with_(self, **changes: Any) -> Self:
        """Return a copy with the named fields replaced."""
        make, names = BUILT_BY[type(self)]
        values = {name: getattr(self, name) for name in names}
        values.update(changes)
        return make(**values)  # type: ignore[no-any-return]

    def changed(self, **changes: Any) -> Self:
        """Return a copy with the named fields replaced; the node itself if no field changes."""
        same = all(getattr(self, name) is value for name, value in changes.items())
        return self if same else self.with_(**changes)

    def script(self, **options: Any) -> str:
        """Return the node as script text; for the options see `tensorir.script.print_script`."""
        assert _printer is not None
        return _printer(self, **options)

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print the script, highlighted on a terminal and in a notebook.

        `style` is `"light"`, `"dark"`, `"ansi"` or a style of Pygments. The other options are those
        of `script`. Raises IRValueError for an unknown style.
        """
        show_text(self.script(**options), style)

    def _repr_html_(self) -> str:
        return text_to_html(self.script())

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return self.script()


class ByKind(dict[type, V]):
    """A dictionary with a value for every class of nodes, which `make` computes on first use."""

    def __init__(self, make: Callable[[type[Node]], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: type[Node]) -> V:
        made = self[kind] = self._make(kind)
        return made


def compiled(lines: Sequence[str], known: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function `made` that lines of source define; `known` are their global names.

    `inspect.getsource` and tracebacks show the source.
    """
    source, names = "\n".join(lines) + "\n", dict(known)
    place = f"<generated {len(linecache.cache)}>"
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    exec(compile(source, place, "exec"), names)  # generated lines; only the names of fields vary
    return names["made"]  # type: ignore[no-any-return]


def _built_by(kind: type[Node]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    make = getattr(kind, "rebuilt", kind)
    names = tuple(inspect.signature(make).parameters)
    unknown_names = [name for name in names if name not in kind.fields]
    if unknown_names:
        raise TypeError(
            f"the parameter {unknown_names[0]} of {kind.__name__} is not one of its fields "
            f"{kind.fields}"
        )
    return make, names


BUILT_BY: Final = ByKind(_built_by)
"""The constructor of nodes of a class, and the names of its parameters, in order.

Raises TypeError for a class whose `__init__` has a parameter that is not a field.
"""


class Attrs(dict[str, Any]):
    """An immutable mapping from strings: annotations of statements, attributes of functions."""

    __slots__ = ()

    def _raise_immutable(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "annotations and attributes are immutable; build a new node with other attributes"
        )

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = _raise_immutable

    def __reduce__(self) -> tuple[type[Attrs], tuple[dict[str, Any]]]:
        """Pickle through the constructor, because item assignment raises an error."""
        return (Attrs, (dict(self),))

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def with_item(self, key: str, value: Any) -> Attrs:
        """Return a copy with `key` set to `value`."""
        return Attrs({**self, key: value})

    def without(self, key: str) -> Attrs:
        """Return a copy that lacks `key`."""
        return Attrs({k: v for k, v in self.items() if k != key})


EMPTY_ATTRS = Attrs()


def same_or_new(old: tuple[V, ...], new: Sequence[V]) -> tuple[V, ...]:
    """Return `new` as a tuple; `old` itself if it holds the same objects."""
    return old if len(old) == len(new) and all(map(is_, old, new)) else tuple(new)


def as_attrs(mapping: Mapping[str, Any] | None) -> Attrs:
    """Return `mapping` as `Attrs`; an `Attrs` is returned without a copy."""
    if not mapping:
        return EMPTY_ATTRS
    return mapping if isinstance(mapping, Attrs) else Attrs(mapping)
