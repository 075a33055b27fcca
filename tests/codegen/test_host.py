"""A machine that the environment makes up takes the place of the one that tests run on."""

from __future__ import annotations

import os
import subprocess
import sys

ASK = """
from codegen import Target
from codegen.target import host
target = Target("llvm")
print(target.mcpu, target.vector_bits, target.caches.l1, host.physical_cores())
"""


def asked(description: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TENSORIR_HOST": description}
    return subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True)


def test_the_environment_makes_up_a_machine() -> None:
    assert asked("mcpu=sandybridge,l1=16384,cores=1").stdout.split() == [
        "sandybridge", "256", "16384", "1",
    ]  # fmt: skip


def test_a_wrong_description_says_what_it_may_have() -> None:
    for wrong in ("mcpu=pentium9", "l1=32KiB", "cores=0", "avx2"):
        error = asked(wrong).stderr.splitlines()[-1]
        assert f"TENSORIR_HOST has '{wrong}'; its parts are mcpu=MODEL" in error
