"""The parts of a search: by short name (`Builder.create("local")`), and each for its task."""

from __future__ import annotations

import copy
import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from codegen.target import as_target
from search.errors import TuningError
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from codegen import Target
    from search.task import Task

T = TypeVar("T")
K = TypeVar("K", bound="Task")
C = TypeVar("C")


class Named:
    """Something that is called by the name of its class in messages."""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


class TaskPart(Named, Generic[K]):
    """A part that works on one task, of which it knows nothing until it is initialised with it."""

    context: K | None = None
    """The task, from initialisation on."""

    def _initialize_with_tune_context(self, context: K) -> None:
        """Take from the context what the part needs; called once before the first use."""
        self.context = context

    def _task_target(self) -> Target:
        """Return the target of the task, the current one where there is none."""
        return as_target(None if self.context is None else self.context.target)

    def _task_cores(self) -> int:
        """Return the `num-cores` of the target of the task; TuningError if it does not say."""
        target = None if self.context is None else self.context.target
        if target is None or target.num_cores is None:
            raise TuningError(
                f"the target {target} does not say how many cores it has; "
                'add num-cores, as in "llvm -num-cores=8"'
            )
        return target.num_cores

    def clone(self) -> Self:
        """Return a part with the same parameters for another task, to be initialised again."""
        twin = copy.copy(self)
        twin.context = None
        return twin


class Kinds(Generic[T]):
    """The makers of one sort of part, by short name: an attribute of the class of these parts.

    A maker is a class or a function that returns what `T` says. Dashes and underscores in names
    are the same (`"replay-trace"`, `"replay_trace"`).

    A part that is reached through a URL has the URL for its name (`"dask://host:8786"`). Its scheme
    is registered with `register_scheme`; `postgresql+psycopg://...` is made by the maker of
    `postgresql+psycopg`, else by that of `postgresql`. A module that registers a part which few
    need may be named in `later`, by the name or by `scheme://`.
    """

    def __init__(self, what: str, later: Mapping[str, str] | None = None) -> None:
        self.what = what
        """The name of the part in error messages."""
        self._later = dict(later or {})
        """The modules that register names, or `scheme://`, and are imported when one is used."""
        self._makers: dict[str, Callable[..., T]] = {}
        self._schemes: dict[str, Callable[..., T]] = {}
        self._base: type[Any] = object

    def __set_name__(self, base: type[Any], _: str) -> None:
        self._base = base

    def register(self, *names: str) -> Callable[[C], C]:
        """Register the decorated class or function under `names`; a taken name is an error."""

        def add(maker: C) -> C:
            for name in names:
                key = _normalized(name)
                if key in self._makers:
                    raise IRValueError(f"a {self.what} called {name!r} is registered already")
                self._makers[key] = maker  # type: ignore[assignment]
            return maker

        return add

    def register_scheme(self, *schemes: str) -> Callable[[C], C]:
        """Register the decorated class or function for URLs that begin with `scheme://`.

        It is called with the URL, and with what else the part is made with.
        """

        def add(maker: C) -> C:
            for scheme in schemes:
                if scheme in self._schemes:
                    raise IRValueError(
                        f"a {self.what} for {scheme}:// addresses is registered already"
                    )
                self._schemes[scheme] = maker  # type: ignore[assignment]
            return maker

        return add

    def part(self, kind: Any, *args: Any, **kwargs: Any) -> T:
        """Return a part that is given itself, by its class or by its short name.

        IRValueError for anything else, and for a class that needs other arguments.
        """
        base = self._base
        if isinstance(kind, base):
            return kind  # type: ignore[no-any-return]
        if not isinstance(kind, type):
            return self.make(kind, *args, **kwargs)
        refused = f"a {self.what} cannot be made of the class {kind.__name__}: "
        if not issubclass(kind, base):
            raise IRValueError(f"{refused}it is no {base.__name__}")
        if inspect.isabstract(kind):
            raise IRValueError(f"{refused}it is abstract")
        try:
            inspect.signature(kind).bind(*args, **kwargs)
        except TypeError as error:
            raise IRValueError(f"{refused}{error}; give an instance") from error
        return kind(*args, **kwargs)  # type: ignore[no-any-return]

    def make(self, kind: str, *args: Any, **kwargs: Any) -> T:
        """Return an instance from the maker called `kind`; IRValueError lists the known names."""
        if not isinstance(kind, str):
            raise IRValueError(
                f"a {self.what} is named by a short string, got {type(kind).__name__}: {kind!r}"
            )
        self.check(kind)
        by_scheme = self._of_scheme(kind)
        if by_scheme is None:
            maker = self._makers[_normalized(kind)]
        else:
            maker, args = by_scheme, (kind, *args)
        signature = inspect.signature(maker)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            takes = ", ".join(
                str(p.replace(annotation=p.empty)) for p in signature.parameters.values()
            )
            raise IRValueError(
                f"a {self.what} cannot be made of the name {kind!r} here: {error}, it takes "
                f"({takes}); give an instance"
            ) from error
        return maker(*args, **kwargs)

    def check(self, kind: Any) -> None:
        """Raise IRValueError for a short name that is not known; anything else passes."""
        if isinstance(kind, str) and kind not in self:
            schemes = (f"{scheme}://..." for scheme in self._schemes)
            known = sorted({*self._makers, *schemes, *map(_url_of, self._later)})
            raise IRValueError(
                f"there is no {self.what} {_shown(kind)!r}; known are {', '.join(known)}"
                f"{nearest(_normalized(kind), self._makers)}"
            )

    def __contains__(self, kind: str) -> bool:
        self._load(_normalized(kind))
        return _normalized(kind) in self._makers or self._of_scheme(kind) is not None

    def _of_scheme(self, kind: str) -> Callable[..., T] | None:
        """Return the maker for a name that is a URL, None for any other name."""
        scheme, separator, _ = kind.partition("://")
        if not separator:
            return None
        general = scheme.partition("+")[0]
        for name in (scheme, general):
            self._load(f"{name}://")
        return self._schemes.get(scheme) or self._schemes.get(general)

    def _load(self, name: str) -> None:
        module = self._later.get(name)
        if module is not None:
            importlib.import_module(module)  # another thread waits here until it is loaded
            self._later.pop(name, None)


