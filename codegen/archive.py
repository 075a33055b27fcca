"""Archives of `ar`: several object files, and their description, in one piece of data.

They are what `ar`, `nm` and `objdump` read. Members have short names that their writer chooses, no
dates and no owners: the same members are the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_END: Final = b"`\n"
_LONGEST_NAME: Final = 15


def write_archive(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of members, whose names have at most 15 characters of ASCII."""
    parts = [_MAGIC]
    for name, data in members.items():
        assert len(name) <= _LONGEST_NAME, name
        header = f"{name + '/':16}{0:<12}{0:<6}{0:<6}{'644':8}{len(data):<10}"
        parts += [header.encode("ascii"), _END, data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def read_archive(data: bytes) -> dict[str, bytes] | None:
    """Return the members that `write_archive` wrote, None for data that is no whole archive."""
    if not data.startswith(_MAGIC):
        return None
    members = {}
    position = len(_MAGIC)
    while position < len(data):
        header = data[position : position + _HEADER]
        size = header[48:58].strip()
        start = position + _HEADER
        if header[58:] != _END or not size.isdigit() or start + int(size) > len(data):
            return None
        end = start + int(size)
        members[header[:16].decode("latin-1").rstrip().removesuffix("/")] = data[start:end]
        position = end + end % 2
    return members
