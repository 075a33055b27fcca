"""The form of a compiled module: an archive of objects, one a function, and their description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen.archive import read_archive, write_archive
from codegen.errors import LinkError
from codegen.signature import ModuleInfo

_DESCRIPTION: Final = "module.json"


def write_object_code(info: ModuleInfo, objects: Sequence[bytes]) -> bytes:
    """Return objects, in the order of the functions in `info`, and their description as data."""
    members = {_DESCRIPTION: info.to_json().encode()}
    members.update((f"{number}.o", data) for number, data in enumerate(objects))
    return write_archive(members)


def read_object_code(data: bytes) -> tuple[ModuleInfo, list[bytes]]:
    """Return the description and the objects; LinkError if the data are something else."""
    members = read_archive(data) or {}
    description = members.pop(_DESCRIPTION, None)
    if description is None:
        raise LinkError(
            "the data is no archive that codegen.compile_object of this release wrote: it has no "
            "description; compile the program again"
        )
    return ModuleInfo.from_json(description.decode()), list(members.values())
