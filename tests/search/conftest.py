"""What tests of the search share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from search.builder import LocalBuilder
from search.runner import EvaluatorConfig, LocalRunner
from search.runner.distributed.credentials import VARIABLE, Credentials
from tests import forked
from tests.search.browser import browser
from tests.search.postgres_server import Server, running_server

__all__ = ["browser"]


@pytest.fixture(autouse=True, scope="session")
def _workers_are_forks() -> Iterator[None]:
    """Start the workers of searches in milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        forked.fork_workers(patch)
        yield


@pytest.fixture(scope="session")
def measured() -> Iterator[dict[str, Any]]:
    """What builds and measures with the least effort: its processes start once a session."""
    builder = LocalBuilder(max_workers=1)
    runner = LocalRunner(evaluator_config=EvaluatorConfig(number=1, repeat=1, min_repeat_ms=1))
    yield {"builder": builder, "runner": runner}
    builder.close()
    runner.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, which starts once a session."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def credentials() -> Iterator[Path]:
    """The file with the credentials of this process and of those that it starts."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder, "credentials")
        Credentials.read_or_make(file)
        patch.setenv(VARIABLE, str(file))
        yield file
