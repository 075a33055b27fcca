"""A PostgreSQL server of one's own, in a temporary directory on a local port."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BINARIES = [Path(found).parent for found in [shutil.which("initdb")] if found]
BINARIES += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class Server:
    """The server; `url` makes a database of its own in it."""

    def __init__(self, binaries: Path, folder: Path, user: str | None) -> None:
        self.binaries = binaries
        self.folder = folder
        self.data = folder / "data"
        self.user = user
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._numbers = itertools.count()

    def make(self) -> None:
        initdb = ["--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8", "-U", "tester"]
        self.execute("initdb", "-D", str(self.data), *initdb)
        rules = "host all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
        (self.data / "pg_hba.conf").write_text(rules)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k '' -c fsync=off"
        log = str(self.folder / "log")
        self.execute("pg_ctl", "start", "-w", "-D", str(self.data), "-l", log, "-o", options)

    def stop(self) -> None:
        """End it as a crash would, connections and all."""
        self.execute("pg_ctl", "stop", "-w", "-D", str(self.data), "-m", "immediate")

    def execute(self, program: str, *arguments: str) -> None:
        rights: dict[str, Any] = {}
        if self.user is not None:
            rights = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid}
            rights["extra_groups"] = []
        subprocess.run(
            [self.binaries / program, *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            **rights,
        )

    def sql(self, statement: str, database: str = "postgres") -> list[Any]:
        psycopg = importlib.import_module("psycopg")
        place = f"postgresql://tester@127.0.0.1:{self.port}/{database}"
        with psycopg.connect(place, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def url(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"tuning{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url_of(name)

    def url_of(self, database: str, user: str = "tester") -> str:
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Start a server, or skip the test where there is none that can be started."""
    for package in ("sqlalchemy", "psycopg"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'tensorir[sql]'")
    if not BINARIES:
        pytest.skip("PostgreSQL is not installed: there is no initdb, as in apt install postgresql")
    user = None
    if os.geteuid() == 0:  # as whom it refuses to run
        known = {entry.pw_name for entry in pwd.getpwall()}
        user = next(name for name in ("postgres", "nobody") if name in known)
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        path = Path(folder)
        if user is not None:
            shutil.chown(path, user)
        server = Server(BINARIES[0], path, user)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
