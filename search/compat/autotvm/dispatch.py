"""The configuration that a call of a template gets: contexts are queried from inside out."""

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

logger = logging.getLogger("autotvm")


@dataclass
class GlobalScope:
    """The settings of the whole process.

    `in_tuning`: a tuner is measuring, so that templates may assume packed inputs.
    `silent`: missing configurations cause no warning.
    """

    in_tuning: bool = False
    silent: bool = False


GLOBAL_SCOPE: Final = GlobalScope()


class _Current:
    """`DispatchContext.current`: the innermost context of this thread."""

    def __get__(self, instance: object, owner: type) -> DispatchContext:
        return _stack.get()[-1]


class DispatchContext(ABC):
    """Returns configurations to templates; `with` makes it the innermost context.

    If a context lacks a configuration, the enclosing context is queried. `memory` has the
    configurations that `update` has set, by the key of a target and the workload.
    """

    current = _Current()

    def __init__(self) -> None:
        self.memory: dict[tuple[str, Any], Config] = {}

    @abstractmethod
    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        """Return the configuration for a workload, None if this context has none."""

    def _keys(self, target: Target | None) -> list[str]:
        """Return the keys of a target, most specific first."""
        return [str(target)]

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Set the configuration for a workload."""
        for key in self._keys(target):
            self.memory[key, workload] = cfg

    def query(self, target: Target | None, workload: Workload | None) -> Config:
        """Return the configuration of this context, else of the nearest enclosing context.

        All entered contexts enclose a context that was not entered itself.
        """
        stack = _stack.get()
        outer = stack[: stack.index(self)] if self in stack else stack
        found = (context._query_inside(target, workload) for context in (self, *reversed(outer)))
        # The outermost context, a FallbackContext, always has one.
        return next(config for config in found if config is not None)

    def __enter__(self) -> Self:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.set(_stack.get()[:-1])


class ApplyConfig(DispatchContext):
    """Returns one configuration for every workload; `workload` is the last one queried."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.workload: Workload | None = None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        self.workload = workload
        return self.config

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Set the configuration."""
        self.workload, self.config = workload, cfg


class FallbackContext(DispatchContext):
    """Returns default configurations, and warns once for each workload that they may be slow."""

    def __init__(self) -> None:
        super().__init__()
        self._warned: set[tuple[str, Any]] = set()

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        key = (str(target), workload)
        if key not in self.memory:
            if workload is not None and key not in self._warned and not GLOBAL_SCOPE.silent:
                self._warned.add(key)
                logger.warning(
                    "no configuration of %s for %s was found: the fallback is used, which may be "
                    "much slower; tune the task, or apply a log that has it",
                    workload,
                    target,
                )
            self.memory[key] = FallbackConfigEntity()
        return self.memory[key]

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Drop the configuration of a workload."""
        self.memory.pop((str(target), workload), None)


_stack: Final[ContextVar[tuple[DispatchContext, ...]]] = ContextVar(
    "autotvm_contexts", default=(FallbackContext(),)
)
