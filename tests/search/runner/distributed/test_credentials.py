"""The file with which scheduler, workers and searches recognise each other."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

import search as ms
from search.errors import TuningError
from search.runner.distributed import credentials as credentials_module
from search.runner.distributed.credentials import VARIABLE, Credentials, place_of
from tests.search.runner.distributed.cluster import in_process_cluster

pytest.importorskip("distributed")


@pytest.fixture
def file(credentials: Path, tmp_path: Path) -> Path:
    """A copy of the file that tests share, in a folder of its own."""
    (tmp_path / "folder").mkdir()
    return Path(shutil.copy(credentials, tmp_path / "folder" / "credentials"))


def test_a_file_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    made = Credentials.read_or_make(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert made == Credentials.read_or_make(path) == Credentials.read(path)
    assert made.key not in repr(made)


def test_the_usual_place_is_the_runtime_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(
        TuningError, match=r"no credentials at .*runtime/tensorir/credentials: `ten"
    ):
        Credentials.read()
    folder = tmp_path / "runtime" / "tensorir"
    assert Credentials.read_or_make() == Credentials.read(folder / "credentials")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(TuningError, match="not a folder that only this user may write to"):
        Credentials.read_or_make()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert place_of(None) == tmp_path / "cache" / "tensorir" / "credentials"
    monkeypatch.setenv(VARIABLE, "/the/file")
    assert place_of(None) == Path("/the/file")
    assert place_of("another") == Path("another")


KEY: Final = "-----BEGIN PRIVATE KEY"
FAULTS: Final[Mapping[str, tuple[Callable[[Path], object], str]]] = {
    "the group may read": (lambda file: file.chmod(0o640), "mode 0640, .*run chmod 600"),
    "others may read": (lambda file: file.chmod(0o604), "mode 0604, .*run chmod 600"),
    "a folder": (lambda file: (file.unlink(), file.mkdir()), "are not a file: give the path"),
    "a link": (
        lambda file: file.symlink_to(file.rename(file.with_name("target"))),
        "symbolic link, which is not followed: give the path of the file, .*target",
    ),
    "a link to nothing": (
        lambda file: (file.unlink(), file.symlink_to(file.with_name("planted"))),
        "symbolic link, which is not followed",
    ),
    "no folder": (
        lambda file: (file.unlink(), file.parent.rmdir()),
        "cannot create credentials at .*give another",
    ),
    "empty": (
        lambda file: file.write_text(""),
        "does not contain a certificate with its key: give another",
    ),
    "cut short": (
        lambda file: os.truncate(file, 600),
        "does not contain a certificate with its key",
    ),
    "no key": (
        lambda file: file.write_text(file.read_text().replace(KEY, "")),
        "does not contain a certificate with its key",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_right_is_refused_and_left(fault: str, file: Path) -> None:
    spoil, text = FAULTS[fault]
    spoil(file)
    left = file.read_bytes() if file.is_file() else None
    with pytest.raises(TuningError, match=text):
        Credentials.read_or_make(file)
    assert (file.read_bytes() if file.is_file() else None) == left
    assert not file.with_name("planted").exists()


def test_a_file_of_another_user_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(TuningError, match="give a file that belongs to you"):
        Credentials.read(file)


def test_a_certificate_out_of_date_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        year = datetime.now(UTC).year

        @staticmethod
        def now(_: Any) -> datetime:
            return datetime.now(UTC).replace(year=Clock.year, day=1)

    monkeypatch.setattr(credentials_module, "datetime", Clock)
    for year in (Clock.year - 1, Clock.year + 2):
        Clock.year = year
        with pytest.raises(TuningError, match=f"valid from .* is at {year}.*: set the clock"):
            Credentials.read(file)


def test_three_files_of_ones_own_do_as_well(file: Path, tmp_path: Path) -> None:
    key, _, certificate = file.read_text().partition("-----BEGIN CERTIFICATE")
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_text(f"-----BEGIN CERTIFICATE{certificate}")
    key_file.write_text(key)
    own = Credentials.of_files(cert_file, cert_file, key_file)
    with (
        in_process_cluster(credentials=own) as cluster,
        contextlib.closing(ms.DaskRunner(cluster.address, credentials=file)) as runner,
    ):
        assert runner.machines() == {}
    with pytest.raises(TuningError, match="does not contain a certificate with its key"):
        Credentials.of_files(key_file, cert_file, key_file)
    with pytest.raises(TuningError, match="cannot be read"):
        Credentials.of_files(cert_file, cert_file, tmp_path / "missing")


def test_a_search_without_the_credentials_of_the_scheduler_is_told(file: Path) -> None:
    with (
        in_process_cluster(credentials=Credentials.read(file)) as cluster,
        pytest.raises(TuningError, match="does not have the credentials of temporary"),
    ):
        ms.DaskRunner(cluster.address, credentials=Credentials.temporary())


@pytest.mark.parametrize("address", ["tcp://host:8786", "dask://host", "host:8786", "dask://:1"])
def test_an_address_without_encryption_or_port_is_refused(address: str) -> None:
    with pytest.raises(
        TuningError, match=r"invalid address of a scheduler .*as in dask://host:8786"
    ):
        ms.DaskRunner(address)


WRONG = """
import sys
import search
search.DaskRunner(sys.argv[1], connect_sec=0.5)
"""


def test_an_address_where_nothing_listens_is_refused(credentials: Path) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        with pytest.raises(TuningError, match=f"no scheduler answers at tls://127.0.0.1:{port}"):
            ms.DaskRunner(f"dask://127.0.0.1:{port}", connect_sec=0.5)


def test_a_wrong_address_ends_a_process_with_a_sentence(credentials: Path) -> None:
    """Something listens there, and says nothing."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        done = subprocess.run(
            [sys.executable, "-c", WRONG, f"dask://127.0.0.1:{place.getsockname()[1]}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "Exception ignored" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("search.errors.TuningError: no scheduler answers at tls://127.0.0.1:")
    assert last.endswith("use the address that it prints, as in dask://host:8786")
