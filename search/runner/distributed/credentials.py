"""The file that authenticates scheduler, workers and searches to each other: access is login.

Connections use mutual TLS: each side shows its certificate and accepts only certificates that its
authority signed. One file of PEM has a self-signed certificate and its key, which
`distributed.Security.temporary` makes. Whoever has the file can run programs as the users of the
scheduler, of the workers and of the searches.
"""

from __future__ import annotations

import importlib
import os
import ssl
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from codegen.kept_files import cache_folder, private_folder
from search.errors import TuningError
from tensorir.paths import PathLike

VARIABLE: Final = "TENSORIR_CREDENTIALS"
"""The environment variable with the path of the file."""
_LONGEST: Final = 1 << 20


@dataclass(frozen=True)
class Credentials:
    """The certificate and key of one side of a connection, and the authority that it trusts."""

    place: str
    """The origin of the credentials, for messages."""
    authority: str = field(repr=False)
    """The certificates of the authorities that sign the certificates of the other side."""
    certificate: str = field(repr=False)
    key: str = field(repr=False)

    @staticmethod
    def temporary() -> Credentials:
        """Return new credentials that exist only in this process."""
        return _check("temporary credentials", *[_new_pem()] * 3)

    @staticmethod
    def read(file: PathLike | None = None) -> Credentials:
        """Return the credentials in a file, by default `place_of(None)`.

        Raises TuningError for a file that is missing, not private to this user, or invalid.
        """
        path = place_of(file)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise TuningError(
                f"no credentials at {path}: `tensorir scheduler` makes the file; copy it here from "
                "its machine (mode 0600), or give its path by --credentials FILE, "
                f"credentials=FILE or {VARIABLE}"
            ) from None
        except OSError as error:
            if path.is_symlink():
                raise TuningError(
                    f"the credentials {path} are a symbolic link, which is not followed: give the "
                    f"path of the file, {os.path.realpath(path)}"
                ) from None
            raise TuningError(f"the credentials cannot be read: {error}") from error
        try:
            _check_private(path, os.fstat(handle))
            text = os.read(handle, _LONGEST).decode("ascii", "replace")
        finally:
            os.close(handle)
        return _check(str(path), *[text] * 3)

    @staticmethod
    def read_or_make(file: PathLike | None = None) -> Credentials:
        """Return the credentials in a file, which is created for this user if it does not exist.

        An existing file is never changed. TuningError as for `read`.
        """
        path = place_of(file)
        try:
            if not (file or os.environ.get(VARIABLE)):
                private_folder(path.parent)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            return Credentials.read(path)
        except OSError as error:
            raise TuningError(
                f"cannot create credentials at {path}: {error}; give another file by --credentials"
            ) from error
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(_new_pem())
        return Credentials.read(path)

    @staticmethod
    def of_files(authority: PathLike, certificate: PathLike, key: PathLike) -> Credentials:
        """Return credentials from three files of PEM, with user-defined certificates.

        Raises TuningError if a file cannot be read, or if the key belongs to another certificate.
        """
        try:
            texts = [Path(path).read_text("ascii") for path in (authority, certificate, key)]
        except (OSError, ValueError) as error:
            raise TuningError(f"a certificate or a key cannot be read: {error}") from error
        return _check(str(certificate), *texts)

    @property
    def security(self) -> Any:
        """The `distributed.Security` for all roles."""
        roles = ("client", "worker", "scheduler")
        return package("distributed").Security(
            require_encryption=True,
            tls_ca_file=self.authority,
            **{f"tls_{role}_cert": self.certificate for role in roles},
            **{f"tls_{role}_key": self.key for role in roles},
        )


def place_of(file: PathLike | None) -> Path:
    """Return `file`, else the path in `TENSORIR_CREDENTIALS`, else the default of this user.

    The default is `tensorir/credentials` in the runtime folder (`$XDG_RUNTIME_DIR`), or
    `credentials` in `cache_folder()` without one. Raises TuningError if the user has neither.
    """
    if given := file or os.environ.get(VARIABLE):
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime, "tensorir") if os.path.isabs(runtime) else cache_folder()
    if folder is None:
        raise TuningError(f"this user has no runtime or cache folder: give a file by {VARIABLE}")
    return folder / "credentials"


def _check_private(path: Path, found: os.stat_result) -> None:
    """Raise TuningError unless a file is private to this user."""
    if not stat.S_ISREG(found.st_mode):
        raise TuningError(f"the credentials {path} are not a file: give the path of a file")
    if found.st_uid != os.geteuid():
        raise TuningError(
            f"the credentials {path} belong to the user {found.st_uid}, not to this user "
            f"{os.geteuid()}: give a file that belongs to you, possibly a copy"
        )
    if found.st_mode & 0o077:
        raise TuningError(
            f"the credentials {path} have mode {stat.S_IMODE(found.st_mode):04o}, so that others "
            "may have read them: delete the file and let `tensorir scheduler` make a new one, or "
            f"run chmod 600 {path} if you are the only user of this machine"
        )


def _new_pem() -> str:
    """Return a key and a certificate that it signs."""
    made = package("distributed").Security.temporary()
    return f"{made.tls_scheduler_key}{made.tls_scheduler_cert}"


def _check(place: str, authority: str, certificate: str, key: str) -> Credentials:
    """Return credentials if TLS accepts them, else raise TuningError."""
    again = "give another file, or delete it and let `tensorir scheduler` make a new one for all"
    try:
        load = package("cryptography.x509").load_pem_x509_certificates
        (own, *_), _ = load(certificate.encode()), load(authority.encode())
        found = Credentials(place, authority, certificate, key)
        found.security.get_connection_args("client")
    except (ssl.SSLError, ValueError) as error:
        raise TuningError(
            f"{place} does not contain a certificate with its key: {again}"
        ) from error
    first, last, now = own.not_valid_before_utc, own.not_valid_after_utc, datetime.now(UTC)
    if not first <= now <= last:
        raise TuningError(
            f"the certificate in {place} is valid from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d}, "
            f"but this machine's clock is at {now:%Y-%m-%d %H:%M} UTC: set the clock, or {again}"
        )
    return found


def package(name: str) -> Any:
    """Return a module of Dask or cryptography; TuningError with a remedy if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TuningError(
            f"measuring on other machines needs Dask and cryptography, and {error.name} is not "
            'installed: pip install "tensorir[distributed]"'
        ) from error
