"""The form of a compiled module: an archive of the objects of its functions, and a description.

It is an archive of `ar`, which `ar`, `nm` and `objdump` read. Members have short names, no dates
and no owners: the same members are the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codegen.errors import LinkError
from codegen.signature import ModuleInfo

_DESCRIPTION: Final = "module.json"
_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_END: Final = b"`\n"
_LONGEST_NAME: Final = 15


def write_object_code(info: ModuleInfo, objects: Sequence[Mapping[str, bytes]]) -> bytes:
    """Return the objects of each function of `info`, in that order, and the description as data."""
    members = {_DESCRIPTION: info.to_json().encode()}
    for number, of_one in enumerate(objects):
        members.update((f"{kind}{number}.o", data) for kind, data in of_one.items())
    return _archive(members)


def read_object_code(data: bytes) -> tuple[ModuleInfo, dict[str, bytes]]:
    """Return the description, and the objects by name; LinkError if the data are something else."""
    members = _members_of(data) or {}
    description = members.pop(_DESCRIPTION, None)
    if description is None:
        raise LinkError(
            "the data is not an archive of codegen.compile_object of this release: it has no "
            "description; compile the program again"
        )
    return ModuleInfo.from_json(description.decode()), members


def _archive(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of members, whose names have at most 15 characters of ASCII."""
    parts = [_MAGIC]
    for name, data in members.items():
        assert len(name) <= _LONGEST_NAME, name
        header = f"{name + '/':16}{0:<12}{0:<6}{0:<6}{'644':8}{len(data):<10}"
        parts += [header.encode("ascii"), _END, data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def _members_of(data: bytes) -> dict[str, bytes] | None:
    """Return the members that `_archive` wrote, None for data that is not a complete archive."""
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
