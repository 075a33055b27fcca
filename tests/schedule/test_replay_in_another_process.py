"""A saved trace gives the same program in another process."""

import os
import subprocess
import sys
from pathlib import Path

from schedule import Schedule
from tensorir import structural_hash
from tests.search.programs import Matmul, split_all

ROOT = Path(__file__).parents[2]
REPLAY = """
import sys
from schedule import Schedule, Trace
from tensorir import structural_hash
from tests.search.programs import Matmul

sch = Schedule(Matmul)
Trace.load(sys.argv[1]).apply_to_schedule(sch, remove_postproc=False)
print(structural_hash(sch.mod))
"""


def test_structural_hashes_agree(tmp_path: Path) -> None:
    sch = Schedule(Matmul, seed=3)
    split_all(sch)
    path = tmp_path / "trace.json"
    sch.trace.save(path)
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == structural_hash(sch.mod)