def _shown(kind: str) -> str:
    """Return a name, and of a URL the scheme: the rest may have a password in it."""
    scheme, separator, _ = kind.partition("://")
    return f"{scheme}://..." if separator else kind


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` with the known name that is most like one, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def like_or_all(name: str, known: Iterable[str]) -> str:
    """Return up to three known names that are most like one, in a question; else all there are."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f"do you mean {' or '.join(map(repr, close))}"
    return f"registered are {sorted(names)}" if names else "none is registered"


def instances(base: type[Any], name: str, given: object) -> list[Any]:
    """Return the parts in an argument called `name`; IRValueError for others than `base`."""
    what = base.__name__
    if isinstance(given, (str, type)) or not isinstance(given, Iterable):
        raise IRValueError(f"{name} is a list of instances of {what}, got {_named(given)}")
    parts = list(given)
    for part in parts:
        if not isinstance(part, base):
            remedy = f"; give an instance, {part.__name__}(...)" if isinstance(part, type) else ""
            raise IRValueError(f"{name} holds {_named(part)}, which is no {what}{remedy}")
    return parts


def _named(part: object) -> str:
    return f"the class {part.__name__}" if isinstance(part, type) else repr(part)


def derived_object(cls: C) -> C:
    """Return the class as it is.

    In TVM this decorator connects a Python class to its C++ base; here a subclass needs nothing,
    and the name remains so that existing code runs.
    """
    return cls


def _url_of(name: str) -> str:
    return f"{name}..." if name.endswith("://") else name


def _normalized(name: str) -> str:
    return name.replace("_", "-")
