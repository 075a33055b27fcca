"""Objects that are kept between processes: a folder of files, bounded in size.

    codegen.keep_objects()                  # for builds of this process from now on
    TENSORIR_KEEP_OBJECTS=1 python ...      # for those of a process

The name of a file is a digest of everything that its object is made from, and the file begins with
a digest of its content: a truncated or changed file is ignored. Anyone who may write to the folder
decides which code runs, so only its owner may. The least recently read files are removed first.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from codegen.cache_folder import cache_folder, check_private, private_folder
from codegen.errors import CodegenError

logger = logging.getLogger("tensorir.codegen")

VARIABLE: Final = "TENSORIR_KEEP_OBJECTS"
"""The variable of the environment that switches it on: 1, or the name of a folder."""
_LIMIT: Final = 256 << 20
_FORMAT: Final = 1
"""To be raised when objects of the same text come out differently."""
_DIGEST: Final = 32


class KeptObjects:
    """The objects in a folder."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._written = limit_bytes  # look at what is there when something is written first

    def get(self, key: bytes) -> bytes | None:
        """Return an object, None where it is not kept."""
        path = self._path(key)
        try:
            check_private(self._folder)
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        data = content[_DIGEST:]
        return data if content[:_DIGEST] == _digest(data) else None

    def put(self, key: bytes, data: bytes) -> None:
        """Keep an object; where nothing can be written, it is made again next time."""
        path = self._path(key)
        beside = path.with_name(f".{secrets.token_hex(8)}")
        try:
            private_folder(self._folder)
            beside.write_bytes(_digest(data) + data)
            beside.replace(path)
            self._written += len(data)
            if self._written > self._limit // 8:
                self._written = 0
                self._remove_old()
        except OSError as error:
            logger.info("an object is not kept: %s", error)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{hashlib.blake2b(key, person=b'%d' % _FORMAT).hexdigest()[:40]}.o"

    def _remove_old(self) -> None:
        """Remove the files that were read longest ago, until the rest is well below the limit."""
        found = []
        for path in self._folder.iterdir():
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit * 3 // 4:
                return
            path.unlink(missing_ok=True)
            total -= size


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


_kept: KeptObjects | None = None
_is_configured = False


def keep_objects(folder: str | Path | None = None, *, limit_bytes: int = _LIMIT) -> None:
    """Keep the objects of builds in a folder, and take them from there: for later processes.

    It is `objects` in the cache directory of the user (`~/.cache/tensorir`) by default. The oldest
    files are removed beyond `limit_bytes`; 0 keeps nothing. Raises CodegenError without a cache
    directory.
    """
    global _kept, _is_configured
    cache = cache_folder()
    if folder is None and cache is None:
        raise CodegenError("this user has no cache directory; name a folder for the objects")
    found = Path(folder) if folder is not None else cache / "objects"  # type: ignore[operator]
    _kept = KeptObjects(found, limit_bytes) if limit_bytes > 0 else None
    _is_configured = True


def kept_objects() -> KeptObjects | None:
    """Return the objects that are kept, None if that is off."""
    if not _is_configured:
        wanted = os.environ.get(VARIABLE, "")
        if wanted in ("", "0"):
            return None
        keep_objects(None if wanted == "1" else wanted)
    return _kept


# ------------------------------------------------------------------------------------------- digest


@cache
def lowering_digest() -> str:
    """Return 8 hexadecimal digits of the sources of `tensorir` and `codegen`, and LLVM's version.

    It tells two states of the sources apart that have the same release number.
    """
    digest = hashlib.blake2b(version("llvmlite").encode(), digest_size=4)
    for package in ("tensorir", "codegen"):
        folder = Path(sys.modules[package].__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"\n{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
