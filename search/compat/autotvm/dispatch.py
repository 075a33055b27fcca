"""The configuration that a call of a template gets: nested contexts are asked from inside out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self

from codegen import Target
from search.compat.autotvm.arguments import Workload
from search.compat.autotvm.config import Config
from search.compat.autotvm.config_space import FallbackConfigEntity
from search.compat.autotvm.errors import TemplateError

logger = logging.getLogger("autotvm")


@dataclass
class GlobalScope:
    """The settings of the whole process.

    `in_tuning`: a tuner is measuring, so templates may take inputs that are packed already.
    `silent`: nothing is said about missing configurations.
    """

    in_tuning: bool = False
    silent: bool = False


GLOBAL_SCOPE: Final = GlobalScope()


class _Current:
    """`DispatchContext.current`: the innermost context of this thread."""

    def __get__(self, instance: object, owner: type) -> DispatchContext:
        return _stack.get()[-1]


class DispatchContext(ABC):
    """Answers templates that ask for a configuration; `with` makes it the one that is asked first.

    What it does not know, the context around it is asked. `memory` has the configurations that were
    set, by the key of a target and the workload.
    """

    current = _Current()

    def __init__(self) -> None:
        self.memory: dict[tuple[str, Any], Config] = {}

    @abstractmethod
    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        """Return the configuration for a workload, None if it is not known here."""

    def _keys(self, target: Target | None) -> list[str]:
        """Return the keys by which a target is known here."""
        return [str(target)]

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with another configuration for a workload from now on."""
        for key in self._keys(target):
            self.memory[key, workload] = cfg

    def query(self, target: Target | None, workload: Workload | None) -> Config:
        """Return the configuration of the innermost context that knows one."""
        stack = _stack.get()
        places = [k for k, context in enumerate(stack) if context is self]
        around = stack[: places[-1]] if places else stack
        for context in (self, *reversed(around)):
            found = context._query_inside(target, workload)
            if found is not None:
                return found
        raise TemplateError(f"no context has a configuration for {workload}")

    def __enter__(self) -> Self:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.set(_stack.get()[:-1])


class ApplyConfig(DispatchContext):
    """Answers with one configuration, whatever is asked."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.workload: Workload | None = None
        """The workload that was asked for last."""

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        self.workload = workload
        return self.config

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with another configuration from now on."""
        self.workload, self.config = workload, cfg


class FallbackContext(DispatchContext):
    """Answers with default configurations, and warns once of each that they may be slow."""

    def __init__(self) -> None:
        super().__init__()
        self._warned: set[tuple[str, Any]] = set()

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        key = (str(target), workload)
        if key not in self.memory:
            if workload is not None and key not in self._warned and not GLOBAL_SCOPE.silent:
                self._warned.add(key)
                logger.warning(self._warning(target, workload))
            self.memory[key] = FallbackConfigEntity()
        return self.memory[key]

    def _warning(self, target: Target | None, workload: Workload) -> str:
        return (
            f"no configuration of {workload} for {target} is known: the fallback is used, which "
            "may be much slower; tune the task, or apply a log that has it"
        )

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Forget the configuration of a workload."""
        self.memory.pop((str(target), workload), None)


_stack: Final[ContextVar[tuple[DispatchContext, ...]]] = ContextVar(
    "autotvm_contexts", default=(FallbackContext(),)
)
