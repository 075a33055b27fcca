"""Files that later processes reuse: folders in the user's cache directory, bounded in size.

    TENSORIR_CACHE=0 python ...             # neither reads nor writes models and schedules
    TENSORIR_CACHE=/fast/disk python ...    # keeps them there
    codegen.keep_objects()                  # the objects of builds of this process, too
    TENSORIR_KEEP_OBJECTS=1 python ...      # those of a process

The name of a file is a digest of everything that its content is made from, and the file begins with
a digest of its content: a truncated or changed file is ignored. Anyone who may write to a folder of
machine code decides which code runs, so only its owner may. The least recently read files are
removed first.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import mmap
import os
import secrets
import stat
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

from codegen.errors import CodegenError

logger = logging.getLogger("tensorir.codegen")

CACHE: Final = "TENSORIR_CACHE"
"""The environment variable for models and schedules: 0 switches the cache off, a folder replaces
the user's cache directory.
"""
VARIABLE: Final = "TENSORIR_KEEP_OBJECTS"
"""The environment variable that switches the cache of objects on: 1, or the name of a folder."""
_LIMIT: Final = 256 << 20
_FORMAT: Final = 1
"""The format version; raise it when the content for a key changes."""
_START: Final = 64
"""The bytes of the digest, so that the content starts at a multiple of 64."""

Part: TypeAlias = bytes | memoryview


def cache_folder() -> Path | None:
    """Return `tensorir` in the user's cache directory (`$XDG_CACHE_HOME`, `~/.cache`), if any."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "tensorir"


def private_folder(path: Path) -> Path:
    """Return a folder that only this user may write to; it is made if it does not exist.

    Raises OSError if it cannot be made, and as `check_private` does.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(path)
    return path


def check_private(path: Path) -> None:
    """Raise PermissionError if another user may write to a folder, OSError if it does not exist.

    A symbolic link is rejected, because its target may change.
    """
    if not hasattr(os, "geteuid"):
        raise PermissionError("this system does not report the owner of a folder")
    found = path.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise PermissionError(f"{path} is not a folder that only this user may write to")


class KeptFiles:
    """The files in a folder, up to a number of bytes.

    A file larger than a quarter of this limit is not kept.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._has_warned = False
        self._written = limit_bytes  # scan the folder at the first write

    def get(self, key: bytes) -> memoryview | None:
        """Return the content of a file, aligned to 64 bytes, None if it does not exist."""
        path = self._path(key)
        try:
            check_private(self._folder)
            with path.open("rb") as file:
                content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # ValueError for an empty file
            return None
        with contextlib.suppress(OSError):  # on a file system that is read-only
            os.utime(path)
        data = content[_START:]
        return data if content[:_START] == _digest(data) else None

    def put(self, key: bytes, parts: bytes | Iterable[Part]) -> None:
        """Write a file; if the folder is not writable, warn once."""
        content = [parts] if isinstance(parts, bytes) else list(parts)
        size = sum(memoryview(part).nbytes for part in content)
        if 4 * size > self._limit:
            return
        path = self._path(key)
        beside = path.with_name(f".{secrets.token_hex(8)}")
        try:
            private_folder(self._folder)
            with beside.open("wb") as file:
                file.write(_digest(*content))
                file.writelines(content)
            beside.replace(path)
            self._written += size
            if self._written > self._limit // 8:
                self._written = 0
                self._remove_old()
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()  # a part of the file
            level = logging.DEBUG if self._has_warned else logging.WARNING
            self._has_warned = True
            logger.log(level, "No file is kept in %s for later processes: %s", self._folder, error)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{hashlib.blake2b(key, person=b'%d' % _FORMAT).hexdigest()[:40]}"

    def _remove_old(self) -> None:
        """Remove the least recently read files, until the rest is well below the limit."""
        found = []
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                file = path.stat()
                found.append((file.st_mtime, file.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit * 3 // 4:
                return
            path.unlink(missing_ok=True)
            total -= size


def _digest(*parts: Part) -> bytes:
    digest = hashlib.blake2b(digest_size=_START)
    for part in parts:
        digest.update(part)
    return digest.digest()


@cache
def kept_files(kind: str, limit_bytes: int) -> KeptFiles | None:
    """Return the files of a kind, such as `"models"`; None if `TENSORIR_CACHE` is 0."""
    wanted = os.environ.get(CACHE, "")
    folder = cache_folder() if wanted in ("", "1") else Path(wanted)
    if wanted == "0" or folder is None:
        return None
    return KeptFiles(folder / kind, limit_bytes)


_kept: KeptFiles | None = None
_is_configured = False


def keep_objects(folder: str | Path | None = None, *, limit_bytes: int = _LIMIT) -> None:
    """Keep the objects of builds in a folder, and reuse them in later processes.

    It is `objects` in the cache directory of the user (`~/.cache/tensorir`) by default. The oldest
    files are removed beyond `limit_bytes`; 0 keeps nothing. Raises CodegenError without a cache
    directory.
    """
    global _kept, _is_configured
    cache = cache_folder()
    if folder is None and cache is None:
        raise CodegenError("this user has no cache directory; name a folder for the objects")
    found = Path(folder) if folder is not None else cache / "objects"  # type: ignore[operator]
    _kept = KeptFiles(found, limit_bytes) if limit_bytes > 0 else None
    _is_configured = True


def kept_objects() -> KeptFiles | None:
    """Return the objects that are kept, None if that is off."""
    if not _is_configured:
        wanted = os.environ.get(VARIABLE, "")
        if wanted in ("", "0"):
            return None
        keep_objects(None if wanted == "1" else wanted)
    return _kept


# ------------------------------------------------------------------------------------------ sources


_PACKAGES: Final = ("tensorir", "schedule", "codegen", "search")


@cache
def sources_stamp() -> str:
    """Return a text that changes with the times and sizes of the installed sources.

    It runs in a few milliseconds. Two copies of the same sources have different texts; see
    `lowering_digest`.
    """
    digest = hashlib.blake2b(version("llvmlite").encode(), digest_size=16)
    roots = [find_spec(package) for package in _PACKAGES]
    for root in [x.submodule_search_locations for x in roots if x is not None]:
        for folder, folders, names in os.walk(root[0] if root else ""):
            folders.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    path = Path(folder, name)
                    found = path.stat()
                    digest.update(f"{path} {found.st_mtime_ns} {found.st_size}\n".encode())
    return digest.hexdigest()


@cache
def lowering_digest() -> str:
    """Return 8 hexadecimal digits of the sources of `tensorir` and `codegen`, and LLVM's version.

    It distinguishes states of the sources with the same release number.
    """
    digest = hashlib.blake2b(version("llvmlite").encode(), digest_size=4)
    for package in ("tensorir", "codegen"):
        folder = Path(sys.modules[package].__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"\n{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
