"""The kinds of databases in which every test of the contract runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from search.database import JSONDatabase, KeyedDatabase, MemoryDatabase, SQLDatabase

Open = Callable[[], KeyedDatabase]


@pytest.fixture(params=["memory", "json", "sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """A function that opens one database; for a database in memory it returns the same one."""
    folder = tmp_path / "database"
    if request.param == "json":
        return lambda: JSONDatabase(work_dir=folder)
    if request.param == "sqlite":
        return lambda: SQLDatabase(work_dir=folder)
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").url()
        return lambda: SQLDatabase(url)
    memory = MemoryDatabase()
    return lambda: memory


@pytest.fixture
def database(opened: Open) -> KeyedDatabase:
    return opened()
