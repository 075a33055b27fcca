"""What the head of a library's file says, read before the system maps it into memory.

The dynamic loader believes that head: it maps parts that a file which was cut short does not have,
and the process dies of SIGBUS when it touches them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Final

from codegen.target import host

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ELF_64_LITTLE: Final = b"\x7fELF\x02\x01"
_ARCHITECTURES: Final = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""By the numbers that ELF has for them."""


def why_not_opened(path: Path) -> str | None:
    """Return why the dynamic loader must not get a file, None if it may have it.

    Files that are no 64-bit ELF are left to the loader, which refuses them itself.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(_HEADER.size)
        if not head.startswith(_ELF_64_LITTLE) or len(head) < _HEADER.size:
            return None
        needed, machine = _needed_bytes(file, head)
    if needed > size:
        return f"the file is cut short: it has {size} of {needed} bytes; export or copy it again"
    architecture = _ARCHITECTURES.get(machine, f"architecture {machine}")
    if architecture != host.machine():
        return f"its code is for {architecture}, and this machine is {host.machine()}"
    return None


def _needed_bytes(file: BinaryIO, head: bytes) -> tuple[int, int]:
    """Return how long a file has to be for what its head names, and the number of its machine."""
    fields = _HEADER.unpack(head)
    machine, segments, sections = fields[2], fields[5], fields[6]
    segment_size, segment_count, section_size, section_count = fields[9:13]
    ends = [segments + segment_size * segment_count, sections + section_size * section_count]
    if segment_size == _SEGMENT.size:
        file.seek(segments)
        table = file.read(segment_size * segment_count)
        whole = len(table) - len(table) % segment_size
        for entry in _SEGMENT.iter_unpack(table[:whole]):
            offset, length = entry[2], entry[5]
            ends.append(offset + length)
    return max(ends), machine
