"""Databases on a server, and what is said and kept when it does not answer."""

from __future__ import annotations

import os
import pickle
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
    MemoryDatabase,
    ServerGoneError,
    SQLDatabase,
)
from search.database.sql_connection import TABLES
from search.database.sql_database import LEFT
from search.runner import RunnerResult
from tensorir.errors import IRValueError
from tests.search.made_up_runs import TimesOfScripts
from tests.search.postgres_server import Server
from tests.search.programs import Matmul
from tests.search.runs.test_tuning_run import run
from tests.search.test_database import OTHER, TARGET, commit, scheduled


def seconds(database: Database) -> list[float]:
    return [record.mean_seconds for record in database.get_all_tuning_records()]


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


def test_what_one_process_commits_another_finds(database: SQLDatabase, url: str) -> None:
    assert database.query_tuning_record(Matmul, TARGET) is None
    for decision, time in (((8, 4), 3e-6), ((4, 8), 1e-6), ((16, 2), 1e10)):
        commit(database, decision, time)
    pid = os.fork()
    if not pid:
        try:
            commit(database, (2, 16), 2e-6)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    beside = Database.create(url)
    assert seconds(beside) == seconds(database) == [3e-6, 1e-6, 1e10, 2e-6]
    best = beside.query_schedule(Matmul, TARGET)
    assert best is not None
    assert best.mod.script() == scheduled((4, 8)).mod.script()
    assert beside.count(beside.commit_workload(Matmul), TARGET) == 4
    assert [len(record.trace.insts) for record in beside.get_all_tuning_records()] == [6] * 4


def test_records_move_between_a_file_and_a_server(database: SQLDatabase, tmp_path: Path) -> None:
    file = Database.create(f"sqlite:///{tmp_path}/records.sqlite")
    assert isinstance(file, SQLDatabase)
    commit(file, (8, 4), 3e-6)
    commit(file, (4, 8), 1e-6)
    file.copy_to(database)
    assert seconds(database) == [3e-6, 1e-6]
    assert len(database.records_like(Matmul, TARGET, "ignore-lengths")) == 1
    database.prune()
    memory = MemoryDatabase()
    database.copy_to(memory)
    assert seconds(memory) == [1e-6]


def test_threads_and_copies_write_at_one_time(database: SQLDatabase) -> None:
    copy = pickle.loads(pickle.dumps(database))
    decisions = [(2, 16), (4, 8), (8, 4), (16, 2)]
    threads = [
        threading.Thread(target=commit, args=(each, decision, 1e-6))
        for decision in decisions
        for each in (database, copy)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(database) == len(copy) == 8
    assert len(database.workloads()) == 1, "the same program is one workload, whoever was first"


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
        ServerGoneError, match=r"is not reached, or refuses: .connection failed.*see"
    ):
        Database.create("postgresql+psycopg://me@127.0.0.1:1/tuning")
    with pytest.raises(ServerGoneError, match=r'database "nowhere" does not exist.*is there'):
        Database.create(postgres.url_of("nowhere"))
    with pytest.raises(ServerGoneError, match='role "nobody" does not exist'):
        Database.create(url.replace("tester@", "nobody@"))
    postgres.sql("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    with pytest.raises(ServerGoneError, match="password authentication failed") as caught:
        Database.create(url.replace("tester@", "guarded:s3cret@"))
    assert "s3cret" not in str(caught.value)
    assert f"guarded:***@127.0.0.1:{port}" in str(caught.value)
    with pytest.raises(DatabaseError, match=r"driver MySQLdb is not .*pip install 'mysqlclient'"):
        Database.create("mysql://me@127.0.0.1/tuning")
    with pytest.raises(DatabaseError, match=r"driver pymysql is not installed; pip install"):
        Database.create("mysql+pymysql://me@127.0.0.1/tuning")
    with pytest.raises(DatabaseError, match=r"SQLAlchemy knows no 'postgresql.nodriver'"):
        Database.create("postgresql+nodriver://me@127.0.0.1/tuning")
    with pytest.raises(DatabaseError, match=r"^postgresql://... is no URL of a database"):
        Database.create("postgresql://me:s3cret@127.0.0.1:port/tuning")
    with pytest.raises(IRValueError, match=r"no database 'redis://\.\.\.'.*postgresql://"):
        Database.create("redis://me:s3cret@127.0.0.1")
    with pytest.raises(DatabaseError, match="a file is sqlite:///path"):
        Database.create("sqlite://")


@pytest.mark.parametrize("kind", ["sql", "postgresql://me@127.0.0.1/tuning"])
def test_without_sqlalchemy_the_extra_is_named(kind: str) -> None:
    code = f"""
import sys
sys.modules["sqlalchemy"] = None
from search.database import Database
Database.create({kind!r})
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
    with pytest.raises(DatabaseError, match=r"permission denied.*may read and write the tables"):
        commit(reading, (8, 4), 1e-6)
    commit(Database.create(url), (8, 4), 1e-6)
    postgres.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    assert seconds(reading) == [1e-6], "it sees the tables that another one has made"
    with pytest.raises(DatabaseError, match=r"permission denied.*nothing was changed"):
        commit(reading, (4, 8), 1e-6)


def test_tables_of_others_are_left_alone(postgres: Server) -> None:
    for table in ("setting (name TEXT, value TEXT)", "record (artist TEXT)"):
        url = postgres.url()
        name = url.rpartition("/")[2]
        postgres.sql(f"CREATE TABLE {table}", name)
        with pytest.raises(DatabaseError, match=r"of another application.*database of their own"):
            Database.create(url)
        (found,) = postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname='public'", name)
        assert found == (1,)


def test_versions_and_equalities_that_differ_are_refused(postgres: Server, url: str) -> None:
    name = url.rpartition("/")[2]
    commit(Database.create(url), (8, 4), 1e-6)
    with pytest.raises(DatabaseError, match="told apart by StructuralEquality, not AnchorBlock"):
        Database.create(url, module_equality="anchor-block")
    postgres.sql("UPDATE setting SET value = '9' WHERE name = 'version'", name)
    with pytest.raises(DatabaseError, match="a database of version 9; this package reads 1"):
        Database.create(url)


def test_rows_that_somebody_has_edited_are_left_out(
    postgres: Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database.create(url)
    commit(database, (8, 4), 1e-6)
    commit(database, (4, 8), 2e-6)
    name = url.rpartition("/")[2]
    postgres.sql("""UPDATE record SET run_secs = '["fast"]' WHERE id = 1""", name)
    assert seconds(Database.create(url)) == [2e-6]
    assert "left out 1 row(s): record 1: field 1 (run_secs)" in caplog.text


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
        with pytest.raises(DatabaseError, match=rf"is kept in {tmp_path}.*by the next run"):
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
        with pytest.raises(ServerGoneError, match="not reached"):
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
    with pytest.raises(DatabaseError, match=r"made its tables anew.*open the database anew"):
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
