"""The base class of postprocessors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from schedule import Schedule
from search.kinds import Registry, TaskPart
from search.task import Task
from tensorir.nodes.stmt import BlockRealize


class Postproc(TaskPart[Task], ABC):
    """Completes a sampled schedule, or rejects it.

    Postprocessors run in order after `sch.enter_postproc()`. Their instructions are the part of the
    trace that mutation and replay drop.
    """

    kinds: ClassVar[Registry[list[Postproc]]] = Registry(
        "preset of postprocessors",
        dict.fromkeys(("cuda", "cuda-tensorcore"), "search.postproc.gpu_preset"),
    )
    """Presets by target kind (`llvm`, `avx512`, ...): functions that return the postprocessors."""

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """Return the preset of postprocessors for a target kind, such as `"llvm"`."""
        return Postproc.kinds.make(kind)

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Change `sch` in place; False rejects it."""

    def reason(self, sch: Schedule) -> str:
        """Return the reason why `apply` rejected `sch`, as a clause; empty if unknown."""
        return ""


def functions_with_blocks(sch: Schedule) -> list[str]:
    """Return the names of the functions that have blocks."""
    functions = sch.mod.prim_funcs().items()
    return [name for name, func in functions if isinstance(func.body, BlockRealize)]


PyPostproc = Postproc
"""TVM's name of the base class of user-defined postprocessors."""
