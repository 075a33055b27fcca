"""Dask workers and schedulers that execute nothing that a client sends.

Dask's messages hold pickles, and unpickling executes what it reads. All of Dask unpickles through
one function, `distributed.protocol.pickle.loads`, whose place one takes here that knows few names:
the node of a task graph, and the function that measures. Whatever else a message names is not even
imported: in its place stands an object that does nothing, and fails when a task calls it, so that
the task fails and not the worker. Neither name helps to execute anything: the node keeps what it is
given, and the function takes a text that it reads as JSON.

Both also answer calls ("run this function", "load this plugin", "store this file"). Those without
which they are no worker and no scheduler are listed here, and Dask refuses the others by its own
list of blocked calls, so that a call that a later version adds is refused until it is added here.
"""

from __future__ import annotations

import copyreg
import importlib
import io
import pickle
import threading
from collections.abc import Iterable, Set
from typing import Any, Final, Self

from search.distributed.measure_here import measure_here

_NAMES: Final = frozenset(
    {
        ("dask._task_spec", "Task"),
        (measure_here.__module__, measure_here.__name__),
        (__name__, "refused"),
    }
)
_OF_GRAPHS: Final = frozenset({("dask._expr", "LLGExpr"), ("dask._expr", "Expr._reconstruct")})
"""The graph in which a client sends tasks, and the function that makes it of its parts."""

WORKER_CALLS: Final = frozenset({"free_keys", "gather", "get_data", "keys", "ping", "terminate"})
SCHEDULER_CALLS: Final = frozenset(
    {
        "gather",
        "heartbeat_worker",
        "identity",
        "ncores",
        "ping",
        "register-client",
        "register-worker",
        "unregister",
        "versions",
        "who_has",
    }
)


_allowed: set[tuple[str, str]] = set(_NAMES)
_reading = threading.local()


class _Inert(type):
    """The class of classes that stand for something that a message names, and have its name."""


class _Refused(metaclass=_Inert):
    """Stands for something that a message names; a message may make more of it, nobody else."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        _check_reading(cls.__name__)
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Self:
        _check_reading(type(self).__name__)
        return self

    def __setstate__(self, _: object) -> None: ...

    def __reduce__(self) -> Any:
        return type(self), ()


def refused(name: str) -> _Inert:
    """Return a class that stands for something that a message names; schedulers pass it on."""
    return _Inert(str(name), (_Refused,), {})


copyreg.pickle(_Inert, lambda inert: (refused, (inert.__name__,)))


def _check_reading(name: str) -> None:
    if not getattr(_reading, "goes_on", False):
        raise pickle.UnpicklingError(
            f"a message names {name}: workers and schedulers of tensorir measure, and execute "
            "nothing else that a client sends, unless started with --trust-client"
        )


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) in _allowed:
            return super().find_class(module_name, global_name)
        return refused(f"{module_name}.{global_name}")


def loads_data(message: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """Return what a pickle holds; whatever it names that is not for a measuring worker is inert.

    Raises UnpicklingError where that does not suffice.
    """
    _reading.goes_on = True
    try:
        return _DataUnpickler(io.BytesIO(message), buffers=buffers).load()
    except (TypeError, AttributeError) as error:
        raise pickle.UnpicklingError(f"a message cannot be read as data: {error}") from error
    finally:
        _reading.goes_on = False


def refuse_code(*, graphs: bool = False) -> None:
    """Have all of Dask in this process unpickle by `loads_data`, for good.

    It is for a process that is a worker, or with `graphs` a scheduler, which reads those.
    """
    if graphs:
        _allowed.update(_OF_GRAPHS)
    importlib.import_module("distributed.protocol.pickle").loads = loads_data  # type: ignore[attr-defined]


def refuse_calls(server: Any, needed: Set[str]) -> None:
    """Have a worker or a scheduler refuse all calls but those that are needed.

    Plugins, which a scheduler sends to each worker that comes, are left out without an error.
    """
    server.blocked_handlers = sorted(set(server.handlers) - needed)
    server.plugin_add = _left_out


async def _left_out(*_: Any, **__: Any) -> dict[str, str]:
    return {"status": "OK"}
