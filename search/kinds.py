"""The parts of a search: their base classes, and their creation by short name
(`Builder.create("local")`).
"""

from __future__ import annotations

import copy
import difflib
import importlib
import inspect
import logging
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
    """A part whose name in messages is that of its class."""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


class TaskPart(Named, Generic[K]):
    """A part that works on one task, which it gets when it is initialised."""

    context: K | None = None
    """The task, from initialisation on."""

    def _initialize_with_tune_context(self, context: K) -> None:
        """Initialise the part for a task; called once before the first use."""
        self.context = context

    def _task_target(self) -> Target:
        """Return the target of the task, by default the current one."""
        return as_target(None if self.context is None else self.context.target)

    def _task_logger(self) -> logging.Logger:
        """Return the logger of the task, by default that of all searches."""
        return logging.getLogger("tensorir.search") if self.context is None else self.context.logger

    def _task_cores(self) -> int:
        """Return the `num-cores` of the target of the task; TuningError if it has none."""
        target = None if self.context is None else self.context.target
        if target is None or target.num_cores is None:
            raise TuningError(
                f"the target {target} has no num-cores; add the number of cores, as in "
                '"llvm -num-cores=8"'
            )
        return target.num_cores

    def clone(self) -> Self:
        """Return a part with the same parameters for another task, to be initialised again."""
        twin = copy.copy(self)
        twin.context = None
        return twin


class Registry(Generic[T]):
    """The makers of one kind of part, by short name: an attribute of the base class of the parts.

    A maker is a class or a function that returns a `T`. Dashes and underscores in names are equal
    (`"replay-trace"`, `"replay_trace"`). A name may be a URL scheme, `"postgresql://"`: its maker
    is called with the whole URL. `postgresql+psycopg://...` is made by the maker of
    `postgresql+psycopg://`, else by that of `postgresql://`. `later` has the modules that register
    rarely used names; they are imported when one of these is used.
    """

    def __init__(self, what: str, later: Mapping[str, str] | None = None) -> None:
        self.what = what
        """The name of the part in error messages."""
        self._later = dict(later or {})
        self._makers: dict[str, Callable[..., T]] = {}
        self._base: type[Any] = object

    def __set_name__(self, base: type[Any], _: str) -> None:
        self._base = base

    def register(self, *names: str) -> Callable[[C], C]:
        """Register the decorated class or function under `names`; a name in use is an error."""

        def add(maker: C) -> C:
            for name in names:
                key = _normalized(name)
                if key in self._makers:
                    raise IRValueError(f"a {self.what} called {name!r} is registered already")
                self._makers[key] = maker  # type: ignore[assignment]
            return maker

        return add

    def part(self, kind: Any, *args: Any, **kwargs: Any) -> T:
        """Return a part from an instance, its class or its short name.

        Raises IRValueError for anything else, and for a class that needs other arguments.
        """
        base = self._base
        if isinstance(kind, base):
            return kind  # type: ignore[no-any-return]
        if not isinstance(kind, type):
            return self.make(kind, *args, **kwargs)
        refused = f"a {self.what} cannot be made of the class {kind.__name__}: "
        if not issubclass(kind, base):
            raise IRValueError(f"{refused}it is not a subclass of {base.__name__}")
        if inspect.isabstract(kind):
            raise IRValueError(f"{refused}it is abstract")
        return _call_maker(kind, refused, args, kwargs)  # type: ignore[no-any-return]

    def make(self, kind: str, *args: Any, **kwargs: Any) -> T:
        """Return an instance from the maker called `kind`; IRValueError lists the known names."""
        if not isinstance(kind, str):
            raise IRValueError(
                f"a {self.what} is named by a short string, got {type(kind).__name__}: {kind!r}"
            )
        self.check(kind)
        maker = self._maker(kind)
        assert maker is not None
        if "://" in kind:
            args = (kind, *args)
        refused = f"a {self.what} cannot be made of the name {kind!r} here: "
        return _call_maker(maker, refused, args, kwargs)  # type: ignore[no-any-return]

    def check(self, kind: Any) -> None:
        """Raise IRValueError for an unknown short name; other objects pass."""
        if isinstance(kind, str) and kind not in self:
            known = sorted(
                {*map(_without_password, self._makers), *map(_without_password, self._later)}
            )
            raise IRValueError(
                f"unknown {self.what} {_without_password(kind)!r}; "
                f"expected one of {', '.join(known)}{suggestion(_normalized(kind), self._makers)}"
            )

    def __contains__(self, kind: str) -> bool:
        return self._maker(kind) is not None

    def _maker(self, kind: str) -> Callable[..., T] | None:
        scheme, separator, _ = kind.partition("://")
        names = [_normalized(scheme) + separator]
        if separator:
            names.append(_normalized(scheme.partition("+")[0]) + separator)
        for name in names:
            module = self._later.get(name)
            if module is not None:
                importlib.import_module(module)  # other threads wait here until it is loaded
                self._later.pop(name, None)
        return next((self._makers[name] for name in names if name in self._makers), None)


def _call_maker(maker: Callable[..., Any], refused: str, args: Any, kwargs: Any) -> Any:
    """Return the result of a maker; IRValueError for arguments that it does not have."""
    signature = inspect.signature(maker)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = (str(p.replace(annotation=p.empty)) for p in signature.parameters.values())
        raise IRValueError(
            f"{refused}{error}, it takes ({', '.join(parameters)}); give an instance"
        ) from error
    return maker(*args, **kwargs)


def _without_password(kind: str) -> str:
    """Return a name, or the scheme of a URL, whose rest may have a password."""
    scheme, separator, _ = kind.partition("://")
    return f"{scheme}://..." if separator else kind


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` with the most similar known name, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def suggestion_or_all(name: str, known: Iterable[str]) -> str:
    """Return a question with up to three similar known names, else a list of all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f"do you mean {' or '.join(map(repr, close))}"
    return f"registered are {sorted(names)}" if names else "none is registered"


def instances(base: type[Any], name: str, given: object) -> list[Any]:
    """Return the parts in an argument called `name`; IRValueError unless they are of `base`."""
    what = base.__name__
    if isinstance(given, (str, type)) or not isinstance(given, Iterable):
        raise IRValueError(f"{name} is a list of instances of {what}, got {_part_text(given)}")
    parts = list(given)
    for part in parts:
        if not isinstance(part, base):
            remedy = f"; give an instance, {part.__name__}(...)" if isinstance(part, type) else ""
            raise IRValueError(f"{name} holds {_part_text(part)}, which is not a {what}{remedy}")
    return parts


def _part_text(part: object) -> str:
    return f"the class {part.__name__}" if isinstance(part, type) else repr(part)


def derived_object(cls: C) -> C:
    """Return the class unchanged.

    In TVM this decorator connects a Python class to its C++ base. It exists for such code; a
    subclass here works without it.
    """
    return cls


def _normalized(name: str) -> str:
    return name.replace("_", "-")
