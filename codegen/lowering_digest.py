"""A digest of what makes machine code: two processes with the same one make the same."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import codegen
import tensorir


@cache
def lowering_digest() -> str:
    """Return 8 hexadecimal digits of the sources of `tensorir` and `codegen`, and LLVM's version.

    It tells two states of the sources apart that have the same release number.
    """
    digest = hashlib.blake2b(version("llvmlite").encode(), digest_size=4)
    for package in (tensorir, codegen):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"\n{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
