"""Relocatable ELF objects with data only, written part by part: a model may have gigabytes of it.

The layout is that of the ELF-64 object file format (System V ABI, chapter 4): a header, the section
of read-only data, symbols and their names, the names of sections, and the table of sections.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tensorir.memory.alignment import ALIGNMENT

ELF_64_LITTLE: Final = b"\x7fELF\x02\x01"
HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
MACHINES: Final = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
"""Architectures by the numbers that ELF has for them."""
_FLAGS: Final = {"riscv64": 5}
"""Compressed instructions, and floats of 64 bits in registers, as on Linux."""
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATABLE: Final = 1
_BITS, _SYMBOLS, _STRINGS = 1, 2, 3
_LOADED: Final = 2
_GLOBAL_OBJECT: Final = 0x11
_NAMES: Final = ("", ".rodata", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack")

Parts = Sequence[bytes | memoryview]
"""Bytes, one after another."""


def write_data_object(path: Path, architecture: str, data: Mapping[str, Parts]) -> None:
    """Write an object that holds `data` by symbols, each at a multiple of 64 bytes and 0 behind."""
    symbols = [bytes(_SYMBOL.size)]
    names = b"\0"
    with path.open("wb") as file:
        start = -(-HEADER.size // ALIGNMENT) * ALIGNMENT
        file.write(bytes(start))
        for symbol, parts in data.items():
            file.write(bytes(-file.tell() % ALIGNMENT))
            at = file.tell()
            for part in parts:
                file.write(part)
            file.write(b"\0")
            entry = (len(names), _GLOBAL_OBJECT, 0, 1, at - start, file.tell() - at)
            symbols.append(_SYMBOL.pack(*entry))
            names += symbol.encode() + b"\0"
        content_end = file.tell()
        file.write(bytes(-file.tell() % 8))
        section_names = "\0".join(_NAMES).encode() + b"\0"
        places = [(start, content_end - start)]
        for part in (b"".join(symbols), names, section_names):
            places.append((file.tell(), len(part)))
            file.write(part)
        file.write(bytes(-file.tell() % 8))
        table = file.tell()
        kinds = [
            (_BITS, _LOADED, 0, 0, ALIGNMENT, 0),
            (_SYMBOLS, 0, 3, 1, 8, _SYMBOL.size),
            (_STRINGS, 0, 0, 0, 1, 0),
            (_STRINGS, 0, 0, 0, 1, 0),
            (_BITS, 0, 0, 0, 1, 0),
        ]
        file.write(bytes(_SECTION.size))
        places.append((table, 0))
        for name, (kind, flags, link, info, align, entry_size), (offset, size) in zip(
            _NAMES[1:], kinds, places, strict=True
        ):
            at = section_names.index(b"\0" + name.encode() + b"\0") + 1
            file.write(
                _SECTION.pack(at, kind, flags, 0, offset, size, link, info, align, entry_size)
            )
        file.seek(0)
        file.write(
            HEADER.pack(
                ELF_64_LITTLE + b"\x01",
                _RELOCATABLE,
                MACHINES[architecture],
                1,
                0,
                0,
                table,
                _FLAGS.get(architecture, 0),
                HEADER.size,
                0,
                0,
                _SECTION.size,
                len(_NAMES),
                4,
            )
        )
