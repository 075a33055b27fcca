"""Compiles the programs of a folder, `NAME.py`, with apache-tvm and NVRTC to `NAME.ptx`.

Usage: tvm_cuda.py FOLDER ARCHITECTURE. It needs the packages apache-tvm, cuda-bindings,
nvidia-cuda-nvrtc-cu12, nvidia-cuda-runtime-cu12 and nvidia-cuda-cccl-cu12, and no GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nvidia
import tvm
from cuda.bindings import nvrtc
from tvm_text import parse

FOLDER, ARCH = Path(sys.argv[1]), sys.argv[2]
HEADERS = [f"-I{x}/include" for root in nvidia.__path__ for x in Path(root).iterdir()]
sources: list[str] = []


@tvm.register_global_func("tvm_callback_cuda_postproc", override=True)
def keep(code: str, _: object) -> str:
    """Keep the text of CUDA."""
    sources.append(code)
    return code


def to_ptx(code: str) -> bytes:
    """Return PTX for a text of CUDA; RuntimeError with the log of the compiler if it fails."""
    _, program = nvrtc.nvrtcCreateProgram(code.encode(), b"kernel.cu", 0, [], [])
    options = [x.encode() for x in (f"-arch={ARCH}", *HEADERS)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    name = "ProgramLog" if status else "PTX"
    text = b" " * getattr(nvrtc, f"nvrtcGet{name}Size")(program)[1]
    getattr(nvrtc, f"nvrtcGet{name}")(program, text)
    if status:
        raise RuntimeError(text.decode())
    return text


target = tvm.target.Target(
    {
        "kind": "cuda",
        "arch": ARCH,
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    },
    host="llvm",
)
for file in sorted(FOLDER.glob("*.py")):
    sources.clear()
    try:
        tvm.compile(parse(file.read_text()), target)
        file.with_suffix(".ptx").write_bytes(to_ptx(sources[-1]))
    except (ValueError, RuntimeError) as problem:
        lines = str(problem).splitlines()
        reason = next((line for line in lines if "error" in line), lines[0])
        print(f"tvm fails on {file.stem}: {reason}", file=sys.stderr)
