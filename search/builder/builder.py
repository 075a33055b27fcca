"""The base class of builders, with their input and result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from search.kinds import Kinds
from search.workers.future import Future

if TYPE_CHECKING:
    from codegen import Target
    from search.workers.worker import Ending
    from tensorir.function import IRModule


@dataclass(frozen=True, eq=False)
class BuilderInput:
    """A program to build: the module, the target, and constant parameters by name if any."""

    mod: IRModule
    target: Target
    params: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class BuilderResult:
    """The path of the artifact, or the error; exactly one of the two is set."""

    artifact_path: str | None = None
    error_msg: str | None = None
    seconds: float = 0.0
    """The wall time that the build took."""
    ending: Ending = "value"
    """The end of the job that the build was, where it was one."""


class BuilderFuture(Future[BuilderResult]):
    """A build that may still be on its way."""


class Builder(ABC):
    """Turns programs into something that a runner can load."""

    kinds: ClassVar[Kinds[Builder]] = Kinds("builder")

    beside_measuring: bool = True
    """True if programs are measured while these are built, so that a core has to stay quiet."""

    @staticmethod
    def create(kind: str | type[Builder] | Builder = "local", *args: Any, **kwargs: Any) -> Builder:
        """Return a builder: `"local"`."""
        return Builder.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build programs; one that cannot be built costs nothing but its own result."""

    def start(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        """Start to build programs, in this order, and return at once where a builder can.

        This one builds them all first.
        """
        return [BuilderFuture.ready(result) for result in self.build(build_inputs)]

    def remove_artifact(self, path: str) -> None:
        """Delete an artifact of this builder that nobody needs any more: the file, nothing else."""
        Path(path).unlink(missing_ok=True)

    def clean_up(self) -> None:
        """Delete the files of this builder that are still in the temporary directory."""

    def warm_up(self) -> None:
        """Start worker processes and the like, without waiting for them."""

    def close(self) -> None:
        """Free the resources of the builder; it can be used again."""


PyBuilder = Builder
"""The base class under the name that it has for user classes in TVM."""
