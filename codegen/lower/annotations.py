"""The annotations by which passes pass facts on to later passes.

| annotation | written by | read by |
| --- | --- | --- |
| `EXPLICIT_REGIONS` of a block | the program | `open_blocks` keeps regions, `compact_buffers` |
| `DIM_ALIGN` of a block | the program (`storage_align`) | `open_blocks`, `compact_buffers` |
| `MAX_STEP`, `EXPLICIT` of a loop | the program (pragmas) | `mark_unrolled` |
| `PIECES` of a loop | `vectorize` | `mark_unrolled` counts the pieces as one statement |
| `LEFT_TO_BACKEND` of a loop | `mark_unrolled` | `unroll` |
| `REPEATED_LOADS` of a loop | `repeat_loads` | emission |

Nothing else passes between them but the program: no pass relies on two nodes being one object.
`unroll` drops the annotations that earlier passes have consumed.
"""

from __future__ import annotations

from typing import Final

EXPLICIT_REGIONS: Final = ("explicit_read_region", "explicit_write_region")
"""Regions of a block, by position, that count instead of what the block accesses."""
DIM_ALIGN: Final = "buffer_dim_align"
"""The factors and offsets that strides of the buffers a block writes are rounded up to."""
MAX_STEP: Final = "pragma_auto_unroll_max_step"
"""The most statements that a loop inside may be unrolled to."""
EXPLICIT: Final = "pragma_unroll_explicit"
"""Set to 1 where such loops are written out here instead of by LLVM."""
PIECES: Final = "vector_pieces"
"""A loop over the native vectors that one long vector was cut into."""
LEFT_TO_BACKEND: Final = "unroll_by_backend"
"""An unrolled loop whose body LLVM is to copy."""
REPEATED_LOADS: Final = "repeated_loads"
"""The pointers through which a loop loads again in every iteration, even what did not change."""
