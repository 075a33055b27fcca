"""The form of a compiled module: an archive of the objects of its functions, and a description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codegen.archive import read_archive, write_archive
from codegen.errors import LinkError
from codegen.signature import ModuleInfo

_DESCRIPTION: Final = "module.json"


def write_object_code(info: ModuleInfo, objects: Sequence[Mapping[str, bytes]]) -> bytes:
    """Return the objects of each function of `info`, in that order, and the description as data."""
    members = {_DESCRIPTION: info.to_json().encode()}
    for number, of_one in enumerate(objects):
        members.update((f"{kind}{number}.o", data) for kind, data in of_one.items())
    return write_archive(members)


def read_object_code(data: bytes) -> tuple[ModuleInfo, dict[str, bytes]]:
    """Return the description, and the objects by name; LinkError if the data are something else."""
    members = read_archive(data) or {}
    description = members.pop(_DESCRIPTION, None)
    if description is None:
        raise LinkError(
            "the data is no archive that codegen.compile_object of this release wrote: it has no "
            "description; compile the program again"
        )
    return ModuleInfo.from_json(description.decode()), members
