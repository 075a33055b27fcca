"""The builder of a search that measures on other machines: it leaves building to them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from codegen import Target
from search.builder.artifact_directory import ArtifactDirectory
from search.builder.builder import Builder, BuilderInput, BuilderResult
from search.errors import TuningError

SUFFIX: Final = ".program"


@Builder.kinds.register("dask")
class DaskBuilder(Builder):
    """Writes programs down, which the machines of a `DaskRunner` build when they measure them.

    So a machine builds the next candidates while it measures one, and nothing but a text travels. A
    build that takes longer than `timeout_sec` there is ended. `client` is not needed: it is the
    runner that sends.
    """

    beside_measuring = False

    def __init__(self, client: object = None, *, timeout_sec: float = 15.0) -> None:
        self.timeout_sec = timeout_sec
        self._directory: ArtifactDirectory | None = None

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Write each program to a file of its own, which is there until `clean_up`."""
        return [BuilderResult(artifact_path=self._written(entry)) for entry in build_inputs]

    def _written(self, entry: BuilderInput) -> str:
        self._directory = self._directory or ArtifactDirectory()
        handle, path = tempfile.mkstemp(suffix=SUFFIX, dir=self._directory.path)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "program": entry.mod.script(),
                    "target": entry.target.export(),
                    "build_seconds": self.timeout_sec,
                },
                file,
            )
        return path

    def clean_up(self) -> None:
        """Delete the programs that were written down."""
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    def close(self) -> None:
        """Delete the programs that were written down."""
        self.clean_up()


@dataclass(frozen=True)
class WrittenProgram:
    """A program that a `DaskBuilder` wrote down."""

    program: str
    """The script of the module."""
    target: Target
    build_seconds: float
    """How long building may take."""

    @staticmethod
    def read(path: str) -> WrittenProgram:
        """Return the program in an artifact; TuningError if another builder made it."""
        if Path(path).suffix != SUFFIX:
            raise TuningError(
                f"a DaskRunner measures what its machines build, and {path} was built here: leave "
                "out builder=, or give builder=DaskBuilder()"
            )
        written: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return WrittenProgram(
            written["program"], Target(written["target"]), written["build_seconds"]
        )
