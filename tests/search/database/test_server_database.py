"""Databases on a server, and what is said and kept when it does not answer."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import search as ms
from search import DatabaseError
from search.database import (
    Database,
    JSONDatabase,
    ServerGoneError,
    SQLDatabase,
)
from search.database.sql_connection import TABLES
from search.database.sql_database import LEFT
from search.runner import RunnerResult
from tensorir.errors import IRValueError
from tests.search.database.made_records import OTHER, TARGET, commit, seconds
from tests.search.made_up_runs import TimesOfScripts
from tests.search.postgres_server import Server
from tests.search.programs import Matmul
from tests.search.runs.test_tuning_run import run


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url()


@pytest.fixture
def database(url: str) -> Iterator[SQLDatabase]:
    found = Database.create(url)
    assert isinstance(found, SQLDatabase)
    yield found
    found.close()


# ----------------------------------------------------------------------------- as any other database


def test_tables_are_made_once_by_many(url: str) -> None:
    assert len(SQLDatabase(url)) == 0, "reading makes no tables"
    failures: list[DatabaseError] = []

    def opens() -> None:
        try:
            commit(SQLDatabase(url), (8, 4), 1e-6)
        except DatabaseError as error:
            failures.append(error)

    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(SQLDatabase(url)) == 4


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "mariadb"])
def test_tables_are_made_of_the_types_of_each_server(dialect: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")

    own = sqlalchemy.make_url(f"{dialect}://").get_dialect()()
    for table in TABLES.tables.values():
        text = str(sqlalchemy.schema.CreateTable(table).compile(dialect=own))
        if table.name == "record":
            assert re.search(r"\bid (SERIAL|INTEGER NOT NULL AUTO_INCREMENT)", text)
        if table.name == "trace":
            long = "TEXT" if dialect == "postgresql" else "LONGTEXT"
            assert f"text {long} NOT NULL" in text


# ----------------------------------------------------------------------------------- what goes wrong


def test_addresses_that_lead_nowhere_are_said(postgres: Server, url: str) -> None:
    port = postgres.port
    with pytest.raises(
        ServerGoneError, match=r"cannot be reached, or refuses: .connection failed.*check"
    ):
        Database.create("postgresql+psycopg://me@127.0.0.1:1/tuning")
    with pytest.raises(ServerGoneError, match=r'database "nowhere" does not exist.*exists'):
        Database.create(postgres.url_of("nowhere"))
    with pytest.raises(ServerGoneError, match='role "nobody" does not exist'):
        Database.create(url.replace("tester@", "nobody@"))
    postgres.sql("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    with pytest.raises(ServerGoneError, match="password authentication failed") as caught:
        Database.create(url.replace("tester@", "guarded:s3cret@"))
    assert "s3cret" not in str(caught.value)
    assert f"guarded:***@127.0.0.1:{port}" in str(caught.value)
    with pytest.raises(DatabaseError, match=r"driver pymysql is not installed; install it by pip"):
        Database.create("mysql+pymysql://me@127.0.0.1/tuning")
    with pytest.raises(DatabaseError, match=r"Can't load plugin: .*postgresql.nodriver"):
        Database.create("postgresql+nodriver://me@127.0.0.1/tuning")
    with pytest.raises(DatabaseError, match=r"^postgresql://... is not the URL of a database"):
        Database.create("postgresql://me:s3cret@127.0.0.1:port/tuning")
    with pytest.raises(IRValueError, match=r"unknown database 'redis://\.\.\.'.*postgresql://"):
        Database.create("redis://me:s3cret@127.0.0.1")
    with pytest.raises(DatabaseError, match="expected sqlite:///path"):
        Database.create("sqlite://")


def test_without_sqlalchemy_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["sqlalchemy"] = None
from search.database import Database
Database.create("sql")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == (
        "search.errors.DatabaseError: a database in SQL, in a file of SQLite or on a server, needs "
        "SQLAlchemy: pip install 'tensorir[sql]'"
    )


def test_a_user_without_rights_is_told(postgres: Server, url: str) -> None:
    name = url.rpartition("/")[2]
    postgres.sql("CREATE ROLE reader LOGIN")
    reading = Database.create(postgres.url_of(name, "reader"))
    assert reading.query_tuning_record(Matmul, TARGET) is None
    with pytest.raises(
        DatabaseError, match=r"permission denied.*may read, write and at first make"
    ):
        commit(reading, (8, 4), 1e-6)
    commit(Database.create(url), (8, 4), 1e-6)
    postgres.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    assert seconds(reading) == [1e-6], "it sees the tables that another one has made"
    with pytest.raises(DatabaseError, match=r"permission denied.*Nothing was changed"):
        commit(reading, (4, 8), 1e-6)


# -------------------------------------------------------------------------------- a run and its server


def test_a_run_keeps_in_its_directory_what_it_tells_the_server(url: str, tmp_path: Path) -> None:
    opened = run(tmp_path, database=url)
    assert opened.database.place == url
    assert len(Database.create(url)) == len(JSONDatabase(work_dir=tmp_path)) == 8
    assert len(ms.load_run(tmp_path)) == 8


def test_a_server_that_is_started_anew_while_tuning_costs_nothing(
    postgres: Server, url: str, tmp_path: Path
) -> None:
    """Connections break, records wait in the directory until it answers again."""

    def result(place: int) -> RunnerResult | None:
        if place == 3:
            postgres.stop()
        if place == 6:
            postgres.start()
        return None

    opened = SQLDatabase(url, work_dir=tmp_path)
    run(tmp_path, database=opened, runner=TimesOfScripts(result))
    assert len(JSONDatabase(work_dir=tmp_path / LEFT)) == 0
    assert sorted(seconds(Database.create(url))) == sorted(seconds(JSONDatabase(work_dir=tmp_path)))
    assert len(opened) == 8


def test_a_server_that_does_not_come_back_leaves_records_to_the_next_run(
    postgres: Server, url: str, tmp_path: Path
) -> None:
    def result(place: int) -> RunnerResult | None:
        if place == 3:
            postgres.stop()
        return None

    shown = Database.create(url)
    try:
        with pytest.raises(DatabaseError, match=rf"are stored in {tmp_path}.*by the next run"):
            run(
                tmp_path,
                database=url,
                runner=TimesOfScripts(result),
                config=ms.TuneConfig(8, num_trials_per_iter=4),
            )
        assert len(JSONDatabase(work_dir=tmp_path)) == 8, "it went on measuring"
        left = len(JSONDatabase(work_dir=tmp_path / LEFT))
        assert 4 <= left <= 6
        assert repr(shown) == f"<SQLDatabase that does not answer: {url}>"
        assert "does not answer" in shown._repr_html_()
        with pytest.raises(ServerGoneError, match="cannot be reached"):
            run(tmp_path, database=url)
    finally:
        postgres.start()
    assert len(Database.create(url)) == 8 - left
    again = SQLDatabase(url, work_dir=tmp_path)
    assert len(again) == 8
    assert len(JSONDatabase(work_dir=tmp_path / LEFT)) == 0


def test_tables_that_were_made_anew_are_not_mistaken_for_the_old_ones(
    postgres: Server, url: str, tmp_path: Path
) -> None:
    """A number of a program stands for another one there."""
    opened = SQLDatabase(url, work_dir=tmp_path)
    commit(opened, (8, 4), 1e-6)
    postgres.sql(
        "DROP TABLE trace, record, workload, setting, claim CASCADE", url.rpartition("/")[2]
    )
    beside = SQLDatabase(url)
    beside.commit_workload(OTHER)
    with pytest.raises(DatabaseError, match=r"tables were made again.*open the database again"):
        commit(opened, (4, 8), 2e-6)
    assert len(beside) == 0
    again = SQLDatabase(url, work_dir=tmp_path)
    assert seconds(again) == [2e-6]
    assert [len(again.records_like(mod, TARGET, "structural")) for mod in (Matmul, OTHER)] == [1, 0]


def test_a_database_that_is_dropped_while_tuning_ends_the_run_with_its_records_kept(
    postgres: Server, url: str, tmp_path: Path
) -> None:
    def result(place: int) -> RunnerResult | None:
        if place == 3:
            postgres.sql("DROP TABLE trace, record CASCADE", url.rpartition("/")[2])
        return None

    with pytest.raises(DatabaseError, match='relation "record" does not exist'):
        run(tmp_path, database=url, runner=TimesOfScripts(result))
    assert len(JSONDatabase(work_dir=tmp_path)) == 4
