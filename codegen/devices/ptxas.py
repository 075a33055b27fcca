"""The resources of CUDA kernels, as NVIDIA's assembler reports them; it needs no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from codegen.errors import CodegenError
from codegen.target.nvidia_files import nvidia_file

_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_USED: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_STACK: Final = re.compile(r"(\d+) bytes stack frame")
_SPILLS: Final = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel uses. Registers are 32 bits wide; sizes are in bytes."""

    registers: int
    """The registers of a thread."""
    shared_bytes: int
    stack_bytes: int
    """The memory of a thread for arrays whose indices are known only at run time."""
    spill_bytes: int
    """The bytes that a thread stores to memory and loads again because registers are too few."""


def ptxas_path() -> str | None:
    """Return the path of NVIDIA's assembler: of the package, else of the system; None without."""
    found = nvidia_file("ptxas")
    return shutil.which("ptxas") if found is None else str(found)


def assemble(ptx: bytes, arch: str) -> dict[str, Resources]:
    """Return the resources of the kernels in a text of PTX, by name, on an `arch` such as `sm_80`.

    Raises CodegenError if the assembler is not installed, or rejects the text.
    """
    path = ptxas_path()
    if path is None:
        raise CodegenError(
            "the registers of a CUDA kernel are known to ptxas, which is not installed; "
            "pip install 'tensorir[cuda]'"
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_bytes(ptx)
        output = source.with_suffix(".cubin")
        command = [path, "-v", f"-arch={arch}", str(source), "-o", str(output)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        first = (ran.stderr.strip().splitlines() or ["no reason given"])[0]
        raise CodegenError(f"ptxas rejects the kernel for {arch}: {first}")
    _, *reports = _ENTRY.split(ran.stderr)
    return {
        name: Resources(*(_sum(p, report) for p in (_USED, _SHARED, _STACK, _SPILLS)))
        for name, report in zip(reports[::2], reports[1::2], strict=True)
    }


def _sum(pattern: re.Pattern[str], report: str) -> int:
    """Return the sum of the numbers that a pattern finds; 0 where the report has none."""
    found = pattern.search(report)
    return 0 if found is None else sum(map(int, found.groups()))
