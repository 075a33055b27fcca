"""The file with which scheduler, workers and searches recognise each other: access is login.

Connections are TLS in both directions: each side shows its certificate and accepts only one that
its authority signed. One file has all of it as PEM, a self-signed certificate and its key, as
`distributed.Security.temporary` makes them. Whoever has the file can run programs as the users of
the scheduler, of the workers and of the searches.
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

from codegen.cache_folder import cache_folder, private_folder
from search.errors import TuningError

VARIABLE: Final = "TENSORIR_CREDENTIALS"
"""The variable of the environment that names the file."""
_LONGEST: Final = 1 << 20
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Credentials:
    """What one side of a connection shows, and whom it accepts: texts of PEM."""

    place: str
    """Where they come from, for people."""
    authority: str = field(repr=False)
    """The certificates of those who sign what the other side shows."""
    certificate: str = field(repr=False)
    key: str = field(repr=False)

    @staticmethod
    def temporary() -> Credentials:
        """Return new ones, which nobody has who does not get them from this process."""
        return _checked("temporary credentials", *[_new_pem()] * 3)

    @staticmethod
    def read(file: PathLike | None = None) -> Credentials:
        """Return those in a file, by default the one that the environment names, or `place_of`.

        TuningError for a file that does not exist, is not this user's alone, or holds none.
        """
        path = place_of(file)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise TuningError(
                f"there are no credentials at {path}: `tensorir scheduler` makes the file; copy "
                "it here from its machine (mode 0600), or name it, by --credentials FILE, "
                f"credentials=FILE or {VARIABLE}"
            ) from None
        except OSError as error:
            if path.is_symlink():
                raise TuningError(
                    f"the credentials {path} are a symbolic link, which is not followed: name the "
                    f"file itself, {os.path.realpath(path)}"
                ) from None
            raise TuningError(f"the credentials cannot be read: {error}") from error
        try:
            _check_private(path, os.fstat(handle))
            text = os.read(handle, _LONGEST).decode("ascii", "replace")
        finally:
            os.close(handle)
        return _checked(str(path), *[text] * 3)

    @staticmethod
    def read_or_make(file: PathLike | None = None) -> Credentials:
        """Return those in a file, which is made if it does not exist, for this user alone.

        A file that exists is never written to. TuningError as for `read`.
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
                f"no credentials can be made at {path}: {error}; name another file with "
                "--credentials"
            ) from error
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(_new_pem())
        return Credentials.read(path)

    @staticmethod
    def of_files(authority: PathLike, certificate: PathLike, key: PathLike) -> Credentials:
        """Return those in three files of PEM, with certificates of one's own.

        TuningError if one cannot be read, or if the key is another certificate's.
        """
        try:
            texts = [Path(path).read_text("ascii") for path in (authority, certificate, key)]
        except (OSError, ValueError) as error:
            raise TuningError(f"a certificate or a key cannot be read: {error}") from error
        return _checked(str(certificate), *texts)

    @property
    def security(self) -> Any:
        """What Dask takes: a `distributed.Security` for all roles."""
        roles = ("client", "worker", "scheduler")
        return package("distributed").Security(
            require_encryption=True,
            tls_ca_file=self.authority,
            **{f"tls_{role}_cert": self.certificate for role in roles},
            **{f"tls_{role}_key": self.key for role in roles},
        )


def place_of(file: PathLike | None) -> Path:
    """Return `file`, else what `TENSORIR_CREDENTIALS` names, else the place of this user.

    That is `tensorir/credentials` in the user's runtime folder (`$XDG_RUNTIME_DIR`), or
    `credentials` in `cache_folder()` where there is none. TuningError if there is neither.
    """
    return Path(file or os.environ.get(VARIABLE) or _usual_place())


def _usual_place() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime, "tensorir") if os.path.isabs(runtime) else cache_folder()
    if folder is None:
        raise TuningError(f"this user has no folder for credentials: name a file by {VARIABLE}")
    return folder / "credentials"


def _check_private(path: Path, found: os.stat_result) -> None:
    """Raise TuningError unless a file is this user's alone."""
    if not stat.S_ISREG(found.st_mode):
        raise TuningError(f"the credentials {path} are not a file: name one, or a new one")
    if found.st_uid != os.geteuid():
        raise TuningError(
            f"the credentials {path} belong to the user {found.st_uid}, and this is the user "
            f"{os.geteuid()}: name a file of your own, a copy if you may have one"
        )
    if found.st_mode & 0o077:
        raise TuningError(
            f"the credentials {path} have mode {stat.S_IMODE(found.st_mode):04o}, so that others "
            "may have read them: delete the file and let `tensorir scheduler` make a new one, or "
            f"if nobody has, run chmod 600 {path}"
        )


def _new_pem() -> str:
    """Return a key and a certificate that it signs."""
    made = package("distributed").Security.temporary()
    return f"{made.tls_scheduler_key}{made.tls_scheduler_cert}"


def _checked(place: str, authority: str, certificate: str, key: str) -> Credentials:
    """Return credentials that TLS accepts; TuningError with what to do for others."""
    again = "name another file, or delete it and have `tensorir scheduler` make a new one for all"
    try:
        load = package("cryptography.x509").load_pem_x509_certificates
        (own, *_), _ = load(certificate.encode()), load(authority.encode())
        found = Credentials(place, authority, certificate, key)
        found.security.get_connection_args("client")
    except (ssl.SSLError, ValueError) as error:
        raise TuningError(f"{place} holds no certificate with its key: {again}") from error
    first, last, now = own.not_valid_before_utc, own.not_valid_after_utc, datetime.now(UTC)
    if not first <= now <= last:
        raise TuningError(
            f"the certificate in {place} holds from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d}, and "
            f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC: set the clock, or {again}"
        )
    return found


def package(name: str) -> Any:
    """Return Dask or what belongs to it; TuningError with what to install if it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TuningError(
            f"measuring on other machines needs Dask and cryptography, and {error.name} is not "
            'installed: pip install "tensorir[distributed]"'
        ) from error
