"""Programs and traces that a reference implementation recorded.

Each entry has `workload`, the script `before`, the `trace` as JSON (and as Python text, `trace_py`),
and the script `after` it. Those of `spaces` come from auto-scheduling, with the script `mid` before
postprocessing and `ok` false where a postprocessor refused the candidate (`after` is null then);
those of `gpu_spaces` too, for a GPU: threads are bound, and fetch to shared memory together; those
of `walks` are random sequences of primitives. Those of `mma` use `mma.sync`, and have only `before`
and `trace_py`.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

RECORDED = ("spaces", "gpu_spaces", "walks")


@cache
def recorded(name: str) -> list[dict[str, Any]]:
    """Return the entries of one of `RECORDED`, or of `mma`."""
    path = Path(__file__).parent / "vectors" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
