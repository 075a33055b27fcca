"""The sides of the suite: versions of this project, kernels of earlier runs, and peers."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import codegen
from benchmarks.peer_process import PEERS, PeerError, PeerProcess
from benchmarks.peers.serve import digest, inputs
from benchmarks.suite_programs import Program
from benchmarks.suite_results import Results

ROOT = Path(__file__).parents[1]
TARGET = "llvm -num-cores=1"
"""The target of the suite: one core of this machine."""
KINDS = ("tvm", "torch", "numpy")
AVX2_ONLY = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_SKX,AVX512_ICL,AVX512_SPR",
}
"""Environment variables that restrict libraries to AVX2."""
LEAST = 0.01
"""The least seconds of a measurement of a kernel."""


@dataclass(frozen=True)
class Tuned:
    """The result of tuning. `digest` is the sum of the absolute values of the output."""

    seconds: float
    trial_seconds: tuple[float, ...]
    digest: float


class Side(ABC):
    """Tunes one program at a time, and runs the kernel that came of it."""

    name: str
    trials: int
    target: str = TARGET
    """The target of its tuning."""

    @abstractmethod
    def tune(self, program: Program, seed: int, folder: Path) -> Tuned:
        """Make the kernel that `run` times; PeerError if that fails."""

    @abstractmethod
    def run(self) -> float:
        """Return the seconds of a call, the mean of as many as take 10 ms."""

    def close(self) -> None:
        """End processes."""


class Kept(Side):
    """The first side of an earlier run of the suite, with the kernels it left in its folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._results = Results.load(folder / "results.json")
        self._side = self._results.sides[0]
        self.trials = max((r.trials for r in self._results.results), default=0)

    def tune(self, program: Program, seed: int, folder: Path) -> Tuned:
        found = [r for r in self._results.of(self._side, program.name) if r.seed == seed]
        library = folder_of(self._folder, self._side, program.name, seed) / "kernel.so"
        if not found or not library.exists():
            raise PeerError(f"{self._folder} has no kernel of {program.name} with seed {seed}")
        result = found[0]
        return Tuned(result.tuning, result.trial_seconds, self._load(library, program))

    def _load(self, library: Path, program: Program) -> float:
        try:
            module = codegen.load_module(library)
        except codegen.LinkError as error:
            raise PeerError(f"the kernel cannot be loaded: {error}") from error
        self._arguments = [codegen.array(array) for array in inputs(program.shapes)]
        module["main"](*self._arguments)
        self._evaluator = module.time_evaluator(
            "main", number=1, repeat=1, min_repeat_ms=1000 * LEAST
        )
        return digest(self._arguments[-1])

    def run(self) -> float:
        return float(self._evaluator(*self._arguments).results[0])


class Peer(Side):
    """A tuner or a library, which tunes and runs in a separate process."""

    def __init__(self, name: str, process: PeerProcess, trials: int, target: str = TARGET) -> None:
        self.name, self.trials, self.target = name, trials, target
        self._process = process

    @staticmethod
    def of_version(
        name: str, checkout: Path, trials: int, log: Path, limit: float, target: str = TARGET
    ) -> Peer:
        """Return a checkout of this project, whose kernels need its own code to be called."""
        path = os.pathsep.join([str(checkout.resolve()), *_search_path()])
        python, script = Path(sys.executable), PEERS / "tensorir_peer.py"
        process = PeerProcess(python, script, log, limit, {"PYTHONPATH": path})
        return Peer(name, process, trials, target)

    def tune(self, program: Program, seed: int, folder: Path) -> Tuned:
        answer = self._process.request(
            "prepare",
            program=program.func.script(),
            operator=program.operator,
            parameters=program.parameters,
            shapes=program.shapes,
            trials=self.trials,
            target=self.target,
            mcpu=codegen.Target(self.target).mcpu,
            seed=seed,
            folder=str(folder.resolve()),
        )
        return Tuned(answer["seconds"], tuple(answer["trial_seconds"]), answer["digest"])

    def run(self) -> float:
        return float(self._process.request("run", form="main", least=LEAST)["seconds"])

    def close(self) -> None:
        self._process.close()


def library_environment(target: str) -> dict[str, str]:
    """Return the variables that let libraries use one thread, and no wider vectors than a target.

    They are read by the libraries of a peer before any code of ours runs.
    """
    env = dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return env | AVX2_ONLY if codegen.Target(target).vector_bits <= 256 else env


def _search_path() -> list[str]:
    """Return where else packages are found; the checkout stands before it."""
    return [path for path in [os.environ.get("PYTHONPATH", "")] if path]


def folder_of(out: Path, side: str, program: str, seed: int) -> Path:
    """Return where a side keeps the kernel, trace and records of a program."""
    return out / side.replace(" ", "-") / f"{program}-{seed}"


def earlier(path: Path, trials: int, log: Path, limit: float, target: str = TARGET) -> Side:
    """Return the side of a checkout, or of a folder that the suite left; PeerError if neither."""
    name = f"before ({path.resolve().name})"
    if (path / "results.json").exists():
        return Kept(name, path)
    if (path / "search" / "tune.py").exists():
        return Peer.of_version(name, path, trials, log, limit, target)
    raise PeerError(f"{path} is neither a checkout of this project nor a folder of the suite")
